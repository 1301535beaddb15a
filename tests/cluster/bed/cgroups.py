"""Control groups of a run: one for each node's pods, and one for the programs that run them. Does not know either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROGRAMS = "programs"
# Of the processors, for the whole run. One busy process of the machine has 1024; so would all pods of a node together,
# and beside anything else that runs Ray's own time limits would end its starts.
SHARES = str(16 * 1024)


def make(run: str, name: str) -> str:
    """Make a group in every hierarchy of a cgroup v1 machine, or in the one of a cgroup v2 machine; return its path."""
    for hierarchy in _hierarchies():
        parent = hierarchy / run
        parent.mkdir(exist_ok=True)
        if (inherits := parent / "cgroup.clone_children").exists():
            inherits.write_text("1", encoding="utf-8")  # else nothing may start in it: it has no processors
        if (shares := parent / "cpu.shares").exists():
            shares.write_text(SHARES, encoding="utf-8")
        (parent / name).mkdir()
    return f"/{run}/{name}"


def enter(run: str, pid: int) -> None:
    """Let a process, and so what it starts from now on, share the run's part of the processors."""
    make(run, PROGRAMS)
    for hierarchy in _hierarchies():
        if (hierarchy / "cpu.shares").exists():
            (hierarchy / run / PROGRAMS / "cgroup.procs").write_text(str(pid), encoding="utf-8")


def _hierarchies() -> Iterator[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
    else:
        yield from (path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())
