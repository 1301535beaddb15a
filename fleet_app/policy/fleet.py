"""The nodes of a local fleet: what `fleet up` starts, one Ray node each, with declared GPUs and labels.

Does not know Ray: it only names the labels and quantities that a node is to have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from fleet_app.engine.cards import MIG
from fleet_app.policy.document import Document, parse_document, read_document
from fleet_app.policy.problems import Problem, from_pydantic
from fleet_app.policy.schema import PolicyFile
from fleet_app.policy.section import Section
from fleet_app.policy.slices import Partition
from fleet_app.policy.units import Gpus, Mebibytes, MilliCpus, Name

LABEL_PREFIX = "fleet/"
ACCELERATOR_LABEL = "ray.io/accelerator-type"


class FleetNode(Section):
    """One node: its own name, its class, its domain a topology level, and what it declares to have.

    `cpus` are thousandths of a CPU, `memory` MiB. `partitions` counts those that its cut cards have by their MIG
    profile, beside its whole `gpus`; with the label `partition: shared` its GPUs are shared.
    """

    name: Name
    labels: dict[Name, Name] = Field(default_factory=dict)
    gpus: Gpus = 8
    cpus: MilliCpus = 16_000
    memory: Mebibytes = 65_536
    accelerator: Name | None = None
    partitions: dict[Partition, Annotated[int, Field(strict=True, ge=1, le=10_000)]] = Field(default_factory=dict)

    def ray_labels(self) -> dict[str, str]:
        """Return the labels as Ray carries them: `fleet/node`, `fleet/class`, `fleet/<level>`, its accelerator."""
        own = {f"{LABEL_PREFIX}node": self.name} | {LABEL_PREFIX + key: value for key, value in self.labels.items()}
        return own | ({} if self.accelerator is None else {ACCELERATOR_LABEL: self.accelerator})

    def ray_resources(self) -> dict[str, float]:
        """Return the node's partitions as Ray counts them: `mig-1g.10gb` and the like."""
        return {MIG + profile: float(count) for profile, count in self.partitions.items()}


class FleetFile(Section):
    """A local fleet: its name and its nodes."""

    version: Annotated[int, Field(strict=True, ge=1, le=1)]
    name: Name
    nodes: Annotated[tuple[FleetNode, ...], Field(min_length=1, max_length=1000)]

    @property
    def total_gpus(self) -> int:
        """Return the GPUs of all nodes together."""
        return sum(node.gpus for node in self.nodes)


def load_fleet(path: Path | str) -> FleetFile:
    """Return the fleet in a file; raise RequestError with every problem, one a line."""
    return _fleet(read_document(Path(path)))


def parse_fleet(text: str, source: str = "fleet") -> FleetFile:
    """Return the fleet in a text that messages call `source`; raise RequestError with every problem."""
    return _fleet(parse_document(text, source))


def check_fleet(fleet: FleetFile, policy: PolicyFile) -> list[Problem]:
    """Return where the nodes and the policy do not match: labels for its levels, GPUs of its whole node."""
    problems = []
    for place, node in enumerate(fleet.nodes):
        if not node.partitions and node.gpus not in (0, policy.topology.gpus_per_node):
            problems.append(
                Problem(
                    path=("nodes", place, "gpus"),
                    what=f"is {node.gpus}, but the policy's whole node has {policy.topology.gpus_per_node}",
                    fix="Correct one of the two",
                )
            )
        problems += [
            Problem(
                path=("nodes", place, "labels"),
                what=f"names no {level}, which is a topology level of the policy",
                fix=f"Add {level}: NAME",
            )
            for level in policy.topology.levels
            if level not in node.labels
        ]
    return problems


def _fleet(document: Document) -> FleetFile:
    try:
        fleet = FleetFile.model_validate(document.values)
    except ValidationError as error:
        document.refuse(from_pydantic(error, FleetFile))
        raise  # not reached: pydantic never reports an error without details
    document.refuse(list(_own_problems(fleet)))
    return fleet


def _own_problems(fleet: FleetFile) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, node in enumerate(fleet.nodes):
        if node.name in seen:
            yield Problem(
                path=("nodes", place, "name"),
                what=f"{node.name!r} is the name of two nodes",
                fix="Give every node a name of its own",
            )
        seen.add(node.name)
        if node.labels.get("class") not in _CLASSES:
            yield Problem(
                path=("nodes", place, "labels", "class"),
                what=f"is {node.labels.get('class')!r}",
                fix="Write serving or training",
            )


_CLASSES: tuple[Literal["serving"], Literal["training"]] = ("serving", "training")
