"""Answers that the steps of one decision share, so that each is found out once.

Knows nothing of what they mean: whoever finds something out keeps it here, by what it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fleet_app.engine.values import Block, Node
from fleet_app.engine.workload import Workload


@dataclass(slots=True)
class Memo:
    """What the steps found out already in this decision, by what it depends on; each is kept by who finds it out."""

    eligible: dict[object, list[Node]] = field(default_factory=dict)
    accelerators: dict[int, tuple[list[Node], list[str]]] = field(default_factory=dict)
    """The accelerators of a list of nodes, by its identity, beside the list itself (V9)."""
    places: dict[int, tuple[Sequence[Node], dict[str, int]]] = field(default_factory=dict)
    """Where each node is in a list of nodes, by the identity of the list, beside the list itself."""
    most_ever: dict[object, list[int]] = field(default_factory=dict)
    could_be_placed: dict[object, bool] = field(default_factory=dict)
    blocks: dict[object, dict[Block, list[Node]]] = field(default_factory=dict)
    indexes: dict[object, object] = field(default_factory=dict)
    cheapest_on: dict[object, tuple[Workload, ...] | None] = field(default_factory=dict)
    uplinks: set[tuple[str, ...]] | None = None
    saving: set[str] = field(default_factory=set)
    """Who was asked to leave or to move by plan in this decision (D7)."""
    put_off: dict[str, str] = field(default_factory=dict)
    """Who is to leave or to move by plan and was not asked yet, and for whom (D7)."""
    asked: int = 0
    """How many were asked to leave for gangs in this decision (R9)."""
    short: bool = False
    """Whether a service waits for anything that it is to have, headroom included (S1, S4)."""
    keepers: int = 0
    """For how many that wait anything was kept in this decision (O11)."""
