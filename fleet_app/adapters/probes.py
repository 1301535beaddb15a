"""Process scans on hosts other than this one, by a small actor on each node there.

The processes of this host are seen directly; those of another need somebody there. A probe takes no CPU and no GPU,
is started once a node, and ends with the process that started it. Does not know jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayError

from fleet_app.adapters import private, processes
from fleet_app.adapters.local_processes import own_mark
from fleet_app.worker import contract

ANSWER_S = 1.0
"""A probe that has not answered by then is one that did not answer."""


class Probe:
    """What runs on the other host."""

    def __init__(self) -> None:
        self._watch = processes.Watch(mark=own_mark())

    def count(self, attempts: frozenset[str]) -> dict[str, int]:
        """Return how many processes each attempt has on this host."""
        return {attempt: len(pids) for attempt, pids in self._watch.scan(attempts).items()}

    def end(self, attempt: str) -> None:
        """Kill what an attempt has on this host."""
        self._watch.end(attempt)


class Probes:
    """A probe on each of some nodes."""

    def __init__(self) -> None:
        self._wanted: tuple[str, ...] = ()
        self._actors: dict[str, Any] = {}
        self._late: dict[str, Any] = {}

    @private.faulty
    def keep(self, hosts: frozenset[str], draining: frozenset[str]) -> None:
        """Have a probe on each of these nodes; returns before new ones are up.

        One that drains keeps its probe but gets none: Ray would never start it, and nothing is placed there again.
        """
        for node_id in sorted(self._actors.keys() - hosts):
            self._drop(node_id)
        for node_id in sorted(hosts - draining - self._actors.keys()):
            self._actors[node_id] = _start(node_id)
        self._wanted = tuple(sorted(self._actors))

    def count(self, attempts: frozenset[str]) -> Mapping[str, int]:
        """Return how many processes each attempt has on all nodes with a probe.

        A node whose probe does not answer in time counts as one process of every attempt: nobody knows that they
        are gone. A probe that died is replaced at the next `keep`.
        """
        total = Counter(dict.fromkeys(attempts, 0))
        for answer in self._ask("count", attempts):
            total.update(answer if isinstance(answer, dict) else dict.fromkeys(attempts, 1))
        return total

    def end(self, attempt: str) -> None:
        """Kill what an attempt has on all nodes with a probe, as far as they answer in time."""
        self._ask("end", attempt)

    @private.faulty
    def _ask(self, method: str, argument: object) -> list[object]:
        """Return every probe's answer, None for one that gave none. One that still owes an answer is not asked more."""
        asked = {
            getattr(actor, method).remote(argument): node_id
            for node_id, actor in self._actors.items()
            if self._is_free(node_id)
        }
        ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_S) if asked else ([], [])
        self._late.update({asked[reference]: reference for reference in late})
        answers = {asked[reference]: self._answer(asked[reference], reference) for reference in ready}
        return [answers.get(node_id) for node_id in self._wanted]

    def _answer(self, node_id: str, reference: Any) -> object:
        try:
            answer: object = ray.get(reference)
        except RayError:
            self._drop(node_id)
            return None
        return answer

    def _is_free(self, node_id: str) -> bool:
        owed = self._late.get(node_id)
        if owed is not None and ray.wait([owed], timeout=0)[0]:
            del self._late[node_id]
        return node_id not in self._late

    def _drop(self, node_id: str) -> None:
        del self._actors[node_id]  # the last handle: Ray ends the actor
        self._late.pop(node_id, None)


def _start(node_id: str) -> Any:
    return ray.remote(Probe).options(num_cpus=0, label_selector={contract.NODE_ID_LABEL: node_id}).remote()
