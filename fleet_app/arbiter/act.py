"""Makes Ray what the book says: groups, jobs, notices, grants. Effects, and nothing but effects.

Every step follows from the book and the facts alone, never from having done something before, so that an arbiter that
was killed in between goes on where it was. Each is checked against the facts once more; what no longer fits is left
for the next cycle. A port that fails is noted and tried again later. Decides nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from fleet_app.arbiter import archive, follow, groups, members, recuts
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.facts import ENDED, Facts, Ports
from fleet_app.arbiter.groups import Joining, Unwanted, Wanted
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import CardLayouts, Fence, JobRequest, NodeView, Seat
from fleet_app.arbiter.records import GrantRecord, Notice, Record
from fleet_app.arbiter.tries import Tries
from fleet_app.engine.cards import WHOLE_SHARE
from fleet_app.engine.errors import ConflictError, FaultError, RequestError
from fleet_app.engine.flavors import flavor
from fleet_app.engine.layouts import Layout
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold
from fleet_app.worker import contract
from fleet_app.worker.environment import JobEnvironment, RankGroup

CREATE_TIMEOUT_S = 1.0
SETTLE_S = 0.25
"""How long to wait for the room of a group that was just removed: Ray shows it after 0.1 s, a cycle later is later."""

KILL_AGAIN_S = 1.0
PUBLISH_AGAIN_S = 2.0
STRAY_S = 10.0
"""How long Ray may go on showing an earlier attempt as running, before that is killed."""


class Act:
    """The hands of one arbiter. What it remembers only spares it work: losing that is harmless."""

    def __init__(self, ports: Ports, home: Path, book: Book, tries: Tries) -> None:
        """Work for the fleet at `home`."""
        self._ports = ports
        self._home = home
        self._book = book
        self._tries = tries
        self._published: dict[str, tuple[int, tuple[Fence, ...]]] = {}
        self._members_told: dict[str, tuple[str, tuple[Seat, ...]]] = {}
        self._adopted: frozenset[str] = frozenset()
        self._stray_since: dict[str, float] = {}

    def __call__(self, facts: Facts, holds: Iterable[Hold] | None) -> None:
        """Do what can be done now; `holds` is what is kept free for somebody, None leaves that as it is."""
        kept = None if holds is None else tuple(holds)
        for record in self._book.live():
            self._end(record, facts)
            self._end_members(record, facts)
        removed = [gone.group for gone in groups.unwanted(self._book, facts, kept) if self._remove(gone)]
        for new in groups.wanted(self._book, facts, kept, removed):
            self._make(new)
        for record in self._book.live():
            if self._knows_its_members(record):
                self._launch(record, facts)
        for demand in self._book.demands:
            self._publish(demand.service, facts)
        if self._ports.cards is not None:
            self._repartition(self._ports.cards, facts)
        self._tidy(facts)

    # Ending.

    def _end(self, record: Record, facts: Facts) -> None:
        if not record.workload.holding or not record.job_submitted:
            return
        if record.workload.killed or follow.lingers(record, facts):
            self._kill(record)
        elif not record.notified and record.workload.phase is Phase.DRAINING:
            self._notify(record)
        elif not record.notified and record.workload.phase is Phase.STOPPING:
            self._stop(record)

    def _kill(self, record: Record) -> None:
        key = f"kill {record.job_id}"
        if self._call(key, partial(self._ports.jobs.kill, record.job_id, record.job_id)):
            self._book.put(replace(record, kill_sent=True))
            self._tries.put_off(key, KILL_AGAIN_S)

    def _notify(self, record: Record) -> None:
        workload = record.workload

        def notify() -> None:
            self._ports.board.notify(record.job_id, workload.deadline_at, record.message)
            if record.job.notice is Notice.SIGNAL and not workload.moving:
                self._ports.jobs.stop(record.job_id)

        if self._call(f"notify {record.job_id}", notify):
            self._book.put(replace(record, notified=True))
            self._book.note(self._ports.clock.now(), What.NOTIFIED, record.name, attempt=workload.attempt)

    def _stop(self, record: Record) -> None:
        if self._call(f"stop {record.job_id}", partial(self._ports.jobs.stop, record.job_id)):
            self._book.put(replace(record, notified=True))

    # Members of elastic workloads.

    def _end_members(self, record: Record, facts: Facts) -> None:
        """Tell those who have to leave, and end what outlives the group of one that is past its deadline."""
        if not record.workload.going or not record.job_submitted:
            return
        for one in members.untold(record):
            member = contract.member_id(record.job_id, one.group_id or "")
            post = partial(self._ports.board.notify, member, one.leaves_by, one.why)
            if self._call(f"notify {member}", post):
                record = members.told(self._book.records.get(record.name) or record, one)
                self._book.put(record)
                detail = {"attempt": record.workload.attempt, "nodes": [one.node]}
                self._book.note(self._ports.clock.now(), What.NOTIFIED, record.name, **detail)
        for member in members.outliving(record, facts):
            if self._call(f"end {member}", partial(self._ports.jobs.end_member, member)):
                self._tries.put_off(f"end {member}", KILL_AGAIN_S)

    def _knows_its_members(self, record: Record) -> bool:
        """Let an elastic attempt know its members, before it starts and whenever they change; say whether it does."""
        if record.workload.minimum is None or record.group_id is None or not record.workload.holding:
            return True
        news = (record.job_id, members.seats(record))
        if self._members_told.get(record.name) != news:
            publish = partial(self._ports.board.publish_members, *news)
            if not self._call(f"publish the members of {record.job_id}", publish):
                return False
            self._members_told[record.name] = news
        return True

    # Groups.

    def _remove(self, gone: Unwanted) -> bool:
        group_id = gone.group.group_id
        key = f"remove {gone.group.name}"
        if gone.claim:
            claimed = self._tries.call(self._book, key, partial(self._ports.board.claim, group_id))
            if not claimed:
                return False
        return self._call(key, partial(self._ports.cluster.remove_group, group_id))

    def _make(self, new: Wanted) -> None:
        group_id = self._tries.call(self._book, f"create {new.name}", partial(self._create, new))
        if not group_id:
            return
        now = self._ports.clock.now()
        match new.owner:
            case Record() as record:
                self._book.put(replace(record, group_id=group_id))
                nodes = list(record.workload.nodes)
                self._book.note(
                    now, What.PLACED, record.name, attempt=record.workload.attempt, group=group_id, nodes=nodes
                )
            case Joining(workload=name, node=node):
                joining = self._book.records.get(name)
                if joining is not None:
                    self._book.put(*members.joined(joining, node, group_id, now))
            case GrantRecord() as grant:
                self._book.grants.put(grant.name, replace(grant, group_id=group_id))
                self._book.note(now, What.GRANT_READY, grant.service, grant=grant.name, node=grant.node)
            case None:
                pass

    def _create(self, new: Wanted) -> str:
        """Return the id of the group; empty when the room that was freed for it does not show yet."""
        timeout_s = SETTLE_S if new.settles else CREATE_TIMEOUT_S
        group_id = self._ports.cluster.create_group(new.name, new.bundles, timeout_s, new.slice)
        if group_id is None and new.settles:
            return ""
        if group_id is None:
            raise FaultError("the group was not ready in time", where=new.name, fix="It is tried again")
        return group_id

    # Starting.

    def _launch(self, record: Record, facts: Facts) -> None:
        workload = record.workload
        stays = workload.phase is Phase.ADMITTED and not workload.killed and not workload.going
        ready = stays and record.group_id is not None
        new = not record.job_submitted and facts.jobs_seen and facts.status(record) is None
        node = facts.nodes.get(workload.nodes[0]) if ready and new else None
        if node is None:
            return
        request = JobRequest(
            job_id=record.job_id,
            entrypoint=record.job.entrypoint,
            runtime_env=record.job.runtime_env,
            metadata=record.job.metadata,
            driver_node_id=node.node_id,
            environment=self._environment(record, node).to_env(),
        )
        refusal = self._tries.call(self._book, f"submit {record.job_id}", partial(self._submit, request))
        if refusal:
            self._book.put(*follow.refused(record, facts, refusal))
        elif refusal is not None:
            self._book.put(replace(record, job_submitted=True))
            self._book.note(self._ports.clock.now(), What.LAUNCHED, record.name, attempt=workload.attempt)

    def _submit(self, request: JobRequest) -> str:
        """Return why Ray will never take the job; empty when it took it."""
        try:
            self._ports.jobs.submit(request)
        except RequestError as error:
            return error.sentence()
        return ""

    def _environment(self, record: Record, node: NodeView) -> JobEnvironment:
        workload = record.workload
        saved, part = record.checkpoint, workload.slice
        accelerator = node.labels.get(contract.ACCELERATOR_LABEL, "unknown")
        return JobEnvironment(
            attempt=record.job_id,
            workload=record.name,
            group_id=record.group_id or "",
            bundles=workload.bundles if workload.minimum is None else len(workload.nodes),
            min_nodes=workload.minimum,
            gpus_per_bundle=workload.shape.gpus,
            cpu_milli_per_bundle=workload.shape.cpu_milli,
            nodes=workload.nodes,
            groups=tuple(
                RankGroup(
                    name=group.name,
                    ranks=group.bundles,
                    gpus=group.shape.gpus,
                    cpu_milli=group.shape.cpu_milli,
                )
                for group in workload.groups
            ),
            checkpoint_dir=str(self._home / "checkpoints" / record.name),
            grace_s=workload.grace_s,
            resume_uri=None if saved is None else saved.uri,
            resume_step=None if saved is None else saved.step,
            flavor="" if part is None else flavor(accelerator, part),
            partition="" if part is None or not part.profile else part.partition,
            share=0.0 if part is None else part.share / WHOLE_SHARE,
            card=workload.card,
            slot=record.slot,
        )

    # Serving.

    def _publish(self, service: str, facts: Facts) -> None:
        """Tell Serve what it has, whenever that changes, and now and then so that a lost board is filled again."""
        standing = [grant for grant in self._book.grants if grant.service == service and grant.group_id]
        usable = [grant for grant in standing if not grant.taken]
        fences = tuple(
            Fence(
                group_id=grant.group_id or "",
                node_id=facts.nodes[grant.node].node_id,
                shape=grant.shape,
                slice=grant.slice,
            )
            for grant in usable
            if not grant.occupied and grant.node in facts.nodes
        )
        key = f"publish {service}"
        news = (len(usable), fences)
        if self._published.get(service) == news and not self._tries.may(key):
            return
        if self._published.get(service) != news:
            self._tries.put_off(key, 0.0)
        if self._call(key, lambda: self._ports.board.publish_grants(service, len(usable), fences)):
            self._published[service] = news
            self._tries.put_off(key, PUBLISH_AGAIN_S)

    # Cards.

    def _repartition(self, cards: CardLayouts, facts: Facts) -> None:
        """Ask for new layouts where cards are empty; safe to repeat: what was not written down is asked for again."""
        for recut, layouts in recuts.due(self._book, facts):
            key = f"repartition {recut.node}"
            refusal = self._tries.call(self._book, key, partial(_asked, cards, facts.nodes[recut.node], layouts))
            now = self._ports.clock.now()
            if refusal:
                recuts.give_up(self._book, recut, now, refusal)
            elif refusal is not None:
                recuts.sent(self._book, recut, layouts, now)

    # Tidying up.

    def _tidy(self, facts: Facts) -> None:
        holding = [record for record in self._book.live() if record.workload.holding]
        current = {name for record in holding for name in (record.job_id, *record.leaving_members)}
        names = {record.name for record in holding}
        self._members_told = {name: told for name, told in self._members_told.items() if name in names}
        board = facts.board
        posted = {
            *board.posted,
            *board.done,
            *(ack.attempt for ack in board.acks),
            *(beat.attempt for beat in board.beats),
        }
        for attempt in sorted(posted - current):
            self._call(f"clear {attempt}", partial(self._ports.board.clear, attempt))
        # Seen twice, so that its group is missing in a look that came later.
        for group_id in sorted(self._adopted & board.adopted.keys() - facts.ids.keys()):
            self._call(f"forget {group_id}", partial(self._ports.board.forget_adoption, group_id))
        self._adopted = frozenset(board.adopted)
        if facts.jobs_seen:
            self._kill_strays(facts)
            for record in self._book.going():
                self._let_go(record, facts)

    def _kill_strays(self, facts: Facts) -> None:
        """End a job of an earlier attempt that Ray started although we had given its submission up."""
        earlier = [job_id for record in self._book.live() for job_id in record.job_ids[:-1]]
        running = {job_id for job_id in earlier if job_id in facts.jobs and facts.jobs[job_id].status not in ENDED}
        self._stray_since = {job_id: self._stray_since.get(job_id, facts.now) for job_id in sorted(running)}
        for job_id, since in self._stray_since.items():
            if facts.now - since > STRAY_S:
                self._call(f"kill {job_id}", partial(self._ports.jobs.kill, job_id, job_id))

    def _let_go(self, record: Record, facts: Facts) -> None:
        left = [job_id for job_id in record.launched if job_id in facts.jobs]
        for job_id in left:
            if facts.jobs[job_id].status in ENDED:
                self._call(f"delete {job_id}", partial(self._delete_job, job_id))
        archive.leave(self._book, record, facts.now, jobs=len(left))

    def _delete_job(self, job_id: str) -> None:
        # The job server may want to look at a job once more before it lets go of it.
        with contextlib.suppress(ConflictError):
            self._ports.jobs.delete(job_id)

    def _call(self, what: str, call: Callable[[], None]) -> bool:
        """Return whether a call went through; what failed is noted and tried again later."""

        def done() -> bool:
            call()
            return True

        return self._tries.call(self._book, what, done) is True


def _asked(cards: CardLayouts, node: NodeView, layouts: tuple[Layout, ...]) -> str:
    """Return why such layouts can never be had on a node; empty when they were asked for."""
    try:
        cards.repartition(node, layouts)
    except RequestError as error:
        return error.sentence()
    return ""
