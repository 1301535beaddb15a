"""I7: a committed gang inside its nominal starts, however many smaller ones of its priority or less keep arriving."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, gang, node, policy, service, shape, team
from tests.laws.effort import tries
from tests.virtual import Fleet

LONGEST = 3
"""Cycles that the longest of the small ones runs."""

BOUND = 6 * (LONGEST + 2)
"""Cycles within which the large gang has to run: a few generations of small ones."""

MIXED = ({"a": (1, shape(4)), "b": (1, shape(4, cpus=1))}, {"ps": (1, shape(1, cpus=16)), "actors": (1, shape(4))})
"""Groups of a large gang of several shapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A small workload: what it is, and for how many cycles it runs."""

    kind: str
    team: str
    gpus: int
    nodes: int
    cycles: int

    def workload(self, name: str) -> Workload:
        make = gang if self.kind == "gang" else backfill
        return make(name, gpus=self.gpus, nodes=self.nodes, team=self.team, grace_s=1.0)


@st.composite
def streams(draw: st.DrawFn) -> list[list[Arrival]]:
    """Return what arrives in every cycle, again and again: of all kinds and teams, or only of one."""
    kinds = draw(st.sampled_from([["gang"], ["backfill"], ["gang", "backfill"]]))
    teams = draw(st.sampled_from([["research"], ["vision"], ["research", "vision", "speech"]]))
    one = st.builds(
        Arrival,
        kind=st.sampled_from(kinds),
        team=st.sampled_from(teams),
        gpus=st.integers(1, 2),
        nodes=st.sampled_from([1, 1, 2]),
        cycles=st.sampled_from([1, LONGEST - 1, LONGEST, LONGEST]),
    )
    return draw(st.lists(st.lists(one, min_size=3, max_size=6), min_size=3, max_size=6))


@tries(300)
@given(
    stream=streams(),
    nominals=st.tuples(st.just(8), st.sampled_from([0, 4, 8]), st.sampled_from([0, 4, 8])),
    count=st.sampled_from([2, 2, 6]),
    large=st.tuples(st.sampled_from([1, 2]), st.sampled_from([3, 4]), st.sampled_from([None, "spine"])),
    mixed=st.sampled_from([None, None, *MIXED]),
)
def test_a_committed_gang_is_not_starved_by_a_stream_of_smaller_ones(
    stream: list[list[Arrival]],
    nominals: tuple[int, int, int],
    count: int,
    large: tuple[int, int, str | None],
    mixed: dict[str, tuple[int, Shape]] | None,
) -> None:
    teams = [team(name, nominal=gpus) for name, gpus in zip(["research", "vision", "speech"], nominals, strict=True)]
    sound = [node(f"n{number}", at="s1/l1", gpus=4) for number in range(count)]
    fleet = virtual.fleet(policy(*teams, team("serving", nominal=0)), *sound, service("chat"))
    ends: dict[str, int] = {}
    for number in range(LONGEST + BOUND):
        if number == LONGEST:
            asked = gang("large", nodes=large[0], gpus=large[1], within=large[2], groups=mixed)
            fleet = virtual.submitted(fleet, asked)
        fleet = arrived(fleet, stream[number % len(stream)], number)
        fleet = virtual.started(virtual.cycle(fleet))
        if fleet.phases().get("large") is Phase.RUNNING:
            return
        fleet = virtual.later(ended(virtual.left(fleet), ends, number), 10.0)
    raise AssertionError(f"large has not started: {virtual.plan_of(fleet).waits}")


def arrived(fleet: Fleet, small: list[Arrival], number: int) -> Fleet:
    """Submit the arrivals of this cycle; no more than a queue's worth at once."""
    waiting = sum(one.phase is Phase.QUEUED for one in fleet.workloads)
    named = [one.workload(f"small-{number:03}-{place}-{one.cycles}") for place, one in enumerate(small)]
    return virtual.submitted(fleet, *named) if waiting < 12 else fleet


def ended(fleet: Fleet, ends: dict[str, int], number: int) -> Fleet:
    """Let what has run for its cycles complete."""
    for one in fleet.workloads:
        runs = one.phase is Phase.RUNNING and not one.killed and one.name.startswith("small")
        if runs and number >= ends.setdefault(one.name, number + int(one.name.rsplit("-", 1)[1])):
            fleet = virtual.completed(fleet, one.name)
    return replace(fleet, ended=(), drains=())
