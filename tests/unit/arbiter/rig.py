"""A fleet in memory to run stories on: the arbiter's loop, its home, and a world that moves with it.

Checks after every step what has to hold always; a story says what happens when, and a test what has to be true then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleet_app.arbiter import inbox
from fleet_app.arbiter.book import Book
from fleet_app.arbiter.cards import on_cards
from fleet_app.arbiter.inbox import Request, Submit
from fleet_app.arbiter.journal import Journal, JournalReader
from fleet_app.arbiter.loop import Loop
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import Record
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.values import NOTHING, Shape
from tests.fakes import Crash, Crashing, ports
from tests.world import Behaviour, BrokenError, World

POLICY = """
version: 1
name: test
organisations:
  org:
    teams:
      research: {nominal: 64}
      serving: {nominal: 64}
drain: {grace: 5s, longest_grace: 60s}
"""
KILL_WITHIN_S = 1.0


@dataclass(slots=True)
class Rig:
    """One fleet. `crash` says after which effects the arbiter dies (the first effect is 1)."""

    home: Path
    world: World = field(default_factory=World)
    crash: Callable[[int, str], bool] = lambda number, name: False
    restart_s: float = 0.5
    effects: list[str] = field(default_factory=list)
    crashes: int = 0
    story: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    began: float = 0.0
    cycles: int = 0
    _journal: Journal | None = None
    _loop: Loop | None = None
    _book: Book = field(default_factory=Book)
    """What the journal has."""
    _seen: object = None

    def __post_init__(self) -> None:
        (self.home / "policy.yaml").write_text(POLICY)
        self.began = self.world.now

    # What a story is made of.

    def at(self, second: float, event: Callable[[], None]) -> None:
        """Let something happen that many seconds after the beginning."""
        self.story.append((self.began + second, event))
        self.story.sort(key=lambda entry: entry[0])

    def post(self, request: Request) -> None:
        """Put a request into the inbox."""
        inbox.post(self.home, request)

    def submit(self, name: str, **spec: object) -> None:
        """Submit a workload of team research."""
        given = {"name": name, "kind": "backfill", "team": "research", "cpus": 0, **spec}
        self.post(Submit(spec=given, entrypoint=f"python {name}.py", at=self.world.now))

    # Running.

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, until that many seconds after the beginning, or until something holds."""
        end = self.began + seconds
        while self.world.now < end and not until():
            wait = self.step()
            due = [at for at, _ in self.story[:1] if at > self.world.now]
            self.world.now = min([self.world.now + wait, end, *due])

    def step(self) -> float:
        """Run the events that are due and one cycle; return how long to wait."""
        while self.story and self.story[0][0] <= self.world.now:
            self.story.pop(0)[1]()
        self.world.serve()
        self.cycles += 1
        try:
            wait = self.loop().cycle()
        except Crash:
            self.crashes += 1
            self.drop()
            wait = self.restart_s
        self.check()
        return wait

    def loop(self) -> Loop:
        """Return the living arbiter; start one if it died."""
        while self._loop is None:
            self._journal = self._journal or Journal(self.home / "journal.db")
            journal = Crashing(self._journal, self._after)
            self._loop = Loop(self.home, ports(self.world, self._after), journal)  # type: ignore[arg-type]  # a proxy
        return self._loop

    def drop(self) -> None:
        """Let the arbiter's process be gone."""
        if self._journal is not None:
            self._journal.close()
        self._journal = self._loop = None

    def _after(self, name: str) -> None:
        if name == "commit" and self._journal is not None:
            self._book = self._journal.load()
        self.check()
        seen = self._fingerprint()
        if seen == self._seen:
            return  # nothing is different from the effect before, so neither is a crash
        self._seen = seen
        self.effects.append(name)
        if self.crash(len(self.effects), name):
            raise Crash

    def _fingerprint(self) -> object:
        """Return what a new arbiter could find different, but for how far a job got."""
        records = [replace(record, step=None, step_at=None, checkpoint=None) for record in self._book.records]
        calm = [replace(record, workload=replace(record.workload, saved_at=None)) for record in records]
        world = self.world
        groups = [(group.name, group.gone_at) for group in world.groups.values()]
        jobs = [(job_id, job.notice_at, job.stop_at, job.kill_at, job.cleared_at) for job_id, job in world.jobs.items()]
        outside = (
            groups,
            jobs,
            sorted(world.adopted.items()),
            sorted(world.notices.items()),
            sorted(world.members.items()),
            sorted(world.grants.items()),
            sorted(world.layouts.items()),
        )
        waiting = [path.name for path, _ in inbox.waiting(self.home)]
        kept = (*self._book.grants, *self._book.recuts)
        return (waiting, repr(calm), repr(kept), self._book.meta.get("ingested"), repr(outside))

    # Looking.

    def reader(self) -> JournalReader:
        """Return the journal, as others see it."""
        return JournalReader(self.home / "journal.db")

    def phases(self) -> dict[str, Phase]:
        """Return the phase of every workload."""
        return {name: record.workload.phase for name, record in self.reader().records().items()}

    def quiet(self) -> bool:
        """Return whether every workload has ended, its group is gone and its notice too, and nothing is to come."""
        standing = any(group.gone_at is None for group in self.world.groups.values())
        left = standing or self.world.notices or self.world.members or self.world.adopted
        return not (self.story or self._book.live() or left)

    def notes(self, what: What, subject: str | None = None) -> list[dict[str, object]]:
        """Return the details of the notes of one kind, with their moment, seconds after the beginning."""
        entries = [entry.note for entry in self.reader().events(limit=100_000)]
        return [
            {"at": note.at - self.began, **note.detail}
            for note in entries
            if note.kind is what and subject in (None, note.subject)
        ]

    def check(self) -> None:
        """Fail when a GPU is promised twice, a job runs that nobody owns, or a deadline has not held."""
        self._check_promises(self._book)
        self._check_jobs(self._book)

    def _check_promises(self, book: Book) -> None:
        promised: dict[str, Shape] = defaultdict(lambda: NOTHING)
        for record in book.live():
            for name, shape in record.workload.seats:
                promised[name] += shape
        for grant in book.grants:
            promised[grant.node] += grant.shape
        for node in self.world.nodes.values():
            name = node.labels["fleet/node"]
            if node.alive and not promised[name].fits(node.total):
                raise BrokenError(f"{name} is promised twice: {promised[name]} of {node.total}")
            used = self.world.slices_used(node.node_id) if node.alive else {}
            if any(count > node.slices.get(sort, 0) for sort, count in used.items()):
                raise BrokenError(f"{name} has {node.slices}, and {used} is in use")
        for card, on in on_cards(book).items():
            if sum(one.share for one in on) > 10_000:
                raise BrokenError(f"{card} is promised twice: {on}")

    def _check_jobs(self, book: Book) -> None:
        for job_id, job in self.world.running().items():
            name = job.request.environment["FLEET_WORKLOAD"]
            record = book.records.get(name)
            if record is None or not record.workload.holding or record.job_id != job_id:
                raise BrokenError(f"{job_id} runs, the journal has {record and record.workload.phase}")
            self._check_members(record, job_id)
            late = self.world.now - (record.workload.deadline_at or float("inf"))
            if late > KILL_WITHIN_S + self.restart_s * self.crashes:
                raise BrokenError(f"{job_id} runs {late:.2f} s after its deadline")

    def _check_members(self, record: Record, job_id: str) -> None:
        """Fail when an elastic workload has too few members, or one has run past its deadline."""
        workload = record.workload
        if workload.minimum is not None and len(set(workload.nodes) - set(workload.going)) < workload.minimum:
            raise BrokenError(
                f"{job_id} has {workload.nodes} without {workload.going}, its minimum is {workload.minimum}"
            )
        for member in record.members:
            late = self.world.now - (member.leaves_by or float("inf"))
            runs = member.group_id is not None and self.world.member_processes(job_id, member.group_id)
            if runs and late > KILL_WITHIN_S + self.restart_s * self.crashes:
                raise BrokenError(f"the member of {job_id} on {member.node} runs {late:.2f} s after its deadline")


# Fleets to begin with.

LONG = Behaviour(steps=1000)


def small(rig: Rig, *, serving: int = 1, training: int = 0) -> Rig:
    """Give the fleet nodes of 4 GPUs."""
    for number in range(serving):
        rig.world.add_node(f"s{number + 1}", serving=True)
    for number in range(training):
        rig.world.add_node(f"t{number + 1}")
    return rig


def filled(rig: Rig, count: int = 2) -> Rig:
    """Fill a serving node with backfill jobs of 2 GPUs that run long."""
    small(rig)
    for number in range(count):
        rig.world.behaviours[f"b{number + 1}"] = LONG
        rig.submit(f"b{number + 1}", gpus=2, notice="library")
    rig.run(3.0)
    return rig
