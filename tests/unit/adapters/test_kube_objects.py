"""Every object of a sort, by the page, and what is said where they cannot be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleet_app.adapters import kube_objects
from fleet_app.adapters.kube_client import Kube
from fleet_app.adapters.kube_objects import KubeObjects, Sort
from fleet_app.engine.errors import FaultError, FleetError, RequestError
from tests.kube import FakeKube, served

BUDGETS = Sort(group="policy", version="v1", resource="poddisruptionbudgets", kind="PodDisruptionBudget")
NODES = Sort(group="", version="v1", resource="nodes", kind="Node")


@pytest.fixture
def fake() -> FakeKube:
    found = FakeKube()
    for number in range(5):
        found.put("poddisruptionbudgets", {"metadata": {"name": f"b{number}"}})
    found.add_node("m1")
    return found


@pytest.fixture
def cluster(fake: FakeKube, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeObjects]:
    monkeypatch.setattr(kube_objects, "PAGE", 2)
    with served(fake) as configuration:
        kube = Kube(configuration)
        yield KubeObjects(kube)
        kube.close()


def test_all_pages_are_read_and_say_what_they_are(fake: FakeKube, cluster: KubeObjects) -> None:
    found = cluster.list(BUDGETS)
    assert [each["metadata"]["name"] for each in found] == ["b0", "b1", "b2", "b3", "b4"]
    assert {(each["apiVersion"], each["kind"]) for each in found} == {("policy/v1", "PodDisruptionBudget")}
    assert [(call.verb, call.group) for call in fake.calls] == [("list", "policy")] * 3


def test_sorts_of_the_core_s_are_read_too(cluster: KubeObjects) -> None:
    (found,) = cluster.list(NODES)
    assert (found["apiVersion"], found["kind"], found["metadata"]["name"]) == ("v1", "Node", "m1")


def test_a_list_whose_next_page_expired_is_begun_anew(fake: FakeKube, cluster: KubeObjects) -> None:
    fake.faults = ["", "410"]
    assert len(cluster.list(BUDGETS)) == 5


def test_a_sort_that_the_cluster_does_not_know_has_no_objects(fake: FakeKube, cluster: KubeObjects) -> None:
    fake.faults = ["404"]
    assert cluster.list(BUDGETS) == []


FAILURES: dict[str, tuple[list[str], type[FleetError], str]] = {
    "they may not be read": (["403"], RequestError, "poddisruptionbudgets: may not be read"),
    "nobody answers": (["cut"], FaultError, "no answer"),
    "a server that fails": (["500"], FaultError, "500"),
    "it expires again and again": (["410"] * 3, FaultError, "expired again and again"),
}


@pytest.mark.parametrize(("faults", "want", "said"), FAILURES.values(), ids=FAILURES)
def test_what_cannot_be_had_is_never_no_objects(
    fake: FakeKube, cluster: KubeObjects, faults: list[str], want: type[FleetError], said: str
) -> None:
    fake.faults = list(faults)
    with pytest.raises(FleetError, match=said) as raised:
        cluster.list(BUDGETS)
    assert type(raised.value) is want


def test_a_config_map_that_is_not_there_or_not_ours_to_read_is_none(fake: FakeKube, cluster: KubeObjects) -> None:
    fake.put("configmaps", {"metadata": {"name": "prod-policy"}, "data": {"fleet.yaml": "name: prod"}})
    fake.faults = ["", "403"]
    found = [cluster.config_map("fleet", name) for name in ("prod-policy", "prod-policy", "test-policy")]
    assert [each and each["data"] for each in found] == [{"fleet.yaml": "name: prod"}, None, None]
