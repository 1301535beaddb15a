"""What one object alone does not say: whom a budget selects, what a scaler scales, on which nodes a pod is.

Learns it from all objects together, and hands it to the guards as values of their variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet_app.audit.judge import Bench
from fleet_app.audit.selectors import selects
from fleet_app.audit.things import Finding, Object, Thing
from fleet_app.render import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of a gang that there is, or that something would make: its labels, and who makes it."""

    namespace: str
    labels: Mapping[str, str]
    maker: tuple[str, str]
    """Kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """The pods of gangs, and the nodes of the fleet."""

    pods: tuple[Pod, ...]
    nodes: frozenset[str]

    def known(self, thing: Thing, namespace: str) -> dict[str, Any]:
        """Return the values of a guard's variables that are certain of an object; none where nothing is."""
        spec: Object = thing.object.get("spec") or {}
        match thing.kind:
            case "PodDisruptionBudget":
                found = any(selects(spec.get("selector"), pod.labels) for pod in self._in(namespace))
                return {"selects": True} if found else {}
            case "HorizontalPodAutoscaler" | "ScaledObject":
                target: Object = spec.get("scaleTargetRef") or {}
                scaled = (str(target.get("kind", "Deployment")), str(target.get("name", "")))
                found = any(pod.maker == scaled for pod in self._in(namespace))
                return {"class": names.TRAINING} if found else {}
            case "Pod":
                return {"reaches": True} if spec.get("nodeName") in self.nodes else {}
            case _:
                return {}

    def _in(self, namespace: str) -> Iterator[Pod]:
        return (pod for pod in self.pods if pod.namespace == namespace)


def relate(bench: Bench, things: Iterable[Thing], default_namespace: str) -> Relations:
    """Learn from all objects who has pods of gangs, and which nodes are the fleet's."""
    pods: list[Pod] = []
    nodes: set[str] = set()
    for thing in things:
        labels: Object = thing.metadata.get("labels") or {}
        if thing.kind == "Node":
            if names.CLASS_LABEL in labels:
                nodes.add(thing.name)
            continue
        namespace = thing.namespace(default_namespace)
        for template in bench.templates(thing):
            had: Object = (template.get("metadata") or {}).get("labels") or {}
            pods.append(Pod(namespace=namespace, labels=had, maker=(thing.kind, thing.name)))
    return Relations(pods=tuple(pods), nodes=frozenset(nodes))


def audit(bench: Bench, things: list[Thing], default_namespace: str) -> list[Finding]:
    """Return everything that the objects break, in the order of rules, then of objects."""
    relations = relate(bench, things, default_namespace)
    found = [
        finding
        for thing in things
        for finding in bench.judge(thing, default_namespace, relations.known(thing, thing.namespace(default_namespace)))
    ]
    return sorted(found, key=lambda each: (each.rule, each.namespace, each.kind, each.name, each.source, each.message))
