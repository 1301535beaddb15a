"""A run as it stands, as a file: what was begun on one day can be continued on the next, and tells the same.

Knows what changes during a run, and JSON by the arbiter's codec. The scenario itself is not in the file: who continues
brings it, and it has to be the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fleet_app.arbiter import codec
from fleet_app.engine.calendar import Booking
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.engine.failures import Failure, Quarantined
from fleet_app.engine.forecast import History
from fleet_app.engine.plan import Hold
from fleet_app.engine.values import Crossing, Node
from fleet_app.engine.workload import Service, Workload
from fleet_app.twin.clock import Agenda, Happening
from fleet_app.twin.meter import Metered
from fleet_app.twin.record import Record
from fleet_app.twin.report.told import Told
from fleet_app.twin.run import Run
from fleet_app.twin.work import Scenario
from fleet_app.twin.world import Doing, Serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All that changed since a run of the scenario began, of which `mark` is the fingerprint."""

    mark: str
    now: float
    events: int
    decisions: int
    submitted: int
    next_job: str | None
    coming: tuple[Happening, ...]
    put_so_far: int
    nodes: tuple[Node, ...]
    workloads: tuple[Workload, ...]
    services: tuple[Service, ...]
    failures: tuple[Failure, ...]
    quarantines: tuple[Quarantined, ...]
    bookings: tuple[Booking, ...]
    crossings: tuple[Crossing, ...]
    demand: History | None
    growth_gpus: int | None
    grants_made: int
    doing: dict[str, Doing]
    serving: dict[str, Serving]
    pulling: dict[str, tuple[tuple[str, str], ...]]
    lost: dict[str, int]
    holds: tuple[Hold, ...]
    metered: Metered


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A whole file: the run, and what was counted of it."""

    run: Standing
    told: Told | None = None


def save(run: Run, path: Path, told: Told | None = None) -> None:
    """Write a run as it stands between two of its moments, and what was counted of it, if somebody counts.

    What was there before stays until all is written. Raises FaultError when that cannot be done.
    """
    temporary = path.with_name(f"{path.name}.new")
    try:
        temporary.write_text(codec.dump(Saved(run=standing(run), told=told)))
        temporary.replace(path)
    except OSError as error:
        raise FaultError(f"the run cannot be saved: {error}", where=str(path), fix="Check the disk") from error


def saved(path: Path) -> Saved:
    """Return what was written. Raises RequestError when it cannot be read, FaultError when it is damaged."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot be read: {error}", where=str(path), fix="Begin the run anew") from error
    return codec.load(Saved, text)


def begun(path: Path) -> Saved | None:
    """Return what was written, None where nothing is; raises as `saved` does."""
    return saved(path) if path.exists() else None


def forget(path: Path) -> None:
    """Let a run that is over have no file. Raises FaultError when it cannot be removed."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FaultError(f"cannot be removed: {error}", where=str(path), fix="Remove it: the run is over") from error


def go_on(path: Path, scenario: Scenario, tell: Callable[[Record], None]) -> Run:
    """Return the run that was written, to be continued. Raises RequestError when it is another scenario's."""
    return continued(saved(path).run, scenario, tell)


def standing(run: Run) -> Standing:
    """Return a run as it stands between two of its moments."""
    world, fleet = run.world, run.world.fleet
    return Standing(
        mark=fingerprint(world.scenario),
        now=world.now,
        events=run.events,
        decisions=run.decisions,
        submitted=run.submitted,
        next_job=None if run.next is None else run.next.workload.name,
        coming=tuple(world.agenda.coming()),
        put_so_far=world.agenda.put_so_far,
        nodes=tuple(fleet.nodes.values()),
        workloads=tuple(fleet.workloads.values()),
        services=tuple(fleet.services.values()),
        failures=tuple(fleet.failures),
        quarantines=tuple(fleet.quarantines.values()),
        bookings=tuple(fleet.bookings.values()),
        crossings=tuple(fleet.crossings.values()),
        demand=fleet.demand,
        growth_gpus=fleet.growth_gpus,
        grants_made=fleet.grants_made,
        doing=world.doing,
        serving=world.serving,
        pulling=world.pulling,
        lost=world.lost,
        holds=world.holds,
        metered=world.meter.so_far,
    )


def continued(before: Standing, scenario: Scenario, tell: Callable[[Record], None]) -> Run:
    """Return a run that goes on from where another stood."""
    run = Run(scenario, tell)
    run.skip(before.submitted)
    name = None if run.next is None else run.next.workload.name
    if before.mark != fingerprint(scenario) or before.next_job != name:
        raise RequestError("is of another scenario", where="the saved run", fix="Bring the scenario it was begun with")
    run.events, run.decisions = before.events, before.decisions
    _set(run, before)
    return run


def fingerprint(scenario: Scenario) -> str:
    """Return what tells scenarios apart, but for their jobs."""
    parts = (scenario.policy, scenario.nodes, scenario.traffic, scenario.bookings, scenario.faults)
    moments = (
        scenario.begins_at,
        scenario.ends_at,
        scenario.seed,
        scenario.dies_s,
        scenario.span_s,
        scenario.commits_at,
    )
    return sha256(repr((parts, moments)).encode()).hexdigest()


def _set(run: Run, before: Standing) -> None:
    world, fleet = run.world, run.world.fleet
    world.now, world.holds = before.now, before.holds
    world.agenda = Agenda(list(before.coming), before.put_so_far)
    for node in before.nodes:
        fleet.put_node(node)
    for workload in before.workloads:
        fleet.put(workload)
    for service in before.services:
        fleet.put_service(service)
    fleet.failures = list(before.failures)
    fleet.quarantines = {one.node: one for one in before.quarantines}
    fleet.bookings = {one.name: one for one in before.bookings}
    fleet.crossings = {one.node: one for one in before.crossings}
    fleet.demand, fleet.growth_gpus, fleet.grants_made = before.demand, before.growth_gpus, before.grants_made
    world.doing, world.serving = dict(before.doing), dict(before.serving)
    world.pulling, world.lost = dict(before.pulling), dict(before.lost)
    world.meter.holds(before.holds)
    world.meter.go_on(before.metered)
