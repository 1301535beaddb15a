"""What is rendered as a whole: what Kubernetes takes, what people review, and the same bytes from the same policy."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from fleet_app.engine.errors import RequestError
from fleet_app.policy.load import load_policy
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.guards import RULES
from fleet_app.render.manifests import PARTS, USUAL, render
from fleet_app.render.objects import dump
from fleet_app.render.site import Site, site_of

ROOT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parent / "golden"
POLICIES = sorted(path for path in (ROOT / "clusters").glob("*.yaml") if "organisations:" in path.read_text())
SITE = Site(cluster="prod", namespace="fleet")
OTHERS = {"monitoring.coreos.com/v1", "kueue.x-k8s.io/v1beta2"}
"""APIs of custom resources, which Kubernetes' own schemas do not have."""

DEMO = load_policy(ROOT / "clusters" / "demo.yaml")
MORE = DEMO.model_copy(
    update={
        "kubernetes": PolicyFile.model_validate(
            {
                "version": 1,
                "name": "x",
                "organisations": {"x": {}},
                "kubernetes": {
                    "budgets": "blocking",
                    "strangers": "refuse",
                    "separate": False,
                    "clients": ["web"],
                    "egress": {"store": {"cidr": "10.0.0.0/8", "ports": [443, 9000]}},
                },
            }
        ).kubernetes
    }
)


def whole(policy: PolicyFile) -> list[dict[str, object]]:
    return render(SITE, policy, tuple(PARTS))


@pytest.mark.parametrize("version", ["1.31", "1.32", "1.33", "1.34"])
@pytest.mark.parametrize("policy", [DEMO, MORE], ids=["what is usual", "with every option"])
def test_kubernetes_takes_it(policy, version):
    for each in whole(policy):
        if each["apiVersion"] not in OTHERS:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_every_policy_of_the_repository_can_be_rendered(path):
    policy = load_policy(path)
    objects = render(site_of(policy, None, None), policy)
    assert {each["kind"] for each in objects} >= {"PriorityClass", "ValidatingAdmissionPolicy", "NetworkPolicy"}


def test_the_text_is_the_objects():
    objects = whole(MORE)
    assert list(yaml.safe_load_all(dump(objects))) == objects


def test_the_same_policy_gives_the_same_bytes():
    assert dump(whole(DEMO)) == dump(whole(load_policy(ROOT / "clusters" / "demo.yaml")))


def test_everything_but_the_anchor_is_the_fleets_own():
    found = {each["metadata"]["name"] for each in whole(DEMO) if "fleet/cluster" not in each["metadata"]["labels"]}
    assert found == {"fleet-anchor"}


FAILING = {
    "evictions": "Fail",
    "pods": "Fail",
    "nodes": "Ignore",  # node controllers must get through
    "strangers": "Ignore",  # it looks at everybody's pods
    "preemptors": "Ignore",  # so does it
    "account-nodes": "Fail",  # it looks at one account's requests alone
}


def test_what_cannot_be_judged_is_refused_where_that_hinders_no_controller():
    found = {each["metadata"]["name"]: each["spec"] for each in whole(MORE) if each["kind"].endswith("AdmissionPolicy")}
    assert {name: found[f"fleet-prod-{name}"]["failurePolicy"] for name in FAILING} == FAILING


def test_no_two_objects_have_one_name():
    names = [(each["kind"], each["metadata"]["name"]) for each in whole(MORE)]
    assert len(set(names)) == len(names)


# To renew: fleet policy render clusters/demo.yaml --cluster prod --only PART > tests/unit/render/golden/PART.yaml
@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_as_reviewed(path):
    assert dump(render(SITE, DEMO, (path.stem,))) == path.read_text()


def test_the_usual_parts_are_what_a_bare_cluster_and_prometheus_know():
    assert {each["apiVersion"] for each in render(SITE, DEMO, USUAL)} & OTHERS == {"monitoring.coreos.com/v1"}


def test_a_part_that_there_is_not():
    with pytest.raises(RequestError, match=r"'networks' is no part.*'network'"):
        render(SITE, DEMO, ("networks",))


def policy_named(name: str) -> PolicyFile:
    return DEMO.model_copy(update={"name": name})


PLACES = {
    "the policy's name is the cluster's": (("prod-1", None, None), Site(cluster="prod-1", namespace="fleet")),
    "another may be given": (("Prod", "prod", "ml"), Site(cluster="prod", namespace="ml")),
}
BAD_PLACES = {
    "a policy's name that is no DNS label": (("Prod", None, None), "name: 'Prod' cannot name a RayCluster"),
    "a cluster's name that is too long": (("p", "a" * 48, None), "--cluster: 'aaa"),
    "a cluster's name that begins with a digit": (("p", "1a", None), "--cluster: '1a'"),
    "a namespace that is none": (("p", None, "a_b"), "--namespace: 'a_b'"),
}


@pytest.mark.parametrize(("given", "want"), PLACES.values(), ids=PLACES)
def test_places(given, want):
    assert site_of(policy_named(given[0]), *given[1:]) == want


@pytest.mark.parametrize(("given", "want"), BAD_PLACES.values(), ids=BAD_PLACES)
def test_places_that_kubernetes_has_not(given, want):
    with pytest.raises(RequestError) as caught:
        site_of(policy_named(given[0]), *given[1:])
    assert want in str(caught.value)


def test_docs_have_every_rule_as_it_is_told():
    page = (ROOT / "docs" / "audit.md").read_text()
    for rule in RULES:
        assert f"| {rule.id} | {rule.holds} | {rule.why} | {rule.instead} |" in page
