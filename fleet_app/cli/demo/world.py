"""The demo's hands and eyes: the fleet's gateway, its processes, and the journal's events so far.

Asks only what a user could ask, and kills only processes of the demo's own fleet. Tells no story.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from fleet_app.adapters.local import RAY_ENVIRONMENT
from fleet_app.adapters.local_processes import Mark, carriers, send
from fleet_app.adapters.upload import upload
from fleet_app.cli.client import Gateway
from fleet_app.cli.demo.events import Event, Story, parsed
from fleet_app.engine.errors import FaultError

LOOK_EVERY_S = 0.4
WITNESS_S = 60.0
Condition = Callable[["World"], bool]


@dataclass
class World:
    """One running fleet: what it said last, and ways to act on it."""

    gateway: Gateway
    mark: Mark
    addresses: Mapping[str, Any]
    began_at: float
    events: list[Event] = field(default_factory=list)
    workloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: list[Mapping[str, Any]] = field(default_factory=list)
    services: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def story(self) -> Story:
        """Return the events so far."""
        return Story(self.events)

    def look(self) -> list[Event]:
        """Read everything anew; return the events that are new. Raises FaultError."""
        self.workloads = {each["name"]: each for each in self.gateway.get("workloads")}
        self.nodes = self.gateway.get("nodes")
        self.services = self.gateway.get("services")
        last = self.events[-1].seq if self.events else 0
        new = parsed(self.gateway.get("events", after=last, limit=2000))
        self.events += new
        return new

    def phase(self, name: str) -> str:
        """Return the phase of a workload, "" when there is none of that name."""
        return str(self.workloads.get(name, {}).get("phase", ""))

    def step(self, name: str) -> int:
        """Return the last step that a workload reported."""
        return int(self.workloads.get(name, {}).get("step") or 0)

    def replicas(self) -> tuple[int, int, int]:
        """Return how many replicas are wanted, granted and occupied, over all services."""
        wanted = sum(int(each["wanted"]) for each in self.services)
        granted = sum(int(each["grants"]) for each in self.services)
        return wanted, granted, sum(int(each["occupied"]) for each in self.services)

    async def until(self, holds: Condition, within_s: float, what: str) -> float:
        """Wait until a condition holds; return the seconds it took. Raises FaultError when it does not in time."""
        began = time.monotonic()
        while not holds(self):
            if time.monotonic() - began > within_s:
                raise FaultError(f"{what} did not happen within {within_s:.0f} s", where="demo")
            await asyncio.sleep(LOOK_EVERY_S)
        return time.monotonic() - began

    def submit(self, spec: Mapping[str, object], working_dir: Path) -> None:
        """Submit a workload with a working directory, as `fleet submit` does."""
        environment = upload(self.gateway.url, self.gateway.headers, {"working_dir": str(working_dir)})
        self.gateway.post("submit", {**spec, "runtime_env": environment})

    def kill(self, title: str) -> int | None:
        """Kill -9 the first of the fleet's processes whose command line begins so; return its pid."""
        for pid in carriers(self.mark):
            if _command(pid).startswith(title) and send(pid, self.mark, signal.SIGKILL):
                return pid
        return None

    def serving(self) -> frozenset[str]:
        """Return the replicas that Serve itself says are running."""
        url = f"{self.addresses['dashboard_url']}/api/serve/applications/"
        found = httpx.get(url, timeout=WITNESS_S, trust_env=False).json()["applications"].values()
        deployments = [each for app in found for each in app["deployments"].values()]
        replicas = [replica for each in deployments for replica in each["replicas"]]
        return frozenset(str(one["replica_id"]) for one in replicas if one["state"] == "RUNNING")

    def losses(self, name: str, home: Path) -> list[float]:
        """Return the losses that a training gang wrote beside its checkpoints, in the order of its steps."""
        lines = [
            json.loads(line)
            for file in (home / "checkpoints" / name).glob("*/metrics.jsonl")
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        return [float(line["loss"]) for line in sorted(lines, key=lambda line: int(line["step"]))]

    def group_table(self, group_id: str) -> Mapping[str, Any]:
        """Return Ray's own entry of a placement group."""
        try:
            told = subprocess.run(
                [sys.executable, "-m", "fleet_app.adapters.witness", str(self.addresses["ray_address"]), group_id],
                env={**os.environ, **RAY_ENVIRONMENT},
                capture_output=True,
                text=True,
                check=False,
                timeout=WITNESS_S,
            )
        except subprocess.TimeoutExpired as error:
            raise FaultError(f"Ray does not tell of group {group_id}", where="demo") from error
        if told.returncode != 0:
            raise FaultError(f"Ray does not tell of group {group_id}: {told.stderr[-500:]}", where="demo")
        return dict(json.loads(told.stdout.splitlines()[-1]))


def _command(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def gpus_of(specs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the GPUs of a bundle by workload."""
    return {str(spec["name"]): int(spec["gpus"]) for spec in specs}
