"""Machines for a cluster without any: objects with nothing behind them, to which the scheduler gives pods.

Their heartbeat is the tests': who waits, beats meanwhile. Does not know what pods there are.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.cluster.bed.client import Cluster

CPUS = 8
ROOM = {"cpu": str(CPUS), "memory": "64Gi", "pods": "20", "ephemeral-storage": "50Gi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The machines of a test, by name, with the class of each."""

    cluster: Cluster
    classes: Mapping[str, str]
    room: Mapping[str, str]

    def beat(self) -> None:
        """Say of every machine that it is well."""
        patch = yaml.safe_dump({"status": status(self.room)})
        for name in self.classes:
            self.cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "--patch", patch)


@contextlib.contextmanager
def machines(
    cluster: Cluster, classes: Mapping[str, str], labels: Mapping[str, str], room: Mapping[str, str] = ROOM
) -> Iterator[Machines]:
    """Hold machines of these classes, labelled and tainted as the fleet's are."""
    found = Machines(cluster=cluster, classes=classes, room=room)
    cluster.apply(*(_machine(name, {"fleet/class": node_class, **labels}) for name, node_class in classes.items()))
    try:
        found.beat()
        yield found
    finally:
        cluster.kubectl("delete", "node", *classes, "--ignore-not-found")


def status(room: Mapping[str, str]) -> dict[str, Any]:
    """Return the status of a machine that is well."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Test",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {"capacity": dict(room), "allocatable": dict(room), "conditions": [condition]}


def _machine(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    taint = {"key": "fleet/class", "value": labels["fleet/class"], "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"taints": [taint]},
    }
