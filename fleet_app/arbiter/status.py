"""What the journal says, as the control API shows it: plain dicts of JSON values. Pure.

Knows records and the last snapshot; asks nobody. Does not know HTTP.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from fleet_app.arbiter import cardrows, wanted
from fleet_app.arbiter.journal import Snapshot
from fleet_app.arbiter.notes import Entry
from fleet_app.arbiter.past import SHOWN, interruptions, sentence
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import GrantRecord, Record
from fleet_app.engine import headroom
from fleet_app.engine.boundary import recommend as recommend_crossings
from fleet_app.engine.calendar import Booking
from fleet_app.engine.compaction import Compaction, compact
from fleet_app.engine.expected import Expected
from fleet_app.engine.explain import explain as engine_explain
from fleet_app.engine.explain import sentence_of
from fleet_app.engine.failures import Quarantined
from fleet_app.engine.fragments import Picture, survey
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.outlook import Outlook, outlook
from fleet_app.engine.plan import Wait
from fleet_app.engine.policy import Policy
from fleet_app.engine.rightsize import recommend
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Group

Row = dict[str, object]


def counts(phases: Mapping[str, int], spooled: int = 0) -> dict[str, int]:
    """Return how many workloads are in each phase, every phase named; those that nobody has taken in yet are queued."""
    return {phase.value: phases.get(phase, 0) + spooled * (phase is Phase.QUEUED) for phase in Phase}


def held_free(snapshot: Snapshot | None, policy: Policy) -> Row:
    """Return how many GPUs the immediate tier holds, and why where that is a forecast (S7)."""
    growth = None if snapshot is None else snapshot.state.growth_gpus
    rules = policy.headroom
    return {
        "gpus": headroom.immediate_gpus(rules, growth),
        "growth_gpus": growth,
        "sentence": headroom.sentence(rules, growth) or None,
    }


def workloads(records: Iterable[Record], snapshot: Snapshot | None, policy: Policy) -> list[Row]:
    """Return a row for each workload, those that have not ended first, then by submission."""
    waits = {wait.workload: wait for wait in snapshot.plan.waits} if snapshot else {}
    classes = {known.value: known.name for known in policy.classes}
    ordered = sorted(records, key=lambda r: (r.ended_at is not None, r.workload.submitted_at, r.name))
    at, booked = (snapshot.at, snapshot.state.bookings) if snapshot else (0.0, ())
    return [
        _workload(record, classes, waits.get(record.name), at) | {"booking": _booking_of(record, booked)}
        for record in ordered
        if not record.forgotten
    ]


def _booking_of(record: Record, booked: Iterable[Booking]) -> str | None:
    """Return the booking of its team in which a workload began, and has all of its nodes."""
    workload = record.workload
    for booking in booked:
        began = workload.admitted_at is not None and booking.at(workload.admitted_at)
        if workload.holding and began and workload.team == booking.team and set(workload.nodes) <= set(booking.nodes):
            return booking.name
    return None


def _workload(record: Record, classes: Mapping[int, str], wait: Wait | None, at: float) -> Row:
    workload = record.workload
    queued = workload.phase is Phase.QUEUED and wait is not None
    return {
        "name": workload.name,
        "kind": workload.kind.value,
        "team": workload.team,
        "priority": classes.get(workload.priority, str(workload.priority)),
        "phase": workload.phase.value,
        "attempt": workload.attempt,
        "bundles": workload.bundles,
        "gpus_per_bundle": workload.shape.gpus,
        "part": cardrows.part(workload.slice),
        "card": workload.card,
        "groups": [_group(group) for group in workload.groups],
        "min_bundles": workload.minimum,
        "nodes": list(workload.nodes),
        "leaving_nodes": list(workload.going),
        "submitted_at": workload.submitted_at,
        "admitted_at": workload.admitted_at,
        "started_at": workload.started_at,
        "ended_at": record.ended_at,
        "max_run_s": workload.max_run_s,
        "planned_at": wait.planned_at if queued and wait else None,
        "deadline_at": workload.deadline_at,
        "drained_for": workload.drained_for,
        "broken_drains": workload.broken_drains,
        "step": record.step,
        "checkpoint": None if record.checkpoint is None else asdict(record.checkpoint),
        "reason": wait.reason.value if queued and wait else None,
        "message": sentence_of(wait, workload, now=at) if queued and wait else record.message,
    }


def _group(group: Group) -> Row:
    return {"name": group.name, "bundles": group.bundles, **asdict(group.shape)}


def nodes(
    snapshot: Snapshot | None, records: Iterable[Record], grants: Iterable[GrantRecord], policy: Policy
) -> list[Row]:
    """Return a row for each node of the last snapshot, in the order of the fabric."""
    if snapshot is None:
        return []
    records, grants = tuple(records), tuple(grants)
    holders, on = _holders(snapshot, records, grants), cardrows.users(records, grants)
    kept_out = {told.node: told for told in snapshot.state.quarantines if told.released_at is None}
    crossing = {one.node: one.to.value for one in snapshot.state.crossings if one.under_way}
    leaving = {one.node: one.why for one in snapshot.state.departures}
    ordered = sorted(snapshot.state.nodes, key=lambda node: (node.domains, node.name))
    rows = [
        _node(node, holders[node.name], policy, kept_out.get(node.name)) | {"cards": cardrows.cards(node, on)}
        for node in ordered
    ]
    booked = _booked(snapshot)
    return [
        row
        | {
            "becomes": crossing.get(str(row["name"])),
            "departs": leaving.get(str(row["name"])),
            "bookings": booked[str(row["name"])],
        }
        for row in rows
    ]


def _booked(snapshot: Snapshot) -> defaultdict[str, list[Row]]:
    """Return by node for whom it is booked, the earliest first."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for booking in sorted(snapshot.state.bookings, key=lambda one: (one.start_at, one.name)):
        for node in booking.nodes:
            row = {"name": booking.name, "team": booking.team, "gpus": booking.shape.gpus}
            found[node].append(row | {"start_at": booking.start_at, "end_at": booking.end_at})
    return found


def _holders(
    snapshot: Snapshot, records: Iterable[Record], grants: Iterable[GrantRecord]
) -> defaultdict[str, list[Row]]:
    """Return by node who has GPUs there, or has them kept."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for record in records:
        if record.workload.holding:
            for node, shape in record.workload.seats:
                found[node].append({"what": record.name, "kind": record.workload.phase.value, "gpus": shape.gpus})
    for grant in grants:
        kind = "replica" if grant.occupied else "grant"
        found[grant.node].append({"what": grant.service, "kind": kind, "gpus": grant.shape.gpus})
    for hold in snapshot.plan.holds:
        found[hold.node].append({"what": hold.beneficiary, "kind": "hold", "gpus": hold.shape.gpus})
    return found


def _node(node: Node, holders: list[Row], policy: Policy, told: Quarantined | None) -> Row:
    used = sum(int(str(holder["gpus"])) for holder in holders)
    free = node.capacity.gpus - node.foreign.gpus - used
    return {
        "name": node.name,
        "class": node.node_class.value,
        "domains": dict(zip(policy.levels, node.domains, strict=False)),
        "accelerator": node.accelerator,
        "condition": (Condition.QUARANTINED if told and node.placeable else node.condition).value,
        "quarantine": None if told is None else _quarantine(told),
        "gpus_total": node.capacity.gpus,
        "gpus_free": 0 if node.condition is Condition.DOWN else max(0, free),
        "gpus_foreign": node.foreign.gpus,
        "foreign_owners": list(node.foreign_owners),
        "holders": holders,
        "machine": node.machine or None,
        "pod": node.pod or None,
    }


def _quarantine(told: Quarantined) -> Row:
    return {"reason": told.reason, "owner": told.owner, "since": told.since, "until": told.until}


def services(demands: Iterable[Demand], grants: Iterable[GrantRecord], snapshot: Snapshot | None) -> list[Row]:
    """Return a row for each service, by name."""
    waits = {wait.workload: wait for wait in snapshot.plan.waits} if snapshot else {}
    known = list(grants)
    return [_service(demand, known, waits.get(demand.service)) for demand in sorted(demands, key=lambda d: d.service)]


def _service(demand: Demand, grants: Iterable[GrantRecord], wait: Wait | None) -> Row:
    own = [grant for grant in grants if grant.service == demand.service]
    return {
        "name": demand.service,
        "team": demand.team,
        "shape": asdict(demand.shape),
        "part": cardrows.part(demand.slice),
        "wanted": demand.wanted,
        "floor": demand.floor,
        "grants": len(own),
        "occupied": sum(grant.occupied for grant in own),
        "nodes": [grant.node for grant in own],
        "affinity": None if demand.affinity is None else asdict(demand.affinity),
        "reason": None if wait is None else wait.reason.value,
    }


def explain(snapshot: Snapshot, policy: Policy, name: str, entries: Iterable[Entry] = ()) -> Row:
    """Return why a workload or service is as it is, with the numbers behind the sentence.

    `entries` are what the journal says happened to it: from them comes why it was interrupted before.

    Raises NotFoundError when nothing of that name has not ended.
    """
    found = engine_explain(snapshot.state, policy, snapshot.at, name)
    wait = found.wait
    numbers: Row = {
        "reason": None if wait is None else wait.reason.value,
        "asked": None if wait is None else wait.asked,
        "available": None if wait is None else wait.available,
        "level": None if wait is None else wait.level,
        "group": (wait.group or None) if wait else None,
        "rooms": [] if wait is None else [asdict(room) for room in wait.rooms],
        "blocked_by": [] if wait is None else list(wait.blocked_by),
        "planned_at": None if wait is None else wait.planned_at,
        "planned_after": (wait.planned_after or None) if wait else None,
    }
    return {
        "name": name,
        "sentence": found.sentence,
        "estimate": None if found.expected is None else _estimate(found.expected, snapshot.at),
        "ahead": [one.workload for one in found.ahead],
        "turns": [asdict(one) for one in found.ahead],
        "past": past(entries, snapshot.at),
        **numbers,
    }


def _estimate(found: Expected, now: float) -> Row:
    """Return when somebody who waits may start, and in words that this is an estimate (O9)."""
    return asdict(found) | {"sentence": found.sentence(now)}


def past(entries: Iterable[Entry], now: float) -> list[Row]:
    """Return a row for each of the latest interruptions of a workload, the latest first."""
    told = interruptions(entries)[:SHOWN]
    return [asdict(one) | {"sentence": sentence(one, now)} for one in told]


def recommendations(snapshot: Snapshot | None, policy: Policy, price: float) -> list[Row]:
    """Return a row for all that could be smaller, the most GPUs first, then for layouts that cards should have.

    `price` is that of a GPU-hour.
    """
    if snapshot is None:
        return []
    found = recommend(snapshot.state, policy, snapshot.at)
    smaller: list[Row] = [
        asdict(one)
        | {"saved_gpus": one.saved_gpus, "saved_per_day": one.saved_gpus * 24 * price, "sentence": one.sentence}
        | {"kind": "size"}
        for one in found
    ]
    return smaller + cardrows.layouts(snapshot.plan)


def fragments(snapshot: Snapshot | None, policy: Policy, *, plan: bool = False, most_nodes: int | None = None) -> Row:
    """Return how the free GPUs lie, and with `plan` what to move so that at most `most_nodes` more nodes are whole.

    `plan` is None where it was not asked for, or where nobody has looked at the fleet yet.
    """
    if snapshot is None:
        return {"pictures": [], "plan": None}
    state, holds = snapshot.state, snapshot.plan.holds
    moves = _compaction(compact(state, policy, snapshot.at, holds, most_nodes)) if plan else None
    return {"pictures": [_picture(each) for each in survey(state, policy, holds)], "plan": moves}


def _picture(picture: Picture) -> Row:
    return asdict(picture) | {
        "fits": [asdict(fit) for fit in picture.fits],
        "blocks": [asdict(block) | {"gangs": [asdict(fit) for fit in block.gangs]} for block in picture.blocks],
    }


def boundary(snapshot: Snapshot | None, policy: Policy, rows: Sequence[tuple[str, int]]) -> Row:
    """Return which nodes should cross to another class, from what was wanted so far; and which do (B1 to B3)."""
    if snapshot is None or policy.boundary is None:
        return {"plan": None, "crossings": []}
    state, now, seen = snapshot.state, snapshot.at, Outlook()
    known = wanted.history_of(rows)
    if known is not None:
        seen = outlook(known, known.last_at, policy.boundary)
    found = recommend_crossings(state, policy, now, seen, snapshot.plan)
    return {"plan": asdict(found), "crossings": [asdict(one) for one in state.crossings]}


def _compaction(found: Compaction) -> Row:
    moves = [asdict(move) | {"kind": move.kind.value} for move in found.moves]
    return asdict(found) | {"moves": moves, "freed_nodes": list(found.freed_nodes)}
