"""Whether a policy lets a team ask for something at all: teams, classes, sizes.

For workloads and services alike. Knows the policy and one ask.
Does not know what is free or used: what passes here may still have to wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet_app.policy.problems import Problem, closest
from fleet_app.policy.schema import Entry, PolicyFile, entries, may_use, nominal_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks for how much: `gpus` GPUs a bundle, `total_gpus` in all, at the class named `priority`."""

    kind: str
    team: str
    priority: str
    gpus: int
    total_gpus: int


def check_ask(ask: Ask, policy: PolicyFile) -> list[Problem]:
    """Return why the policy would never let this be, as far as the ask itself tells."""
    return [*_bundle(ask, policy), *_priority(ask, policy), *_team(ask, policy)]


def _bundle(ask: Ask, policy: PolicyFile) -> Iterator[Problem]:
    if ask.gpus > policy.topology.gpus_per_node:
        yield Problem(
            path=("gpus",),
            what=f"is {ask.gpus} a bundle, but a node has {policy.topology.gpus_per_node}",
            fix="Ask for fewer GPUs a bundle",
        )


def _priority(ask: Ask, policy: PolicyFile) -> Iterator[Problem]:
    if ask.priority not in policy.classes:
        yield Problem(
            path=("priority",),
            what=f"class {ask.priority!r} is unknown",
            fix=closest(ask.priority, _open_classes(policy)),
        )
        return
    if ask.kind != "service" and ask.priority == policy.default_class.service:
        yield Problem(
            path=("priority",),
            what=f"class {ask.priority!r} is for services only",
            fix=f"Choose of: {', '.join(_open_classes(policy))}",
        )
    if ask.kind == "backfill" and not policy.classes[ask.priority].yields:
        yield Problem(
            path=("priority",),
            what=f"class {ask.priority!r} does not yield, but backfill always does",
            fix="Submit it with kind: gang, or at a class that yields",
        )


def _open_classes(policy: PolicyFile) -> list[str]:
    return sorted(set(policy.classes) - {policy.default_class.service})


def _team(ask: Ask, policy: PolicyFile) -> Iterator[Problem]:
    known = {entry.name: entry for entry in entries(policy)}
    teams = [entry.name for entry in known.values() if entry.is_team]
    entry = known.get(ask.team)
    if entry is None:
        yield Problem(path=("team",), what=f"team {ask.team!r} is unknown", fix=closest(ask.team, teams))
        return
    if not entry.is_team:
        below = [other.name for other in known.values() if other.is_team and ask.team in other.path]
        yield Problem(
            path=("team",), what=f"{ask.team!r} is an organisation", fix=f"Name one of its teams: {', '.join(below)}"
        )
        return
    if ask.priority in policy.classes:
        yield from _entitlement(ask, entry, policy)


def _entitlement(ask: Ask, entry: Entry, policy: PolicyFile) -> Iterator[Problem]:
    """What the team may never have at this class, whatever is free (rules Q1 to Q3)."""
    priority = policy.classes[ask.priority]
    if not may_use(entry, priority):
        allowed = [name for name, other in policy.classes.items() if may_use(entry, other)]
        yield Problem(
            path=("priority",),
            what=f"team {ask.team!r} may not submit at class {ask.priority!r}",
            fix=f"It may at: {', '.join(sorted(allowed)) or 'none'}",
        )
        return
    most = _most_gpus(entry, policy, borrows=priority.borrows)
    if ask.total_gpus > most:
        way = "with all it may borrow" if priority.borrows else "of its own, and this class does not borrow"
        yield Problem(
            path=("team",),
            what=f"asks {ask.total_gpus} GPUs, but team {ask.team!r} has at most {most} {way}",
            fix="Ask for less, raise the team's quota, or choose another team or class",
        )


def _most_gpus(entry: Entry, policy: PolicyFile, *, borrows: bool) -> int:
    """Return the most that a team can ever have at once: its nominal, and what its cohort could lend it."""
    own = nominal_gpus(entry.team)
    if not borrows:
        return own
    cohort = nominal_gpus(policy.organisations[entry.path[0]])
    limit = entry.team.borrowing_limit
    return cohort if limit is None else min(cohort, own + limit)
