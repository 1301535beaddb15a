"""Why a workload was interrupted, from its notes."""

from __future__ import annotations

import pytest

from fleet_app.arbiter.notes import Entry, Note, What
from fleet_app.arbiter.past import interruptions, sentence


def notes(*told: tuple[float, What, dict[str, object]]) -> list[Entry]:
    return [
        Entry(seq=seq, note=Note(at=at, kind=kind, subject="x", detail=detail))
        for seq, (at, kind, detail) in enumerate(told, start=1)
    ]


ASKED = (100.0, What.DRAINING, {"beneficiary": "chat", "why": "chat needs 1 GPUs on n1", "chosen": "it loses least"})
EXPIRED = (100.0, What.DRAINING, {"beneficiary": None, "why": "its maximum run time of 2 h is over"})

CASES = {
    "it is leaving": (
        [ASKED],
        "was asked to leave 1 min 40 s ago for chat (chat needs 1 GPUs on n1); it loses least; is leaving",
    ),
    "it left with its work, and is back": (
        [ASKED, (112.0, What.REQUEUED, {"step": 40}), (172.0, What.ADMITTED, {})],
        (
            "was asked to leave 1 min 40 s ago for chat (chat needs 1 GPUs on n1); it loses least; "
            "was gone after 12 s, saved up to step 40; admitted again 1 min later"
        ),
    ),
    "it was killed with nothing saved": (
        [ASKED, (160.0, What.KILLED, {}), (161.0, What.REQUEUED, {"step": None})],
        (
            "was asked to leave 1 min 40 s ago for chat (chat needs 1 GPUs on n1); it loses least; "
            "was killed, and gone after 1 min 1 s, nothing saved"
        ),
    ),
    "its time was over": (
        [EXPIRED, (130.0, What.STOPPED, {})],
        "was asked to leave 1 min 40 s ago (its maximum run time of 2 h is over); was gone after 30 s, nothing saved",
    ),
    "it is to move": (
        [(100.0, What.MOVING, {"beneficiary": "llm", "why": "its leaf is booked"})],
        "was asked to move at its next checkpoint 1 min 40 s ago for llm (its leaf is booked); is leaving",
    ),
    "its node was lost": (
        [(100.0, What.LOST, {"why": "node n1 is gone"}), (101.0, What.REQUEUED, {"step": 8})],
        "node n1 is gone; was gone 1 min 39 s ago, saved up to step 8",
    ),
    "a rank died": (
        [(101.0, What.REQUEUED, {"why": "a rank died on n1", "step": 8})],
        "a rank died on n1; was gone 1 min 39 s ago, saved up to step 8",
    ),
}


@pytest.mark.parametrize(("told", "want"), CASES.values(), ids=CASES)
def test_an_interruption(told: list[tuple[float, What, dict[str, object]]], want: str) -> None:
    assert sentence(interruptions(notes(*told))[0], 200.0) == want


def test_the_latest_comes_first_and_others_are_kept_apart() -> None:
    again = (300.0, What.DRAINING, {"beneficiary": "llm"})
    found = interruptions(notes(ASKED, (112.0, What.REQUEUED, {"step": 1}), (120.0, What.ADMITTED, {}), again))
    assert [(one.beneficiary, one.gone_at, one.back_at) for one in found] == [
        ("llm", None, None),
        ("chat", 112.0, 120.0),
    ]


def test_who_was_never_interrupted_has_no_past() -> None:
    assert interruptions(notes((1.0, What.SUBMITTED, {}), (2.0, What.ADMITTED, {}), (9.0, What.SUCCEEDED, {}))) == ()
