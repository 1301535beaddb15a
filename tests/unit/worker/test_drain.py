"""A drain notice is seen whichever way it comes, and what is acknowledged reaches the board."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from fleet_app.worker import board, drain
from fleet_app.worker.contract import BadEntryError, Notice

LIMIT_S = 30.0


class Board:
    """The board of one attempt; it is away for the first `away` calls."""

    def __init__(self, *posted: Notice | None, away: int = 0) -> None:
        self.posted = list(posted)
        self.away = away
        self.told: list[Notice] = []

    def read(self) -> Notice | None:
        self._reach()
        return self.posted.pop(0) if self.posted else None

    def tell(self, notice: Notice) -> None:
        self._reach()
        self.told.append(notice)

    def _reach(self) -> None:
        if self.away:
            self.away -= 1
            raise board.BoardError("away")


def notice(deadline_at: float | None) -> Notice:
    return Notice(deadline_at=deadline_at, why="a replica needs the GPUs")


SEEN = {
    "nothing is posted": ([None, None], None),
    "a notice that is posted later": ([None, notice(50)], notice(50)),
    "a notice stays when the board forgets it": ([notice(50), None], notice(50)),
    "an earlier deadline replaces a later one": ([notice(50), notice(40)], notice(40)),
    "a deadline replaces none": ([notice(None), notice(50)], notice(50)),
    "none replaces no deadline": ([notice(50), notice(None)], notice(50)),
    "a later deadline changes nothing": ([notice(50), notice(60)], notice(50)),
}


@pytest.mark.parametrize(("posted", "want"), SEEN.values(), ids=SEEN)
def test_what_the_board_says_is_noticed(posted: list[Notice | None], want: Notice | None) -> None:
    there = Board(*posted)
    watch = drain.DrainWatch(there.read, there.tell, poll_s=3600)
    for _ in posted:
        watch.look()
    assert watch._notice == want
    assert there.told == []


def test_a_board_that_is_away_is_asked_again() -> None:
    there = Board(notice(50), away=2)
    watch = drain.DrainWatch(there.read, there.tell)
    for _ in range(3):
        watch.look()
    assert watch._notice == notice(50)


def test_a_notice_that_nobody_can_read_is_none() -> None:
    def read() -> Notice | None:
        raise BadEntryError("not a Notice")

    watch = drain.DrainWatch(read, lambda _: None)
    watch.look()
    assert watch._notice is None


def test_a_signal_is_passed_on_to_the_other_ranks_once() -> None:
    there = Board(away=1)
    watch = drain.DrainWatch(there.read, there.tell)
    watch.signalled(notice(50))
    for _ in range(3):
        watch.look()
    assert there.told == [notice(50)]


def test_waiting_ends_when_the_notice_comes() -> None:
    there = Board(None, None, notice(50))
    watch = drain.DrainWatch(there.read, there.tell, poll_s=0.001)
    assert watch.wait(LIMIT_S) == notice(50)
    assert watch.notice() == notice(50)


THEIRS = {
    "nobody was asked": ({}, "ab", None),
    "a member was asked, and hears it": ({"rl/ab": notice(50)}, "ab", notice(50)),
    "another member was asked": ({"rl/cd": notice(50)}, "ab", None),
    "a member was asked, and the driver does not hear it": ({"rl/ab": notice(50)}, None, None),
    "all were asked": ({"rl": notice(50)}, "ab", notice(50)),
    "a member is to leave before the others": ({"rl": notice(50), "rl/ab": notice(40)}, "ab", notice(40)),
    "all are to leave before a member was": ({"rl": notice(30), "rl/ab": notice(40)}, "ab", notice(30)),
    "all are asked to move, and a member to leave": ({"rl": notice(None), "rl/ab": notice(40)}, "ab", notice(40)),
}


@pytest.mark.parametrize(("posted", "member", "want"), THEIRS.values(), ids=THEIRS)
def test_a_notice_of_one_member_is_for_its_ranks_alone(
    posted: dict[str, Notice], member: str | None, want: Notice | None
) -> None:
    assert drain.earliest_notice("rl", member, posted.get) == want


PERIODS = {
    "a small gang asks often": (4, drain.POLL_S),
    "a hundred ranks too": (100, drain.POLL_S),
    "two thousand ranks take turns": (2000, 4.0),
}


@pytest.mark.parametrize(("ranks", "want"), PERIODS.values(), ids=PERIODS)
def test_poll_period(ranks: int, want: float) -> None:
    assert drain.poll_period_s(ranks) == want


def test_an_acknowledgement_is_written_however_long_the_board_is_away() -> None:
    away, written = [board.BoardError("away")] * 2, []

    def write(key: str, value: bytes) -> None:
        if away:
            raise away.pop()
        written.append((key, value))

    drain.post("ack/a", b"{}", write)
    assert written == [("ack/a", b"{}")]


@pytest.fixture
def own_process() -> Iterator[None]:
    """Give the signal and the watch of this process back as they were."""
    before = signal.getsignal(signal.SIGTERM)
    drain.this_process.cache_clear()
    yield
    signal.signal(signal.SIGTERM, before)
    drain.this_process.cache_clear()


@pytest.mark.usefixtures("own_process")
def test_outside_a_fleet_job_nobody_asks_for_a_drain() -> None:
    assert drain.drain_requested() is None
    drain.acknowledge("nowhere", 1)


@pytest.mark.usefixtures("own_process")
def test_sigterm_is_a_notice_and_ends_nothing() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    drain.install_signal_handler()
    os.kill(os.getpid(), signal.SIGTERM)
    seen = drain.drain_requested()
    assert seen is not None
    assert seen.why.startswith("SIGTERM")


@pytest.mark.usefixtures("own_process")
def test_a_handler_that_was_there_before_is_called_too() -> None:
    called: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: called.append(number))
    drain.install_signal_handler()
    os.kill(os.getpid(), signal.SIGTERM)
    assert called == [signal.SIGTERM]


@pytest.mark.usefixtures("own_process")
def test_the_handler_of_ray_is_not_called_since_it_would_exit() -> None:
    def sigterm_handler(number: int, _: FrameType | None) -> None:
        raise SystemExit(number)

    sigterm_handler.__module__ = "ray._private.worker"
    signal.signal(signal.SIGTERM, sigterm_handler)
    drain.install_signal_handler()
    os.kill(os.getpid(), signal.SIGTERM)
    assert drain.drain_requested() is not None


@pytest.mark.usefixtures("own_process")
def test_only_the_main_thread_can_listen_to_signals() -> None:
    failed: list[str] = []

    def elsewhere() -> None:
        try:
            drain.install_signal_handler()
        except RuntimeError as error:
            failed.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert failed == ["install_signal_handler() works in the main thread only"]
