"""A fleet whose nodes are pods: what is published, who is moved when Kubernetes wants a node, how a machine crosses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.arbiter import pods, pooling, pools_file, status
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import Facts
from fleet_app.arbiter.inbox import MoveBoundary, Pause
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import (
    BundleView,
    GroupView,
    MachineView,
    NodeView,
    PodView,
    PoolsView,
    PoolsWish,
    PoolView,
)
from fleet_app.arbiter.records import Job, Record
from fleet_app.arbiter.surplus import leavers, over, surplus
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.values import NOTHING, Crossing, NodeClass
from fleet_app.policy.load import load_policy, to_engine
from tests.builders import gang
from tests.pools import FakePools
from tests.unit.arbiter.rig import LONG, POLICY, Rig, small
from tests.world import Behaviour

BOUNDARY = POLICY + "boundary: {serving: serving, training: research, most_nodes_a_week: 9}\n"
MOVES = Behaviour(steps=1000, ack_every=8)


@pytest.fixture
def pooled(rig: Rig, tmp_path: Path) -> Rig:
    """Return a fleet of one node for serving and two for training, each a pod."""
    (tmp_path / "policy.yaml").write_text(BOUNDARY)
    rig.world.pools = FakePools(rig.world)
    return small(rig, serving=1, training=2)


def pools(rig: Rig) -> FakePools:
    assert isinstance(rig.world.pools, FakePools)
    return rig.world.pools


def rows(rig: Rig) -> dict[str, str]:
    """Return of each node its class, its condition, what it becomes and why it goes."""
    found = status.nodes(rig.reader().snapshot(), (), (), to_engine(load_policy(rig.home / "policy.yaml")))
    keys = ("class", "condition", "becomes", "departs")
    return {str(row["name"]): " ".join(str(row[key]) for key in keys if row[key]) for row in found}


def placed_on(rig: Rig, name: str) -> tuple[tuple[str, ...], Phase]:
    record = rig.reader().record(name)
    assert record is not None
    return record.workload.nodes, record.workload.phase


# Held.


def test_a_gang_is_placed_once_it_is_published_that_its_pods_hold_it(pooled: Rig) -> None:
    pools(pooled).answers = False
    pooled.world.behaviours["llm"] = LONG
    pooled.submit("llm", kind="gang", nodes=2, gpus=4)
    pooled.world.want("chat", 2)
    pooled.run(60.0)
    assert pooled.phases() == {"llm": Phase.ADMITTED}
    assert [name for name in pooled.world.groups.values() if name.name.startswith("fleet/w/")] == []
    assert len(pooled.reader().grants()) == 2, "serving waits for nobody"
    assert pooled.notes(What.WITHDRAWN) == []
    assert "waits until Kubernetes" in pooled.reader().records()["llm"].message
    pools(pooled).answers = True
    pooled.run(65.0)
    assert pooled.phases() == {"llm": Phase.RUNNING}
    assert pooled.reader().records()["llm"].message == ""
    assert dict(pools(pooled).held.held_pods) == {pools(pooled).pod(name): "llm" for name in ("t1", "t2")}
    assert dict(pools(pooled).held.held_machines) == {"m-t1": "llm", "m-t2": "llm"}


def test_it_is_held_until_its_last_process_is_gone(pooled: Rig) -> None:
    pooled.world.behaviours["llm"] = Behaviour(steps=3, leaves_behind_s=3.0)
    pooled.submit("llm", kind="gang", gpus=4)
    pooled.run(
        20.0, until=lambda: any(job.status(pooled.world.now) == "SUCCEEDED" for job in pooled.world.jobs.values())
    )
    assert pools(pooled).running() == {"t1"}
    assert pools(pooled).held.held_pods, "its driver has ended, a process of it has not"
    pooled.run(20.0)
    assert pooled.phases() == {"llm": Phase.SUCCEEDED}
    assert (pools(pooled).held.held_pods, pools(pooled).held.held_machines) == ({}, {})


def test_backfill_holds_its_pod_and_not_its_machine(pooled: Rig) -> None:
    pooled.world.behaviours["b1"] = LONG
    pooled.submit("b1", gpus=2)
    pooled.run(5.0)
    assert list(pools(pooled).held.held_pods.values()) == ["b1"]
    assert pools(pooled).held.held_machines == {}


def test_a_new_arbiter_takes_nothing_back_before_it_knows(pooled: Rig) -> None:
    pooled.world.behaviours["llm"] = LONG
    pooled.submit("llm", kind="gang", nodes=2, gpus=4)
    pooled.run(5.0)
    pools(pooled).answers = False
    pooled.drop()
    pooled.run(30.0)
    pools(pooled).answers = True
    pooled.run(31.0)
    assert sorted(pools(pooled).held.held_pods.values()) == ["llm", "llm"]
    assert placed_on(pooled, "llm") == (("t1", "t2"), Phase.RUNNING)
    assert pooled.world.count("kill") == 0


def test_what_is_published_of_a_node_that_is_away_stays() -> None:
    llm = Record(workload=gang("llm", on=["t1", "t2"]), job=Job(entrypoint="python llm.py"))
    seen = PoolsView(
        at=1.0,
        pods=(PodView(name="p1", pool="training", machine="m1"), PodView(name="p2", pool="training", machine="m2")),
        held_pods={"p1": "llm", "p2": "llm", "p9": "gone"},
    )
    facts = Facts(now=2.0, pools=seen, pods={"t2": seen.pods[1]})
    found = pooling.wish(Book({"llm": llm}), facts, frozenset())
    assert (found.held_pods, found.held_machines) == ({"p1": "llm", "p2": "llm"}, {"m1": "llm", "m2": "llm"})
    moved = replace(facts, pods={"t1": seen.pods[1], "t2": PodView(name="p3", pool="training")})
    assert pooling.wish(Book({"llm": llm}), moved, frozenset()).held_pods == {"p2": "llm", "p3": "llm"}


def test_before_the_first_look_nothing_is_wished_for(pooled: Rig) -> None:
    pools(pooled).answers = False
    pools(pooled).wish = PoolsWish(held_pods={"p1": "whoever"})
    pooled.run(2.0)
    assert pools(pooled).wish.held_pods == {"p1": "whoever"}


# Nodes that Kubernetes wants.


def test_a_cordon_moves_a_gang_at_its_checkpoint_and_then_the_eviction_succeeds(pooled: Rig) -> None:
    pooled.world.behaviours["llm"] = MOVES
    pooled.submit("llm", kind="gang", gpus=4)
    pooled.at(4.0, lambda: pools(pooled).cordoned.add("m-t1"))
    pooled.run(8.0)
    assert rows(pooled)["t1"] == "training cordoned its Kubernetes node m-t1 is cordoned"
    assert placed_on(pooled, "llm") == (("t1",), Phase.DRAINING)
    assert not pools(pooled).evict("t1")
    pooled.run(20.0)
    assert placed_on(pooled, "llm") == (("t2",), Phase.RUNNING)
    assert pooled.world.jobs["llm.2"].first == 8
    assert pools(pooled).evict("t1")
    pooled.run(25.0)
    assert placed_on(pooled, "llm") == (("t2",), Phase.RUNNING)
    assert pooled.world.count("kill") == 0


def test_what_yields_leaves_a_cordoned_node_within_its_grace(pooled: Rig) -> None:
    pooled.world.behaviours["b1"] = LONG
    pooled.submit("b1", gpus=2, notice="library")
    pooled.run(5.0)
    on = placed_on(pooled, "b1")[0][0]
    pools(pooled).cordoned.add(f"m-{on}")
    pooled.run(8.0)
    assert f"{on} goes away" in str(pooled.notes(What.DRAINING, "b1")[0]["why"])
    assert placed_on(pooled, "b1")[0] != (on,)


def test_a_cordoned_node_takes_nothing_new_until_it_is_open_again(pooled: Rig) -> None:
    pools(pooled).cordoned |= {"m-t1", "m-t2"}
    pooled.run(2.0)
    pooled.submit("llm", kind="gang", gpus=4)
    pooled.run(5.0)
    assert pooled.phases() == {"llm": Phase.QUEUED}
    pools(pooled).answers = False
    pools(pooled).cordoned.clear()
    pooled.run(10.0)
    assert pooled.phases() == {"llm": Phase.QUEUED}, "what was seen last stands"
    pools(pooled).answers = True
    pooled.run(15.0)
    assert pooled.phases() == {"llm": Phase.RUNNING}


def test_a_gang_in_a_pod_that_is_being_deleted_has_until_that_is_gone(pooled: Rig) -> None:
    pooled.world.behaviours["llm"] = Behaviour(steps=1000, yields_in_s=None)
    pooled.submit("llm", kind="gang", gpus=4, notice="library")
    pooled.run(5.0)
    pools(pooled).ends["t1"] = pooled.world.now + 3.0
    pooled.run(6.0)
    note = pooled.notes(What.DRAINING, "llm")[0]
    assert note["deadline_at"] == pytest.approx(pooled.began + 8.0)
    assert "is being deleted" in str(note["why"])
    pooled.run(12.0)
    assert placed_on(pooled, "llm")[0] == ("t2",)


def test_silence_is_not_the_end_of_a_node(pooled: Rig) -> None:
    pooled.world.behaviours["llm"] = LONG
    pooled.submit("llm", kind="gang", nodes=2, gpus=4)
    pooled.run(5.0)
    pools(pooled).seen = PoolsView(at=pooled.world.now)
    pools(pooled).answers = False
    pooled.run(60.0)
    assert placed_on(pooled, "llm") == (("t1", "t2"), Phase.RUNNING)
    assert set(rows(pooled).values()) == {"training ready", "serving ready"}
    assert sorted(pools(pooled).wish.held_pods.values()) == ["llm", "llm"]


# Machines that cross.


def cross(*nodes: str, to: NodeClass = NodeClass.SERVING) -> MoveBoundary:
    return MoveBoundary(nodes=nodes, to=to, who="ada")


def test_a_machine_crosses_empty_and_takes_work_when_it_has_come_up_in_its_other_pool(pooled: Rig) -> None:
    pooled.world.behaviours |= {"llm": MOVES, "b1": LONG}
    pooled.submit("llm", kind="gang", gpus=2)
    pooled.run(3.0)
    pooled.submit("b1", gpus=2, notice="library")
    pooled.run(6.0)
    was = pools(pooled).pod("t1")
    pooled.post(cross("t1"))
    pooled.run(7.0)
    assert pools(pooled).repooled == []
    pooled.world.want("chat", 8)
    pooled.run(25.0)
    assert [(one.machine, one.pod, one.to) for one in pools(pooled).repooled] == [("m-t1", was, NodeClass.SERVING)]
    assert rows(pooled)["t1"] == "serving ready"
    assert {grant.node for grant in pooled.reader().grants().values()} == {"s1", "t1"}
    assert [note["machine"] for note in pooled.notes(What.REPOOLED, "t1")] == ["m-t1"]
    assert pools(pooled).wish.changes == ()
    assert pooled.world.count("kill") == 0


@pytest.mark.parametrize("second", [6.3, 7.0, 8.0, 9.5, 11.0, 12.5])
def test_an_arbiter_that_dies_meanwhile_goes_on(pooled: Rig, second: float) -> None:
    pooled.world.behaviours["llm"] = MOVES
    pooled.submit("llm", kind="gang", gpus=4)
    pooled.at(6.0, lambda: pooled.post(cross("t1")))
    pooled.at(second, pooled.drop)
    pooled.run(30.0)
    assert [one.machine for one in pools(pooled).repooled] == ["m-t1"]
    assert rows(pooled) == {"s1": "serving ready", "t1": "serving ready", "t2": "training ready"}
    assert placed_on(pooled, "llm") == (("t2",), Phase.RUNNING)


def test_while_nobody_answers_it_does_not_cross_and_takes_nothing(pooled: Rig) -> None:
    pooled.run(2.0)
    pooled.post(cross("t1"))
    pools(pooled).answers = False
    pooled.world.want("chat", 8)
    pooled.run(30.0)
    assert rows(pooled)["t1"] == "serving cordoned serving"
    assert {grant.node for grant in pooled.reader().grants().values()} == {"s1"}
    pools(pooled).answers = True
    pooled.run(40.0)
    assert {grant.node for grant in pooled.reader().grants().values()} == {"s1", "t1"}


def test_back_again_it_waits_for_the_replicas(pooled: Rig) -> None:
    pooled.world.want("chat", 1)
    pooled.run(3.0)
    pooled.post(cross("s1", to=NodeClass.TRAINING))
    pooled.run(10.0)
    assert (pools(pooled).repooled, rows(pooled)["s1"]) == ([], "serving cordoned training")


SITES = {
    "its pool has its least": ({"least": 2}, ("t1",), "2 least"),
    "the other has its most": ({"most": 1}, ("t1",), "1 most"),
    "there is room for one and not for two": ({"least": 1}, ("t1", "t2"), "1 least"),
    "nor in the other": ({"most": 2}, ("t1", "t2"), "2 most"),
}


@pytest.mark.parametrize(("bounds", "nodes", "why"), SITES.values(), ids=SITES)
def test_a_crossing_that_the_pools_cannot_make_is_refused(
    pooled: Rig, bounds: dict[str, int], nodes: tuple[str, ...], why: str
) -> None:
    for key, value in bounds.items():
        setattr(pools(pooled), key, value)
    pooled.run(2.0)
    pooled.post(cross(*nodes))
    pooled.run(3.0)
    assert why in str(pooled.notes(What.REFUSED, "t1")[0]["why"])
    assert set(rows(pooled).values()) == {"serving ready", "training ready"}


def test_one_that_is_under_way_counts_too(pooled: Rig) -> None:
    pools(pooled).least = 1
    pooled.world.behaviours["llm"] = LONG
    pooled.submit("llm", kind="gang", nodes=2, gpus=4)
    pooled.run(4.0)
    pooled.post(cross("t1"))
    pooled.run(5.0)
    pooled.post(cross("t2"))
    pooled.run(6.0)
    assert rows(pooled)["t1"] == "training cordoned serving"
    assert "1 least" in str(pooled.notes(What.REFUSED, "t2")[0]["why"])


def test_a_crossing_before_kubernetes_has_answered_is_refused(pooled: Rig) -> None:
    pools(pooled).answers = False
    pooled.post(cross("t1"))
    pooled.run(3.0)
    assert "has not shown its pod" in str(pooled.notes(What.REFUSED, "t1")[0]["why"])


# Where nodes are, and how many there should be.


def test_domains_are_read_from_the_machine_where_ray_does_not_say_them(pooled: Rig, tmp_path: Path) -> None:
    for node in pooled.world.nodes.values():
        del node.labels["fleet/leaf"]  # type: ignore[attr-defined]
    pools(pooled).labels = {"network.topology.nvidia.com/leaf": "sw7", "example.com/row": "r3"}
    pooled.run(2.0)
    snapshot = pooled.reader().snapshot()
    assert snapshot is not None
    assert {(node.domains, node.machine[:2], node.pod[:4]) for node in snapshot.state.nodes} == {
        (("s1", "sw7"), "m-", "pod-")
    }
    pools(pooled).seen, pools(pooled).answers = PoolsView(), False
    pooled.drop()
    pooled.run(4.0)
    snapshot = pooled.reader().snapshot()
    assert snapshot is not None
    assert {node.domains for node in snapshot.state.nodes} == {("s1", "sw7")}, "a new arbiter knows it from the journal"
    pools(pooled).answers = True
    (tmp_path / "policy.yaml").write_text(BOUNDARY + "node_pools: {topology: {spine: example.com/row}}\n")
    pooled.drop()
    pooled.run(6.0)
    snapshot = pooled.reader().snapshot()
    assert snapshot is not None
    assert {node.domains for node in snapshot.state.nodes} == {("r3", "sw7")}


def test_nodes_are_asked_for_where_a_site_scales_them_and_never_beyond_the_most(pooled: Rig, tmp_path: Path) -> None:
    pooled.run(2.0)
    assert pools(pooled).wish.asks is None
    text = BOUNDARY + "topology: {gpus_per_node: 4}\nnode_pools: {scales: true}\n"
    (tmp_path / "policy.yaml").write_text(text)
    pooled.drop()
    pooled.submit("llm", kind="gang", nodes=7, gpus=4)
    pooled.world.want("chat", 9)
    pooled.run(5.0)
    asks = pools(pooled).wish.asks
    assert asks is not None
    assert [(ask.node_class, ask.gpus, ask.nodes) for ask in asks] == [
        (NodeClass.TRAINING, 4, 7),
        (NodeClass.SERVING, 4, 3),
    ]
    pools(pooled).most = 5
    pooled.run(7.0)
    asks = pools(pooled).wish.asks
    assert asks is not None
    assert [ask.nodes for ask in asks] == [5, 3]


# Which pod is which node.


def view_of(node: str, address: str = "", pod: str = "", *, alive: bool = True) -> NodeView:
    labels = {"fleet/node": node} | ({"fleet/pod": pod} if pod else {})
    return NodeView(
        node_id=node, labels=labels, alive=alive, draining=False, total=NOTHING, available=NOTHING, address=address
    )


PODS = (PodView(name="p1", pool="a", address="10.0.0.1"), PodView(name="p2", pool="a", address="10.0.0.2"))
MATCHES = {
    "by the name that the node says": ([view_of("n1", "10.0.0.2", "p1")], PODS, {"n1": "p1"}),
    "also before that pod was seen": ([view_of("n1", "10.0.0.9", "p9")], PODS, {"n1": "p9"}),
    "by the address where it says none": ([view_of("n1", "10.0.0.2")], PODS, {"n1": "p2"}),
    "not by one that two nodes have": ([view_of("n1", "10.0.0.2"), view_of("n2", "10.0.0.2")], PODS, {}),
    "nor by one that two pods have": ([view_of("n1", "10.0.0.1")], (*PODS, replace(PODS[0], name="p3")), {}),
    "a node that is gone has none": ([view_of("n1", "10.0.0.1", alive=False)], PODS, {}),
    "an address that nobody has": ([view_of("n1")], (PodView(name="p1", pool="a"),), {}),
}


@pytest.mark.parametrize(("nodes", "seen", "want"), MATCHES.values(), ids=MATCHES)
def test_the_pod_of_a_node(nodes: list[NodeView], seen: tuple[PodView, ...], want: dict[str, str]) -> None:
    found = pods.matched({node.labels["fleet/node"]: node for node in nodes}, PoolsView(at=1.0, pods=seen))
    assert {name: pod.name for name, pod in found.items()} == want


def pool(name: str, node_class: str, leaf: str = "l1") -> PoolView:
    return PoolView(name=name, labels={"fleet/class": node_class, "fleet/leaf": leaf}, nodes=1, least=0, most=9)


OTHERS = {
    "the one that differs in class alone": ([pool("s", "serving"), pool("s2", "serving", "l2")], "s"),
    "none": ([pool("s2", "serving", "l2")], None),
    "two are as good as none": ([pool("s", "serving"), pool("s2", "serving")], None),
}


@pytest.mark.parametrize(("others", "want"), OTHERS.values(), ids=OTHERS)
def test_the_counterpart_of_a_pool(others: list[PoolView], want: str | None) -> None:
    own = pool("t", "training")
    found = pods.counterpart([own, *others], own, NodeClass.SERVING)
    assert (found.name if found else None) == want


# Pools that are to have fewer nodes (N1).


def test_a_pool_that_is_to_have_fewer_nodes_gives_up_an_empty_one(pooled: Rig) -> None:
    pooled.world.behaviours["llm"] = LONG
    pooled.submit("llm", kind="gang", gpus=4)
    pooled.run(5.0)
    (busy,), _ = placed_on(pooled, "llm")
    pools(pooled).wanted = {"training": 1, "serving": 1}
    pooled.run(10.0)
    assert pools(pooled).left == [{"t1": "t2", "t2": "t1"}[busy]]
    pooled.run(30.0)
    assert placed_on(pooled, "llm") == ((busy,), Phase.RUNNING)
    assert len(pools(pooled).left) == 1, "no more than are too many"
    assert pooled.world.count("kill") == 0


def test_where_none_is_empty_work_leaves_as_from_a_closed_machine_and_the_pod_goes_after_it(pooled: Rig) -> None:
    for name in ("one", "two"):
        pooled.world.behaviours[name] = MOVES
        pooled.submit(name, kind="gang", gpus=4)
    pooled.run(5.0)
    pools(pooled).wanted = {"training": 1, "serving": 1}
    pooled.run(5.5)
    assert [name for name, row in rows(pooled).items() if "is to have fewer nodes" in row] == ["t1"]
    assert pools(pooled).left == []
    pooled.run(60.0)
    assert pools(pooled).left == ["t1"]
    assert sorted(pooled.phases().values()) == [Phase.QUEUED, Phase.RUNNING]
    assert pooled.world.count("kill") == 0


def test_a_node_that_is_to_go_takes_nothing_new_and_stays_where_more_are_wanted_again(pooled: Rig) -> None:
    pools(pooled).wanted = {"training": 0, "serving": 1}
    pools(pooled).answers = False
    pooled.run(2.0)
    pools(pooled).answers = True
    pools(pooled).wanted = {"training": 2, "serving": 1}
    pooled.world.behaviours["llm"] = LONG
    pooled.submit("llm", kind="gang", nodes=2, gpus=4)
    pooled.run(10.0)
    assert (pools(pooled).left, placed_on(pooled, "llm")[0]) == ([], ("t1", "t2"))


def test_while_the_arbiter_is_paused_no_pool_gets_smaller(pooled: Rig) -> None:
    pooled.run(2.0)
    pooled.post(Pause())
    pooled.run(2.0)
    pools(pooled).wanted = {"training": 0, "serving": 0}
    pooled.run(10.0)
    assert pools(pooled).left == []


def sized(name: str, nodes: int, wanted: int | None, least: int = 0, leaf: str = "l1") -> PoolView:
    node_class = name.split("-", maxsplit=1)[0]
    return replace(pool(name, node_class, leaf), nodes=nodes, wanted=wanted, least=least)


OVER = {
    "as many as are wanted": ([sized("training", 2, 2)], 0),
    "fewer than are wanted": ([sized("training", 1, 2)], 0),
    "nobody says": ([sized("training", 2, None)], 0),
    "more than are wanted": ([sized("training", 4, 1)], 3),
    "but never fewer than the least": ([sized("training", 4, 1, 2)], 2),
    "one crossed": ([sized("training", 3, 2), sized("serving", 1, 2)], 0),
    "one crossed, and fewer are wanted": ([sized("training", 3, 1), sized("serving", 1, 2)], 1),
    "of both": ([sized("training", 3, 1), sized("serving", 3, 2)], 2),
    "another domain's are another's": ([sized("training", 3, 2), sized("serving-2", 1, 2, leaf="l2")], 1),
    "nobody says of the other": ([sized("training", 3, 2), sized("serving", 1, None)], 1),
}


@pytest.mark.parametrize(("found", "want"), OVER.values(), ids=OVER)
def test_how_many_a_pool_has_too_many(found: list[PoolView], want: int) -> None:
    assert over(PoolsView(pools=tuple(found)), found[0]) == want


def lone(name: str, **more: object) -> PodView:
    return replace(PodView(name=name, pool="training", machine=f"m-{name}"), **more)  # type: ignore[arg-type]


CHOICES = {
    "one that has no machine yet": ([lone("a"), lone("b", machine="")], {"a": "t1"}, "b"),
    "one that is no node yet": ([lone("a"), lone("b")], {"a": "t1"}, "b"),
    "an empty one before one that work is on": ([lone("a"), lone("b")], {"a": "busy", "b": "t2"}, "b"),
    "one that yields before one that stays": ([lone("a"), lone("b")], {"a": "busy", "b": "lent"}, "b"),
    "one that is kept free before one that yields": ([lone("a"), lone("b")], {"a": "lent", "b": "kept"}, "b"),
    "one on a closed machine before its like": ([lone("a"), lone("closed")], {"a": "t1", "closed": "t2"}, "closed"),
    "by name": ([lone("b"), lone("a")], {"a": "t1", "b": "t2"}, "a"),
    "not one that goes anyway": ([lone("a", doomed=True), lone("b", ends_at=9.0), lone("c")], {"c": "busy"}, "c"),
    "one that is away, and held, last": ([lone("held"), lone("b")], {"b": "lent"}, "b"),
    "not one that crosses": ([lone("crosses"), lone("b")], {"b": "busy"}, "b"),
}


CROSSES = Crossing(
    node="x",
    home=NodeClass.TRAINING,
    was=NodeClass.TRAINING,
    to=NodeClass.SERVING,
    gpus=8,
    asked_at=0.0,
    who="ada",
    machine="m-crosses",
    pool="training",
)


@pytest.mark.parametrize(("there", "nodes", "want"), CHOICES.values(), ids=CHOICES)
def test_which_pod_is_too_many(there: list[PodView], nodes: dict[str, str], want: str) -> None:
    big, small_one = gang("big", on=["busy"]), gang("small", on=["lent"], priority=1)
    book = Book({each.name: Record(workload=each, job=Job(entrypoint="x")) for each in (big, small_one)})
    book.crossings.put("x", CROSSES)
    view = PoolsView(
        at=1.0,
        pods=tuple(there),
        machines=(MachineView(name="m-closed", labels={}, cordoned=True),),
        pools=(sized("training", 2, 1),),
        held_pods={"held": "big"},
    )
    seen = {name: view_of(name) for name in nodes.values()}
    bundle = BundleView(node_id="kept", shape=NOTHING)
    kept = GroupView(name="fleet/h/1", group_id="g", state="CREATED", bundles=(bundle,))
    facts = Facts(
        now=2.0,
        pools=view,
        nodes=seen,
        groups={"fleet/h/1": kept},
        pods={name: next(pod for pod in there if pod.name == own) for own, name in nodes.items()},
    )
    assert surplus(book, facts, frozenset({1})) == (want,)
    gone = want if nodes.get(want) in {None, "t1", "t2"} else ""
    assert leavers(book, facts, frozenset({1})) == ((gone,) if gone else ())


# What is shown of it.


def test_what_is_shown_of_the_pools(tmp_path: Path) -> None:
    assert pools_file.read(tmp_path, 10.0) is None
    pools_file.write(tmp_path, PoolsView())
    assert pools_file.read(tmp_path, 10.0) == {
        "age_s": None,
        "pods": 0,
        "waiting_pods": 0,
        "machines": 0,
        "cordoned": [],
        "held_pods": 0,
        "asked": [],
        "troubles": [],
    }
    pools_file.write(tmp_path, PoolsView(at=4.0, pods=PODS, held_pods={"p1": "llm"}, troubles=("look: no answer",)))
    found = pools_file.read(tmp_path, 10.0)
    assert found is not None
    assert (found["age_s"], found["pods"], found["waiting_pods"], found["held_pods"]) == (6.0, 2, 2, 1)
    assert found["troubles"] == ["look: no answer"]
