"""What the journal keeps of one workload: the engine's value, the job behind it, and what came of it.

Values only. The engine's `Workload` inside is the part that `decide` sees; the rest is what it takes to
carry a decision out and to answer a user. Does not know SQLite or Ray.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from fleet_app.engine.cards import Slice
from fleet_app.engine.layouts import Layout
from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Workload
from fleet_app.worker import contract


class Notice(StrEnum):
    """How a drain is raised where the job looks.

    LIBRARY: written on the board, read by `fleet_app.worker` in any rank (trainers see it as Ray Train's own
    preemption notice). SIGNAL: the same, and the Ray job is stopped, so that its processes get SIGTERM.
    """

    LIBRARY = "library"
    SIGNAL = "signal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The Ray job of a workload, as the user submitted it."""

    entrypoint: str
    runtime_env: dict[str, object] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    notice: Notice = Notice.SIGNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a job acknowledged: where its state is, at which step, when (seconds since the epoch)."""

    uri: str
    step: int
    at: float
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRecord:
    """One grant in the journal: the group of one bundle that a replica of `service` has, or will have.

    `name` is unique and part of the group's name. `group_id` is None while the grant is only promised. `taken` says
    that it goes back to the fleet as soon as no replica can take it any more. `made_at` is when it was promised, or
    first seen (seconds since the epoch). `slice` is the part of a card that it has beside its shape, if any, on the
    card with index `card`; that is None while nobody has said which. `slot` is as in `Record`.
    """

    name: str
    service: str
    node: str
    shape: Shape
    made_at: float
    group_id: str | None = None
    occupied: bool = False
    taken: bool = False
    slice: Slice | None = None
    card: int | None = None
    slot: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLayout:
    """What a card is to be cut into, and what it was."""

    card: int
    was: Layout
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Recut:
    """Cards of one node whose layouts are being changed: since when (seconds since the epoch), why.

    `sent_at` is when whoever changes layouts was asked to, None before that; `target` are the layouts of all cards of
    the node that it was asked for. `failed_at` is when it was given up: the cards are as they were, and another change
    of the node is not asked for too soon.
    """

    node: str
    cards: tuple[NewLayout, ...]
    asked_at: float
    why: str
    sent_at: float | None = None
    target: tuple[Layout, ...] = ()
    failed_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The member of an elastic attempt on one node: its placement group (hex), None before that was there.

    Once it was asked to leave: by when (seconds since the epoch) and why, whether that reached it (`told`), and whether
    its deadline has passed (`killed`).
    """

    node: str
    group_id: str | None = None
    leaves_by: float | None = None
    why: str = ""
    told: bool = False
    killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One workload in the journal.

    About the current attempt: `group_id` is the placement group that holds its GPUs (hex); `job_submitted` whether
    Ray accepted its job; `noticed_at` when it was asked to leave, or ended by itself (seconds since the epoch), and
    `notified` whether that reached it; `kill_sent` whether an end at once was carried out; `seen_alive` whether
    processes of it have been counted since it was asked to end. `slot` is which of the partitions of its profile on its
    node is its own, from 0 on; two never have the same. Of an elastic one: `members` are those of its nodes of
    which more is known than that they are its own; `group_id` is the first member's, once all that it was admitted with
    have theirs; `driver_on` is the Ray node that its driver was started on.
    About the workload: `checkpoint` is the furthest that it acknowledged, `saves` how often one was further than all
    before, `step` the last that it reported; `restarts` how often it was started again since then because ranks died;
    `forgotten` whether the user wants it deleted.
    """

    workload: Workload
    job: Job
    group_id: str | None = None
    job_submitted: bool = False
    noticed_at: float | None = None
    notified: bool = False
    kill_sent: bool = False
    seen_alive: bool = False
    slot: int | None = None
    members: tuple[Member, ...] = ()
    driver_on: str | None = None
    checkpoint: Checkpoint | None = None
    saves: int = 0
    step: int | None = None
    step_at: float | None = None
    restarts: int = 0
    ended_at: float | None = None
    forgotten: bool = False
    message: str = ""

    @property
    def name(self) -> str:
        """Return the workload's name, which is also the submission id of its first Ray job."""
        return self.workload.name

    @property
    def job_id(self) -> str:
        """Return the submission id of the current attempt: the name, then name.2, name.3 and so on."""
        return attempt_id(self.workload.name, self.workload.attempt)

    def member_on(self, node: str) -> Member:
        """Return what is known of the member on a node."""
        return next((member for member in self.members if member.node == node), Member(node=node))

    @property
    def leaving_members(self) -> tuple[str, ...]:
        """Return the ids of the members that were asked to leave, of those that have a group."""
        groups = (self.member_on(node).group_id for node in self.workload.going)
        return tuple(contract.member_id(self.job_id, group_id) for group_id in groups if group_id is not None)

    @property
    def job_ids(self) -> tuple[str, ...]:
        """Return the submission ids of all attempts so far, the current one last."""
        return tuple(attempt_id(self.workload.name, attempt) for attempt in range(1, self.workload.attempt + 1))

    @property
    def launched(self) -> tuple[str, ...]:
        """Return the submission ids that Ray was given, oldest first."""
        return self.job_ids if self.job_submitted else self.job_ids[:-1]


def attempt_id(name: str, attempt: int) -> str:
    """Return the Ray submission id of one attempt of a workload."""
    return name if attempt == 1 else f"{name}.{attempt}"
