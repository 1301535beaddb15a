"""`python -m fleet_app.adapters.wave`: let a pod of training start when serving's pods are up, or after a while.

What is up it sees by DNS: a headless Service has an address for each pod that is ready. So a pod of training needs no
account at Kubernetes. Always ends well: training that starts early is better than training that does not start.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys
import time
from collections.abc import Callable

log = logging.getLogger("fleet.wave")

EVERY_S = 2.0


def ready(name: str) -> int:
    """Return how many addresses a name has; none when nobody knows it."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return 0
    return len({address[0] for *_, address in found})


def wait(
    name: str,
    count: int,
    within_s: float,
    *,
    look: Callable[[str], int] = ready,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until a name has so many addresses, or the time is over; return whether it has."""
    for _ in range(int(within_s / EVERY_S)):
        if look(name) >= count:
            return True
        sleep(EVERY_S)
    there = look(name)
    if there < count:
        log.warning("%d of %d pods of serving are up after %.0f s: not waiting longer", there, count, within_s)
    return there >= count


def main(arguments: list[str] | None = None) -> int:
    """Wait for the wave before; return 0."""
    parser = argparse.ArgumentParser(prog="python -m fleet_app.adapters.wave", description=__doc__)
    parser.add_argument("--name", required=True, help="the headless Service of serving's pods")
    parser.add_argument("--count", type=int, required=True, help="how many of them have to be ready")
    parser.add_argument("--within", type=float, required=True, help="seconds to wait at most")
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    wait(asked.name, asked.count, asked.within)
    return 0


if __name__ == "__main__":
    sys.exit(main())
