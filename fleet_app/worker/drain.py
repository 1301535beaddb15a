"""The drain contract seen from inside a job: has this attempt been asked to leave, and what has it saved.

A notice comes from the board, where the arbiter puts it, or from SIGTERM, which Ray sends to a job that is being
stopped. It is asked for with `drain_requested()`, answered with `acknowledge()` and a normal exit. Does not know how
a checkpoint is made; ends no process.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import cache
from types import FrameType

from fleet_app.worker import board
from fleet_app.worker.contract import (
    Ack,
    BadEntryError,
    Done,
    Notice,
    ack_key,
    decode,
    done_key,
    encode,
    member_id,
    notice_key,
)
from fleet_app.worker.environment import ENV_MEMBER, JobEnvironment

POLL_S = 0.2
POLLS_PER_ATTEMPT_AND_SECOND = 500
"""However many ranks a gang has, together they ask the board no more often than this."""

_RETRY_FIRST_S = 0.05
_RETRY_LAST_S = 1.0


class DrainWatch:
    """Looks for a notice in a thread of its own, so that asking costs nothing and never blocks.

    Once there is a notice there always is one; an earlier deadline replaces a later one or none, never the reverse.
    """

    def __init__(
        self, read: Callable[[], Notice | None], tell: Callable[[Notice], None], poll_s: float = POLL_S
    ) -> None:
        """`read` asks the board, `tell` posts there what came by signal; both may raise board.BoardError.

        `poll_s` seconds pass between two looks.
        """
        self._read = read
        self._tell = tell
        self._poll_s = poll_s
        self._notice: Notice | None = None
        self._signalled: Notice | None = None
        self._noticed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def notice(self) -> Notice | None:
        """Return the notice, if there is one; the first call starts the thread."""
        self._start()
        return self._notice

    def wait(self, timeout_s: float) -> Notice | None:
        """Return the notice soon after there is one, None when there is none after `timeout_s` seconds."""
        self._start()
        self._noticed.wait(timeout_s)
        return self._notice

    def signalled(self, notice: Notice) -> None:
        """Take a notice that came as a signal to this process; the thread passes it on to the other ranks."""
        # Attributes only: a signal handler that takes a lock may wait for the very code that it interrupted.
        self._take(notice)
        self._signalled = notice

    def look(self) -> None:
        """Read the board once, and post there what came by signal."""
        try:
            if (posted := self._read()) is not None:
                self._take(posted)
            if (signalled := self._signalled) is not None:
                self._tell(signalled)
                self._signalled = None
        except (board.BoardError, BadEntryError):
            pass  # the next look is the retry; a notice that nobody can read is none
        if self._notice is not None:
            self._noticed.set()

    def _take(self, notice: Notice) -> None:
        if self._notice is None or _due_at(notice) < _due_at(self._notice):
            self._notice = notice

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._look_on, name="fleet-drain-watch", daemon=True)
                self._thread.start()

    def _look_on(self) -> None:
        while True:
            self.look()
            time.sleep(self._poll_s)


def _due_at(notice: Notice) -> float:
    return math.inf if notice.deadline_at is None else notice.deadline_at


def poll_period_s(ranks: int) -> float:
    """Return how many seconds a rank lets pass between two looks at the board."""
    return max(POLL_S, ranks / POLLS_PER_ATTEMPT_AND_SECOND)


@cache
def this_process() -> DrainWatch:
    """Return the watch of this process. Outside a fleet job it knows signals only."""
    job = JobEnvironment.from_env(os.environ)
    if job is None:
        return DrainWatch(lambda: None, lambda notice: None)
    key, member = notice_key(job.attempt), os.environ.get(ENV_MEMBER)
    return DrainWatch(
        lambda: earliest_notice(job.attempt, member),
        # What the arbiter posted stays: it knows the deadline better.
        lambda notice: board.write(key, encode(notice), replace=False),
        poll_period_s(job.bundles),
    )


def posted_notice(attempt: str) -> Notice | None:
    """Return the notice on the board for an attempt, or a member by its id. Raises BoardError, BadEntryError."""
    raw = board.read(notice_key(attempt))
    return None if raw is None else decode(Notice, raw)


def earliest_notice(
    attempt: str, member: str | None, read: Callable[[str], Notice | None] | None = None
) -> Notice | None:
    """Return the notice on the board for an attempt, or for the member of it that is meant, whichever is due first.

    `member` is the member's placement group; None is no member. Raises board.BoardError, contract.BadEntryError.
    """
    look = read or posted_notice
    posted = [look(attempt)] if member is None else [look(attempt), look(member_id(attempt, member))]
    return min((notice for notice in posted if notice is not None), key=_due_at, default=None)


def drain_requested() -> Notice | None:
    """Return why and until when (seconds since the epoch) this attempt has to leave, None when it may go on.

    In an elastic job a rank sees the notice of its own member as well, and the driver and other ranks do not.
    A notice whose deadline is None asks it to move: to save its work and leave at its next checkpoint, whenever that
    is. Nobody kills it, but a notice with a deadline may follow.
    Cheap and never blocks: ask after every step, in any rank. The answer is at most `POLL_S` seconds old (more in
    a gang of more than a hundred ranks). Ranks learn of it at slightly different moments, so ranks that step
    together have to agree on the step to leave at; Ray Train's `get_preemption_info()` does that for trainers.
    """
    return this_process().notice()


def install_signal_handler() -> None:
    """Let SIGTERM count as a notice, due when the grace is over. Call it after ray.init(), in the main thread.

    Afterwards a SIGTERM no longer ends the process; the job has to. Ray sends it to the driver only; the other
    ranks learn it from the board. A handler that was there before is called as well, except Ray's own, which would
    exit at once. Raises RuntimeError outside the main thread.
    """
    watch = this_process()
    watch.notice()
    grace_s = _grace_s()
    before = signal.getsignal(signal.SIGTERM)

    def on_signal(number: int, frame: FrameType | None) -> None:
        watch.signalled(Notice(deadline_at=time.time() + grace_s, why="SIGTERM: the job is being stopped"))
        if callable(before) and not _is_rays(before):
            before(number, frame)

    try:
        signal.signal(signal.SIGTERM, on_signal)
    except ValueError as error:
        raise RuntimeError("install_signal_handler() works in the main thread only") from error


def acknowledge(uri: str, step: int) -> None:
    """Tell the fleet that everything up to `step` is safe at `uri`; call it once the checkpoint is complete.

    From then on the next attempt resumes there. Returns when the board has it and tries until then: an exit
    before would lose the work since the acknowledgement before this one. Does nothing outside a fleet job.
    """
    job = JobEnvironment.from_env(os.environ)
    if job is not None:
        post(ack_key(job.attempt), encode(Ack(uri=uri, step=step, at=time.time())))


def complete() -> None:
    """Tell the fleet that the work is done for good, and is not to be resumed even if it was asked to leave meanwhile.

    Does nothing outside a fleet job.
    """
    job = JobEnvironment.from_env(os.environ)
    if job is not None:
        post(done_key(job.attempt), encode(Done(at=time.time())))


def post(key: str, value: bytes, write: Callable[[str, bytes], None] = board.write) -> None:
    """Write an entry of the board, for as long as it takes."""
    pause_s = _RETRY_FIRST_S
    while True:
        try:
            return write(key, value)
        except board.BoardError:
            time.sleep(pause_s)
            pause_s = min(_RETRY_LAST_S, 2 * pause_s)


def _grace_s() -> float:
    job = JobEnvironment.from_env(os.environ)
    return 0.0 if job is None else job.grace_s


def _is_rays(handler: Callable[..., object]) -> bool:
    return (getattr(handler, "__module__", None) or "").partition(".")[0] == "ray"
