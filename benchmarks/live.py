"""A local fleet for the benchmarks that need one: Ray, arbiter and gateway on loopback, and nothing left of it after.

Knows how such a fleet is had and asked. Does not know what is measured on it, and imports no Ray until it is up: what
Ray reads from the environment has to be there before.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_app.adapters import local
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.local_plan import LocalNode
from fleet_app.cli.client import Gateway
from fleet_app.worker.contract import RAY_NAMESPACE

GPUS = 8
LIMIT_S = 120.0
LOOK_EVERY_S = 0.01
CLASSES = ("serving", "training")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet that is up; `folder` is for what jobs read and write, `mark` is what its processes carry."""

    folder: Path
    mark: str
    ray_address: str
    dashboard_url: str
    gateway: Gateway

    def script(self, text: str) -> Path:
        """Write the program that this fleet's jobs run."""
        path = self.folder / "job.py"
        path.write_text(text, encoding="utf-8")
        return path

    def submit(self, name: str, entrypoint: str, **spec: object) -> None:
        """Submit a workload that takes no files along."""
        asked = {"name": name, "runtime_env": {}, "entrypoint": f"{sys.executable} {entrypoint}", **spec}
        self.gateway.post("submit", asked)

    def workloads(self) -> dict[str, Mapping[str, Any]]:
        """Return every workload by name."""
        return {str(each["name"]): each for each in self.gateway.get("workloads")}

    def ended(self, names: Sequence[str]) -> bool:
        """Return whether all of these workloads have ended."""
        known = self.workloads()
        return all(known.get(name, {}).get("ended_at") for name in names)


def nodes(number: int, node_class: str = "training") -> tuple[LocalNode, ...]:
    """Return so many nodes of 8 GPUs on one leaf; those of a class that is none of the fleet's stand outside of it."""
    labels = {"fleet/class": node_class} if node_class in CLASSES else {}
    names = [f"{node_class}-{place:02d}" for place in range(number)]
    return tuple(
        LocalNode(
            name=name,
            gpus=GPUS,
            cpus=16,
            memory_mib=32 * 1024,
            labels={**labels, "fleet/node": name, "fleet/spine": "s1", "fleet/leaf": "l1"},
        )
        for name in names
    )


@contextlib.contextmanager
def fleet(policy: str, machines: Sequence[LocalNode]) -> Iterator[Fleet]:
    """Have a fleet of such nodes under such a policy, for as long as it is needed."""
    os.environ.update(local.RAY_ENVIRONMENT)  # for drivers of this process
    with tempfile.TemporaryDirectory(prefix="fleet-bench-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        wanted = local.Wanted(home=home, name="bench", policy=policy, nodes=tuple(machines))
        addresses = local.up(wanted, lambda _: None)
        try:
            holder = FleetHome(home).holder()
            assert holder is not None
            yield Fleet(
                folder=Path(folder),
                mark=holder.home_id,
                ray_address=str(addresses["ray_address"]),
                dashboard_url=str(addresses["dashboard_url"]),
                gateway=Gateway(url=str(addresses["gateway_url"])),
            )
        finally:
            local.down(home)


@contextlib.contextmanager
def driver(up: Fleet) -> Iterator[None]:
    """Be a driver of a fleet's Ray for a while."""
    import ray  # noqa: PLC0415  # after the environment is set

    ray.init(address=up.ray_address, namespace=RAY_NAMESPACE, log_to_driver=False, logging_level=40)
    try:
        yield
    finally:
        ray.shutdown()


def until(holds: Callable[[], object], every_s: float = LOOK_EVERY_S) -> float:
    """Wait until something holds, and return when that was (`time.perf_counter`). Raises TimeoutError."""
    deadline = time.perf_counter() + LIMIT_S
    while not holds():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {LIMIT_S:.0f} s")
        time.sleep(every_s)
    return time.perf_counter()
