"""O7: a planned start is kept, and never becomes later, however many smaller ones pass the gang meanwhile (I7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import event, given
from hypothesis import strategies as st

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Admit, Reason
from fleet_app.engine.policy import Policy
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, gang, node, policy, shape, team
from tests.laws.effort import tries
from tests.virtual import Fleet

STEP_S = 10.0
LONGEST_GRACE_S = 40.0
RUNS_S = (30.0, 60.0, 150.0, 300.0)
"""Declared run times, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A small workload; `early` is after how many seconds it ends by itself, None for one that stays while it may."""

    kind: str
    team: str
    gpus: int
    nodes: int
    max_run_s: float | None
    grace_s: float
    early: float | None

    def workload(self, name: str) -> Workload:
        make = gang if self.kind == "gang" else backfill
        return make(
            name, gpus=self.gpus, nodes=self.nodes, team=self.team, max_run_s=self.max_run_s, grace_s=self.grace_s
        )


def arrivals(*, gpus: list[int], undeclared: int) -> st.SearchStrategy[Arrival]:
    """Return small workloads; of those that declare a run time there are more the smaller `undeclared` is."""
    return st.builds(
        Arrival,
        kind=st.sampled_from(["gang", "gang", "backfill"]),
        team=st.sampled_from(["research", "vision"]),
        gpus=st.sampled_from(gpus),
        nodes=st.sampled_from([1, 1, 2]),
        max_run_s=st.sampled_from([*RUNS_S, *[None] * undeclared]),
        grace_s=st.sampled_from([10.0, 20.0, 90.0]),
        early=st.sampled_from([None, None, None, 20.0, 40.0]),
    )


@st.composite
def rules(draw: st.DrawFn) -> Policy:
    research, vision = draw(st.sampled_from([(8, 16), (12, 12), (16, 8), (16, 0), (24, 24), (24, 24)]))
    found = policy(
        team("research", nominal=research),
        team("vision", nominal=vision),
        team("serving", nominal=0),
        longest_grace_s=LONGEST_GRACE_S,
    )
    return replace(found, drain=replace(found.drain, min_run_s=draw(st.sampled_from([0.0, 0.0, 100.0]))))


@st.composite
def larges(draw: st.DrawFn) -> Workload:
    """Return a gang of one shape, or of two or three, that wants in."""
    within = draw(st.sampled_from([None, None, "leaf"]))
    if draw(st.booleans()):
        gpus = draw(st.sampled_from([4, 4, 3]))
        return gang("large", nodes=draw(st.sampled_from([1, 2, 2, 3])), gpus=gpus, within=within)
    sizes = draw(st.lists(st.sampled_from([4, 4, 3, 2, 0]), min_size=2, max_size=3))
    parts = {f"g{place}": (1, shape(gpus, cpus=4)) for place, gpus in enumerate([4, *sizes[1:]])}
    return gang("large", groups=parts, within=within)


@tries(300)
@given(
    rules=rules(),
    places=st.lists(st.sampled_from(["a/a", "a/b"]), min_size=2, max_size=5),
    first=st.lists(arrivals(gpus=[4, 4, 3, 2], undeclared=1), min_size=4, max_size=8),
    stream=st.lists(st.lists(arrivals(gpus=[1, 2, 4], undeclared=2), max_size=4), min_size=1, max_size=5),
    large=larges(),
)
def test_a_planned_start_is_kept(
    rules: Policy,
    places: list[str],
    first: list[Arrival],
    stream: list[list[Arrival]],
    large: Workload,
) -> None:
    found = [node(f"n{number}", at=at, gpus=4) for number, at in enumerate(places)]
    known = {f"first-{number}": one for number, one in enumerate(first)}
    fleet = virtual.fleet(rules, *found, *(one.workload(name) for name, one in known.items()), now=1000.0)
    fleet = virtual.later(virtual.started(virtual.cycle(fleet)), STEP_S)
    fleet = replace(fleet, workloads=tuple(one for one in fleet.workloads if one.holding))  # nobody waits ahead of it
    fleet = virtual.submitted(fleet, large)
    fleet = virtual.later(fleet, STEP_S)
    planned_at: float | None = None
    for number in range(100):
        fleet = went(fleet, known)
        plan = virtual.plan_of(fleet)
        if any(isinstance(action, Admit) and action.workload == "large" for action in plan.actions):
            return
        wait = next((one for one in plan.waits if one.workload == "large"), None)
        if planned_at is not None:
            assert fleet.now < planned_at, f"planned for {planned_at}, it waits still: {wait}"
            assert wait is not None
            if wait.reason is not Reason.DRAIN_UNDER_WAY:
                assert wait.planned_at is not None, wait
                assert wait.planned_at <= planned_at, wait
        if wait is not None and wait.planned_at is not None:
            planned_at = wait.planned_at
            event(f"planned for {'several shapes' if large.groups else 'one shape'}")
        if planned_at is None and number > 3:
            return
        if planned_at is not None:
            passed = [action.workload for action in plan.actions if isinstance(action, Admit)]
            event(f"passed by {'some' if passed else 'nobody'}")
        fleet = virtual.later(virtual.started(virtual.carried_out(fleet, plan)), STEP_S)
        fleet = arrived(fleet, stream[number % len(stream)], number, known)
    raise AssertionError("large has not started")


def arrived(fleet: Fleet, small: list[Arrival], number: int, known: dict[str, Arrival]) -> Fleet:
    """Submit the arrivals of this step; no more than a queue's worth at once."""
    if sum(one.phase is Phase.QUEUED for one in fleet.workloads) > 10:
        return fleet
    named = {f"small-{number:03}-{place}": one for place, one in enumerate(small)}
    known |= named
    return virtual.submitted(fleet, *(one.workload(name) for name, one in named.items()))


def went(fleet: Fleet, known: dict[str, Arrival]) -> Fleet:
    """Let those go whose deadline has come, none before it, and those that end by themselves."""
    for one in fleet.workloads:
        early = known[one.name].early if one.name in known else None
        if one.leaving and (one.killed or one.deadline_at is None or one.deadline_at <= fleet.now):
            fleet = virtual.left(fleet, one.name)
        elif one.phase is Phase.RUNNING and early is not None and one.started_at + early <= fleet.now:
            fleet = virtual.completed(fleet, one.name)
    return replace(fleet, ended=(), drains=())
