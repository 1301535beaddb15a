"""Read a scenario: a file, the policy and the traces it names, to what the twin runs.

With `inputs` the only module of the package that touches files. `changes` to the policy, from the file or from who
asks, are made before the policy is checked: what a policy file may not say is refused here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import yaml
from pydantic import ValidationError

from fleet_app.engine.calendar import BookingAsk, Transfer
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
from fleet_app.twin.scenarios.histories import Drawn
from fleet_app.twin.scenarios.inputs import Inputs
from fleet_app.twin.scenarios.schema import Booking, Day, Demand, Estimate, Machines, ScenarioFile, Trace, Work
from fleet_app.twin.scenarios.sources import Azure, History
from fleet_app.twin.scenarios.streams import Streams, spread
from fleet_app.twin.work import Asked, Faults, Scenario, Traffic

Where = tuple[str | int, ...]
"""A path inside the file."""

Changes = Mapping[str, object]
"""Values by dotted path, such as `headroom.immediate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the twin runs, its name, the policy with all changes, what an estimate rests on, and what was read."""

    name: str
    about: str
    policy: PolicyFile
    scenario: Scenario
    lasts_s: float
    estimate: Estimate | None
    peak_tflops: float | None = None
    read: tuple[str, ...] = ()


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
    inputs = Inputs(path.parent, strict=file.malformed == "refuse")
    scenario = _scenario(file, changed, inputs, (lasts_s, file.seed if seed is None else seed))
    return Loaded(
        name=file.name,
        about=file.about,
        policy=changed,
        scenario=scenario,
        lasts_s=lasts_s,
        estimate=file.estimate,
        peak_tflops=file.fleet.machine.peak_tflops,
        read=inputs.sentences(),
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
            yield _no_team((*path, "team"), team, known)
        if priority not in policy.classes:
            fix = closest(priority, policy.classes)
            yield Problem(path=(*path, "priority"), what=f"no class is called {priority!r}", fix=fix)
    if file.commits is not None:
        yield from _commits(file.commits, policy)
    for number, work in enumerate(file.work):
        yield from _problems_of(work, ("work", number), known)
    yield from _problems_of_bookings(file.bookings, known)
    for kind, names in (("demand", [one.name for one in file.demand]), ("work", [one.name for one in file.work])):
        for place, name in enumerate(names):
            if name in names[:place]:
                yield Problem(path=(kind, place, "name"), what=f"{name!r} is there twice", fix="Choose another name")
    levels, given = len(policy.topology.levels), len(file.fleet.per_domain)
    if levels != given:
        what = f"has {given} numbers for {levels} topology levels"
        yield Problem(path=("fleet", "per_domain"), what=what, fix="Give one a level, outermost first")


def _commits(name: str, policy: PolicyFile) -> Iterable[Problem]:
    rules = policy.classes.get(name)
    if rules is None:
        fix = closest(name, policy.classes)
        yield Problem(path=("commits",), what=f"no class is called {name!r}", fix=fix)
    elif rules.yields:
        what = f"is {name!r}, which yields, so that nothing is committed at it"
        yield Problem(path=("commits",), what=what, fix="Name a class that does not yield")


def _problems_of(work: Work, path: Where, known: set[str]) -> Iterable[Problem]:
    """Yield what is wrong with where a stream's work comes from."""
    if isinstance(work.arrives, History):
        for theirs, team in work.arrives.teams.items():
            if team not in known:
                yield _no_team((*path, "arrives", "teams", theirs), team, known)
        if work.shapes:
            what, fix = "stands beside a history, which says itself what is asked for", "Leave `shapes` out"
            yield Problem(path=(*path, "shapes"), what=what, fix=fix)
    elif not work.shapes:
        what, fix = (
            "has no shapes: nobody knows what is asked for",
            "Add `shapes: [{nodes: 1}]`, or come from a history",
        )
        yield Problem(path=path, what=what, fix=fix)


def _problems_of_bookings(bookings: Iterable[Booking], known: set[str]) -> Iterable[Problem]:
    """Yield where a booking names a team that the policy does not know: whose it is, or who lends to it."""
    for number, booking in enumerate(bookings):
        if booking.team not in known:
            yield _no_team(("bookings", number, "team"), booking.team, known)
        for place, transfer in enumerate(booking.transfers):
            if transfer.lender not in known:
                yield _no_team(("bookings", number, "transfers", place, "lender"), transfer.lender, known)


def _no_team(path: Where, team: str, known: set[str]) -> Problem:
    return Problem(path=path, what=f"no team is called {team!r}", fix=closest(team, known))


def _scenario(file: ScenarioFile, policy: PolicyFile, inputs: Inputs, when: tuple[float, int]) -> Scenario:
    lasts_s, seed = when
    engine, chance = to_engine(policy), Chance(seed)
    values = {name: item.value for name, item in policy.classes.items()}
    return Scenario(
        policy=engine,
        nodes=nodes(file.fleet),
        jobs=Streams(
            streams=file.work,
            drawn=tuple(
                Drawn(value=values[one.priority], per_node=file.fleet.machine.gpus, chance=chance, lasts_s=lasts_s)
                for one in file.work
            ),
            rows=tuple(inputs.rows(one.arrives) if isinstance(one.arrives, History) else () for one in file.work),
        ),
        traffic=tuple(
            _traffic(one, values[one.priority], _points(one, chance, inputs, lasts_s)) for one in file.demand
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
        commits_at=None if file.commits is None else values[file.commits],
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


def _points(demand: Demand, chance: Chance, inputs: Inputs, lasts_s: float) -> Points:
    over_time = demand.gpus_over_time
    match over_time:
        case Day():
            points = demands.day(over_time, chance, demand.name, lasts_s)
        case Azure():
            points = demands.repeated(inputs.rates(over_time), over_time.peak, lasts_s)
        case Trace():
            points = demands.repeated(inputs.values(over_time.file), over_time.peak, lasts_s)
        case _:
            assert_never(over_time)
    if demand.spikes is None:
        return points
    return demands.with_spikes(points, demand, chance, lasts_s)


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
        transfers=tuple(
            Transfer(lender=each.lender, gpus=each.gpus, approved_by=each.approved_by) for each in one.transfers
        ),
        asked_by="scenario",
    )
    return Asked(at=one.asked, ask=ask)
