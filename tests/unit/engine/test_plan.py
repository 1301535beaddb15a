"""A plan has one answer for all who ask for the same, and a wait for everybody."""

from __future__ import annotations

from fleet_app.engine.plan import Alike, Plan, Reason, Wait

FIRST = Wait(workload="m", reason=Reason.NO_ROOM, asked=2, available=1, planned_at=9.0, planned_after="x")
OTHER = Wait(workload="b", reason=Reason.QUOTA_USED, asked=8, available=0)
PLAN = Plan(answers=(OTHER, FIRST), alike=(Alike("m", ("a", "z")),))


def test_everybody_has_a_wait_by_name() -> None:
    assert [(one.workload, one.reason) for one in PLAN.waits] == [
        ("a", Reason.NO_ROOM),
        ("b", Reason.QUOTA_USED),
        ("m", Reason.NO_ROOM),
        ("z", Reason.NO_ROOM),
    ]


def test_a_planned_start_is_its_own() -> None:
    assert [one.planned_at for one in PLAN.waits] == [None, None, 9.0, None]


def test_a_wait_is_found_by_name() -> None:
    assert PLAN.wait_of("z") == Wait(workload="z", reason=Reason.NO_ROOM, asked=2, available=1)
    assert PLAN.wait_of("m") == next(one for one in PLAN.waits if one.workload == "m")
    assert PLAN.wait_of("nobody") is None
