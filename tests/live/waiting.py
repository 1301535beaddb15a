"""Wait for what the world does in its own time: polls with a deadline, never a sleep for its own sake."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], limit_s: float = 30.0) -> T:
    """Return the first true answer of `look`; fail with its last answer when there is none in time."""
    deadline = time.monotonic() + limit_s
    while not (answer := look()):
        assert time.monotonic() < deadline, f"still {answer!r} after {limit_s:g} s"
        time.sleep(0.02)
    return answer
