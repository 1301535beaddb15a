"""O5 at any depth: whose turn it is among borrowers, against a knock-out that is worked out anew for every turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hypothesis import given
from hypothesis import strategies as st

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.policy import Policy, Quota
from fleet_app.engine.turns import in_turn
from fleet_app.engine.workload import Workload
from tests.builders import backfill, node, policy, state
from tests.laws.effort import tries

Standing = tuple[tuple[Fraction, ...], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A quota tree, what its teams use, who waits in order, and of which of these the turn ends in an admission."""

    policy: Policy
    waiting: tuple[Workload, ...]
    running: tuple[Workload, ...]
    admitted: frozenset[str]


@st.composite
def contests(draw: st.DrawFn) -> Contest:
    entries: list[Quota] = [Quota(name="root"), Quota(name="alone")]
    for number in range(draw(st.integers(2, 9))):
        parent = draw(st.sampled_from([one.name for one in entries]))
        entries.append(
            Quota(
                name=f"e{number}",
                parent=parent,
                nominal_gpus=draw(st.sampled_from([0, 0, 2, 5])),
                lending_limit_gpus=draw(st.sampled_from([None, None, 0, 2])),
                weight=draw(st.sampled_from([1, 1, 2, 3, 5])),
            )
        )
    parents = {one.parent for one in entries}
    teams = [one.name for one in entries if one.name not in parents] + ["unknown"]
    sizes = st.sampled_from([1, 1, 2, 4])
    waiting = tuple(
        backfill(f"w{number:02}", team=draw(st.sampled_from(teams)), gpus=draw(sizes), submitted_at=float(number))
        for number in range(draw(st.integers(1, 12)))
    )
    running = tuple(
        backfill(f"r{number}", team=draw(st.sampled_from(teams)), gpus=draw(st.integers(1, 6)), on=["n1"])
        for number in range(draw(st.integers(0, 4)))
    )
    chosen = draw(st.sets(st.sampled_from([one.name for one in waiting])))
    rules = Policy(quotas=tuple(entries), classes=policy().classes)
    return Contest(policy=rules, waiting=waiting, running=running, admitted=frozenset(chosen))


@tries(400)
@given(contest=contests())
def test_every_turn_is_the_one_that_a_knock_out_gives(contest: Contest) -> None:
    facts = state(node("n1", gpus=1000), *contest.waiting, *contest.running)
    ledger = Ledger(facts, contest.policy, 100.0)
    use = {one.team: 0 for one in contest.waiting}
    for one in contest.running:
        use[one.team] = use.get(one.team, 0) + one.gpus
    left = list(contest.waiting)
    for line in in_turn(ledger):
        one = line.first
        assert one == Reference(rules=contest.policy, use=use, left=left).next_of_all()
        left.remove(one)
        if one.name in contest.admitted:
            ledger.give(one.team, ("n1",), one.shape, firm=False)
            use[one.team] += one.gpus
    assert left == []


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The knock-out from the facts alone: a tree, what teams use, and who waits, in order."""

    rules: Policy
    use: Mapping[str, int]
    left: list[Workload]

    @cached_property
    def entries(self) -> dict[str, Quota]:
        return {one.name: one for one in self.rules.quotas}

    @cached_property
    def firsts(self) -> dict[str, Workload]:
        return {one.team: one for one in reversed(self.left)}

    def below(self, entry: str) -> list[str]:
        return [one.name for one in self.rules.quotas if one.parent == entry]

    def next_in(self, entry: str) -> Workload | None:
        """Return who stands for an entry: the first of a team, or the best of what lies below."""
        found = [(below, one) for below in self.below(entry) if (one := self.next_in(below)) is not None]
        if not found:
            return self.firsts.get(entry)
        return min(found, key=lambda known: self.standing(known[0], known[1]))[1]

    def next_of_all(self) -> Workload:
        tops = [one.name for one in self.rules.quotas if one.parent is None]
        tops += [team for team in self.firsts if team not in self.entries]
        found = [(top, one) for top in tops if (one := self.next_in(top)) is not None]
        return min(found, key=lambda known: self.standing(known[0], known[1]))[1]

    def standing(self, entry: str, one: Workload) -> Standing:
        """Return what the entry, and those on the way down to the team, would borrow for their weights."""
        after = {**self.use, one.team: self.use.get(one.team, 0) + one.gpus}
        path = [one.team]
        while path[-1] != entry:
            path.append(self.entries[path[-1]].parent or "")
        tops = {name for name in path if name in self.entries and self.entries[name].parent is None}
        shares = [self.borrowed(name, after) for name in reversed(path) if name == one.team or name not in tops]
        while shares and shares[-1] == 0:
            shares.pop()
        return tuple(shares), self.left.index(one)

    def borrowed(self, entry: str, after: Mapping[str, int]) -> Fraction:
        if entry not in self.entries:
            return Fraction(after[entry])
        uses, has, _ = self.books(entry, after)
        return Fraction(max(0, uses - has), self.entries[entry].weight)

    def books(self, entry: str, after: Mapping[str, int]) -> tuple[int, int, int]:
        """Return what an entry uses of what is shared in it, how much that is, and how much of it it never lends."""
        quota, below = self.entries[entry], self.below(entry)
        uses, has = after.get(entry, 0), quota.nominal_gpus
        if below:
            has = max(0, quota.nominal_gpus - sum(self.entries[one].nominal_gpus for one in below))
        for used, had, kept in (self.books(one, after) for one in below):
            uses += max(0, used - kept)
            has += had - kept
        limit = quota.lending_limit_gpus
        return uses, has, 0 if limit is None else max(0, has - limit)
