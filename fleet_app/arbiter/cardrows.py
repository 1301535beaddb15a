"""Cards and parts of them, as the control API shows them: plain dicts of JSON values. Pure.

Knows records and the last snapshot. Does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleet_app.arbiter.records import GrantRecord, Record
from fleet_app.engine.cards import Slice
from fleet_app.engine.plan import Plan, Repartition
from fleet_app.engine.values import Node

Row = dict[str, Any]


def part(wanted: Slice | None) -> Row | None:
    """Return the part of a card that somebody asks for or has; None for whole GPUs."""
    return None if wanted is None else {"profile": wanted.profile, "share": wanted.share, "text": wanted.text}


def users(records: Iterable[Record], grants: Iterable[GrantRecord]) -> dict[tuple[str, int], list[Row]]:
    """Return by node and card who has part of it."""
    found: dict[tuple[str, int], list[Row]] = {}
    for record in records:
        job = record.workload
        if job.slice is not None and job.card is not None and job.holding:
            found.setdefault((job.nodes[0], job.card), []).append({"what": job.name, "part": part(job.slice)})
    for grant in grants:
        if grant.slice is not None and grant.card is not None:
            found.setdefault((grant.node, grant.card), []).append({"what": grant.service, "part": part(grant.slice)})
    return found


def cards(node: Node, on: dict[tuple[str, int], list[Row]]) -> list[Row]:
    """Return a row for each card of a node: its layout, the one that it is about to have, and who is on it."""
    return [
        {
            "index": card.index,
            "layout": list(card.layout),
            "becomes": None if card.becomes is None else list(card.becomes),
            "users": on.get((node.name, card.index), []),
            "foreign": [part(one) for one in card.foreign],
        }
        for card in node.cards
    ]


def layouts(plan: Plan) -> list[Row]:
    """Return a row for each node whose cards should have other layouts, by name: for whoever can change them."""
    found: dict[str, list[Repartition]] = {}
    for action in plan.actions:
        if isinstance(action, Repartition):
            found.setdefault(action.node, []).append(action)
    return [
        {
            "kind": "layout",
            "subject": name,
            "cards": [{"index": one.card, "layout": list(one.layout)} for one in actions],
            "sentence": _sentence(actions),
        }
        for name, actions in sorted(found.items())
    ]


def _sentence(actions: Sequence[Repartition]) -> str:
    indexes = ", ".join(str(one.card) for one in actions)
    layout = actions[0].layout
    becomes = " + ".join(f"{layout.count(name)} x {name}" for name in dict.fromkeys(layout)) or "whole"
    return f"card{'s' if len(actions) > 1 else ''} {indexes} should be {becomes}: {actions[0].why}"
