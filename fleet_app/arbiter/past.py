"""Why a workload was interrupted, from what the journal says happened to it: as values, and as sentences. Pure.

Knows the notes of one workload. Does not know the fleet as it is: what it waits for now is the engine's to explain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleet_app.arbiter.notes import Entry, Note, What
from fleet_app.engine.ends import spoken

SHOWN = 3
"""How many interruptions are told, the latest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One time that a workload lost its nodes: for whom, why, why it and not another, and when.

    Moments are in seconds since the epoch. `asked_at` is None where nobody asked: a rank or a node was lost. `gone_at`
    is None while it is leaving, `back_at` while it has not been admitted again. `step` is what was saved of it.
    """

    beneficiary: str | None = None
    why: str = ""
    chosen: str = ""
    asked_at: float | None = None
    killed: bool = False
    gone_at: float | None = None
    back_at: float | None = None
    step: int | None = None
    moved: bool = False
    """Whether it was asked to leave at its next checkpoint, with no deadline."""


def interruptions(entries: Iterable[Entry]) -> tuple[Interruption, ...]:
    """Return every interruption that the notes of one workload tell of, the latest first."""
    found: list[Interruption] = []
    for note in (entry.note for entry in entries):
        match note.kind:
            case What.DRAINING | What.MOVING:
                found.append(_asked(note))
            case What.LOST:
                found.append(Interruption(why=_text(note, "why")))
            case What.KILLED if found:
                found[-1] = replace(found[-1], killed=True)
            case What.REQUEUED | What.WITHDRAWN:
                _gone(found, note)
            case What.ADMITTED if found and found[-1].back_at is None:
                found[-1] = replace(found[-1], back_at=note.at)
            case What.STOPPED | What.SUCCEEDED | What.FAILED if found and found[-1].gone_at is None:
                found[-1] = replace(found[-1], gone_at=note.at)
    return tuple(reversed(found))


def sentence(one: Interruption, now: float) -> str:
    """Return an interruption as a sentence."""
    what = "to move at its next checkpoint" if one.moved else "to leave"
    asked = "" if one.asked_at is None else f"was asked {what} {spoken(now - one.asked_at)} ago"
    whom = f" for {one.beneficiary}" if one.beneficiary else ""
    reason = f" ({one.why})" if asked and one.why else one.why
    parts = [f"{asked}{whom}{reason}", one.chosen, _how_it_went(one, now)]
    return "; ".join(part for part in parts if part)


def _how_it_went(one: Interruption, now: float) -> str:
    if one.gone_at is None:
        return "is leaving"
    since = "" if one.asked_at is None else f" after {spoken(one.gone_at - one.asked_at)}"
    ago = f" {spoken(now - one.gone_at)} ago" if one.asked_at is None else ""
    how = "was killed, and gone" if one.killed else "was gone"
    saved = "nothing saved" if one.step is None else f"saved up to step {one.step}"
    back = "" if one.back_at is None else f"; admitted again {spoken(one.back_at - one.gone_at)} later"
    return f"{how}{since}{ago}, {saved}{back}"


def _asked(note: Note) -> Interruption:
    beneficiary = note.detail.get("beneficiary")
    return Interruption(
        beneficiary=None if beneficiary is None else str(beneficiary),
        why=_text(note, "why"),
        chosen=_text(note, "chosen"),
        asked_at=note.at,
        moved=note.kind is What.MOVING,
    )


def _gone(found: list[Interruption], note: Note) -> None:
    """Close the interruption that is open; one that nobody asked for begins with its end."""
    if not found or found[-1].gone_at is not None:
        found.append(Interruption(why=_text(note, "why")))
    step = note.detail.get("step")
    found[-1] = replace(found[-1], gone_at=note.at, step=step if isinstance(step, int) else None)


def _text(note: Note, key: str) -> str:
    return str(note.detail.get(key) or "")
