"""One fleet in memory a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.arbiter.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Return a fleet without nodes."""
    made = Rig(home=tmp_path)
    yield made
    made.drop()
