"""Behind others of a strict queue: who asks for room meanwhile, whose is kept, and that nobody passes (O6, O12)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet_app.engine.ahead import watched
from fleet_app.engine.calendar import Booking
from fleet_app.engine.decide import decide
from fleet_app.engine.explain import explain
from fleet_app.engine.policy import FlavorQuota, Policy
from fleet_app.engine.values import Node
from fleet_app.engine.workload import Workload
from tests import virtual
from tests.builders import backfill, booking, gang, node, nodes, policy, shape, state, team
from tests.scenarios.said import leaves, reasons, starts


def rules(nominal: int = 24, *, most_per_cycle: int | None = None, **caps: int) -> Policy:
    """Return a policy under which team a is strict, and the lodgers' team only borrows."""
    own = [FlavorQuota(flavor=f"{kind}-whole", nominal=gpus) for kind, gpus in caps.items()]
    return policy(
        team("a", nominal=nominal, strict=True, flavors=own),
        team("lent", nominal=0),
        team("other", nominal=24),
        most_per_cycle=most_per_cycle,
    )


def lent(*on: str, gpus: int = 8, grace_s: float = 120.0) -> list[Workload]:
    """Return what fills each of these nodes and may be asked to leave."""
    return [backfill(f"on-{name}", team="lent", gpus=gpus, on=[name], grace_s=grace_s) for name in on]


def queue(*gangs: Workload) -> list[Workload]:
    """Return team a's queue: these, in this order."""
    return [replace(one, team="a", submitted_at=float(place)) for place, one in enumerate(gangs, start=1)]


def small(name: str, **rest: object) -> Workload:
    return gang(name, gpus=4, **rest)  # type: ignore[arg-type]  # a test's keywords


HALF = small("half", team="other", on=["n2"])
FIRM = gang("firm", team="other", on=["n9"])
H100, A100 = node("h1", accelerator="H100"), node("a1", accelerator="A100")
PARTS = {"wide": (1, shape(8)), "thin": (1, shape(4))}

Parts = list[Node | Workload | Booking]
Said = tuple[dict[str, str], dict[str, str]]
"""For whom each that leaves does, and why each waits."""

CASES: dict[str, tuple[Policy, Parts, Said]] = {
    "as many as the nominal covers ask at once": (
        rules(24),
        [*nodes(4), *lent("n1", "n2", "n3", "n4"), *queue(*map(gang, "wxyz"))],
        (
            {"on-n1": "w", "on-n2": "x", "on-n3": "y"},
            {"w": "drain-under-way", "x": "drain-under-way", "y": "drain-under-way", "z": "behind"},
        ),
    ),
    "what is free for one is kept for it": (
        rules(),
        [node("n1"), node("n2", gpus=4), *lent("n1"), *queue(gang("w"), small("x"), small("y"))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "its-turn", "y": "behind"}),
    ),
    "also from later work of others": (
        rules(),
        [
            *(node("n1"), node("n2", gpus=4), *lent("n1")),
            *(*queue(gang("w"), small("x")), small("z", team="other", submitted_at=9.0)),
        ],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "its-turn", "z": "no-room"}),
    ),
    "who leaves for one makes no room for the next": (
        rules(),
        [node("n1", gpus=12), *lent("n1", gpus=12), *queue(gang("w"), small("x"), small("y"))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "drain-under-way", "y": "behind"}),
    ),
    "nobody asks where the first has no room coming": (
        rules(),
        [node("n9"), node("n1", gpus=4), FIRM, *lent("n1", gpus=4), *queue(gang("w"), small("x"))],
        ({}, {"w": "no-room", "x": "behind"}),
    ),
    "nor behind one who has none": (
        rules(),
        [*nodes(2), node("n9"), FIRM, *lent("n1", "n2"), *queue(gang("w"), gang("x", nodes=2), small("y"))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "behind", "y": "behind"}),
    ),
    "what yields has nothing kept": (
        rules(),
        [*nodes(2), *lent("n1"), HALF, *queue(gang("w"), backfill("x"))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "behind"}),
    ),
    "what could never start is told so, and in nobody's way": (
        rules(),
        [*nodes(2), *lent("n1", "n2"), *queue(gang("w"), gang("x", nodes=3), gang("y"), gang("z", gpus=48))],
        (
            {"on-n1": "w", "on-n2": "y"},
            {"w": "drain-under-way", "x": "too-large-for-fleet", "y": "drain-under-way", "z": "too-large-for-fleet"},
        ),
    ),
    "no more than may be asked in a cycle": (
        rules(most_per_cycle=1),
        [*nodes(2), *lent("n1", "n2"), *queue(*map(gang, "wx"))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "behind"}),
    ),
    "who waits for another accelerator is in nobody's way": (
        rules(),
        [
            *(H100, A100, node("a2", accelerator="A100"), *lent("a1", "a2")),
            replace(FIRM, nodes=("h1",)),
            *queue(gang("w", accelerator="H100"), *(gang(name, accelerator="A100") for name in "xy"), gang("z")),
        ],
        (
            {"on-a1": "x", "on-a2": "y"},
            {"w": "no-room", "x": "drain-under-way", "y": "drain-under-way", "z": "behind"},
        ),
    ),
    "an elastic one asks for its minimum": (
        rules(),
        [*nodes(3), *lent("n1", "n2", "n3"), *queue(gang("w"), gang("x", minimum=1, at_most=2))],
        ({"on-n1": "w", "on-n2": "x"}, {"w": "drain-under-way", "x": "drain-under-way"}),
    ),
    "one of several shapes asks too": (
        rules(),
        [*nodes(2), node("n3", gpus=4), *lent("n1", "n2"), *queue(gang("w"), gang("x", groups=PARTS))],
        ({"on-n1": "w", "on-n2": "x"}, {"w": "drain-under-way", "x": "drain-under-way"}),
    ),
    "or has its room kept": (
        rules(),
        [
            *(node("n1", gpus=12), node("n2"), node("n3", gpus=4), *lent("n1", gpus=12)),
            *queue(gang("w", gpus=12), gang("x", groups=PARTS)),
        ],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "its-turn"}),
    ),
    "or could never start": (
        rules(),
        [*nodes(2), *lent("n1"), HALF, *queue(gang("w"), gang("x", groups={"a": (3, shape(1))}))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "too-large-for-fleet"}),
    ),
    "who waits only for a cap asks who yields under it": (
        rules(24, h100=16),
        [
            *(node(f"h{number}", accelerator="H100") for number in range(1, 5)),
            *(backfill(f"own{number}", team="a", gpus=8, on=[f"h{number}"]) for number in (1, 2)),
            *queue(*map(gang, "wx")),
        ],
        ({"own1": "w", "own2": "x"}, {"w": "drain-under-way", "x": "drain-under-way"}),
    ),
    "where its team has booked something it goes there in its turn": (
        rules(),
        [
            *(*nodes(3), *lent("n1", "n2"), booking("run", "n3", team="a", start_at=0.0)),
            *(small("there", team="a", on=["n3"]), *queue(gang("w"), gang("x"))),
        ],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "behind"}),
    ),
    "also where that is free": (
        rules(),
        [
            *(*nodes(3), *lent("n1"), HALF, booking("run", "n3", team="a", start_at=0.0)),
            *(small("there", team="a", on=["n3"]), *queue(gang("w"), small("x"))),
        ],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "behind"}),
    ),
    "what is free is not kept beyond the nominal": (
        rules(8),
        [*nodes(2), *lent("n1"), HALF, *queue(gang("w"), small("x"))],
        ({"on-n1": "w"}, {"w": "drain-under-way", "x": "behind"}),
    ),
}


@pytest.mark.parametrize(("under", "parts", "want"), CASES.values(), ids=CASES)
def test_who_asks_and_who_waits(under: Policy, parts: Parts, want: Said) -> None:
    plan = decide(state(*parts), under, 100.0)
    assert (leaves(plan), dict(reasons(plan))) == want
    assert starts(plan) == {}


LARGE = [node("n1", gpus=12), node("n2"), *lent("n1", gpus=12), *lent("n2"), *queue(gang("w", gpus=12), gang("x"))]


def test_they_start_in_order_however_soon_their_room_is_there() -> None:
    fleet = virtual.cycle(virtual.fleet(rules(), *LARGE, now=100.0))
    fleet = virtual.cycle(virtual.left(fleet, "on-n2"))
    assert dict(reasons(virtual.plan_of(fleet))) == {"on-n2": "no-room", "w": "drain-under-way", "x": "its-turn"}
    assert starts(virtual.plan_of(virtual.left(fleet, "on-n1"))) == {"w": ("n1",), "x": ("n2",)}
    assert len(fleet.drains) == 2


def test_what_is_kept_is_said() -> None:
    parts = [one for one in LARGE if one.name != "on-n2"]
    facts = state(*parts, *queue(gang("v", nodes=9), small("y"))[1:])
    assert explain(facts, rules(), 100.0, "x").sentence == (
        "team a takes its queue strictly in order; w is ahead of it; its 8 GPUs are kept for it"
    )
    _, ahead = watched(facts, rules(), 100.0, "y")
    assert [(one.workload, one.outcome) for one in ahead] == [
        ("w", "waits for 12 GPUs that are coming free for it"),
        ("x", "waits in the same strict queue, with 8 GPUs kept for it"),
    ]


def test_what_another_team_waits_for_is_not_kept_for_one_that_may_only_pass() -> None:
    """O7: x would be gone before the planned start of `wide`, but who knows when it starts."""
    ends = gang("ends", team="other", gpus=4, on=["n1"], max_run_s=600.0)
    wide = gang("wide", team="other", nodes=2, priority=60_000)
    parts = [*nodes(2), node("n3", gpus=4), ends, wide, *lent("n3", gpus=4)]
    line = queue(small("w"), gang("x", max_run_s=60.0, grace_s=30.0))
    plan = decide(state(*parts, *line), rules(), 100.0)
    assert (leaves(plan), reasons(plan)["x"]) == ({"on-n3": "w"}, "behind")
