"""A backfill job that breaks the drain contract: it reads no notice, ignores SIGTERM and never saves anything.

For demonstrations and tests of what the fleet does about it: the job is killed at its deadline, and the break is
counted. Its actor, which holds the GPUs, is as stubborn as its driver.
"""

from __future__ import annotations

import argparse
import signal
import time

import ray

from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat


@ray.remote
class Stubborn:
    """Holds the GPUs of one bundle and computes on, whatever is asked of it."""

    def __init__(self, rank: int) -> None:
        """Ignore SIGTERM from the start."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def compute(self, seconds: float) -> int:
        """Count until the time is over."""
        count, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            count += 1
            time.sleep(0.01)
        return count


def main() -> None:
    """Compute until the time is over or somebody kills this."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    asked = parser.parse_args()
    ray.init()
    # After ray.init(), which installs a handler of its own.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    membership = Membership.from_environment()
    ranks = membership.start_ranks(Stubborn)
    until, step = time.monotonic() + asked.seconds, 0
    while time.monotonic() < until:
        ray.get([rank.compute.remote(0.5) for rank in ranks])
        step += 1
        heartbeat(step)
        print(f"{membership.job.attempt}: step {step}, and I am not leaving", flush=True)


if __name__ == "__main__":
    main()
