"""Waits for one workload and shows, on stderr, where it is and why.

Looks at the control API again and again: what is missed once is seen the next time. Does not decide anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rich.text import Text

from fleet_app.cli import show, tables
from fleet_app.cli.client import Gateway
from fleet_app.engine.errors import NotFoundError

LOOK_EVERY_S = 0.5


class Until(StrEnum):
    """What to wait for."""

    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a workload was when the wait was over."""

    workload: tables.Row

    @property
    def ok(self) -> bool:
        """Return whether it runs, or has ended well."""
        return self.workload.get("phase") not in {"failed", "stopped"}


def wait(gateway: Gateway, name: str, until: Until) -> Outcome:
    """Wait until a workload runs, or has ended. Raises NotFoundError when it is deleted meanwhile, FleetError."""
    console = show.stderr()
    if console.is_terminal:
        with console.status(f"{name} ...") as spinner:
            outcome = _watch(gateway, name, until, spinner.update)
    else:
        outcome = _watch(gateway, name, until, console.print)
    console.print(_line(outcome.workload), soft_wrap=True)
    return outcome


def _watch(gateway: Gateway, name: str, until: Until, say: Callable[[Text], None]) -> Outcome:
    said = ""
    while True:
        workload = _find(gateway, name)
        phase = str(workload.get("phase"))
        if phase in tables.ENDED or (until is Until.RUNNING and phase == "running"):
            return Outcome(workload=workload)
        line = _line(workload)
        if line.plain != said:
            said = line.plain
            say(line)
        time.sleep(LOOK_EVERY_S)


def _find(gateway: Gateway, name: str) -> tables.Row:
    found: list[tables.Row] = gateway.get("workloads", name=name)
    for each in found:
        if each.get("name") == name:
            return each
    raise NotFoundError("it is gone", where=name, fix="Somebody deleted it")


def _line(workload: tables.Row) -> Text:
    step = tables.step(workload)
    parts = [str(workload.get("phase")), tables.where(workload), f"step {step}" if step != "-" else ""]
    return Text(f"{show.plain(str(workload.get('name')))}: {', '.join(part for part in parts if part)}")
