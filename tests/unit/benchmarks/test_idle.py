from __future__ import annotations

import os
import time

import pytest

from benchmarks.idle import TICKS_S, resident_mib, share, spent_ticks

STATS = {
    "the program's time and the kernel's for it add up": "77 (python) S 1 2 3 4 5 6 7 8 9 10 300 45 70 80 20 0 9 0 5",
    "a name with blanks and parentheses is no field": "77 (ray::A (x) y) S 1 2 3 4 5 6 7 8 9 10 300 45 70 80 20 0 9",
}


@pytest.mark.parametrize("stat", STATS.values(), ids=STATS)
def test_spent_ticks(stat):
    assert spent_ticks(stat) == 345


def test_resident_memory_is_in_mib():
    assert resident_mib("VmPeak:\t  999999 kB\nVmRSS:\t  102400 kB\nThreads:\t3\n") == 100.0


def test_the_share_is_what_a_process_took_meanwhile_and_not_before():
    """Between what the work alone took, over the time of both looks, and that over its own time."""
    took = []

    def work():
        before, began = sum(os.times()[:2]), time.perf_counter()
        while sum(os.times()[:2]) - before < 0.2:
            pass
        took.append((sum(os.times()[:2]) - before, time.perf_counter() - began))

    began = time.perf_counter()
    found = share(os.getpid(), work)
    both_s = time.perf_counter() - began
    ((spent_s, work_s),) = took
    assert 100.0 * (spent_s - 2 / TICKS_S) / both_s <= found <= 100.0 * (spent_s + 0.1) / work_s
