"""Laws of the moves that make nodes whole, on fleets with any past (F1 to F4, I1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.compaction import Compaction, Move, compact
from fleet_app.engine.fragments import is_whole, room_of, stranded_gpus
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.ordering import class_of
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NodeClass, Shape
from fleet_app.engine.workload import Service, Workload
from tests.builders import backfill, gang, node, policy, service, shape, team
from tests.laws.effort import tries
from tests.strategies import TEAMS, crowded, fleets, nodes, policies
from tests.virtual import Fleet


def moved(state: FleetState, moves: Sequence[Move]) -> FleetState:
    """Return the state after these moves."""
    grants = {(move.what, move.grant): move for move in moves if move.grant}
    jobs = {move.what: move for move in moves if not move.grant}

    def of_service(one: Service) -> Service:
        found = (grants.get((one.name, grant.name)) for grant in one.grants)
        pairs = zip(one.grants, found, strict=True)
        return replace(one, grants=tuple(g if move is None else replace(g, node=move.target) for g, move in pairs))

    def of_job(one: Workload) -> Workload:
        return replace(one, nodes=(jobs[one.name].target,)) if one.name in jobs else one

    return replace(
        state, services=tuple(map(of_service, state.services)), workloads=tuple(map(of_job, state.workloads))
    )


def lie_of(fleet: Fleet, state: FleetState) -> tuple[int, int, dict[str, Shape]]:
    """Return stranded GPUs, whole nodes, and the room of every node."""
    ledger = Ledger(state, fleet.policy, fleet.now)
    room = room_of(ledger)
    nodes = list(ledger.nodes.values())
    return stranded_gpus(nodes, room), sum(is_whole(node, room) for node in nodes), ledger.free


def check_result(fleet: Fleet, found: Compaction) -> None:
    """Check what the plan says of itself, and that no move can be spared."""
    stranded, whole, _ = lie_of(fleet, fleet.state)
    after = lie_of(fleet, moved(fleet.state, found.moves))
    assert (found.stranded_before_gpus, found.whole_nodes_before) == (stranded, whole)
    assert after[:2] == (found.stranded_after_gpus, whole + len(found.freed_nodes))
    for spared in found.moves:
        rest = [move for move in found.moves if move != spared]
        _, fewer, room = lie_of(fleet, moved(fleet.state, rest))
        assert fewer < after[1] or any(not Shape().fits(room[move.target]) for move in rest)


def check_moves(fleet: Fleet, moves: Sequence[Move]) -> None:
    """Check that every part of the plan, carried out in its order, leaves the fleet no worse."""
    stranded, whole, _ = lie_of(fleet, fleet.state)
    for done in range(1, len(moves) + 1):
        now_stranded, now_whole, room = lie_of(fleet, moved(fleet.state, moves[:done]))
        assert now_stranded <= stranded
        assert now_whole >= whole
        target = moves[done - 1].target
        assert Shape().fits(room[target])
        stranded, whole = now_stranded, now_whole


def check_who_moves(fleet: Fleet, moves: Sequence[Move]) -> None:
    """Check that committed work stays, that targets may take what comes, and that no emptied node takes."""
    jobs = {one.name: one for one in fleet.workloads}
    serving = {node.name for node in fleet.nodes if node.node_class is NodeClass.SERVING}
    emptied = {move.source for move in moves if move.why.startswith("empties")}
    assert emptied.isdisjoint(move.target for move in moves)
    making_room = [move.why.startswith("makes room") for move in moves]
    assert making_room == sorted(making_room, reverse=True)
    assert len({(move.what, move.grant) for move in moves}) == len(moves)
    for move in moves:
        target = next(node for node in fleet.nodes if node.name == move.target)
        assert target.placeable
        if move.grant:
            assert move.target in serving
        else:
            job = jobs[move.what]
            assert class_of(fleet.policy, job).yields
            assert job.accelerator in {None, target.accelerator}
            assert job.broken_drains < fleet.policy.drain.max_broken or move.target not in serving


@st.composite
def loose(draw: st.DrawFn) -> Fleet:
    """Return a fleet with a little of everything on most of its nodes."""
    fleet_nodes = draw(nodes(depth=2))
    left = {one.name: one.capacity for one in fleet_nodes}
    there: dict[str, list[str]] = {"s0": [], "s1": []}
    sizes = {"s0": shape(1, cpus=draw(st.integers(0, 2))), "s1": shape(draw(st.sampled_from([2, 3])))}
    work: list[Workload] = []
    for number in range(draw(st.integers(2, 11))):
        on = draw(st.sampled_from(fleet_nodes))
        what = draw(st.sampled_from(["s0", "s1", "job", "job", "firm"]))
        size = sizes.get(what) or shape(draw(st.sampled_from([1, 1, 2])))
        if not size.fits(left[on.name]) or (what in there and on.node_class is not NodeClass.SERVING):
            continue
        left[on.name] -= size
        if what in there:
            there[what].append(on.name)
            continue
        team_name = draw(st.sampled_from(TEAMS[:3]))
        one = backfill if what == "job" else gang
        work.append(replace(one(f"{what}{number}", on=[on.name], team=team_name), shape=size))
    served = [
        replace(service(name, on=on, grants=[]), shape=sizes[name], spread=name == "s1" and draw(st.booleans()))
        for name, on in there.items()
    ]
    idle = [
        replace(each, grants=tuple(replace(g, occupied=draw(st.booleans())) for g in each.grants)) for each in served
    ]
    return Fleet(policy=draw(policies()), now=1000.0, nodes=fleet_nodes, workloads=tuple(work), services=tuple(idle))


CROWDS = (
    ("huge",),
    ("huge",),
    ("large",),
    ("large", "pair"),
    ("large", "small"),
    ("large", "small", "small"),
    ("trio",),
    ("trio", "trio"),
    ("trio", "pair"),
    ("trio", "pair", "small"),
    ("pair", "pair", "small"),
    ("pair", "small", "small"),
    (),
)
"""What is on a node: at least one GPU of eight stays free."""


@st.composite
def tight(draw: st.DrawFn) -> Fleet:
    """Return serving nodes with large replicas and small ones, on which nothing fits before something has moved."""
    on: dict[str, list[str]] = {"huge": [], "large": [], "trio": [], "pair": [], "small": []}
    count = draw(st.integers(3, 9))
    names = [f"n{number}" for number in range(count)]
    work: list[Workload] = []
    for name in names:
        there = draw(st.sampled_from(CROWDS))
        for what in there:
            on[what].append(name)
        if draw(st.integers(0, 3)) == 0:
            work.append(gang(f"firm-{name}", gpus=1, on=[name]))
    sizes = {"huge": 6, "large": draw(st.sampled_from([4, 4, 5])), "trio": 3, "pair": 2, "small": 1}
    served = tuple(service(what, gpus=sizes[what], on=there) for what, there in on.items())
    rules = policy(team("serving", nominal=99), team("research", nominal=99))
    fleet_nodes = tuple(node(name, serving=True) for name in names)
    return Fleet(policy=rules, now=1000.0, nodes=fleet_nodes, workloads=tuple(work), services=served)


def check(fleet: Fleet) -> None:
    found = compact(fleet.state, fleet.policy, fleet.now)
    event(f"empties {min(len(found.freed_nodes), 2)} nodes")
    event("makes room" if any(move.why.startswith("makes room") for move in found.moves) else "makes no room")
    check_result(fleet, found)
    check_moves(fleet, found.moves)
    check_who_moves(fleet, found.moves)


@tries(150)
@given(fleet=st.one_of(fleets(), crowded().map(lambda crowd: crowd[0])))
def test_moves_only_ever_help_a_fleet_with_a_past(fleet: Fleet) -> None:
    check(fleet)


@tries(400)
@given(fleet=loose())
def test_moves_only_ever_help_a_fleet_that_is_scattered(fleet: Fleet) -> None:
    check(fleet)


@tries(400)
@given(fleet=tight())
def test_moves_only_ever_help_a_fleet_in_which_room_must_be_made(fleet: Fleet) -> None:
    check(fleet)


@tries(100)
@given(fleet=st.one_of(loose(), tight()), most=st.integers(0, 2), shuffle=st.randoms(use_true_random=False))
def test_the_same_facts_in_any_order_give_the_same_moves(fleet: Fleet, most: int, shuffle: object) -> None:
    state = fleet.state
    mixed = FleetState(
        nodes=tuple(shuffle.sample(state.nodes, len(state.nodes))),  # type: ignore[attr-defined]  # a random.Random
        workloads=tuple(shuffle.sample(state.workloads, len(state.workloads))),  # type: ignore[attr-defined]
        services=tuple(
            replace(one, grants=tuple(shuffle.sample(one.grants, len(one.grants))))  # type: ignore[attr-defined]
            for one in shuffle.sample(state.services, len(state.services))  # type: ignore[attr-defined]
        ),
    )
    found = compact(state, fleet.policy, fleet.now, (), most)
    assert compact(mixed, fleet.policy, fleet.now, (), most) == found
    assert len(found.freed_nodes) <= most
