"""A folder for one run of the bed, and the end of what earlier runs left that could not clean up.

A run holds a lock on its folder for as long as it lives, and the kernel gives it back however the run ends: a folder
without a holder is rubbish, and so are the control groups that have its name. Does not know what is in the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.bed.cgroups import CGROUPS
from tests.tools import bed

PREFIX = "fleetbed-"
KEPT = 6  # logs of so many runs


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Hold a new folder, which is gone afterwards; sweep first."""
    runs = bed() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    _sweep(runs)
    folder = Path(tempfile.mkdtemp(dir=runs, prefix=PREFIX))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def _sweep(runs: Path) -> None:
    for folder in runs.iterdir():
        try:
            with (folder / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except BlockingIOError:
            continue  # its run is alive
        except FileNotFoundError:
            if time.time() - folder.stat().st_mtime > 60:  # else its run is about to take the lock
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a run's folder and control groups, but for its logs. What is busy stays for the next run to sweep."""
    for group in sorted(_groups(folder.name), reverse=True):
        with contextlib.suppress(OSError):
            group.rmdir()
    kept = bed() / "logs"
    kept.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        (folder / "log").rename(kept / folder.name)
    for old in sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _groups(name: str) -> Iterator[Path]:
    for hierarchy in CGROUPS.glob(f"*/{name}"):
        yield hierarchy
        yield from (path for path in hierarchy.rglob("*") if path.is_dir())
