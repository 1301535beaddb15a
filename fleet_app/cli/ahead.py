"""`fleet forecast`: what will be wanted, and how many GPUs should stay free for it. Changes nothing.

Makes a history of wanted GPUs, from the fleet's events or a file. Does not know how a forecast is made.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fleet_app.cli import client, looking, show, tables
from fleet_app.cli.options import DEFAULT_HOME, GatewayUrl, Home, Json, seconds
from fleet_app.engine.errors import RequestError
from fleet_app.engine.forecast import Bounds, History, forecast, immediate_tier

QUANTILES = (0.1, 0.5, 0.9, 0.99)
AHEAD_S = (900, 3600, 4 * 3600, 24 * 3600)
"""How far ahead is shown."""

MOST_SAMPLES = 100_000

UNEVEN = 0.5
"""By less than what part of a step a sample of a file may be off its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """That from a moment on a service wants so many GPUs more, or less, than before."""

    at: float
    change_gpus: int


def ahead(
    *,
    history: Annotated[
        Path | None, typer.Option("--history", help="CSV: time, wanted GPUs. Default: the fleet's own events.")
    ] = None,
    startup: Annotated[str, typer.Option("--startup", help="How long a replica takes to start.")] = "90s",
    quantile: Annotated[float, typer.Option("--quantile", min=0.0, max=1.0, help="Part of rises to cover.")] = 0.99,
    minimum: Annotated[int, typer.Option("--minimum", min=0, help="Hold no fewer GPUs than this.")] = 0,
    maximum: Annotated[int | None, typer.Option("--maximum", min=0, help="Hold no more GPUs than this.")] = None,
    every: Annotated[str, typer.Option("--every", help="Time between samples of the fleet's own events.")] = "60s",
    home: Home = DEFAULT_HOME,
    gateway: GatewayUrl = None,
    as_json: Json = False,
) -> None:
    """Say what will be wanted, and how many GPUs should stay free.

    From what services wanted: the same hour of the week, else of the day, else the last value. With --history it needs
    no fleet: a header line, then times (ISO 8601, or seconds since 1970) at even distances, and GPUs. Changes nothing.

    Examples:
      fleet forecast --startup 90s --quantile 0.99
      fleet forecast --history demand.csv --maximum 64
    """
    bounds = Bounds(
        quantile=quantile, startup_s=seconds(startup, "--startup"), minimum_gpus=minimum, maximum_gpus=maximum
    )
    if history is None:
        every_s = seconds(every, "--every")
        if every_s <= 0:
            raise RequestError("is no time between samples", where="--every", fix="Write for example 60s")
        known = _from_events(client.find(home, gateway), time.time(), every_s)
    else:
        known = from_file(history)
    now = known.last_at
    rows = [{"at": now + s, "wanted_gpus": list(forecast(known, now + s, QUANTILES))} for s in AHEAD_S]
    advice = immediate_tier(known, now, bounds)
    held = None if history else client.find(home, gateway).get("status").get("immediate")
    if as_json:
        about = {"samples": len(known.wanted_gpus), "every_s": known.every_s, "now_gpus": known.wanted_gpus[-1]}
        about |= {} if held is None else {"held": held}
        show.data({**about, "quantiles": list(QUANTILES), "forecast": rows, "immediate": asdict(advice)})
        return
    show.stdout().print(tables.forecast([_clock(now + s) for s in AHEAD_S], rows, QUANTILES))
    show.stdout().print(Text(advice.sentence), soft_wrap=True)
    if held and held.get("sentence"):
        show.stdout().print(Text(f"By the policy in force the arbiter is {held['sentence']}"), soft_wrap=True)


def from_file(path: Path) -> History:
    """Return the history in a CSV file of times and GPUs. Raises RequestError when it is none."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row][1:]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RequestError(f"cannot be read ({error})", where=str(path), fix="Name a CSV file") from error
    samples = [_sample(row, f"{path}:{number}") for number, row in enumerate(rows, start=2)]
    if len(samples) < 2:  # one sample has no distance to the next
        raise RequestError(f"has {len(samples)} samples", where=str(path), fix="Give at least two, below a header line")
    first, every_s = samples[0][0], (samples[-1][0] - samples[0][0]) / (len(samples) - 1)
    for number, (at, _) in enumerate(samples):
        if not abs(at - first - number * every_s) < UNEVEN * every_s:
            raise RequestError(
                "is not where it should be: samples must lie evenly",
                where=f"{path}:{number + 2}",
                fix=f"They lie {every_s:g} s apart on average; fill gaps, and sort them by time",
            )
    return History(first_at=first, every_s=every_s, wanted_gpus=tuple(gpus for _, gpus in samples))


def from_steps(steps: Iterable[_Step], before_gpus: int, now: float, every_s: float) -> History:
    """Return what was wanted at even distances up to `now`, from the first step on; `before_gpus` before that."""
    ordered = sorted(steps, key=lambda step: step.at)
    count = min(MOST_SAMPLES, math.floor((now - ordered[0].at) / every_s) + 1) if ordered else 1
    wanted, reached, place = [], before_gpus, 0
    for number in range(count):
        at = now - (count - 1 - number) * every_s
        while place < len(ordered) and ordered[place].at <= at:
            reached += ordered[place].change_gpus
            place += 1
        wanted.append(float(max(0, reached)))
    return History(first_at=now - (count - 1) * every_s, every_s=every_s, wanted_gpus=tuple(wanted))


def _from_events(gateway: client.Gateway, now: float, every_s: float) -> History:
    """Return what all services wanted, by the journal's events; a replica's GPUs are those that it has today."""
    services: Sequence[tables.Row] = gateway.get("services")
    gpus = {str(each["name"]): int(each["shape"]["gpus"]) for each in services}
    if not gpus:
        raise RequestError("no service has announced itself", where="history", fix="Give a file with --history")
    steps: list[_Step] = []
    last: dict[str, int] = {}
    before = {str(each["name"]): int(each["wanted"] or 0) for each in services}
    for entry in looking.since(gateway, 0, None):
        name, detail = str(entry["subject"]), entry["detail"]
        if entry["kind"] == "demanded" and name in gpus:
            if name not in last:
                last[name] = before[name] = int(detail.get("was") or 0)
            wanted = int(detail.get("wanted") or 0)
            steps.append(_Step(at=float(entry["at"]), change_gpus=(wanted - last[name]) * gpus[name]))
            last[name] = wanted
    return from_steps(steps, sum(before[name] * gpus[name] for name in gpus), now, every_s)


def _sample(row: Sequence[str], where: str) -> tuple[float, float]:
    try:
        at, gpus = _moment(row[0]), float(row[1])
    except (IndexError, ValueError) as error:
        raise RequestError("is no sample", where=where, fix="Write a time, a comma, and wanted GPUs") from error
    if not (math.isfinite(at) and math.isfinite(gpus) and gpus >= 0):
        raise RequestError("is no sample", where=where, fix="Write numbers that are not negative")
    return at, gpus


def _moment(text: str) -> float:
    """Return a time in seconds since the epoch; one without a zone is in UTC."""
    try:
        return float(text)
    except ValueError:
        found = datetime.fromisoformat(text.strip())
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%MZ")
