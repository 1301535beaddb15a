"""Every row that concerns the engine has a test of its name: all of A to F, and of G to I those that it decides."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent

ROWS = {
    "a": [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21],
    "b": [1, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 17, 19, 21, 23],
    "c": [1, 3, 5, 6, 7, 9, 11, 13, 15, 17],
    "d": [1, 3, 5, 7, 9, 11, 13, 15, 17, 19],
    "e": [1, 3, 5, 7, 9, 11],
    "f": [1, 3, 5, 7, 9, 11, 13],
    "g": [1, 5, 11, 13, 15],
    "h": [5, 9, 13],
    "i": [7, 17, 23],
}


def test_every_row_has_a_test() -> None:
    text = "".join(path.read_text() for path in sorted(HERE.glob("test_*.py")))
    rows = [f"{group}{number}" for group, numbers in ROWS.items() for number in numbers]
    assert [row for row in rows if f"def test_{row}_" not in text] == []
