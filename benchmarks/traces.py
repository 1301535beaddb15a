"""Where traces are that are too large, or not ours to give on: `FLEET_TRACES`, or `../shared/traces`.

`clusters/traces` has extracts of those that may be given on: all that a fresh clone needs.
"""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).parents[2] / "shared" / "traces"


def folder() -> Path:
    """Return the folder of traces, whether it is there or not."""
    return Path(os.environ.get("FLEET_TRACES") or BESIDE)


def trace(name: str) -> Path:
    """Return the file of a trace. Raises FileNotFoundError that says where it was looked for."""
    path = folder() / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: set FLEET_TRACES to a folder that has {name}")
    return path
