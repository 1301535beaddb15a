"""A pod of training waits for serving's pods, but not for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet_app.adapters.wave import EVERY_S, ready, wait


class World:
    """Time that passes only while somebody sleeps, and pods that come up as it does."""

    def __init__(self, pods_at: Callable[[float], int]) -> None:
        self.now = 0.0
        self._pods_at = pods_at

    def pods(self, _name: str) -> int:
        return self._pods_at(self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, count: int, within_s: float) -> bool:
        return wait("serving", count, within_s, look=self.pods, sleep=self.sleep)


CASES = {
    "serving is up already": (lambda _: 4, 3, True, 0.0),
    "serving comes up after a while": (lambda now: int(now / 10), 3, True, 30.0),
    "serving does not come up in time": (lambda _: 2, 3, False, 60.0),
    "nobody knows the name yet": (lambda _: 0, 1, False, 60.0),
    "there is nothing to wait for": (lambda _: 0, 0, True, 0.0),
}


@pytest.mark.parametrize(("pods", "count", "want", "waited"), CASES.values(), ids=CASES)
def test_waiting(pods, count, want, waited):
    world = World(pods)
    assert world.wait(count, 60.0) is want
    assert waited <= world.now < waited + EVERY_S + 0.1


def test_a_name_that_nobody_knows_has_no_addresses():
    assert ready("no-such-name.invalid") == 0


def test_an_address_counts_once():
    assert ready("127.0.0.1") == 1
