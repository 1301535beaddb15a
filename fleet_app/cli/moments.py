"""Moments as people write and read them: ISO 8601, here and now, and so much later.

Knows the clock's zone on this machine: a time without a zone is in it, and times are shown in it.
"""

from __future__ import annotations

from datetime import datetime

from fleet_app.engine.errors import RequestError
from fleet_app.policy.units import parse_duration

FIX = "Write for example 2026-12-24T18:00, 2026-12-24T18:00Z, now or +3d"


def moment(text: str, where: str, now: float, later_than: float | None = None) -> float:
    """Return the moment in seconds that was given to the option `where`.

    `+3d` is so much later than `later_than`, which is now unless it is given. Raises RequestError when it is no moment.
    """
    written = text.strip()
    try:
        if written == "now":
            return now
        if written.startswith("+"):
            return (now if later_than is None else later_than) + parse_duration(written[1:])
        return datetime.fromisoformat(written).timestamp()  # one without a zone is in this machine's
    except (ValueError, OverflowError, OSError) as error:
        raise RequestError(f"{text!r} is no time", where=where, fix=FIX) from error


def shown(at: float) -> str:
    """Return a moment as a person reads it, in this machine's zone, to the minute."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def clock(at: float, beside: float) -> str:
    """Return a moment that is shown beside another: the time alone when both are on one day."""
    text = shown(at)
    return text[11:] if text[:10] == shown(beside)[:10] else text
