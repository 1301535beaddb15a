"""The policy file `fleet.yaml`: who owns what, who yields, and by which contract.

Pydantic models, one a section, and the walk over the quota tree. What must hold between sections is in `checks.py`.
Attributes have the units of their type: `Seconds` in seconds, `Mebibytes` in MiB, `MilliCpus` in thousandths of a
CPU, `Gpus` in whole GPUs. Does not know nodes, jobs or the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fleet_app.policy.history import Accounting, History
from fleet_app.policy.kubernetes import Kubernetes
from fleet_app.policy.section import Section
from fleet_app.policy.units import (
    Gpus,
    LabelKey,
    LevelName,
    Mebibytes,
    MilliCpus,
    Name,
    PositiveGpus,
    PositiveSeconds,
    Seconds,
)

WorkloadKind = Literal["gang", "backfill"]
NoticeKind = Literal["library", "signal"]


class Topology(Section):
    """The fabric: level names, outermost first, and how many GPUs a whole node has."""

    levels: Annotated[tuple[LevelName, ...], Field(min_length=1, max_length=8)] = ("spine", "leaf")
    gpus_per_node: Annotated[int, Field(strict=True, ge=1, le=1024)] = 8


class FlavorLimits(Section):
    """What an entry has of one flavor: partitions, or GPUs of a shared one. A limit left out does not limit.

    Of whole GPUs of an accelerator (`h100-whole`) `nominal` is the most that it has of those, and there is no limit.
    """

    nominal: Gpus = 0
    borrowing_limit: Gpus | None = None
    lending_limit: Gpus | None = None


class Team(Section):
    """An entry of the quota tree: a team, or an organisation when it has `teams` below it.

    `nominal` left out is 0 for a team, and for an organisation what its teams have together. A limit left out does not
    limit. `weight` is its share among borrowers. A `strict` queue is taken in order, and what cannot start holds up
    what is behind it; a `best-effort` one lets that pass. `quota` has numbers by flavor, such as `h100-mig-1g.10gb` or
    `l4-shared`; slices of flavors for which nobody has any count against `nominal`, in whole GPUs. Those of
    `h100-whole` and the like say how many of the whole GPUs in `nominal` may be of that accelerator.
    """

    nominal: Gpus | None = None
    borrowing_limit: Gpus | None = None
    lending_limit: Gpus | None = None
    weight: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    queue: Literal["best-effort", "strict"] = "best-effort"
    quota: dict[Name, FlavorLimits] = Field(default_factory=dict)
    teams: dict[Name, Team] = Field(default_factory=dict)


class PriorityClass(Section):
    """A named priority: its value, whether it may borrow, whether it yields, and which teams may submit at it.

    `teams` left out lets every team; an organisation's name lets all of its teams.
    """

    value: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
    borrows: Annotated[bool, Field(strict=True)] = False
    yields: Annotated[bool, Field(strict=True)] = False
    teams: tuple[Name, ...] | None = None


def standard_classes() -> dict[str, PriorityClass]:
    """Return the three classes that a policy has when it names none."""
    return {
        "serving-production": PriorityClass(value=100_000),
        "training-committed": PriorityClass(value=50_000),
        "training-backfill": PriorityClass(value=1_000, borrows=True, yields=True),
    }


class DefaultClass(Section):
    """The class of a workload or service that names none, by its kind."""

    gang: Name = "training-committed"
    backfill: Name = "training-backfill"
    service: Name = "serving-production"


class DrainContract(Section):
    """How long a drained workload has, and what breaking the contract costs it.

    `restart_cost` is the work that a drain loses beside what was not checkpointed; after `max_broken` broken
    contracts a workload loses the right to lent capacity. What was drained before is asked again for a gang only after
    it ran for `min_run`; for serving always. In one cycle gangs ask at most `most_per_cycle` to leave, or all of whom
    the first of them needs. While `most_at_once` leave or move, and so save into the same storage, nobody more is asked
    by plan: for the boundary, or for a booking that leaves time. Serving and gangs never wait for that.
    """

    grace: PositiveSeconds = 120.0
    longest_grace: PositiveSeconds = 600.0
    max_broken: Annotated[int, Field(strict=True, ge=0, le=1000)] = 3
    restart_cost: Seconds = 60.0
    min_run: Seconds = 0.0
    most_per_cycle: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    most_at_once: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None


class Ordering(Section):
    """Who comes first within a priority, and for whom room is kept.

    For each full `ageing` of waiting a workload counts as one class higher; left out, none age. Only among classes with
    the same rights at which its team may submit, and never the class of services. With `shortest_first` whoever
    declared the shortest `max_run_time` is next. Only for the first `keepers` that wait room is kept from later work;
    left out, for all of them.
    """

    ageing: PositiveSeconds | None = None
    shortest_first: Annotated[bool, Field(strict=True)] = False
    keepers: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = None


class Packing(Section):
    """Which of the nodes that do are taken: the `fullest`, or the `first` in the fabric's order.

    `rest` is the same for all but the largest bundles of a gang of several shapes: as the others, or the `emptiest`.
    With `cpus_per_gpu` a free GPU is of use only with so many CPUs beside it, and what starts goes first to where the
    fewest become useless.
    """

    nodes: Literal["fullest", "first"] = "fullest"
    rest: Literal["alike", "emptiest"] = "alike"
    cpus_per_gpu: MilliCpus = 0


class Idle(Section):
    """When an interactive session ends: after so long in which no more than `used_percent` of its GPUs was active."""

    after: PositiveSeconds = 7200.0
    used_percent: Annotated[int, Field(strict=True, ge=0, le=100)] = 5


class RightSize(Section):
    """What is recommended to be smaller: what used less than `below_percent` for `after`.

    So small that it would use `target_percent`. Nothing is ever done about it.
    """

    after: PositiveSeconds = 86_400.0
    below_percent: Annotated[int, Field(strict=True, ge=1, le=100)] = 40
    target_percent: Annotated[int, Field(strict=True, ge=1, le=100)] = 70


class Source(Section):
    """A registry or store: how many pulls from it may be under way at once, and how fast it is, if that is known."""

    most_at_once: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    gbit_per_s: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None


class Pulls(Section):
    """Limits on fetching images and weights: of sources, and how many pulls one node takes at once.

    What is not named is not limited.
    """

    sources: dict[Name, Source] = Field(default_factory=dict)
    most_per_node: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None


class Spares(Section):
    """How many nodes of each domain of a `level` are kept for gangs that lost a node; of the fleet without a level.

    Work that yields may use them meanwhile.
    """

    level: LevelName | None = None
    nodes: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 0


class ServiceRules(Section):
    """Where the replicas of a service may be: at most `per_node` on one, none beside those of `apart_from`.

    `spread` names the topology level over whose domains they are spread.
    """

    spread: LevelName | None = None
    per_node: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None
    apart_from: tuple[Name, ...] = ()


class Headroom(Section):
    """How many GPUs of serving's idle nominal are kept free for the next replicas.

    With a `quantile` as many as demand grows by within `startup` in all but 1 - `quantile` of the cases so far; never
    fewer than `min` nor more than `max`. `immediate` without one, and until enough is known.
    """

    immediate: Gpus = 0
    quantile: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    startup: PositiveSeconds = 90.0
    min: Gpus = 0
    max: Gpus | None = None


class Boundary(Section):
    """How nodes are shared out between the classes, and whose nominal goes along when one crosses.

    `serving` and `training` name the teams that stand for the classes; their nominals are written for the labels that
    the nodes have. Serving keeps what is wanted within `horizon` in all but 1 - `quantile` of the cases, and `margin`
    GPUs more before it gives any away. At most `most_nodes_a_week` cross.
    """

    serving: Name
    training: Name
    quantile: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.99
    horizon: PositiveSeconds = 604_800.0
    margin: Gpus = 8
    most_nodes_a_week: Annotated[int, Field(strict=True, ge=0, le=100_000)] = 2


class Health(Section):
    """When a node is kept out of placement, and how often a gang whose ranks die is started again.

    A node may be away for `tolerance`. One that was lost with something on it, or on which a rank died, is kept out for
    `quarantine`; so is one on which `failures` different workloads failed within `window`, as long as no more than
    `most_percent` of the nodes are (one always may). `restarts` counts those without a new checkpoint between them.
    """

    tolerance: Seconds = 30.0
    quarantine: PositiveSeconds = 86_400.0
    failures: Annotated[int, Field(strict=True, ge=1, le=1000)] = 3
    window: PositiveSeconds = 86_400.0
    most_percent: Annotated[int, Field(strict=True, ge=0, le=100)] = 10
    restarts: Annotated[int, Field(strict=True, ge=0, le=1000)] = 3


class Calendar(Section):
    """What bookings may displace, how early room is made for them, and how long they are remembered.

    One that displaces more than `approve_above_gpu_hours` needs an approver other than who asked. A booking lies in at
    most `most_domains` domains. What yields is asked to leave `reclaim_lead` before the start, or its grace where that
    is longer; committed work `move_lead` before. For `hold` after the start booked room that is idle is lent to nobody.
    One that has ended is listed for `keep`.
    """

    approve_above_gpu_hours: Annotated[float, Field(strict=True, ge=0, le=1_000_000_000, allow_inf_nan=False)] = 0.0
    most_domains: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    reclaim_lead: Seconds = 0.0
    move_lead: Seconds = 3600.0
    hold: Seconds = 900.0
    keep: Seconds = 30 * 86_400.0


class Slicing(Section):
    """How cards are cut into partitions and shared: without this section a GPU is a whole one.

    A shared card has at most `shares` users. With `repartition` the layouts of empty cards follow what is asked for; a
    cut card changes only when nothing has been on it for `settle`. `together` says what changes at once: all cards of a
    `node`, to the same layout, as NVIDIA's MIG manager does it, or one `card`.
    """

    shares: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10
    repartition: Annotated[bool, Field(strict=True)] = False
    settle: Seconds = 600.0
    together: Literal["node", "card"] = "node"


class NodePools(Section):
    """What is known of the pools that nodes come from, on Kubernetes.

    Where a site `scales` its nodes, they are asked for ahead of need: a node takes work `boot` after it was asked for,
    and what services may want by then is covered in all but 1 - `quantile` of the cases. `topology` names the label of
    Kubernetes nodes that a topology level is read from; left out, `fleet/<level>` and the names that topograph and the
    clouds use are.
    """

    scales: Annotated[bool, Field(strict=True)] = False
    boot: PositiveSeconds = 360.0
    quantile: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.95
    topology: dict[LevelName, LabelKey] = Field(default_factory=dict)


class Defaults(Section):
    """What a submission is taken to ask for where it does not say; memory and CPUs are a bundle's."""

    team: Name | None = None
    kind: WorkloadKind = "backfill"
    nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    gpus: PositiveGpus = 1
    cpus: MilliCpus = 1000
    memory: Mebibytes = 0


class Serving(Section):
    """What services are held to."""

    latency_objective: PositiveSeconds = 0.8


class PolicyFile(Section):
    """A whole policy file. Organisations at the top each head a cohort: teams lend to one another inside it."""

    version: Annotated[int, Field(strict=True, ge=1, le=1)]
    name: Name
    topology: Topology = Topology()
    organisations: Annotated[dict[Name, Team], Field(min_length=1)]
    classes: Annotated[dict[Name, PriorityClass], Field(min_length=1, default_factory=standard_classes)]
    default_class: DefaultClass = DefaultClass()
    drain: DrainContract = DrainContract()
    ordering: Ordering = Ordering()
    packing: Packing = Packing()
    spares: Spares = Spares()
    services: dict[Name, ServiceRules] = Field(default_factory=dict)
    pulls: Pulls = Pulls()
    idle: Idle = Idle()
    right_size: RightSize = RightSize()
    slicing: Slicing | None = None
    node_pools: NodePools = NodePools()
    headroom: Headroom = Headroom()
    health: Health = Health()
    calendar: Calendar = Calendar()
    history: History = History()
    boundary: Boundary | None = None
    defaults: Defaults = Defaults()
    serving: Serving = Serving()
    accounting: Accounting = Accounting()
    kubernetes: Kubernetes = Kubernetes()

    @property
    def service_priority(self) -> int:
        """Return the priority value of every service."""
        return self.classes[self.default_class.service].value


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A team or organisation at its place in the tree; `path` has the names from the top, its own last."""

    name: str
    path: tuple[str, ...]
    team: Team

    @property
    def parent(self) -> str | None:
        """Return the name of the entry above it, None at the top."""
        return self.path[-2] if len(self.path) > 1 else None

    @property
    def is_team(self) -> bool:
        """Return whether workloads can be submitted for it: it has no teams below."""
        return not self.team.teams

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys that lead to it in the file."""
        keys = ["organisations", self.path[0]]
        for name in self.path[1:]:
            keys += ["teams", name]
        return tuple(keys)


def entries(policy: PolicyFile) -> tuple[Entry, ...]:
    """Return every organisation and team of the policy, each before those below it, in the file's order."""
    return tuple(_walk(policy.organisations, ()))


def nominal_gpus(team: Team) -> int:
    """Return what an entry is entitled to: as stated, or what the teams below it have together."""
    if team.nominal is not None:
        return team.nominal
    return sum(nominal_gpus(below) for below in team.teams.values())


def may_use(entry: Entry, priority: PriorityClass) -> bool:
    """Return whether a team may submit at a priority class."""
    return priority.teams is None or any(name in priority.teams for name in entry.path)


def _walk(teams: Mapping[str, Team], above: tuple[str, ...]) -> Iterator[Entry]:
    for name, team in teams.items():
        path = (*above, name)
        yield Entry(name=name, path=path, team=team)
        yield from _walk(team.teams, path)
