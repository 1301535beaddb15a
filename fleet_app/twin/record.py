"""What a run of the twin tells: one value for each thing that happened, in order of time. All that a report is made of.

Moments (`at`, `..._at`) are seconds since the epoch, durations end in `_s`, quantities in `_gpus`; GPU-seconds end in
`_gpu_s`. `at` is the moment at which a record was told. A workload is told of like this:

    Submitted   Admitted   Started   Noticed   Left   Admitted   Started ...   Ended

with one `Left` for every attempt that was cut short, and `Ended` once; `Committed` where its team asks for it as such,
each time before it is admitted. Beside that, at the end of every period: who had
how much in it (`ClassSpan`, `TeamSpan`), and what waited (`QueueSample`). Values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A workload came into the queue; `gpus` are those of all of its `bundles`, `run_s` is how much work it brings.

    While it runs, its GPUs compute for `sm_active` of the time and do `tflops` 10^12 useful FLOPs a second each; None
    where nobody measures or says so.
    """

    at: float
    workload: str
    team: str
    kind: Kind
    priority: int
    gpus: int
    bundles: int
    run_s: float
    sm_active: float | None = None
    tflops: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A workload that waits fits inside its team's nominal, and asks for that from now on."""

    at: float
    workload: str
    team: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A workload was given nodes, `waited_s` after it was submitted, or after it came back to the queue."""

    at: float
    workload: str
    attempt: int
    nodes: tuple[str, ...]
    gpus: int
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The ranks of a workload run; `resumed_s` seconds of its work were done before and are not done again."""

    at: float
    workload: str
    attempt: int
    resumed_s: float


class Cause(StrEnum):
    """Why an attempt was cut short."""

    DRAINED = "drained"
    MOVED = "moved"
    EXPIRED = "expired"
    NODE = "node"
    RANK = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """A workload was asked to leave: by when, None for one that is asked to move; for whom, empty where for nobody.

    `nodes` are the members that were asked, of an elastic one of which only some were; empty otherwise.
    """

    at: float
    workload: str
    attempt: int
    cause: Cause
    beneficiary: str
    deadline_at: float | None
    nodes: tuple[str, ...]
    gpus: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """An elastic workload was given members on these nodes."""

    at: float
    workload: str
    nodes: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The members of an elastic workload that were asked to leave these nodes have left, `asked_at` when that was."""

    at: float
    workload: str
    nodes: tuple[str, ...]
    gpus: int
    asked_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An attempt was cut short and its GPUs are free; `asked_at` is None where nobody asked: something was lost.

    `broke` is whether it broke the drain contract and was killed. `lost_s` is the work since its last checkpoint, which
    has to be done again, and `lost_gpu_s` the same on all of its GPUs; `done_s` is the work that is safe.
    """

    at: float
    workload: str
    attempt: int
    cause: Cause
    asked_at: float | None
    broke: bool
    gpus: int
    done_s: float
    lost_s: float
    lost_gpu_s: float


class Outcome(StrEnum):
    """How a workload ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A workload ended for good; `queued_s` is how long it waited in all, `held_gpu_s` what all of its attempts had."""

    at: float
    workload: str
    team: str
    kind: Kind
    gpus: int
    outcome: Outcome
    submitted_at: float
    first_admitted_at: float
    queued_s: float
    attempts: int
    held_gpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Somebody who still waited when the run ended, and why; `waited_s` is since the submission or the requeueing."""

    at: float
    workload: str
    team: str
    gpus: int
    waited_s: float
    reason: str


# --- serving --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Demanded:
    """A service wants so many GPUs in all from now on."""

    at: float
    service: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """Somebody looked ahead: by how much demand may grow in `within_s`, and how many GPUs are kept free for that.

    `growth_gpus` is what is forecast for the `quantile`; both are None where the policy has a fixed number.
    """

    at: float
    within_s: float
    quantile: float | None
    growth_gpus: int | None
    kept_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReady:
    """A replica of a service answers from now on, `waited_s` after the service wanted it.

    `drained` is whether somebody was asked to leave for the service while it waited.
    """

    at: float
    service: str
    gpus: int
    waited_s: float
    drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpan:
    """A service from `began_at` to `at`, between two changes: what it had and what its requests met.

    `wanted` replicas were asked for, `granted` had a place, `ready` answered. `late` of its `requests` waited longer
    for a replica than the service's objective (queueing, M/M/c: see `queueing`). `overdue_s` is how long in all
    replicas had no place by when the drain contract says that there is one.
    """

    began_at: float
    at: float
    service: str
    replica_gpus: int
    wanted: int
    granted: int
    ready: int
    requests: float
    late: float
    overdue_s: float = 0.0


# --- nodes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """A node went away; `back_at` is when it will be back, None when never."""

    at: float
    node: str
    gpus: int
    back_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBack:
    """A node is there again."""

    at: float
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """A node was put into quarantine until `until`, or let in again, with `until` None."""

    at: float
    node: str
    until: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """A node has another class from now on."""

    at: float
    node: str
    to: NodeClass
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What became of a booking: it was taken or declined, began, got other nodes, is in breach, or is over."""

    at: float
    booking: str
    what: str
    nodes: tuple[str, ...]
    why: str


# --- who had how much -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSpan:
    """The GPUs of one class of nodes from `began_at` to `at`, in GPU-seconds; the parts add up to `total_gpu_s`.

    `allocated` is what gangs, jobs and replicas had, `draining` what had been asked to leave, `held` what was granted
    or kept for somebody who was not there yet, `idle` the rest of sound nodes, `down` what was away or kept out, or
    used by others. `lent` is what of `allocated` and `draining` borrowed or yields, on serving's nodes.
    `stranded` is what of `idle` lay on nodes that were not wholly free (F1), as it was at the end of the span.
    """

    began_at: float
    at: float
    node_class: NodeClass
    allocated_gpu_s: float
    draining_gpu_s: float
    held_gpu_s: float
    idle_gpu_s: float
    down_gpu_s: float
    total_gpu_s: float
    lent_gpu_s: float
    stranded_gpus: int
    idle_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSpan:
    """One team's quota from `began_at` to `at`, in GPU-seconds.

    `own` is what it used of its nominal and `borrowed` what above that; `own`, `lent` and `unused` add up to its
    nominal. What a cohort's borrowers have is `lent` by its teams in proportion to what each left unused.
    """

    began_at: float
    at: float
    team: str
    nominal_gpu_s: float
    own_gpu_s: float
    lent_gpu_s: float
    unused_gpu_s: float
    borrowed_gpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSample:
    """What waited at a moment: how many workloads, the GPUs they ask for, and how many workloads had nodes."""

    at: float
    waiting: int
    waiting_gpus: int
    running: int


Record = (
    Submitted
    | Committed
    | Admitted
    | Started
    | Noticed
    | Grown
    | Shrunk
    | Left
    | Ended
    | Waiting
    | Demanded
    | Foreseen
    | ReplicaReady
    | ServiceSpan
    | NodeLost
    | NodeBack
    | KeptOut
    | Crossed
    | Booked
    | ClassSpan
    | TeamSpan
    | QueueSample
)
"""All that a run tells."""
