"""Worker groups on a small API server: who is named to the operator, what is published, and what comes of failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet_app.adapters import kube_pools
from fleet_app.adapters.actor import pools_of
from fleet_app.adapters.kube_client import Kube
from fleet_app.adapters.kube_pools import GONE_S, KubePools
from fleet_app.adapters.ray_scaling import ask_nodes
from fleet_app.arbiter import pools_file
from fleet_app.arbiter.ports import PoolChange, PoolsView, PoolsWish
from fleet_app.engine.errors import FaultError
from fleet_app.engine.scaling import NodesAsk
from fleet_app.engine.values import NodeClass
from fleet_app.render import access, names
from tests.clock import Clock
from tests.kube import CLUSTER, NAMESPACE, Call, FakeKube, group, served


@dataclass
class Bed:
    """Three machines for training and one for serving, each with its pod."""

    fake: FakeKube
    pools: KubePools
    clock: Clock
    asked: list[tuple[NodesAsk, ...]] = field(default_factory=list)

    def view(self) -> PoolsView:
        view = self.pools.observe()
        assert view is not None
        return view

    def pod_on(self, machine: str) -> str:
        pods = self.fake.objects["pods"].values()
        return next((str(p["metadata"]["name"]) for p in pods if p["spec"].get("nodeName") == machine), "")

    def machines_of(self, pool: str) -> list[str]:
        return sorted(str(pod["spec"].get("nodeName")) for pod in self.fake.pods(pool))

    def cross(self, machine: str, *, pod: str | None = None) -> None:
        """Wish for a machine of training's to become serving's."""
        there = self.pod_on(machine) if pod is None else pod
        one = PoolChange(machine=machine, pool="training-l1", to=NodeClass.SERVING, pod=there)
        self.pools.want(PoolsWish(changes=(one,)))

    def settle(self, turns: int = 3) -> None:
        for _ in range(turns):
            self.pools.turn()
            self.fake.operate()
            self.clock.at += GONE_S


def replicas(fake: FakeKube) -> dict[str, tuple[int, list[str]]]:
    """Return of each group how many nodes it is to have, and who is named to the operator."""
    groups = fake.groups().items()
    return {
        name: (one["replicas"], (one.get("scaleStrategy") or {}).get("workersToDelete", [])) for name, one in groups
    }


def fleet(**bounds: int) -> FakeKube:
    fake = FakeKube()
    for name in ("m1", "m2", "m3"):
        fake.add_node(name)
    fake.add_node("m4", "serving")
    fake.add_cluster(
        group("training-l1", "training", 3, least=bounds.get("least", 0)),
        group("serving-l1", "serving", 1, most=bounds.get("most", 9)),
        group("serving-l2", "serving", 0, **{"fleet/leaf": "l2"}),
    )
    fake.operate()
    return fake


def bed_of(fake: FakeKube, configuration: object) -> Bed:
    clock = Clock()
    bed = Bed(fake=fake, pools=KubePools(lambda: Kube(configuration), CLUSTER, NAMESPACE, clock), clock=clock)  # type: ignore[arg-type]
    bed.pools.ask_nodes = bed.asked.append
    return bed


@pytest.fixture
def bed() -> Iterator[Bed]:
    fake = fleet()
    with served(fake) as configuration:
        yield bed_of(fake, configuration)


# Looking.


def test_pods_machines_and_pools_are_seen(bed: Bed) -> None:
    bed.fake.add_node("m5", "training", zone="z1")
    bed.fake.cordon("m2")
    bed.fake.objects["pods"][bed.pod_on("m3")]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    bed.pools.turn()
    view = bed.view()
    assert view.at == 1000.0
    assert [(pod.pool, pod.machine, pod.ends_at) for pod in view.pods] == [
        ("serving-l1", "m4", None),
        ("training-l1", "m1", None),
        ("training-l1", "m2", None),
        ("training-l1", "m3", 1767323045.0),
    ]
    assert [machine.name for machine in view.machines if machine.cordoned] == ["m2"]
    assert {machine.name: machine.labels.get("zone") for machine in view.machines}["m5"] == "z1"
    assert {pool.name: (pool.nodes, pool.least, pool.most) for pool in view.pools}["training-l1"] == (3, 0, 9)


def test_a_machine_without_the_label_of_the_fleet_is_seen_too(bed: Bed) -> None:
    del bed.fake.objects["nodes"]["m1"]["metadata"]["labels"]["fleet/class"]
    bed.fake.cordon("m1")
    bed.pools.turn()
    assert [machine.name for machine in bed.view().machines if machine.cordoned] == ["m1"]


@pytest.mark.parametrize("fault", ["cut", "500", "429", "403"])
def test_what_was_seen_stands_while_nobody_answers(bed: Bed, fault: str) -> None:
    bed.pools.turn()
    before = bed.view()
    bed.clock.at += 60.0
    bed.fake.faults = [fault] * 20
    bed.pools.turn()
    assert (bed.view().at, bed.view().pods, bed.view().machines) == (before.at, before.pods, before.machines)
    assert any(trouble.startswith("look: ") for trouble in bed.view().troubles)
    bed.fake.faults = []
    bed.pools.turn()
    assert (bed.view().at, bed.view().troubles) == (1060.0, ())


def test_before_anybody_has_answered_nothing_is_known() -> None:
    def nobody() -> Kube:
        return Kube.of_file("/nowhere")  # type: ignore[arg-type]

    pools = KubePools(nobody, CLUSTER, NAMESPACE, Clock())
    pools.want(PoolsWish(held_pods={"p": "llm"}))
    pools.turn()
    view = pools.observe()
    assert view is not None
    assert (view.at, view.held_pods) == (0.0, {})
    assert any("no cluster is known" in trouble for trouble in view.troubles)


# Who holds what.


def test_what_is_held_is_published_and_taken_back(bed: Bed) -> None:
    bed.pools.turn()
    assert "configmaps" not in bed.fake.objects or not bed.fake.held(), "nobody has wished for anything yet"
    bed.pools.want(PoolsWish(held_pods={"p1": "llm", "p2": "llm"}, held_machines={"m1": "llm"}))
    bed.pools.turn(look=False)
    assert bed.fake.held() == {"pod.p1": "llm", "pod.p2": "llm", "node.m1": "llm"}
    assert (bed.view().held_pods, bed.view().held_machines) == ({"p1": "llm", "p2": "llm"}, {"m1": "llm"})
    owner = bed.fake.objects["configmaps"][f"{CLUSTER}-held"]["metadata"]["ownerReferences"]
    assert [(one["kind"], one["name"], one["uid"]) for one in owner] == [("RayCluster", CLUSTER, "u-1")]
    bed.pools.want(PoolsWish(held_pods={"p2": "other"}))
    bed.pools.turn(look=False)
    assert bed.fake.held() == {"pod.p2": "other"}


def test_what_others_wrote_there_stays(bed: Bed) -> None:
    bed.fake.put("configmaps", {"metadata": {"name": f"{CLUSTER}-held"}, "data": {"note": "mine", "pod.old": "gone"}})
    bed.pools.want(PoolsWish(held_pods={"p1": "llm"}))
    bed.pools.turn()
    assert bed.fake.held() == {"note": "mine", "pod.p1": "llm"}


def test_somebody_else_changed_it_meanwhile(bed: Bed) -> None:
    bed.pools.want(PoolsWish(held_pods={"p1": "llm"}))
    bed.pools.turn()
    bed.fake.between = lambda: bed.fake.put("configmaps", bed.fake.objects["configmaps"][f"{CLUSTER}-held"])  # type: ignore[assignment,return-value]
    bed.pools.want(PoolsWish(held_pods={"p2": "llm"}))
    bed.pools.turn(look=False)
    assert bed.view().held_pods == {"p1": "llm"}, "what is not published does not count as published"
    bed.pools.turn(look=False)
    assert (bed.fake.held(), bed.view().troubles) == ({"pod.p2": "llm"}, ())


def test_what_was_deleted_is_made_again(bed: Bed) -> None:
    bed.pools.want(PoolsWish(held_pods={"p1": "llm"}))
    bed.pools.turn()
    del bed.fake.objects["configmaps"][f"{CLUSTER}-held"]
    bed.pools.turn()
    assert bed.fake.held() == {"pod.p1": "llm"}


def test_a_name_that_is_too_long_is_said_and_the_others_are_published(bed: Bed) -> None:
    bed.pools.want(PoolsWish(held_pods={"p" * 253: "llm", "p2": "llm"}))
    bed.pools.turn()
    assert bed.fake.held() == {"pod.p2": "llm"}
    assert "too long a name" in bed.view().troubles[0]


# Machines that change pools.


def test_the_pod_that_is_named_goes_and_the_machine_comes_up_in_the_other_pool(bed: Bed) -> None:
    bed.pools.turn()
    was = bed.pod_on("m2")
    kept = [bed.pod_on(machine) for machine in ("m1", "m3", "m4")]
    bed.cross("m2")
    bed.pools.turn()
    assert replicas(bed.fake) == {"training-l1": (2, [was]), "serving-l1": (2, []), "serving-l2": (0, [])}
    node = bed.fake.objects["nodes"]["m2"]
    assert node["metadata"]["labels"]["fleet/class"] == "serving"
    assert {taint["key"]: taint.get("value") for taint in node["spec"]["taints"]} == {
        "nvidia.com/gpu": None,
        "fleet/class": "serving",
    }
    bed.fake.operate()
    bed.cross("m2", pod="")
    bed.settle()
    assert bed.fake.deleted == [was]
    assert [bed.pod_on(machine) for machine in ("m1", "m3", "m4")] == kept
    assert (bed.machines_of("training-l1"), bed.machines_of("serving-l1")) == (["m1", "m3"], ["m2", "m4"])
    assert replicas(bed.fake) == {"training-l1": (2, []), "serving-l1": (2, []), "serving-l2": (0, [])}
    assert bed.view().troubles == ()
    spec = bed.fake.objects["rayclusters"][CLUSTER]["spec"]
    assert spec["upgradeStrategy"] == {"type": "None"}, "what we do not know is kept"
    assert {one["priorityClassName"] for one in spec["workerGroupSpecs"]} == {"unknown to us"}


def test_a_name_is_taken_back_only_once_its_pod_has_been_gone_for_a_while(bed: Bed) -> None:
    was = bed.pod_on("m2")
    bed.cross("m2")
    bed.pools.turn()
    bed.clock.at += 100.0
    bed.pools.turn()
    assert replicas(bed.fake)["training-l1"] == (2, [was]), "the pod is still there"
    bed.fake.operate()
    bed.pools.turn()
    bed.clock.at += GONE_S - 0.1
    bed.pools.turn()
    assert replicas(bed.fake)["training-l1"] == (2, [was])
    bed.clock.at += 0.2
    bed.pools.turn()
    assert replicas(bed.fake)["training-l1"] == (2, [])


def test_while_no_pod_is_named_all_pods_are_listed_once_a_look(bed: Bed) -> None:
    """A list of thousands is megabytes, every two seconds."""
    bed.pools.want(PoolsWish(held_pods={"p1": "llm"}))
    bed.pools.turn()
    bed.pools.turn()
    assert [call.resource for call in bed.fake.calls if call.verb == "list"] == ["pods", "nodes"] * 2


def test_what_was_changed_is_owned_no_longer_than_that(bed: Bed) -> None:
    """Or Helm's next upgrade would conflict: the list of groups is one field, whatever of it is changed."""
    bed.cross("m2")
    bed.pools.turn(look=False)
    assert managers(bed.fake) == ["helm", names.FIELD_MANAGER]
    bed.settle(turns=5)
    assert bed.view().troubles == ()
    assert managers(bed.fake) == ["helm"]
    calls = len(bed.fake.calls)
    bed.pools.turn()
    assert {call.verb for call in bed.fake.calls[calls:]} <= {"get", "list"}, "and that is the end of it"


def managers(fake: FakeKube) -> list[str]:
    return [entry["manager"] for entry in fake.objects["rayclusters"][CLUSTER]["metadata"].get("managedFields", [])]


def wants(bed: Bed, note: str) -> None:
    """Let the chart be upgraded."""
    bed.fake.objects["rayclusters"][CLUSTER]["metadata"]["annotations"] = {names.SIZES_NOTE: note}


WANTED = {
    "more of one pool": ('{"training-l1": 5, "serving-l1": 1}', (5, 1)),
    "more of both": ('{"training-l1": 4, "serving-l1": 2}', (4, 2)),
    "fewer: only the arbiter knows who may go": ('{"training-l1": 1, "serving-l1": 0}', (3, 1)),
    "as many, and one has gone over since": ('{"training-l1": 4, "serving-l1": 0}', (3, 1)),
    "more than have gone over since": ('{"training-l1": 5, "serving-l1": 0}', (4, 1)),
    "more than its most": ('{"training-l1": 50, "serving-l1": 1}', (9, 1)),
    "nothing of a pool that the chart does not name": ('{"serving-l1": 1}', (3, 1)),
    "nothing that can be read": ("{", (3, 1)),
    "no list of pools": ("[1]", (3, 1)),
}


@pytest.mark.parametrize(("note", "want"), WANTED.values(), ids=WANTED)
def test_pools_grow_to_what_the_chart_came_to_want(bed: Bed, note: str, want: tuple[int, int]) -> None:
    wants(bed, note)
    bed.settle(turns=6)
    found = replicas(bed.fake)
    assert (found["training-l1"][0], found["serving-l1"][0]) == want
    assert bed.fake.deleted == []
    assert managers(bed.fake) in ([], ["helm"])


def test_where_ray_s_autoscaler_has_a_say_the_chart_has_none(bed: Bed) -> None:
    bed.fake.objects["rayclusters"][CLUSTER]["spec"]["enableInTreeAutoscaling"] = True
    wants(bed, '{"training-l1": 5, "serving-l1": 1}')
    bed.settle()
    assert replicas(bed.fake)["training-l1"][0] == 3


# Pools that are to have fewer nodes.


def lets_go(bed: Bed, *machines: str, **held: str) -> list[str]:
    """Wish for the pods on these machines to go; `held` are machines whose pods hold something."""
    leavers = tuple(bed.pod_on(machine) for machine in machines)
    bed.pools.want(PoolsWish(held_pods={bed.pod_on(each): whose for each, whose in held.items()}, leavers=leavers))
    return list(leavers)


def test_who_is_too_many_and_empty_is_named_and_nobody_comes_in_its_place(bed: Bed) -> None:
    wants(bed, '{"training-l1": 1, "serving-l1": 1}')
    gone = lets_go(bed, "m1", "m3")
    bed.pools.turn()
    assert replicas(bed.fake)["training-l1"] == (1, gone)
    assert [pod.name for pod in bed.view().pods if pod.doomed] == gone, "known at once, not at the next look"
    bed.settle(turns=6)
    assert bed.fake.deleted == gone
    assert bed.machines_of("training-l1") == ["m2"]
    assert replicas(bed.fake) == {"training-l1": (1, []), "serving-l1": (1, []), "serving-l2": (0, [])}
    assert (bed.view().troubles, managers(bed.fake) in ([], ["helm"])) == ((), True)


STAYS = {
    "who holds something": ('{"training-l1": 1, "serving-l1": 1}', {"m1": "llm"}, "the held list names it"),
    "who is none too many": ('{"training-l1": 3, "serving-l1": 1}', {}, ""),
    "who crossed from where it is wanted": ('{"training-l1": 2, "serving-l1": 2}', {}, ""),
    "of a pool of which the chart says nothing": ('{"serving-l1": 0}', {}, ""),
}


@pytest.mark.parametrize(("note", "held", "says"), STAYS.values(), ids=STAYS)
def test_who_stays(bed: Bed, note: str, held: dict[str, str], says: str) -> None:
    wants(bed, note)
    lets_go(bed, "m1", **held)
    bed.pools.turn()
    assert says in str(bed.view().troubles)
    assert bool(bed.view().troubles) == bool(says)
    bed.settle()
    assert bed.fake.doomed == bed.fake.deleted == []


def test_of_a_pool_with_a_pod_too_many_nobody_is_named(bed: Bed) -> None:
    wants(bed, '{"training-l1": 1, "serving-l1": 1}')
    bed.fake.groups()["training-l1"]["replicas"] = 2
    lets_go(bed, "m1")
    bed.pools.turn()
    assert bed.fake.doomed == []
    assert "is to have 2" in bed.view().troubles[0]
    lets_go(bed)
    bed.pools.turn()
    assert bed.view().troubles == (), "nobody wishes it any more"


def test_who_went_by_itself_is_not_named(bed: Bed) -> None:
    wants(bed, '{"training-l1": 2, "serving-l1": 1}')
    lets_go(bed, "m2")
    _replaced(bed)
    bed.pools.turn()
    assert bed.fake.doomed == []


def _replaced(bed: Bed) -> None:
    """Let the pod on m2 go, and the operator make another one before anybody could look."""
    bed.fake.remove_pod(bed.pod_on("m2"))
    bed.fake.operate()


REFUSED = {
    "its pod is held": (lambda bed: {"configmaps": {"pod." + bed.pod_on("m2"): "llm"}}, {}, "held list still names it"),
    "its machine is held": (lambda bed: {"configmaps": {"node.m2": "llm"}}, {}, "held list still names it"),
    "its pool has its least": (lambda _: {}, {"least": 3}, "3 least"),
    "the other pool has its most": (lambda _: {}, {"most": 1}, "1 most"),
}


@pytest.mark.parametrize(("held", "bounds", "want"), REFUSED.values(), ids=REFUSED)
def test_nobody_is_named(held, bounds, want) -> None:  # type: ignore[no-untyped-def]
    fake = fleet(**bounds)
    with served(fake) as configuration:
        bed = bed_of(fake, configuration)
        entries = held(bed).get("configmaps", {})
        whose = {key.partition(".")[2]: "llm" for key in entries if key.startswith("pod.")}
        machines = {key.partition(".")[2]: "llm" for key in entries if key.startswith("node.")}
        one = PoolChange(machine="m2", pool="training-l1", to=NodeClass.SERVING, pod=bed.pod_on("m2"))
        bed.pools.want(PoolsWish(held_pods=whose, held_machines=machines, changes=(one,)))
        bed.settle()
        assert fake.doomed == fake.deleted == []
        assert fake.objects["nodes"]["m2"]["metadata"]["labels"]["fleet/class"] == "training"
        assert want in bed.view().troubles[0]


def test_a_pod_that_came_in_its_place_is_not_named(bed: Bed) -> None:
    bed.cross("m2")
    _replaced(bed)
    bed.settle()
    assert bed.fake.doomed == []
    assert "another pod of the fleet is on it" in bed.view().troubles[0]


def test_a_pod_that_is_replaced_at_that_very_moment_costs_no_other_its_life(bed: Bed) -> None:
    was = bed.pod_on("m2")
    bed.cross("m2")
    bed.pools.turn()  # the held list is made
    bed.fake.objects["rayclusters"][CLUSTER]["spec"] = fleet().objects["rayclusters"][CLUSTER]["spec"]
    bed.fake.put("rayclusters", bed.fake.objects["rayclusters"][CLUSTER])
    bed.fake.between = lambda: _replaced(bed)
    bed.pools.turn()
    bed.fake.operate()
    assert bed.fake.deleted == [was]


def test_a_pool_with_a_pod_too_many_is_left_alone(bed: Bed) -> None:
    bed.fake.groups()["training-l1"]["replicas"] = 2
    bed.cross("m2")
    bed.pools.turn()
    assert bed.fake.doomed == []
    assert "is to have 2" in bed.view().troubles[0]


def test_a_list_from_before_the_last_change_says_nothing(bed: Bed) -> None:
    bed.pools.want(PoolsWish())
    bed.pools.turn()
    bed.cross("m2")
    _replaced(bed)
    bed.fake.faults = ["", "", "stale"]
    bed.pools.turn(look=False)
    assert bed.fake.doomed == []
    assert "older than the RayCluster" in " ".join(bed.view().troubles)


def test_a_pod_that_went_before_it_was_named_leaves_its_waiting_successor_to_go(bed: Bed) -> None:
    fake = bed.fake
    fake.objects["nodes"]["m2"]["metadata"]["labels"]["fleet/class"] = "serving"  # so far it came
    fake.remove_pod(bed.pod_on("m2"))
    fake.operate()
    waiting = next(pod["metadata"]["name"] for pod in fake.pods("training-l1") if not pod["spec"].get("nodeName"))
    bed.cross("m2", pod="")
    bed.settle()
    assert fake.doomed[:1] == [waiting]
    assert (bed.machines_of("training-l1"), bed.machines_of("serving-l1")) == (["m1", "m3"], ["m2", "m4"])
    bed.settle()
    assert replicas(fake) == {"training-l1": (2, []), "serving-l1": (2, []), "serving-l2": (0, [])}


def test_a_pool_without_a_counterpart_says_so(bed: Bed) -> None:
    bed.fake.groups()["serving-l1"]["labels"]["fleet/leaf"] = "l9"
    bed.cross("m2")
    bed.settle()
    assert bed.fake.doomed == []
    assert "no counterpart" in bed.view().troubles[0]


# Nodes on demand.


def test_nodes_are_asked_for_when_that_changes_and_now_and_then(bed: Bed) -> None:
    bed.pools.want(PoolsWish())
    bed.pools.turn()
    assert bed.asked == []
    four = (NodesAsk(node_class=NodeClass.TRAINING, gpus=8, nodes=4, why=""),)
    bed.pools.want(PoolsWish(asks=four))
    bed.pools.turn()
    bed.pools.turn()
    assert bed.asked == [four]
    said = (replace(four[0], why="in other words"),)
    bed.pools.want(PoolsWish(asks=said))
    bed.pools.turn()
    assert (bed.asked, bed.view().asked) == ([four], said)
    bed.clock.at += kube_pools.ASK_AGAIN_S
    bed.pools.turn()
    bed.pools.want(PoolsWish())
    bed.pools.turn()
    assert bed.asked == [four, said, ()]


# What it may.


def test_the_rules_of_access_are_what_is_called(bed: Bed) -> None:
    bed.pools.want(PoolsWish(held_pods={"p1": "llm"}))
    bed.pools.turn()
    bed.cross("m2")
    bed.settle(6)
    del bed.fake.objects["nodes"]["m1"]["metadata"]["labels"]["fleet/class"]
    bed.pools.turn()
    wanted = {
        (rule.group, rule.resource, verb, rule.only, rule.everywhere)
        for rule in access.rules(CLUSTER)
        for verb in rule.verbs
        if (rule.resource, verb) != ("pods", "patch")  # that is for the labels of those that take requests
    }
    assert {_rule(call) for call in bed.fake.calls} == wanted


def _rule(call: Call) -> tuple[str, str, str, str, bool]:
    only = call.name if call.resource in {"configmaps", "rayclusters"} else ""
    return (call.group, call.resource, call.verb, only, not call.namespace)


# Any order of faults.

FAULTS = st.sampled_from(["", "", "", "cut", "500", "409", "422", "403", "lost", "stale"])
EVENTS = st.one_of(
    st.tuples(st.just("turn"), st.lists(FAULTS, max_size=14)),
    st.tuples(st.just("operate"), st.just([])),
    st.tuples(st.just("evict"), st.sampled_from([["m1"], ["m2"], ["m3"], ["m4"]])),
    st.tuples(st.just("look"), st.just([])),
    st.tuples(st.just("fewer"), st.sampled_from([["m1"], ["m3"], ["m1", "m3"]])),
    st.tuples(st.just("later"), st.just([])),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(EVENTS, min_size=3, max_size=14))
def test_nothing_is_named_or_deleted_that_was_not_empty(events: list[tuple[str, list[str]]]) -> None:
    fake = fleet()
    with served(fake) as configuration:
        bed = bed_of(fake, configuration)
        evicted: set[str] = set()
        empty: set[str] = {bed.pod_on("m2")}
        bed.pools.turn()
        bed.cross("m2")
        for what, detail in events:
            unplaced = {
                pod["metadata"]["name"] for pod in fake.objects["pods"].values() if not pod["spec"].get("nodeName")
            }
            empty |= unplaced
            if what == "turn":
                fake.faults = list(detail)
                bed.pools.turn()
                fake.faults = []
            elif what == "operate":
                fake.operate()
            elif what == "evict" and (pod := bed.pod_on(detail[0])):
                evicted.add(pod)
                fake.remove_pod(pod)
            elif what == "look":  # the arbiter says anew what is on the machine, from what was seen last
                view = bed.view()
                there = [p.name for p in view.pods if (p.machine, p.pool) == ("m2", "training-l1")]
                empty |= set(there)
                bed.cross("m2", pod=there[0] if there else "")
            elif what == "fewer":  # the chart comes to want fewer, and the arbiter says who may go
                wants(bed, '{"training-l1": 1, "serving-l1": 1}')
                leavers = tuple(pod for machine in detail if (pod := bed.pod_on(machine)))
                empty |= set(leavers)
                bed.pools.want(PoolsWish(leavers=leavers))
            bed.clock.at += 1.0
        assert set(fake.doomed) <= empty
        assert set(fake.deleted) - evicted <= empty


# How it is found.


def test_outside_of_a_raycluster_there_are_no_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_KUBE_CLUSTER", raising=False)
    assert pools_of(tmp_path, Clock()) is None
    monkeypatch.setenv("FLEET_KUBE_CLUSTER", CLUSTER)
    monkeypatch.delenv("FLEET_KUBE_NAMESPACE", raising=False)
    assert pools_of(tmp_path, Clock()) is None


def test_a_raycluster_that_cannot_be_asked_is_said_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_KUBE_CLUSTER", CLUSTER)
    monkeypatch.setenv("FLEET_KUBE_NAMESPACE", NAMESPACE)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    pools = pools_of(tmp_path, Clock())
    assert pools is not None
    pools.turn()
    view = pools.observe()
    assert view is not None
    pools.tell(view)
    found = pools_file.read(tmp_path, 5.0)
    assert found is not None
    assert (found["age_s"], "no pod with a service account" in str(found["troubles"])) == (None, True)


def test_nodes_cannot_be_asked_for_without_ray() -> None:
    with pytest.raises(FaultError, match="not initialized"):
        ask_nodes((NodesAsk(node_class=NodeClass.TRAINING, gpus=8, nodes=2, why=""),))


def test_the_thread_looks_and_works_until_it_is_told_to_end(bed: Bed) -> None:
    told = threading.Event()
    bed.pools.tell = lambda view: told.set() if view.held_pods == {"p1": "llm"} else None
    bed.pools.want(PoolsWish(held_pods={"p1": "llm"}))
    thread = threading.Thread(target=bed.pools.run, args=(told.is_set,))
    thread.start()
    thread.join(30.0)
    assert told.is_set()
    assert not thread.is_alive()
