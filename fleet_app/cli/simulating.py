"""`fleet simulate`: what would have been, by the twin: one scenario, two side by side, or a key at several values.

Needs no fleet and no Ray.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from fleet_app.cli import figures as tables
from fleet_app.cli import show
from fleet_app.cli.keeping import kept
from fleet_app.cli.options import Json, seconds
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.policy.document import parse_document, read_document
from fleet_app.twin.report import cells
from fleet_app.twin.report.compare import compare, whole
from fleet_app.twin.scenarios.load import Changes, Loaded, load
from fleet_app.twin.simulate import Keeping, Simulated, simulate

ScenarioPath = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario (YAML).", show_default=False)]
AGAINST = "Another scenario, or another policy, to be run too and compared with."
KEEP = "Keep the run in a file: one that was stopped goes on from there."
SWEEP = "Run it once for each of several values of one key of the policy."


def simulate_scenario(
    scenario: ScenarioPath,
    *,
    against: Annotated[Path | None, typer.Option(metavar="FILE", help=AGAINST)] = None,
    sweep: Annotated[str | None, typer.Option(metavar="KEY=A,B,..", help=SWEEP)] = None,
    put: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Put another value into the policy.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="DURATION", help="End it after so long, such as 3d.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Other luck.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write charts and tables as one HTML file.")] = None,
    keep: Annotated[Path | None, typer.Option(metavar="FILE", help=KEEP)] = None,
    as_json: Json = False,
) -> None:
    """Run a scenario on the twin: the fleet's own decisions, on a virtual fleet and clock. Needs no fleet.

    Says what became of the GPUs and the money, who waited for how long, what was taken back and what that cost.

    Examples:
      fleet simulate clusters/scenarios/seed.yaml
      fleet simulate clusters/scenarios/seed-real.yaml --until 7d --html week.html
      fleet simulate clusters/scenarios/seed-real.yaml --keep month.run --html month.html
      fleet simulate clusters/scenarios/seed.yaml --against clusters/scenarios/seed-real.yaml --until 3d
      fleet simulate clusters/scenarios/seed-real.yaml --until 3d --sweep headroom.immediate=0,64,128
    """
    if against is not None and sweep is not None:
        raise RequestError("compares two runs, --sweep more", where="--against", fix="Leave one of them out")
    if keep is not None and (against is not None or sweep is not None):
        raise RequestError("keeps one run", where="--keep", fix="Leave it out, or --against and --sweep")
    lasts_s = None if until is None else seconds(until, "--until")
    one = load(scenario, changes=changed(put or ()), until=lasts_s, seed=seed)
    if against is not None:
        names = _names(scenario, against)
        other = replace(_other(scenario, against, lasts_s, seed), name=names[1])
        side_by_side((replace(one, name=names[0]), other), html, as_json=as_json)
    elif sweep is not None:
        key, values = parted(sweep)
        runs = [
            (value, load(scenario, changes={**changed(put or ()), key: value}, until=lasts_s, seed=seed))
            for value in values
        ]
        _many(key, runs, html, as_json=as_json)
    else:
        _one(one, html, keep, as_json=as_json)


def changed(given: Iterable[str]) -> Changes:
    """Return the values that were given as KEY=VALUE. Raises RequestError when one was not."""
    found: dict[str, object] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise RequestError(f"{text!r} is no key with a value", where="--set", fix="Write headroom.immediate=32")
        found[key] = _value(value, "--set")
    return found


def parted(text: str) -> tuple[str, list[object]]:
    """Return the key of a sweep and its values. Raises RequestError when there are none."""
    key, _, values = text.partition("=")
    if not key or not values:
        fix = "Write headroom.immediate=0,16,32"
        raise RequestError(f"{text!r} is no key with values", where="--sweep", fix=fix)
    return key, [_value(value, "--sweep") for value in values.split(",")]


def _value(text: str, where: str) -> object:
    """Return a value as a policy file would have it."""
    return parse_document(f"value: {text}", where).values["value"]


def _other(scenario: Path, against: Path, until: float | None, seed: int | None) -> Loaded:
    """Return the run to compare with: another scenario, or the same one under another policy."""
    if "policy" in read_document(against).values:
        return load(against, until=until, seed=seed)
    return load(scenario, policy=against, until=until, seed=seed)


def _one(loaded: Loaded, html: Path | None, keep: Path | None, *, as_json: bool) -> None:
    with kept(keep) as keeping:
        done = run_told(loaded, keeping=keeping)
    if html is not None:
        _write(html, _page().of_run(done.figures, loaded.about, done.estimate))
    if as_json:
        show.data(_plain(done))
        return
    for title, table in tables.tables(done.figures, done.estimate):
        show.stdout().print(Text(f"\n{title}", style="bold"))
        show.stdout().print(table)
    for note in done.figures.notes:
        show.stdout().print(Text(show.plain(note)))


def _names(*paths: Path) -> list[str]:
    short = [path.stem for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def side_by_side(
    runs: tuple[Loaded, Loaded], html: Path | None, beside: Mapping[str, object] | None = None, *, as_json: bool
) -> None:
    """Run two that have different names, and show what changed and for whom; `beside` is told in JSON too."""
    _hint_read(runs)
    names = (runs[0].name, runs[1].name)
    done = [run_told(loaded) for loaded in runs]
    first, second = (one.figures for one in done)
    rows = compare(first, second)
    if html is not None:
        _write(html, _page().of_two(first, second, rows))
    if as_json:
        compared = {"compared": [asdict(row) for row in rows], "runs": dict(zip(names, map(_plain, done), strict=True))}
        show.data({**compared, **(beside or {})})
        return
    show.stdout().print(tables.of_cells(cells.compared(rows, names)))


def _many(key: str, runs: list[tuple[object, Loaded]], html: Path | None, *, as_json: bool) -> None:
    _hint_read(loaded for _, loaded in runs)
    done = [(value, run_told(loaded, f"{key}={value}").figures) for value, loaded in runs]
    if html is not None:
        _write(html, _page().of_sweep(key, done, tables.swept_cells(key, done)))
    if as_json:
        numbers = [
            {"value": value, **{what: amount for (what, _), amount in whole(figures).items()}}
            for value, figures in done
        ]
        show.data({"key": key, "runs": numbers})
        return
    show.stdout().print(tables.swept(key, done))


def _hint_read(runs: Iterable[Loaded]) -> None:
    """Say what was read of the histories of several runs, and what was malformed, each once."""
    for text in dict.fromkeys(text for loaded in runs for text in loaded.read):
        show.hint(show.plain(text))


def run_told(loaded: Loaded, name: str | None = None, keeping: Keeping | None = None) -> Simulated:
    """Run one scenario, with a bar that says how far it is and how long it will take."""
    what, begins_at = name or loaded.name, loaded.scenario.begins_at
    began = time.monotonic()
    console = show.stderr()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(show.plain(what), total=loaded.lasts_s, begun=False)

        def told(now: float, _events: int) -> None:
            # A run that goes on from its file did not come so far just now: the time that is left is not told by that.
            if bar.tasks[0].fields["begun"]:
                bar.update(task, completed=now - begins_at)
            else:
                bar.reset(task, completed=int(now - begins_at), begun=True)

        done = simulate(loaded, told, keeping)
    took_s = max(0.001, time.monotonic() - began)
    rate = f"{done.events / took_s:,.0f} events and {done.decisions / took_s:,.0f} decisions a second"
    show.hint(f"{what}: {show.duration(loaded.lasts_s)} in {took_s:.1f} s, {rate}")
    return done


def _plain(done: Simulated) -> dict[str, Any]:
    return asdict(done)


def _page() -> Any:
    """Plotly takes most of a second to import, and only pages need it."""
    from fleet_app.twin.report import page  # noqa: PLC0415

    return page


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FaultError(f"cannot be written: {error.strerror}", where=str(path), fix="Choose another file") from error
    show.hint(f"{path}: written")
