"""What is rendered beside admission is taken by a real API server: its own objects, and Kueue's by Kueue's CRDs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet_app.policy.load import load_policy
from fleet_app.render.manifests import render
from fleet_app.render.objects import dump
from fleet_app.render.site import Site
from tests.cluster.bed.client import Cluster
from tests.tools import UnavailableError, kueue

SITE = Site(cluster="prod", namespace="default")
CLUSTERS = Path(__file__).parents[2] / "clusters"
POLICIES = ["demo", "small", "fleet-2048"]
SORTS = ("cohorts", "clusterqueues", "localqueues", "topologies", "resourceflavors")


def taken(api: Cluster, policy: str, *parts: str) -> list[str]:
    """Apply what is rendered of a policy, but keep nothing; return what the API server says of each object."""
    text = dump(render(SITE, load_policy(CLUSTERS / f"{policy}.yaml"), parts))
    words = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--filename=-")
    return api.kubectl(*words, stdin=text).splitlines()


@pytest.mark.parametrize("policy", POLICIES)
def test_priorities_and_networks_are_taken(api: Cluster, policy: str) -> None:
    said = taken(api, policy, "priorityclasses", "network")
    assert all(line.endswith("serverside-applied (server dry run)") for line in said)
    assert len(said) >= 10


@pytest.fixture(scope="module")
def kueues(api: Cluster) -> Iterator[Cluster]:
    """A cluster that knows Kueue's objects; one that has them already keeps its own."""
    if "clusterqueues.kueue.x-k8s.io" in api.kubectl("get", "customresourcedefinitions", "--output=name"):
        yield api
        return
    try:
        bases = kueue() / "config" / "components" / "crd" / "bases"
    except UnavailableError as missing:
        pytest.skip(str(missing))
    definitions = []
    for sort in SORTS:
        definition = yaml.safe_load((bases / f"kueue.x-k8s.io_{sort}.yaml").read_text())
        definition["spec"].pop("conversion", None)  # by a webhook of Kueue's own, which is not here
        definitions.append(definition)
    api.apply(*definitions)
    names = [f"crd/{sort}.kueue.x-k8s.io" for sort in SORTS]
    try:
        api.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names, within_s=90)
        yield api
    finally:
        api.kubectl("delete", *names)


@pytest.mark.parametrize("policy", ["demo", "fleet-2048"])
def test_kueues_objects_are_taken(kueues: Cluster, policy: str) -> None:
    said = taken(kueues, policy, "kueue")
    assert all(line.endswith("serverside-applied (server dry run)") for line in said)
    assert {line.split(".")[0] for line in said} >= {"cohort", "clusterqueue", "localqueue", "topology"}
