"""The rules in force, as the engine reads them: levels, teams, classes, contract, headroom, health, calendar, slicing.

Values only; `fleet_app.policy` parses and checks the file that they come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """What an entry has of one flavor, in its unit: partitions, or ten-thousandths of a shared GPU (V5).

    Of whole GPUs of an accelerator `nominal` is the most that it may have (V9).
    """

    flavor: str
    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One entry of the quota tree: an organisation or a team.

    `parent` is None for the root of a cohort. A limit that is None does not limit. `strict` is whether its queue is
    taken strictly in order. `flavors` are numbers of their own for some flavors; the rest is for all others together.
    """

    name: str
    parent: str | None = None
    nominal_gpus: int = 0
    borrowing_limit_gpus: int | None = None
    lending_limit_gpus: int | None = None
    weight: int = 1
    strict: bool = False
    flavors: tuple[FlavorQuota, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A named priority and what it entitles to.

    Only a class with `borrows` may take a team above its nominal quota; only one with `yields`
    is ever drained for somebody else. Only `teams` may submit at it, all where it is None.
    """

    name: str
    value: int
    borrows: bool = False
    yields: bool = False
    teams: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """Who comes first within a priority, beside what holds in any policy, and for whom room is kept.

    For each full `ageing_s` seconds of waiting a workload counts as one class higher; None where none age (O8). With
    `shortest_first` whoever declared the shortest maximum run time is next (O10). Only the first `keepers` that wait
    keep room from later work, all where it is None (O11).
    """

    ageing_s: float | None = None
    shortest_first: bool = False
    keepers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Which of the nodes that do are taken: the fullest, or with `first_fit` the first (P10).

    With `rest_emptiest` all but the largest bundles of a gang of several shapes go to the emptiest nodes (P11). Where
    `cpu_milli_per_gpu` is not 0, a free GPU is of use only with so many CPUs beside it: those nodes come first on which
    the fewest become useless (P13).
    """

    first_fit: bool = False
    rest_emptiest: bool = False
    cpu_milli_per_gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainContract:
    """How long a drained workload has, what breaking the contract costs, and how long it may then run undisturbed.

    `min_run_s` is for how long what was drained before is not asked again for a gang; serving may ask at any time.
    `most_per_cycle` is how many may be asked to leave for gangs in one cycle (R9), `most_at_once` how many may leave or
    move while more are asked by plan (D7); None without a limit.
    """

    grace_s: float = 120.0
    longest_grace_s: float = 600.0
    max_broken: int = 3
    restart_cost_s: float = 60.0
    min_run_s: float = 0.0
    most_per_cycle: int | None = None
    most_at_once: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """How long an interactive session may use no more than `used_percent` of its GPUs before it ends."""

    after_s: float = 7200.0
    used_percent: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSize:
    """What used less than `below_percent` for `after_s` could be so small that it would use `target_percent`."""

    after_s: float = 86_400.0
    below_percent: int = 40
    target_percent: int = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where artifacts come from: how many may be pulled from it at once, and how fast; None where that is not known."""

    name: str
    most_at_once: int
    gbit_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulls:
    """Sources that are limited, and how many pulls one node takes at once; others, and None, are not limited."""

    sources: tuple[Source, ...] = ()
    most_per_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spares:
    """How many `nodes` of each domain of a level, or of the fleet, are kept for gangs that were torn down."""

    level: str | None = None
    nodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Where the replicas of one service may be beside others: at most `per_node` on a node, none beside `apart_from`.

    `spread` names the topology level over whose domains they are spread. What is None says nothing. Of one that a
    service asks for itself `service` is its own name.
    """

    service: str
    spread: str | None = None
    per_node: int | None = None
    apart_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """How much of serving's idle nominal stays free for the next replicas, in GPUs.

    With a `quantile` it is the growth of demand within `startup_s` seconds that is not exceeded in that part of the
    cases, at least `minimum_gpus` and at most `maximum_gpus`; `immediate_gpus` without one, or while nobody knows.
    """

    immediate_gpus: int = 0
    quantile: float | None = None
    startup_s: float = 90.0
    minimum_gpus: int = 0
    maximum_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """How the nodes are shared out between the classes: whose nominal follows, and when a node crosses.

    `serving` and `training` name the teams that stand for their classes. Serving keeps what is wanted within
    `horizon_s` seconds in all but 1 - `quantile` of the cases, and `margin_gpus` more before it gives any away.
    """

    serving: str
    training: str
    quantile: float = 0.99
    horizon_s: float = 604_800.0
    margin_gpus: int = 8
    most_nodes_a_week: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """When a node is kept out, for how long, and how often a gang whose ranks die is started again.

    A node may be away for `tolerance_s`. So many `failures` of different workloads within `window_s` seconds keep a
    node out, as long as no more than `most_percent` of the nodes are. `restarts` in a row without a new checkpoint.
    """

    tolerance_s: float = 30.0
    quarantine_s: float = 86_400.0
    failures: int = 3
    window_s: float = 86_400.0
    most_percent: int = 10
    restarts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """What bookings may displace, what they cost, and how early what is in their way is asked to leave.

    One that displaces more than `most_displaced_gpu_s` GPU-seconds needs an approver other than the asker. A booking
    lies in at most `most_domains` domains, whatever is asked. What yields has its grace, or `reclaim_lead_s` where that
    is longer, before the start; committed work has `move_lead_s`. For `hold_s` after the start idle booked room is lent
    to nobody.
    """

    most_displaced_gpu_s: float = 0.0
    most_domains: int = 1
    price_per_gpu_hour: float = 0.0
    reclaim_lead_s: float = 0.0
    move_lead_s: float = 3600.0
    hold_s: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    """How cards are cut and shared (V1 to V8).

    A shared card has at most `shares` users. Layouts change only with `repartition`, and that of a cut card only when
    nothing has been on it for `settle_s` seconds. With `whole_nodes` the cards of a node change together, all to the
    same layout.
    """

    shares: int = 10
    repartition: bool = False
    settle_s: float = 600.0
    whole_nodes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePools:
    """Whether nodes can be had on demand: each has `gpus_per_node`, and takes work `boot_s` after it is asked for.

    What serving may want by then is looked ahead for at the `quantile`.
    """

    scales: bool = False
    boot_s: float = 360.0
    quantile: float = 0.95
    gpus_per_node: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that `decide` needs to know beside the state of the fleet."""

    levels: tuple[str, ...] = ("spine", "leaf")
    quotas: tuple[Quota, ...] = ()
    classes: tuple[PriorityClass, ...] = ()
    drain: DrainContract = field(default_factory=DrainContract)
    headroom: Headroom = field(default_factory=Headroom)
    health: Health = field(default_factory=Health)
    calendar: Calendar = field(default_factory=Calendar)
    boundary: Boundary | None = None
    spares: Spares = field(default_factory=Spares)
    affinities: tuple[Affinity, ...] = ()
    pulls: Pulls = field(default_factory=Pulls)
    idle: Idle = field(default_factory=Idle)
    right_size: RightSize = field(default_factory=RightSize)
    ordering: Ordering = field(default_factory=Ordering)
    packing: Packing = field(default_factory=Packing)
    slicing: Slicing | None = None
    node_pools: NodePools = field(default_factory=NodePools)
