"""Every law after every step, whatever happens to a fleet and in whatever order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fleet_app.engine.cards import Slice
from fleet_app.engine.lifecycle import TERMINAL
from fleet_app.engine.workload import Workload
from tests.builders import policy
from tests.laws.effort import tries
from tests.laws.reference import case_of, check
from tests.strategies import (
    RARE,
    Happening,
    asking,
    contested,
    crowded,
    happened,
    in_motion,
    new_fleets,
    slices_of_cards,
    workloads,
)
from tests.virtual import Fleet, fleet


class Histories(RuleBasedStateMachine):
    """A virtual fleet and all that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet: Fleet = fleet(policy())

    @initialize(new=st.one_of(new_fleets(), contested(), in_motion(), crowded().map(lambda crowd: asking(*crowd))))
    def begin(self, new: Fleet) -> None:
        self.fleet = new

    @rule()
    def cycle(self) -> None:
        self.fleet = happened(self.fleet, Happening(what="cycle"))

    @rule()
    def start(self) -> None:
        self.fleet = happened(happened(self.fleet, Happening(what="cycle")), Happening(what="start"))

    @rule(new=workloads("new", ("spine", "leaf")), wanted=slices_of_cards())
    def submit(self, new: Workload, wanted: Slice) -> None:
        self.fleet = happened(self.fleet, Happening(what="submit", new=new, wanted=wanted))

    @rule(
        what=st.sampled_from(["leave", "wait", "occupy", "want", "finish", *RARE]),
        which=st.integers(0, 5),
        amount=st.integers(0, 5),
    )
    def happen(self, what: str, which: int, amount: int) -> None:
        self.fleet = happened(self.fleet, Happening(what=what, which=which, amount=amount))

    @rule(which=st.integers(0, 5), amount=st.integers(0, 5))
    def book(self, which: int, amount: int) -> None:
        self.fleet = happened(self.fleet, Happening(what="book", which=which, amount=amount))

    @invariant()
    def laws_are_kept(self) -> None:
        check(case_of(self.fleet))

    @invariant()
    def time_runs_forwards(self) -> None:
        """I10: submitted, admitted and started follow one another, and who has ended holds nothing."""
        for one in self.fleet.workloads:
            moments = [one.submitted_at, one.admitted_at, one.started_at, one.saved_at]
            known = [at for at in moments if at is not None]
            assert known == sorted(known)
            assert known[-1] <= self.fleet.now
            assert one.holding == bool(one.nodes)
        assert all(one.phase in TERMINAL for one in self.fleet.ended)


TestHistories = Histories.TestCase
TestHistories.settings = tries(120, steps=30)
