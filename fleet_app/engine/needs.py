"""How many replicas each service is to have, in three tiers: floor, wanted, immediate headroom (S1, S4, S7, S8).

Knows services, their grants and nominal quota. Does not know nodes' room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from fleet_app.engine.ledger import Ledger
from fleet_app.engine.ordering import by_precedence
from fleet_app.engine.policy import Affinity
from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Grant, Service


@dataclass(slots=True)
class Need:
    """A service with the grants that it keeps, and how many it is to have in each tier."""

    service: Service
    kept: list[Grant]
    floor: int
    wanted: int
    immediate: int = 0
    affinity: Affinity | None = None
    apart: tuple[Need, ...] = ()
    spread_depth: int = 0

    @property
    def target(self) -> int:
        """Return how many grants it is to have in all."""
        return self.wanted + self.immediate

    @property
    def below_floor(self) -> bool:
        """Return whether it has less than what it is never trimmed below."""
        return len(self.kept) < self.floor

    @property
    def idle(self) -> list[Grant]:
        """Return the grants from before this decision that no replica has taken, by place."""
        return [grant for grant in self.kept if grant.name and not grant.occupied]


Spare = tuple[Need, Grant]


def needs_of(ledger: Ledger, services: Iterable[Service], immediate_gpus: int) -> list[Need]:
    """Return what each service needs, first to be served first (O2), with so many GPUs held free (S7)."""
    needs = [_need(ledger, service) for service in by_precedence(services)]
    _share_immediate(ledger, [need for need in needs if need.service.slice is None], immediate_gpus)
    if ledger.policy.affinities or any(need.service.affinity is not None for need in needs):
        _set_apart(ledger, needs)
    return needs


def surplus(need: Need) -> tuple[list[Grant], list[Grant]]:
    """Return the idle grants on nodes that may take nothing new, and those that are kept beyond the target (S5)."""
    idle = need.idle
    names = {grant.name for grant in idle}
    gone = [grant for grant in need.service.grants if not grant.occupied and grant.name not in names]
    return _by_place(gone), idle[::-1][: max(0, len(need.kept) - need.target)]


def spare(needs: Sequence[Need], need: Need) -> list[Spare]:
    """Return the idle grants of others that `need` may have (S6).

    Those beyond what they want; for one that is below its floor also those beyond their floors (S3).
    """
    found: list[Spare] = []
    for other in needs:
        beyond = len(other.kept) - (other.floor if need.below_floor else other.wanted)
        if other is not need and beyond > 0:
            found += [(other, grant) for grant in other.idle[:beyond]]
    return found


def _need(ledger: Ledger, service: Service) -> Need:
    kept = _by_place(service.grants)
    if ledger.calendar is not None:
        kept = [grant for grant in kept if not ledger.calendar.closing(grant.node)]
    idle = [grant for grant in kept if not grant.occupied]
    occupied = len(kept) - len(idle)
    if not all(_usable(ledger, grant) for grant in idle):
        kept = [grant for grant in kept if _counts(ledger, grant)]
    wanted = max(service.wanted, service.floor)
    return Need(service=service, kept=kept, floor=service.floor, wanted=max(wanted, occupied))


def _counts(ledger: Ledger, grant: Grant) -> bool:
    """Return whether a grant counts that its replica need not leave, so that the next has its place first (C8)."""
    return grant.occupied or _usable(ledger, grant)


def _set_apart(ledger: Ledger, needs: Sequence[Need]) -> None:
    """Give each need its affinity, and those that it must be apart from (S8).

    Of two it does not matter which of them the policy names with the other; what one asks itself binds itself and its
    own team.
    """
    rules, levels = {one.service: one for one in ledger.policy.affinities}, ledger.policy.levels
    for need in needs:
        need.affinity = known = _stricter(rules.get(need.service.name), need.service.affinity)
        need.spread_depth = levels.index(known.spread) + 1 if known is not None and known.spread in levels else 0
        need.apart = tuple(one for one in needs if one is not need and _are_apart(rules, need.service, one.service))


def _stricter(rule: Affinity | None, own: Affinity | None) -> Affinity | None:
    """Return what the policy and a service itself say together; over which level it is spread the policy says first."""
    if rule is None or own is None:
        return rule or own
    most = [one.per_node for one in (rule, own) if one.per_node is not None]
    spread = own.spread if rule.spread is None else rule.spread
    return replace(rule, spread=spread, per_node=min(most, default=None))


def _are_apart(rules: Mapping[str, Affinity], service: Service, other: Service) -> bool:
    """Return whether a service's next replica must not be beside the other's."""
    named = _names(rules.get(service.name), other) or _names(rules.get(other.name), service)
    return named or _names(service.affinity, other) or (service.team == other.team and _names(other.affinity, service))


def _names(affinity: Affinity | None, other: Service) -> bool:
    return affinity is not None and other.name in affinity.apart_from


def _usable(ledger: Ledger, grant: Grant) -> bool:
    node = ledger.nodes.get(grant.node)
    usable = node is not None and (node.placeable or ledger.in_doubt(node))
    return usable and node is not None and node.node_class is NodeClass.SERVING


def _by_place(grants: Iterable[Grant]) -> list[Grant]:
    return sorted(grants, key=attrgetter("node", "name"))


def _whole_turns(needs: Sequence[Need], room: dict[str, int], left: int) -> int:
    """Give as many replicas each as are sure to be had by all, at once; return the GPUs that this takes."""
    turn: dict[str, int] = {}
    for need in needs:
        turn[need.service.team] = turn.get(need.service.team, 0) + need.service.shape.gpus
    if not turn or min(need.service.shape.gpus for need in needs) <= 0:
        return 0
    count = max(0, min(left // sum(turn.values()), *(room[team] // gpus for team, gpus in turn.items())))
    for need in needs:
        need.immediate += count
    for team, gpus in turn.items():
        room[team] -= count * gpus
    return count * sum(turn.values())


def _share_immediate(ledger: Ledger, needs: Sequence[Need], left: int) -> None:
    """Spread the immediate tier over the services in turn, whole replicas, inside each team's nominal (S4)."""
    room = {need.service.team: ledger.tree.nominal(need.service.team) for need in needs}
    for need in needs:
        room[need.service.team] -= need.wanted * need.service.shape.gpus
    left -= _whole_turns(needs, room, left)
    moved = True
    while moved:
        moved = False
        for need in needs:
            gpus = need.service.shape.gpus
            if 0 < gpus <= min(left, room[need.service.team]):
                need.immediate += 1
                room[need.service.team] -= gpus
                left -= gpus
                moved = True
