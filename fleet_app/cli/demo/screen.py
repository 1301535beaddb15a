"""What one sees of the demo: a line for everything that happens, below it the fleet as it is now.

Knows how to show, not what to do. Without a terminal there are the lines alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fleet_app.cli import tables
from fleet_app.cli.demo.events import Event
from fleet_app.cli.demo.promises import Promise
from fleet_app.cli.demo.world import World

TOLD = {
    "admitted": "is admitted",
    "started": "runs",
    "draining": "gets notice",
    "acknowledged": "saved its work",
    "killed": "is killed",
    "lost": "lost a node",
    "requeued": "is gone, its GPUs are free, it waits again",
    "granted": "is granted a replica",
    "succeeded": "has ended well",
    "failed": "has failed",
    "stopped": "was stopped",
    "demanded": "wants",
    "arbiter": "is up",
    "fault": "met a fault",
}
DETAILS = ("why", "nodes", "node", "step", "wanted", "message")


class Screen:
    """The terminal of one demo."""

    def __init__(self, began_at: float) -> None:
        """Show times as seconds since `began_at`."""
        self.console = Console(highlight=False, soft_wrap=True)
        self._began_at = began_at
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._shown = False

    def __enter__(self) -> Self:
        """Begin to draw, on a terminal."""
        if self.console.is_terminal:
            self._live.start()
            self._shown = True
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing."""
        if self._shown:
            self._live.stop()
            self._shown = False

    def chapter(self, letter: str, title: str) -> None:
        """Begin a part of the story."""
        self.console.print(Text(f"\n({letter}) {title}", style="bold"))

    def say(self, text: str, at: float | None = None) -> None:
        """Print a line with its time."""
        when = (time.time() if at is None else at) - self._began_at
        self.console.print(Text(f"{when:7.1f} s  {text}"))

    def tell(self, events: Iterable[Event]) -> None:
        """Print a line for each event that a reader wants to know of."""
        for event in events:
            if event.kind in TOLD:
                parts = [_plain(event.detail[key]) for key in DETAILS if event.detail.get(key) not in (None, "", [])]
                self.say(f"{event.subject} {TOLD[event.kind]}{': ' if parts else ''}{', '.join(parts)}", event.at)

    def draw(self, world: World, traffic: str) -> None:
        """Draw the fleet as it is now."""
        if self._shown:
            self._live.update(_picture(world, traffic))

    def summary(self, promises: Iterable[Promise], figures: Iterable[tuple[str, str, str]]) -> None:
        """Print what was promised and kept, and how long things took."""
        kept = Table("", "PROMISE", "SHOWN BY", box=None, pad_edge=False, title="Promises", title_justify="left")
        for promise in promises:
            mark = Text("kept", style="green") if promise.kept else Text("BROKEN", style="bold red")
            kept.add_row(mark, promise.what, Text(promise.shown))
        times = Table("FIGURE", "HERE", "TARGET", box=None, pad_edge=False, title="Figures", title_justify="left")
        for row in figures:
            times.add_row(*row)
        wide = Console(highlight=False, width=max(140, self.console.width))
        wide.print(Text(), kept, Text(), times)


def _picture(world: World, traffic: str) -> RenderableType:
    wanted, granted, occupied = world.replicas()
    line = Text(f"replicas: {wanted} wanted, {granted} granted, {occupied} running; {traffic}", style="cyan")
    now = time.time()
    alive = [each for each in world.workloads.values() if each.get("phase") not in tables.ENDED]
    return Group(Text(), tables.nodes(world.nodes, now), Text(), tables.queue(alive, now), Text(), line)


def _plain(value: object) -> str:
    return " ".join(str(part) for part in value) if isinstance(value, list) else str(value)
