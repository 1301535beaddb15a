"""The fleet's own past to what the twin runs: under the policy that it has, or under another, with other nodes.

Knows a journal that was read and policies. Reads no file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fleet_app.engine.errors import RequestError
from fleet_app.engine.values import Node, NodeClass
from fleet_app.policy.load import to_engine
from fleet_app.policy.problems import Problem, closest
from fleet_app.policy.schema import PolicyFile
from fleet_app.twin.readers.journal import Past
from fleet_app.twin.scenarios.load import Loaded
from fleet_app.twin.work import Job, Scenario, Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """What is different: the policy, and how many nodes of each class there are more, or fewer."""

    policy: PolicyFile
    nodes: Mapping[NodeClass, int]


def history(past: Past, name: str, present: PolicyFile, supposed: Supposed | None = None) -> Loaded:
    """Return a fleet's past as the twin runs it: as it was, or as it would have been.

    Raises RequestError when there are fewer nodes than are to be taken away.
    """
    new = Supposed(policy=present, nodes={}) if supposed is None else supposed
    values = _values(present, new.policy)
    priority = new.policy.service_priority
    scenario = Scenario(
        policy=to_engine(new.policy),
        nodes=_resized(past.nodes, new.nodes),
        jobs=tuple(_with_priority(job, values) for job in past.jobs),
        traffic=tuple(_at(priority, one) for one in past.traffic),
        bookings=past.bookings,
        begins_at=past.begins_at,
        ends_at=past.ends_at,
    )
    return Loaded(
        name=name,
        about="",
        policy=new.policy,
        scenario=scenario,
        lasts_s=past.ends_at - past.begins_at,
        estimate=None,
    )


def problems(past: Past, present: PolicyFile, new: PolicyFile) -> Iterator[Problem]:
    """Yield what of a past a policy has no place for: its teams, classes and topology levels."""
    teams = Counter(one.workload.team for one in past.jobs)
    teams.update(one.service.team for one in past.traffic)
    teams.update(one.ask.team for one in past.bookings if one.ask.team is not None)
    known = {one.name for one in to_engine(new).quotas}
    for team, count in sorted(teams.items()):
        if team not in known:
            what = f"no team is called {team!r}, whose are {count} of the history"
            yield Problem(path=("organisations",), what=what, fix=closest(team, known))
    names = {item.value: name for name, item in present.classes.items()}
    classes = Counter(names.get(one.workload.priority, str(one.workload.priority)) for one in past.jobs)
    for name, count in sorted(classes.items()):
        if name not in new.classes:
            what = f"no class is called {name!r}, which {count} of the history have"
            yield Problem(path=("classes",), what=what, fix=closest(name, new.classes))
    if new.topology.levels != present.topology.levels:
        levels = ", ".join(present.topology.levels)
        what = "other levels than those that the history tells of its nodes"
        yield Problem(path=("topology", "levels"), what=what, fix=f"Write [{levels}]")


def _values(old: PolicyFile, new: PolicyFile) -> dict[int, int]:
    """Return the value of each class under another policy, by that which it has now."""
    return {item.value: new.classes[name].value for name, item in old.classes.items() if name in new.classes}


def _with_priority(job: Job, values: Mapping[int, int]) -> Job:
    one = job.workload
    return replace(job, workload=replace(one, priority=values.get(one.priority, one.priority)))


def _at(priority: int, traffic: Traffic) -> Traffic:
    return replace(traffic, service=replace(traffic.service, priority=priority))


# --- other nodes ----------------------------------------------------------------------------------------------------


def _resized(nodes: tuple[Node, ...], change: Mapping[NodeClass, int]) -> tuple[Node, ...]:
    for kind, count in change.items():
        nodes = (*nodes, *_more(nodes, kind, count)) if count > 0 else _fewer(nodes, kind, -count)
    return nodes


def _fewer(nodes: tuple[Node, ...], kind: NodeClass, count: int) -> tuple[Node, ...]:
    """Return a fleet without the last nodes of a class."""
    names = sorted(node.name for node in nodes if node.node_class is kind)
    if count > len(names):
        raise RequestError(f"there are {len(names)} {kind} nodes", where="--nodes", fix="Take fewer away")
    gone = set(names[len(names) - count :])
    return tuple(node for node in nodes if node.name not in gone)


def _more(nodes: tuple[Node, ...], kind: NodeClass, count: int) -> Iterator[Node]:
    """Yield more nodes like most of a class, in domains of their own that are as large as the largest there are."""
    alike = [node for node in nodes if node.node_class is kind]
    if not alike:
        raise RequestError(f"there is no {kind} node to be like", where="--nodes", fix="Add nodes of the other class")
    pattern = _usual(alike)
    sizes = [_largest(nodes, level) for level in range(len(pattern.domains))]
    for number in range(count):
        domains = tuple(f"more-{kind}-{level}-{number // size}" for level, size in enumerate(sizes))
        yield replace(pattern, name=f"more-{kind}-{number:04}", domains=domains)


def _usual(nodes: Iterable[Node]) -> Node:
    """Return the first node by name of the sort of which there are most."""
    ordered = sorted(nodes, key=lambda node: node.name)
    sorts = Counter((node.accelerator, node.driver, node.capacity.parts) for node in ordered)
    most = max(sorts.values())
    return next(node for node in ordered if sorts[node.accelerator, node.driver, node.capacity.parts] == most)


def _largest(nodes: Iterable[Node], level: int) -> int:
    return max(Counter(node.domains[level] for node in nodes).values())
