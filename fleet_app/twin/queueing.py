"""How many requests wait too long for a replica: the queue M/M/c. Pure.

With `slots` servers, each answering `slot_rate` requests a second on average, and `rate` requests a second at random
moments, the load is a = rate / slot_rate. A request finds every server busy with Erlang's probability C(slots, a), and
then waits for longer than t with exp(-(slots slot_rate - rate) t) (Erlang 1917; Kleinrock, Queueing Systems I, 3.5).
At a >= slots the queue grows without end, and every request is late.
"""

from __future__ import annotations

import math
from functools import lru_cache


def late_share(rate: float, slot_rate: float, slots: int, objective_s: float) -> float:
    """Return the share of requests that wait longer than the objective."""
    if rate <= 0.0:
        return 0.0
    load = rate / slot_rate
    if slots <= load:
        return 1.0
    return waiting_share(load, slots) * math.exp(-(slots * slot_rate - rate) * objective_s)


def waiting_share(load: float, slots: int) -> float:
    """Return the share of requests that have to wait at all: Erlang C, by the recursion of Erlang B."""
    known = _blocked(load)
    blocked = known[-1]
    for server in range(len(known), slots + 1):
        busy = load * blocked
        blocked = busy / (server + busy)
        known.append(blocked)
    return slots * known[slots] / (slots - load * (1.0 - known[slots]))


@lru_cache(maxsize=64)
def _blocked(load: float) -> list[float]:
    """Return Erlang B for no server, one, and so on, as far as anybody asked: servers change more often than load."""
    return [1.0]


def replicas_for(rate: float, slot_rate: float, slots: int, busy: float) -> int:
    """Return how many replicas keep no more than `busy` of their slots busy."""
    return max(0, math.ceil(rate / (slot_rate * slots * busy) - 1e-9))
