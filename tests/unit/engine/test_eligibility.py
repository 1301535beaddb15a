"""Where a workload may run, full or not (P4 to P6, O4, D4)."""

from __future__ import annotations

import pytest

from fleet_app.engine.eligibility import asker, depth, distrusted, eligible, passed, unreserved
from fleet_app.engine.ends import Start
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Condition, Node
from fleet_app.engine.workload import Service, Workload
from tests.builders import COMMITTED, backfill, gang, node, policy, service, shape, state, team

TRAINING, SERVING_NODE = node("t"), node("v", serving=True)

CASES = {
    "what never yields keeps to training": ([TRAINING, SERVING_NODE], gang("x"), ["t"]),
    "what yields runs anywhere": ([TRAINING, SERVING_NODE], backfill("x"), ["t", "v"]),
    "after too many broken drains it keeps to training": (
        [TRAINING, SERVING_NODE],
        backfill("x", broken_drains=3),
        ["t"],
    ),
    "with several bundles not beside replicas": (
        [TRAINING, SERVING_NODE, service(on=["v"])],
        backfill("x", nodes=2),
        ["t"],
    ),
    "with one bundle beside replicas": ([SERVING_NODE, service(on=["v"])], backfill("x"), ["v"]),
    "the accelerator it asked for": (
        [node("a", accelerator="a100"), node("h", accelerator="h100")],
        gang("x", accelerator="h100"),
        ["h"],
    ),
    "no node in doubt": ([node("t", condition=Condition.CORDONED)], gang("x"), []),
    "a full one all the same": ([TRAINING, gang("y", on=["t"])], gang("x"), ["t"]),
}


@pytest.mark.parametrize(("parts", "workload", "want"), CASES.values(), ids=CASES)
def test_eligible(parts: list[Node | Workload | Service], workload: Workload, want: list[str]) -> None:
    ledger = Ledger(state(*parts), policy(), 0.0)
    assert [one.name for one in eligible(ledger, workload)] == want


AHEAD = gang("ahead", team="a")

RESERVED = {
    "kept for itself": (AHEAD, True),
    "later work that never yields does not pass": (gang("x", team="b"), False),
    "backfill does: it leaves when asked": (backfill("x", team="b"), True),
    "not of a higher priority": (backfill("x", team="a", priority=COMMITTED + 1), False),
}


@pytest.mark.parametrize(("workload", "want"), RESERVED.values(), ids=RESERVED)
def test_unreserved(workload: Workload, want: bool) -> None:
    ledger = Ledger(state(TRAINING), policy(team("a"), team("b", nominal=4)), 0.0)
    ledger.reserved["t"] = AHEAD
    assert bool(unreserved(ledger, workload, [TRAINING]) or workload is AHEAD) is want


LEVELS = {"anywhere": (None, 0), "the outermost": ("spine", 1), "below it": ("leaf", 2), "no such level": ("pod", 0)}


@pytest.mark.parametrize(("within", "want"), LEVELS.values(), ids=LEVELS)
def test_depth(within: str | None, want: int) -> None:
    assert depth(Ledger(state(), policy(), 0.0), gang("x", within=within)) == want


def test_asker_is_what_the_workload_looks_for() -> None:
    found = asker(Ledger(state(), policy(), 0.0), gang("x", nodes=3, gpus=4, within="leaf", submitted_at=7.0))
    want = Asker(name="x", team="research", priority=COMMITTED, shape=shape(4), bundles=3, depth=2, since=7.0)
    assert (found, found.gpus) == (want, 12)


@pytest.mark.parametrize(("broken", "want"), [(0, False), (2, False), (3, True), (4, True)])
def test_distrusted(broken: int, want: bool) -> None:
    assert distrusted(Ledger(state(), policy(max_broken=3), 0.0), backfill("x", broken_drains=broken)) is want


PASSED = {
    "for whom it would be gone in time": (gang("x", max_run_s=80.0), ("later",)),
    "for both": (gang("x", max_run_s=10.0, grace_s=10.0), ("sooner", "later")),
    "for nobody without an end": (gang("x"), ()),
}


@pytest.mark.parametrize(("workload", "want"), PASSED.values(), ids=PASSED)
def test_passed(workload: Workload, want: tuple[str, ...]) -> None:
    ledger = Ledger(state(), policy(), 0.0)
    for name, asked_at in (("sooner", 50.0), ("later", 200.0)):
        ledger.starts[name] = Start(asked_at=asked_at, at=asked_at + 600.0, after="last")
    assert passed(ledger, workload) == want
