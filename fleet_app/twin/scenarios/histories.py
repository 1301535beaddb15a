"""Jobs of a history as a stream of ours: which of them come, when, how often, and what each then asks for. Pure.

The history says who asked for how many GPUs, when and for how long; how such a job behaves with us is the scenario's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Group, Kind, Workload, widest
from fleet_app.twin.chance import Chance
from fleet_app.twin.readers.row import Row, equal, whole_and_rest
from fleet_app.twin.scenarios.schema import Work
from fleet_app.twin.scenarios.sources import History, Only

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What streams are drawn by: the value of their priority, GPUs a node, luck, and how long the run is."""

    value: int
    per_node: int
    chance: Chance
    lasts_s: float


def came(work: Work, history: History, rows: Sequence[Row], drawn: Drawn) -> Iterator[tuple[Workload, Row]]:
    """Yield each workload that comes within the run and what the history says of it, first submitted first.

    A history may be long: nothing is made of a row before it is its turn.
    """
    for at, name, place in sorted(_moments(work.name, history, rows, drawn)):
        one = _workload(work, history, rows[place], drawn)
        yield replace(one, name=name, submitted_at=at), rows[place]


def _moments(stream: str, history: History, rows: Sequence[Row], drawn: Drawn) -> Iterator[tuple[float, str, int]]:
    """Yield when each workload comes, what it is called and the place of its row, a day later each further time."""
    first = min((row.submitted_at for row in rows), default=0.0)
    last = max((row.submitted_at for row in rows), default=0.0)
    turn_s = DAY_S * (1.0 + (last - first) // DAY_S)
    for place, row in enumerate(rows):
        for copy in range(_copies(row, stream, history.scale, drawn.chance) if wanted(row, history.only) else 0):
            at = (row.submitted_at - first + copy * DAY_S) % turn_s - history.skips
            if 0.0 <= at < drawn.lasts_s:
                yield at, f"{stream}-{row.name}" + (f".{copy}" if copy else ""), place


def wanted(row: Row, only: Only) -> bool:
    """Return whether a job is one of those that come."""
    fits = only.gpus.least <= row.gpus and (only.gpus.most is None or row.gpus <= only.gpus.most)
    return fits and row.team in (only.teams or (row.team,)) and row.queue in (only.queues or (row.queue,))


def _copies(row: Row, stream: str, scale: float, chance: Chance) -> int:
    """Return how often a job comes: each time by its own luck, so a longer history changes none of it."""
    whole = int(scale)
    rest = scale - whole
    return whole + (rest > 0.0 and chance.of("comes", stream, row.name).random() < rest)


def _workload(work: Work, history: History, row: Row, drawn: Drawn) -> Workload:
    groups = _groups(work, row, drawn.per_node)
    return Workload(
        name=row.name,
        kind=Kind(work.kind),
        team=history.teams.get(row.team, work.team),
        priority=drawn.value,
        shape=widest(groups),
        bundles=sum(group.bundles for group in groups),
        groups=groups if len(groups) > 1 else (),
        within=work.within,
        grace_s=work.grace,
        movable=work.manners.movable,
        max_run_s=(row.limit_s or row.run_s) if history.declares else None,
    )


def _groups(work: Work, row: Row, per_node: int) -> tuple[Group, ...]:
    """Return how a job lies on nodes of so many GPUs: as on theirs where that is known and ours are no smaller."""
    as_theirs = row.nodes is not None and row.gpus % row.nodes == 0 and row.gpus // row.nodes <= per_node
    found = (equal if as_theirs else whole_and_rest)(row, per_node)
    return tuple(replace(group, shape=_shape(work, group.shape.gpus)) for group in found)


def _shape(work: Work, gpus: int) -> Shape:
    return Shape(gpus=gpus, cpu_milli=work.cpus * gpus, memory_mib=work.memory * gpus)
