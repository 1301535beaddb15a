"""A run that is kept in a file: when it is written, and what signals do."""

from __future__ import annotations

import os
import signal

import pytest

from fleet_app.cli.keeping import EVERY_S, Keeper, kept
from fleet_app.twin.simulate import Due, StoppedError


def test_the_file_is_written_once_a_minute():
    moments = iter([0.0, EVERY_S - 1.0, EVERY_S + 1.0, EVERY_S + 1.0, EVERY_S + 30.0])
    keeper = Keeper(lambda: next(moments))
    assert [keeper.due() for _ in range(3)] == [Due.NOTHING, Due.WRITE, Due.NOTHING]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_run_be_written_and_stop_and_the_next_is_as_before(tmp_path, number):
    before, seen = signal.getsignal(number), []

    def runs() -> None:
        with kept(tmp_path / "run") as keeping:
            seen.append(keeping.due())
            os.kill(os.getpid(), number)
            seen.append(keeping.due())
            assert signal.getsignal(number) is before
            raise StoppedError

    with pytest.raises(KeyboardInterrupt):
        runs()
    assert seen == [Due.NOTHING, Due.STOP]
    assert signal.getsignal(number) is before


def test_signals_are_as_before_once_the_run_is_over(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with kept(tmp_path / "run"):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_file_nothing_is_kept():
    with kept(None) as keeping:
        assert keeping is None
