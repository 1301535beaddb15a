"""How quantities and other people's texts are written."""

from __future__ import annotations

import pytest

from fleet_app.cli import show

DURATIONS = {
    "a negative one is none": (-1.0, "0s"),
    "below a minute": (59.9, "59s"),
    "minutes have their seconds": (61, "1m01s"),
    "hours have their minutes": (2 * 3600 + 5 * 60 + 59, "2h05m"),
    "days have their hours": (3 * 86_400 + 4 * 3600, "3d04h"),
}


@pytest.mark.parametrize(("seconds", "want"), DURATIONS.values(), ids=DURATIONS)
def test_duration(seconds: float, want: str) -> None:
    assert show.duration(seconds) == want


PLAIN = {
    "letters of any script stay": ("größe 模型", False, "größe 模型"),
    "what steers a terminal goes": ("\x1b[31mred\x07", False, " [31mred "),
    "a line of its own goes": ("a\nb", False, "a b"),
    "a line of its own stays where lines are meant": ("a\nb\x1b", True, "a\nb "),
    "text that only looks to be in order goes": ("a\u202eb", False, "a b"),
}


@pytest.mark.parametrize(("text", "keep_lines", "want"), PLAIN.values(), ids=PLAIN)
def test_plain(text: str, keep_lines: bool, want: str) -> None:
    assert show.plain(text, keep_lines=keep_lines) == want


def test_counts_leave_out_what_is_none() -> None:
    assert show.counted({"queued": 3, "running": 0, "failed": 1}) == "3 queued, 1 failed"
    assert show.counted({}) == "none"
