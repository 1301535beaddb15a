"""The story of the demo, step by step: what is asked of the fleet, and what has to come of it before it goes on.

Acts as users would. Decides nothing and proves nothing: the promises are checked afterwards, from the journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet_app.cli.demo.promises import drains
from fleet_app.cli.demo.screen import Screen
from fleet_app.cli.demo.traffic import Day, Traffic
from fleet_app.cli.demo.world import World
from fleet_app.engine.errors import FaultError

GANG, SECOND, NEXT, STUBBORN = "pretrain", "finetune", "pretrain-next", "stubborn"
BATCH = ("batch-1", "batch-2", "batch-3", "batch-4")
REPLICA_GPUS = 4
FULL = 6
"""Replicas at the peak, which is what serve_configs/chat.yaml allows."""

QUIET, PEAK = 0.17, 0.59
"""Where the trace's day is quietest, and where it peaks, as fractions of the day."""

WARM_RATE = 1.0
QUIET_RATE = 2.2
SPIKE = 3.6
"""Requests a second while jobs start, and at the day's quietest; how far the spike goes beyond the day's own peak."""

MORNING_S, MORNING_STEPS = 25.0, 100
SLOW = 90.0
"""Seconds after which a step that has not come about is a fault; a slow machine needs most of them."""


@dataclass
class Facts:
    """What the story saw that the journal does not say."""

    warm_at: float = 0.0
    spikes: list[tuple[float, float]] = field(default_factory=list)
    explained: str = ""
    group: Mapping[str, Any] = field(default_factory=dict)
    successor_s: float | None = None
    ready_s: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    first_drains: int = 0
    first_needed: int = 0
    arbiter_killed_at: float = 0.0


def specs() -> list[dict[str, object]]:
    """Return what the demo submits, in order."""
    gang = {"kind": "gang", "team": "research", "gpus": 8, "cpus": 1}
    batch = {"kind": "backfill", "team": "batch", "gpus": 4, "cpus": 1}
    # One machine plays ten: training yields the cores to what serves, and what has to leave when asked less so.
    ignores = "nice -n 5 python ignores_notice.py"
    work = "nice -n 5 python batch_inference.py --items 1000000 --item-time 0.8"
    return [
        {**gang, "name": GANG, "nodes": 4, "entrypoint": "nice python pretrain.py --steps 100000 --step-time 0.6"},
        {**gang, "name": NEXT, "nodes": 2, "within": "leaf", "entrypoint": "nice python pretrain.py"},
        {**gang, "name": SECOND, "nodes": 2, "entrypoint": work},
        {**batch, "name": STUBBORN, "priority": "training-scavenger", "entrypoint": ignores},
        *({**batch, "name": name, "entrypoint": work} for name in BATCH),
    ]


class Teller:
    """Tells the story on one world."""

    def __init__(self, world: World, screen: Screen, traffic: Traffic, day: Day) -> None:
        """Tell it on `screen`, with the day's traffic."""
        self.world, self.screen, self.traffic, self.day = world, screen, traffic, day
        self.facts = Facts()

    async def tell(self, jobs: Path) -> None:
        """Tell all of it. Raises FaultError when something does not come about at all."""
        self.traffic.rate = WARM_RATE
        self.screen.chapter("a", "a service answers HTTP")
        await self.world.until(lambda w: w.replicas()[2] >= 2, SLOW, "two replicas")
        await self.world.until(lambda _: any(one.ok for one in self.traffic.requests), SLOW, "an answer")
        self.facts.warm_at = time.time()
        self.screen.say(f"{self.traffic.url} answers")
        await self._train(jobs)
        await self._lend(jobs)
        await self._spike()
        await self._evening()
        await self._kill_arbiter()

    async def _train(self, jobs: Path) -> None:
        self.screen.chapter(
            "b", "a committed gang trains, one that needs a whole leaf waits, a third fills the other spine"
        )
        gang, following, second, *_ = specs()
        await self._submit(gang, jobs)
        await self._submit(following, jobs)
        await self.world.until(lambda w: bool(w.workloads.get(NEXT, {}).get("reason")), SLOW, f"{NEXT} waiting")
        told = await asyncio.to_thread(self.world.gateway.get, f"explain/{NEXT}")
        self.facts.explained = str(told["sentence"])
        self.screen.say(f"fleet explain {NEXT}: {self.facts.explained}")
        await asyncio.to_thread(self.world.gateway.post, f"cancel/{NEXT}")
        await self.world.until(lambda w: w.step(GANG) > 0, SLOW, f"{GANG} stepping")
        await self._submit(second, jobs)
        await self.world.until(lambda w: w.phase(SECOND) == "running", SLOW, f"{SECOND} running")

    async def _lend(self, jobs: Path) -> None:
        self.screen.chapter("c", "backfill jobs fill the serving headroom")
        for spec in specs()[3:]:
            await self._submit(spec, jobs)
        lent = (STUBBORN, *BATCH)
        await self.world.until(lambda w: all(w.phase(name) == "running" for name in lent), SLOW, "backfill running")
        await self.world.until(lambda w: all(w.step(name) > 0 for name in BATCH), SLOW, "backfill at work")
        placed = self.world.story.first("placed", subject=GANG)
        if placed is not None:
            self.facts.group = await asyncio.to_thread(self.world.group_table, str(placed.detail["group"]))
        self.screen.say(f"Ray's own table: {GANG} has {dict(self.facts.group)}")

    async def _spike(self) -> None:
        self.screen.chapter("d", "traffic follows a real day, then a spike: serving takes its GPUs back")
        for hour in range(MORNING_STEPS):
            self._load(QUIET + (PEAK - QUIET) * hour / MORNING_STEPS)
            await asyncio.sleep(MORNING_S / MORNING_STEPS)
        began = time.time()
        free = self._free_replicas()
        self._load(PEAK, SPIKE)
        await self.world.until(lambda w: w.replicas()[0] >= FULL, SLOW, "six replicas wanted")
        await self.world.until(lambda w: w.replicas()[2] >= FULL, SLOW, "six replicas running")
        self.facts.ready_s.append(time.time() - began)
        await self.world.until(self._settled, SLOW, "every drained job gone")
        await self.world.until(lambda w: w.replicas()[1] > w.replicas()[0], SLOW, "the immediate tier whole again")
        self.facts.first_drains = len(drains(self.world.story))
        granted = self.world.replicas()[1]
        self.facts.first_needed = granted - free
        await self._kill_replica()
        self.facts.spikes.append((began, time.time()))

    async def _kill_replica(self) -> None:
        self.screen.say("the fleet is full; one replica is killed")
        before = await self._serving(lambda now: len(now) >= FULL, "six replicas that answer")
        began = time.time()
        await asyncio.to_thread(self.world.kill, "ray::ServeReplica")
        await self._serving(lambda now: len(now) >= FULL and bool(now - before), "a successor")
        self.facts.successor_s = time.time() - began
        self.screen.say(f"its successor runs on the GPUs that were held for it, {self.facts.successor_s:.1f} s later")

    async def _serving(self, holds: Callable[[frozenset[str]], bool], what: str) -> frozenset[str]:
        """Wait until the replicas that Serve itself calls running are as wanted, and return them."""
        began = time.monotonic()
        while not holds(now := await asyncio.to_thread(self.world.serving)):
            if time.monotonic() - began > SLOW:
                raise FaultError(f"{what} did not come within {SLOW:.0f} s", where="demo")
            await asyncio.sleep(0.3)
        return now

    async def _evening(self) -> None:
        self.screen.chapter("e", "traffic falls: backfill resumes from the step that it acknowledged")
        self._load(QUIET)
        lent = (*BATCH, STUBBORN)
        await self.world.until(lambda w: w.replicas()[2] <= 2, SLOW, "replicas gone")
        await self.world.until(lambda w: all(w.phase(name) == "running" for name in lent), SLOW, "backfill resumed")
        await self.world.until(lambda w: all(w.step(name) > 0 for name in BATCH), SLOW, "backfill at work")

    async def _kill_arbiter(self) -> None:
        self.screen.chapter("f", "a second spike, and the arbiter is killed in the middle of the drain")
        began = time.time()
        self._load(PEAK, SPIKE)
        await self.world.until(lambda w: w.story.first("notified", since=began) is not None, SLOW, "a drain")
        await asyncio.to_thread(self.world.kill, "ray::FleetArbiter")
        self.facts.arbiter_killed_at = time.time()
        self.screen.say("the arbiter is killed (SIGKILL)")
        await self.world.until(
            lambda w: w.story.first("arbiter", since=self.facts.arbiter_killed_at) is not None, SLOW, "its return"
        )
        await self.world.until(lambda w: w.replicas()[2] >= FULL, SLOW, "six replicas running again")
        await self.world.until(self._settled, SLOW, "every drained job gone")
        self.facts.ready_s.append(time.time() - began)
        self.facts.spikes.append((began, time.time()))
        self._load(QUIET)
        await asyncio.sleep(2.0)

    def _settled(self, world: World) -> bool:
        return all(drain.gone_at is not None for drain in drains(world.story))

    def _free_replicas(self) -> int:
        """Return how many replicas serving has or could start without a drain: granted ones and free room."""
        granted = self.world.replicas()[1]
        free = sum(int(node["gpus_free"]) // REPLICA_GPUS for node in self.world.nodes if node["class"] == "serving")
        return granted + free

    def _load(self, moment: float, beyond: float = 1.0) -> None:
        self.traffic.rate = QUIET_RATE * self.day.at(moment) * beyond

    async def _submit(self, spec: Mapping[str, object], jobs: Path) -> None:
        await asyncio.to_thread(self.world.submit, spec, jobs)
        self.screen.say(f"submitted {spec['name']}: {spec.get('nodes', 1)} x {spec['gpus']} GPUs for {spec['team']}")
