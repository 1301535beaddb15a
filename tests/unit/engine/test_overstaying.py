"""What is still there after its booking moves for its owner, and for nobody else (C7)."""

from __future__ import annotations

import pytest

from fleet_app.engine.calendar import Booking
from fleet_app.engine.decide import decide
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Move
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests.builders import backfill, booking, gang, node, policy, shape, state, team, transfer

RULES = policy(team("research", nominal=8), team("vision", nominal=16))
NODES = [node("n1"), node("n2"), node("n3")]
WAS = booking("run", "n1", "n2", transfers=[transfer("vision", 8)])
STAYS = [gang(f"stays-{n}", on=[f"n{n}"], started_at=1500.0 + n, movable=True) for n in (1, 2)]
TAKEN = gang("taken", team="vision", on=["n3"])
OWNER = gang("owner", team="vision", submitted_at=2100.0)
MIXED = gang("owner", team="vision", groups={"gpu": (1, shape(8)), "cpu": (1, shape(0, cpus=1))}, submitted_at=2100.0)
Parts = list[Node | Workload | Booking]

CASES: dict[str, tuple[Parts, list[str]]] = {
    "one of two moves, the one that loses least": ([WAS, *STAYS, TAKEN, OWNER], ["stays-2"]),
    "for an owner of several shapes too": ([WAS, *STAYS, TAKEN, MIXED], ["stays-2"]),
    "nobody where the owner finds room": ([WAS, *STAYS, OWNER], []),
    "nobody while nobody inside its nominal waits": ([WAS, *STAYS, TAKEN], []),
    "nobody for what is above its own nominal": ([WAS, *STAYS, TAKEN, gang("owner", team="vision", nodes=2)], []),
    "nobody who does not hear it": (
        [WAS, *(gang(one.name, on=one.nodes, started_at=1500.0) for one in STAYS), TAKEN, OWNER],
        [],
    ),
    "nobody who is inside its team's nominal": ([WAS, STAYS[0], gang("x", team="gone", on=["n2"]), TAKEN, OWNER], []),
    "nobody while the booking lasts": (
        [booking("run", "n1", "n2", transfers=[transfer("vision", 8)], end_at=9000.0), *STAYS, TAKEN, OWNER],
        [],
    ),
    "nobody who began after it": (
        [WAS, *(gang(one.name, on=one.nodes, started_at=2050.0, movable=True) for one in STAYS), TAKEN, OWNER],
        [],
    ),
    "nobody more while one is moving": (
        [WAS, gang("stays-1", on=["n1"], movable=True, phase=Phase.DRAINING), STAYS[1], TAKEN, OWNER],
        [],
    ),
    "nobody for what yields": ([WAS, *STAYS, TAKEN, backfill("owner", gpus=8, team="vision")], []),
}


@pytest.mark.parametrize(("parts", "want"), CASES.values(), ids=CASES)
def test_who_moves(parts: Parts, want: list[str]) -> None:
    plan = decide(state(*NODES, *parts), RULES, 2100.0)
    assert [action.workload for action in plan.actions if isinstance(action, Move)] == want


def test_a_move_says_for_whom() -> None:
    plan = decide(state(*NODES, WAS, *STAYS, TAKEN, OWNER), RULES, 2100.0)
    (move,) = [action for action in plan.actions if isinstance(action, Move)]
    assert move.beneficiary == "owner"
    assert move.why == "its booking is over, and owner needs 8 GPUs inside its team's nominal"
