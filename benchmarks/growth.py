"""`twin-growth`: seed-real.yaml for one, three and twelve months: CPU seconds by events, and memory of the longest.

Each run is a process of its own, so that its memory is its own. The two gangs of 60 days go on for as long as the run.
Takes a quarter of an hour, so it runs only where it is named.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.result import Result, Samples, result
from fleet_app.twin.scenarios.load import load
from fleet_app.twin.simulate import simulate

SCENARIO = Path(__file__).parents[1] / "clusters" / "scenarios" / "seed-real.yaml"
MONTH_S = 30 * 86_400.0
MONTHS = (1, 3, 12)
ENDLESS, A_YEAR = "60d", "365d"
"""How long those gangs run that are there to the end of the month, there and here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """One run: how many months, events and workloads that ended, CPU seconds of all of it, most memory in MB."""

    months: int
    events: int
    ended: int
    cpu_s: float
    memory_mb: float


def growth() -> Result:
    """Return the CPU seconds of an event in a year beside those in a month, with the memory of the year."""
    runs = [_in_its_own(months) for months in MONTHS]
    for one in runs:
        print(
            f"twin-growth: {one.months:>2} months, {one.events:,} events, {one.ended:,} workloads ended, "
            f"{one.cpu_s:,.0f} CPU s, {1e6 * one.cpu_s / one.events:,.0f} µs an event, {one.memory_mb:,.0f} MB",
            flush=True,
        )
    month, year = runs[0], runs[-1]
    each = Samples(
        ours=[1e6 * year.cpu_s / year.events], other=[1e6 * month.cpu_s / month.events], other_name="a month's"
    )
    return result("twin-growth", f"CPU of an event in a year, {year.memory_mb:,.0f} MB", "us", each)


def _in_its_own(months: int) -> Grown:
    command = [sys.executable, "-m", "benchmarks.growth", str(months)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Grown(**json.loads(done.stdout))


def grown(months: int) -> Grown:
    """Run so many months here."""
    file = yaml.safe_load(SCENARIO.read_text())
    file["policy"] = str((SCENARIO.parent / file["policy"]).resolve())
    for work in file["work"]:
        if work["arrives"].get("runs") == ENDLESS:
            work["arrives"]["runs"] = A_YEAR
    with TemporaryDirectory() as folder:
        path = Path(folder) / SCENARIO.name
        path.write_text(yaml.safe_dump(file))
        loaded = load(path, until=months * MONTH_S)
    began = time.process_time()
    done = simulate(loaded)
    return Grown(
        months=months,
        events=done.events,
        ended=done.figures.ended,
        cpu_s=time.process_time() - began,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


BENCHMARKS = {"twin-growth": growth}

if __name__ == "__main__":
    one = grown(int(sys.argv[1]))
    print(json.dumps({name: getattr(one, name) for name in Grown.__slots__}))
