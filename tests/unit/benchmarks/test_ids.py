"""Every benchmark stands in docs/benchmarks.md, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.__main__ import BENCHMARKS, WHERE_NAMED

DOC = Path(__file__).parents[3] / "docs" / "benchmarks.md"


def test_the_documented_ids_are_those_that_there_are():
    rows = [line.split("|") for line in DOC.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    curve = [each for row in rows for each in re.findall(r"`(decide-\d+)`", row[2])]
    told = [each for row in rows for each in re.findall(r"`([a-z-]+(?:-?\d+)?)`", row[1])]
    assert sorted(told + curve) == sorted([*BENCHMARKS, *WHERE_NAMED])
