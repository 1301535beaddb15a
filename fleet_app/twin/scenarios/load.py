"""Read a scenario: a file, the policy and the traces it names, to what the twin runs.

The only module of the package that touches files. `changes` to the policy, from the file or from who asks, are made
before the policy is checked: what a policy file may not say is refused here too.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml
from pydantic import ValidationError

from fleet_app.engine.calendar import BookingAsk
from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Service
from fleet_app.policy.document import read_document
from fleet_app.policy.load import parse_policy, to_engine
from fleet_app.policy.problems import Problem, closest, from_pydantic
from fleet_app.policy.schema import PolicyFile
from fleet_app.twin.chance import Chance
from fleet_app.twin.scenarios import demand as demands
from fleet_app.twin.scenarios.demand import Points
from fleet_app.twin.scenarios.schema import Booking, Day, Demand, Estimate, Machines, ScenarioFile
from fleet_app.twin.scenarios.streams import Streams, spread
from fleet_app.twin.work import Asked, Faults, Scenario, Traffic

Changes = Mapping[str, object]
"""Values by dotted path, such as `headroom.immediate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the twin runs, and what it is called; the policy with all changes; what an estimate beside it rests on."""

    name: str
    about: str
    policy: PolicyFile
    scenario: Scenario
    lasts_s: float
    estimate: Estimate | None
    peak_tflops: float | None = None


def load(
    path: Path,
    *,
    changes: Changes | None = None,
    policy: Path | None = None,
    until: float | None = None,
    seed: int | None = None,
) -> Loaded:
    """Return the scenario in a file, with changes to its policy or another policy, another end or seed.

    Raises RequestError with every problem, one a line.
    """
    document = read_document(path)
    try:
        file = ScenarioFile.model_validate(document.values)
    except ValidationError as error:
        document.refuse(from_pydantic(error, ScenarioFile))
        raise  # not reached: pydantic never reports an error without details
    used = policy or path.parent / file.policy
    changed = changed_policy(used, {**(file.changes if policy is None else {}), **(changes or {})})
    document.refuse(list(_problems(file, changed)))
    lasts_s = file.lasts if until is None else until
    return Loaded(
        name=file.name,
        about=file.about,
        policy=changed,
        scenario=_scenario(file, changed, path.parent, (lasts_s, file.seed if seed is None else seed)),
        lasts_s=lasts_s,
        estimate=file.estimate,
        peak_tflops=file.fleet.machine.peak_tflops,
    )


def changed_policy(path: Path, changes: Changes) -> PolicyFile:
    """Return a policy with other values at some of its paths. Raises RequestError with every problem, one a line."""
    values = read_document(path).values
    for dotted, value in changes.items():
        *above, last = dotted.split(".")
        inside = values
        for part in above:
            found = inside.setdefault(part, {})
            if not isinstance(found, dict):
                raise RequestError(f"has nothing below {part!r}", where=f"{path}: {dotted}", fix="Correct the path")
            inside = found
        if value is None:
            inside.pop(last, None)
        else:
            inside[last] = value
    return parse_policy(yaml.safe_dump(values, sort_keys=False), str(path))


def _problems(file: ScenarioFile, policy: PolicyFile) -> Iterable[Problem]:
    """Yield what in a scenario its policy does not know."""
    known = {one.name for one in to_engine(policy).quotas}
    askers = [(("demand", n), one.team, one.priority) for n, one in enumerate(file.demand)]
    askers += [(("work", n), one.team, one.priority) for n, one in enumerate(file.work)]
    for path, team, priority in askers:
        if team not in known:
            yield Problem(path=(*path, "team"), what=f"no team is called {team!r}", fix=closest(team, known))
        if priority not in policy.classes:
            fix = closest(priority, policy.classes)
            yield Problem(path=(*path, "priority"), what=f"no class is called {priority!r}", fix=fix)
    for kind, names in (("demand", [one.name for one in file.demand]), ("work", [one.name for one in file.work])):
        for place, name in enumerate(names):
            if name in names[:place]:
                yield Problem(path=(kind, place, "name"), what=f"{name!r} is there twice", fix="Choose another name")
    levels, given = len(policy.topology.levels), len(file.fleet.per_domain)
    if levels != given:
        what = f"has {given} numbers for {levels} topology levels"
        yield Problem(path=("fleet", "per_domain"), what=what, fix="Give one a level, outermost first")


def _scenario(file: ScenarioFile, policy: PolicyFile, beside: Path, when: tuple[float, int]) -> Scenario:
    lasts_s, seed = when
    engine, chance = to_engine(policy), Chance(seed)
    values = {name: item.value for name, item in policy.classes.items()}
    return Scenario(
        policy=engine,
        nodes=nodes(file.fleet),
        jobs=Streams(
            streams=file.work,
            values=tuple(values[one.priority] for one in file.work),
            chance=chance,
            lasts_s=lasts_s,
        ),
        traffic=tuple(
            _traffic(one, values[one.priority], _points(one, chance, beside, lasts_s)) for one in file.demand
        ),
        bookings=tuple(_booking(one, file.fleet) for one in file.bookings if one.asked < lasts_s),
        faults=Faults(
            node_mean_s=file.breaks.node_every,
            repair=spread(file.breaks.repair),
            rank_mean_gpu_s=file.breaks.rank_every,
        ),
        ends_at=lasts_s,
        seed=seed,
        span_s=file.span,
    )


def nodes(fleet: Machines) -> tuple[Node, ...]:
    """Return the nodes of a scenario's fleet, serving's first, a domain after the other."""
    machine = fleet.machine
    capacity = Shape(gpus=machine.gpus, cpu_milli=machine.cpus, memory_mib=machine.memory)
    return tuple(
        Node(
            name=f"n{number:04}",
            node_class=NodeClass.SERVING if number < fleet.serving else NodeClass.TRAINING,
            domains=tuple(f"d{level}-{number // size}" for level, size in enumerate(fleet.per_domain)),
            capacity=capacity,
            accelerator=machine.accelerator,
        )
        for number in range(fleet.serving + fleet.training)
    )


def _traffic(demand: Demand, value: int, points: Points) -> Traffic:
    shape = Shape(gpus=demand.gpus, cpu_milli=4_000 * demand.gpus, memory_mib=65_536 * demand.gpus)
    return Traffic(
        service=Service(name=demand.name, team=demand.team, priority=value, shape=shape, floor=demand.floor),
        rates=demands.rates(demand, points),
        slot_rate=demand.requests_per_s / demand.slots,
        slots=demand.slots,
        busy=demand.busy,
        keeps_s=demand.keeps,
        start_s=spread(demand.start),
        stops_s=demand.stops,
        sm_active=demand.sm_active,
        tflop_a_request=demand.tflop_a_request,
        objective_s=demand.objective,
    )


def _points(demand: Demand, chance: Chance, beside: Path, lasts_s: float) -> Points:
    over_time = demand.gpus_over_time
    if isinstance(over_time, Day):
        points = demands.day(over_time, chance, demand.name, lasts_s)
    else:
        points = demands.repeated(rows(beside / over_time.file), over_time.peak, lasts_s)
    if demand.spikes is None:
        return points
    return demands.with_spikes(points, demand, chance, lasts_s)


def rows(path: Path) -> list[tuple[float, float]]:
    """Return a trace's rows: a moment (ISO 8601) and a value each, under one line of headings."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return [_row(cells, f"{path}:{number}") for number, cells in enumerate(csv.reader(lines), 1) if number > 1]
    except OSError as error:
        raise RequestError(f"cannot be read: {error.strerror}", where=str(path), fix="Correct `file`") from error


def _row(cells: list[str], where: str) -> tuple[float, float]:
    try:
        at, value = cells
        return datetime.fromisoformat(at).timestamp(), float(value)
    except ValueError as error:
        fix = "Write `2026-01-31T12:00:00Z,17`"
        raise RequestError(f"is no moment and value: {error}", where=where, fix=fix) from error


def _booking(one: Booking, fleet: Machines) -> Asked:
    machine = fleet.machine
    ask = BookingAsk(
        name=one.name,
        team=one.team,
        shape=Shape(gpus=machine.gpus, cpu_milli=machine.cpus, memory_mib=machine.memory),
        count=one.nodes,
        start_at=one.since,
        end_at=one.until,
        within=one.within,
        most_domains=one.most_domains,
        asked_by="scenario",
    )
    return Asked(at=one.asked, ask=ask)
