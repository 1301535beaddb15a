"""Groups in a submission: bundles of several shapes, one gang (rule P7).

Knows how groups are written: in YAML as a mapping, in a job's metadata as the same in JSON. Does not know teams.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Group
from fleet_app.policy.problems import Path, Problem, refuse
from fleet_app.policy.section import Section
from fleet_app.policy.units import Gpus, Mebibytes, MilliCpus, Name

MOST_GROUPS = 8
"""What a gang may consist of: the effort of placing groups together doubles with each."""

SHAPE_KEYS = ("nodes", "min_nodes", "gpus", "cpus", "memory")
"""What a submission says of its bundles where they are all alike, and of each group where they are not."""


ELASTIC_KEY = "min_nodes"


class GroupSpec(Section):
    """`nodes` bundles of one shape, one a node; a group may ask for no GPU."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    gpus: Gpus = 0
    cpus: MilliCpus = 1000
    memory: Mebibytes = 0

    @property
    def total_gpus(self) -> int:
        """Return the GPUs of all of its bundles together."""
        return self.nodes * self.gpus


GroupSpecs = Annotated[dict[Name, GroupSpec], Field(min_length=2, max_length=MOST_GROUPS)]


def to_groups(groups: Mapping[str, GroupSpec]) -> tuple[Group, ...]:
    """Return the engine's groups, in the order in which they were written: that of the ranks."""
    return tuple(
        Group(
            name=name,
            shape=Shape(gpus=group.gpus, cpu_milli=group.cpus, memory_mib=group.memory),
            bundles=group.nodes,
        )
        for name, group in groups.items()
    )


def check_groups(groups: Mapping[str, GroupSpec], gpus_per_node: int) -> Iterator[Problem]:
    """Yield what no fleet could place, and what Ray could not hold."""
    for name, group in groups.items():
        here: Path = ("groups", name)
        if group.gpus > gpus_per_node:
            yield Problem(
                path=(*here, "gpus"),
                what=f"is {group.gpus} a bundle, but a node has {gpus_per_node}",
                fix="Ask for fewer GPUs a bundle",
            )
        if not (group.gpus or group.cpus or group.memory):
            yield Problem(path=here, what="asks for nothing", fix="Give it gpus, cpus or memory")
    if not any(group.gpus for group in groups.values()):
        yield Problem(path=("groups",), what="asks for no GPU at all", fix="Give at least one group gpus")


def refuse_shapes_beside_groups(given: Mapping[str, object], source: str) -> None:
    """Refuse a submission that says its bundles twice, by groups and all alike, or is elastic. Raises RequestError."""
    groups = given.get("groups")
    if groups is None:
        return
    twice = (key for key in SHAPE_KEYS if key in given and key != ELASTIC_KEY)
    problems = [
        Problem(path=(key,), what="is given beside groups", fix=f"Write {key} in each group instead") for key in twice
    ]
    refuse([*problems, *_elastic(given, groups)], source)


def _elastic(given: Mapping[str, object], groups: object) -> Iterator[Problem]:
    """Yield where a gang of several shapes asks to be elastic: members are of one shape (R8)."""
    paths: list[Path] = [(ELASTIC_KEY,)] if ELASTIC_KEY in given else []
    for name, group in groups.items() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping) and ELASTIC_KEY in group:
            paths.append(("groups", str(name), ELASTIC_KEY))
    what = "is for bundles of one shape: of several shapes none may leave or join alone"
    for path in paths:
        yield Problem(path=path, what=what, fix="Leave it out, or ask for bundles of one shape")


def read_groups(text: object, source: str) -> object:
    """Return the groups in a metadata value, which is JSON text; raise RequestError when it is none."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        fix = 'Write for example {"ps": {"cpus": 16}, "actors": {"nodes": 4, "gpus": 8}}'
        refuse([Problem(path=("groups",), what="is no JSON", fix=fix)], source)
        raise
