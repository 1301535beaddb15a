"""A heartbeat never holds the job up, and the newest one arrives."""

from __future__ import annotations

import threading

from fleet_app.worker import board
from fleet_app.worker.contract import Beat
from fleet_app.worker.heartbeat import Heart, heartbeat

LIMIT_S = 30.0


class Receiver:
    """Gets beats, once it is let; fails for the first `away` of them."""

    def __init__(self, last: int, away: int = 0) -> None:
        self.steps: list[int] = []
        self.away = away
        self.last = last
        self.let = threading.Event()
        self.done = threading.Event()

    def send(self, beat: Beat) -> None:
        self.let.wait(LIMIT_S)
        self.steps.append(beat.step)
        if self.away:
            self.away -= 1
            raise board.BoardError("away")
        if beat.step == self.last:
            self.done.set()


def test_beats_do_not_wait_for_the_board_and_the_newest_arrives() -> None:
    there = Receiver(last=1000)
    heart = Heart(there.send, period_s=0.001)
    for step in range(1, 1001):
        heart.beat(step)
    there.let.set()
    assert there.done.wait(LIMIT_S)
    assert len(there.steps) <= 3
    assert there.steps == sorted(there.steps)


def test_a_beat_that_is_lost_is_followed_by_the_next() -> None:
    there = Receiver(last=2, away=1)
    there.let.set()
    heart = Heart(there.send, period_s=0.001)
    heart.beat(1)
    heart.beat(2)
    while not there.done.wait(0.01):
        heart.beat(2)
    assert there.steps[-1] == 2


def test_outside_a_fleet_job_a_heartbeat_does_nothing() -> None:
    heartbeat(1)
