"""Groups stand exactly where they are asked for, and what others hold is seen and named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from fleet_app.adapters import private
from fleet_app.adapters.cluster import RayCluster
from fleet_app.arbiter.ports import GroupView, NodeView
from fleet_app.engine.errors import FaultError
from fleet_app.engine.values import Shape
from tests.live.raybox import RayBox
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

WHOLE = Shape(gpus=8, cpu_milli=2500, memory_mib=64)
LONG_S = 20.0
SHORT_S = 0.4


@pytest.fixture
def cluster(connected: RayBox) -> Iterator[RayCluster]:
    cluster = RayCluster()
    yield cluster
    for group in cluster.observe().groups:
        cluster.remove_group(group.group_id)
    eventually(lambda: node(cluster, "n1").available.gpus == node(cluster, "n2").available.gpus == 8)


def node(cluster: RayCluster, name: str) -> NodeView:
    return next(node for node in cluster.observe().nodes if node.labels["fleet/node"] == name)


def group(cluster: RayCluster, group_id: str) -> GroupView | None:
    return next((group for group in cluster.observe().groups if group.group_id == group_id), None)


def make(cluster: RayCluster, name: str, nodes: list[str], box: RayBox, shape: Shape = WHOLE) -> str:
    made = cluster.create_group(name, tuple((box.node_ids[node], shape) for node in nodes), LONG_S)
    assert made is not None
    return made


def test_everything_private_that_we_use_of_ray_works(connected: RayBox) -> None:
    assert private.check_contract() == ()


def test_nodes_tell_which_bundles_they_hold(cluster: RayCluster, box: RayBox) -> None:
    make(cluster, "fleet/w/told", ["n2", "n1"], box)
    assert eventually(lambda: private.check_contract() == ())


def test_a_node_is_seen_with_labels_and_in_our_units(cluster: RayCluster, box: RayBox) -> None:
    seen = node(cluster, "n1")
    whole = Shape(gpus=8, cpu_milli=8000, memory_mib=16 * 1024)
    want = NodeView(
        node_id=box.node_ids["n1"],
        labels=seen.labels,
        alive=True,
        draining=False,
        total=whole,
        available=whole,
        slices={"shared": 80_000},
        free_slices={"shared": 80_000},
        address="127.0.0.1",
    )
    assert seen == want
    assert (seen.labels["fleet/class"], seen.labels["fleet/node"]) == ("training", "n1")


def test_only_the_head_is_the_head(cluster: RayCluster) -> None:
    assert [node.labels["fleet/node"] for node in cluster.observe().nodes if node.is_head] == ["head"]


def test_every_bundle_stands_on_the_node_named_for_it(cluster: RayCluster, box: RayBox) -> None:
    made = make(cluster, "fleet/w/pinned", ["n3", "n1", "n2"], box)
    seen = group(cluster, made)
    assert seen is not None
    assert (seen.name, seen.state) == ("fleet/w/pinned", "CREATED")
    assert [bundle.node_id for bundle in seen.bundles] == [box.node_ids[name] for name in ("n3", "n1", "n2")]
    assert {bundle.shape for bundle in seen.bundles} == {WHOLE}


def test_what_a_group_holds_is_no_longer_available(cluster: RayCluster, box: RayBox) -> None:
    make(cluster, "fleet/w/held", ["n1"], box)
    want = Shape(gpus=0, cpu_milli=5500, memory_mib=16 * 1024 - 64)
    assert eventually(lambda: node(cluster, "n1").available == want)
    assert node(cluster, "n1").total.gpus == 8


def test_asking_again_by_the_same_name_makes_no_second_group(cluster: RayCluster, box: RayBox) -> None:
    first = make(cluster, "fleet/w/once", ["n1", "n2"], box)
    assert make(cluster, "fleet/w/once", ["n1", "n2"], box) == first
    assert len(cluster.observe().groups) == 1


def test_a_live_group_of_that_name_on_other_nodes_is_not_taken_for_it(cluster: RayCluster, box: RayBox) -> None:
    make(cluster, "fleet/w/moved", ["n1"], box)
    with pytest.raises(FaultError, match="other nodes"):
        make(cluster, "fleet/w/moved", ["n2"], box)


@pytest.mark.parametrize(
    "nodes",
    [["n1"], ["n2", "n2"], ["f" * 56]],
    ids=["a node that is full", "two bundles on one node", "a node that does not exist"],
)
def test_a_group_that_is_not_ready_in_time_leaves_nothing(cluster: RayCluster, box: RayBox, nodes: list[str]) -> None:
    make(cluster, "fleet/h/n1/somebody", ["n1"], box)
    half = Shape(gpus=4)
    bundles = tuple((box.node_ids.get(name, name), half) for name in nodes)
    assert cluster.create_group("fleet/w/late", bundles, SHORT_S) is None
    assert [group.name for group in cluster.observe().groups] == ["fleet/h/n1/somebody"]


def test_a_name_and_its_nodes_can_be_used_again_at_once(cluster: RayCluster, box: RayBox) -> None:
    first = make(cluster, "fleet/w/again", ["n1", "n2"], box)
    cluster.remove_group(first)
    second = make(cluster, "fleet/w/again", ["n1", "n2"], box)
    assert second != first
    assert [group.group_id for group in cluster.observe().groups] == [second]


def test_a_cluster_that_has_watched_sees_what_a_new_one_sees(cluster: RayCluster, box: RayBox) -> None:
    cluster.observe()
    other = RayCluster()  # as another process would do it: `cluster` is not told
    kept, removed = make(other, "fleet/w/kept", ["n1"], box), make(other, "fleet/w/removed", ["n2"], box)
    eventually(lambda: {kept, removed} == {group.group_id for group in cluster.observe().groups})
    assert cluster.observe().groups == RayCluster().observe().groups
    other.remove_group(removed)
    eventually(lambda: [kept] == [group.group_id for group in cluster.observe().groups])
    assert cluster.observe().groups == RayCluster().observe().groups


def test_a_group_is_seen_the_moment_it_is_made_and_gone_the_moment_it_is_removed(
    cluster: RayCluster, box: RayBox
) -> None:
    cluster.observe()
    made = make(cluster, "fleet/w/moment", ["n1"], box)
    assert [group.group_id for group in cluster.observe().groups] == [made]
    cluster.remove_group(made)
    assert cluster.observe().groups == ()


@pytest.mark.parametrize("gone", ["removed before", "never there"])
def test_removing_what_is_gone_does_nothing(cluster: RayCluster, box: RayBox, gone: str) -> None:
    made = make(cluster, "fleet/w/gone", ["n1"], box)
    cluster.remove_group(made)
    cluster.remove_group(made if gone == "removed before" else made[::-1])
    assert cluster.observe().groups == ()


def test_an_id_that_is_none_is_our_fault(cluster: RayCluster) -> None:
    with pytest.raises(FaultError, match="no id of a placement group"):
        cluster.remove_group("nonsense")


class Holder:
    """An actor that holds GPUs."""

    def pid(self) -> int:
        import os

        return os.getpid()


def hold_until(path: str) -> None:
    import pathlib
    import time

    while not pathlib.Path(path).exists():
        time.sleep(0.05)


def on(box: RayBox, name: str) -> dict[str, object]:
    return {"num_cpus": 0, "num_gpus": 1, "label_selector": {"ray.io/node-id": box.node_ids[name]}}


def test_whoever_holds_gpus_without_the_fleet_is_named(cluster: RayCluster, box: RayBox, tmp_path: object) -> None:
    stop = box.home / "stop"
    actor = ray.remote(Holder).options(**on(box, "n1")).remote()
    task = ray.remote(hold_until).options(**on(box, "n1")).remote(str(stop))
    theirs = placement_group([{"GPU": 1}], name="foo", bundle_label_selector=[{"ray.io/node-id": box.node_ids["n1"]}])
    ours = make(cluster, "fleet/w/ours", ["n1"], box, Shape(gpus=1))
    inside = PlacementGroupSchedulingStrategy(placement_group=placement_group_of(ours), placement_group_bundle_index=0)
    admitted = ray.remote(Holder).options(num_cpus=0, num_gpus=1, scheduling_strategy=inside).remote()
    pid, _ = ray.get([actor.pid.remote(), admitted.pid.remote()])
    job = ray.get_runtime_context().get_job_id()

    def kinds() -> bool:
        return [user.split(" (")[0] for user in cluster.users_of(box.node_ids["n1"], frozenset({ours}))] == [
            "actor Holder",
            "placement group foo",
            "task hold_until",
        ]

    assert eventually(kinds)
    assert cluster.users_of(box.node_ids["n1"], frozenset({ours}))[0] == f"actor Holder (pid {pid}, job {job})"
    assert cluster.users_of(box.node_ids["n2"], frozenset()) == ()
    stop.touch()
    ray.get(task)
    remove_placement_group(theirs)
    for handle in (actor, admitted):
        ray.kill(handle)


def placement_group_of(group_id: str) -> object:
    from ray.util.placement_group import PlacementGroup

    return PlacementGroup(private.group_id(group_id))


def test_a_node_that_drains_says_so_and_then_is_down(cluster: RayCluster, box: RayBox) -> None:
    from ray._raylet import GcsClient

    made = make(cluster, "fleet/w/last", ["spare"], box)
    GcsClient(box.address).drain_node(box.node_ids["spare"], 2, "maintenance", 0)  # 2: PREEMPTION, taken when busy
    assert eventually(lambda: node(cluster, "spare").draining)
    cluster.remove_group(made)
    assert eventually(lambda: not node(cluster, "spare").alive)
    assert node(cluster, "spare").total == Shape()
