"""Members of elastic workloads that may leave one by one: who they are, and how many each can spare (rule R8).

A member is a stand-in: the workload with one of its nodes, under a name of its own, so that whoever weighs victims
needs to know nothing of it. Knows workloads. Does not know room, quota or who asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.workload import Workload

Lodgers = dict[str, list[Workload]]
"""Who may be asked to leave each node."""


class Members:
    """The members of each elastic workload that were not told to leave yet."""

    def __init__(self) -> None:
        """Know nobody yet."""
        self.elastic: dict[str, Workload] = {}
        """The elastic workloads that have nodes and were not told to leave before, by name."""
        self.parents: dict[str, Workload] = {}
        """The workload that each stand-in is a member of, by the name of the stand-in."""
        self.staying: dict[str, tuple[str, ...]] = {}
        """The nodes of each elastic workload whose members were not told to leave."""

    def enter(self, workload: Workload) -> tuple[str, ...]:
        """Enter an elastic workload that stays; return the nodes whose members were told to leave before."""
        self.elastic[workload.name] = workload
        self.staying[workload.name] = tuple(node for node in workload.nodes if node not in workload.going)
        return workload.going

    def member_on(self, workload: Workload, node: str) -> Workload:
        """Return who stands for the workload on one of its nodes: a member where it can spare one, else all of it."""
        if self.spare(workload) <= 0:
            return self.rest_of(workload)
        member = member_of(workload, node)
        self.parents[member.name] = workload
        return member

    def rest_of(self, workload: Workload) -> Workload:
        """Return the workload with the nodes that it still has once those have left who were told to."""
        return replace(workload, nodes=self.staying.get(workload.name, workload.nodes), going=())

    def spare(self, workload: Workload) -> int:
        """Return how many more members it can lose."""
        return len(self.staying.get(workload.name, ())) - (workload.minimum or 0)

    def leave(self, member: Workload) -> Workload:
        """Strike off a member that was told to leave; return the workload that it was a member of."""
        parent = self.parents[member.name]
        self.staying[parent.name] = tuple(node for node in self.staying[parent.name] if node not in member.nodes)
        return parent

    def leave_whole(self, workload: Workload, lodgers: Lodgers) -> Workload:
        """Strike off a workload that was told to leave; return what is left of it, which stands for all its members."""
        rest = self.rest_of(workload)
        for node in rest.nodes:
            _swap(lodgers, node, member_of(workload, node).name, rest)
        self.staying.pop(workload.name, None)
        return rest

    @contextmanager
    def as_wholes(self, lodgers: Lodgers) -> Iterator[None]:
        """Let all that is left of an elastic workload stand for each of its members meanwhile."""
        staying = [(parent, member) for parent, member in self._stand_ins() if member.nodes[0] in self._nodes(parent)]
        for parent, member in staying:
            _swap(lodgers, member.nodes[0], member.name, self.rest_of(parent))
        try:
            yield
        finally:
            for parent, member in staying:
                _swap(lodgers, member.nodes[0], parent.name, member)

    def _stand_ins(self) -> Iterator[tuple[Workload, Workload]]:
        for name in sorted(self.parents):
            parent = self.parents[name]
            yield parent, member_of(parent, name.removeprefix(f"{parent.name}/"))

    def _nodes(self, parent: Workload) -> tuple[str, ...]:
        return self.staying.get(parent.name, ())

    def names_of(self, victims: Iterable[Workload]) -> tuple[str, ...]:
        """Return the names of the workloads that victims are, or are members of."""
        return tuple(sorted({self.parents.get(one.name, one).name for one in victims}))

    def can_be_spared(self, victims: Iterable[Workload]) -> bool:
        """Return whether every workload keeps its minimum without those of its members that are among the victims."""
        parents = [self.parents[one.name] for one in victims if one.name in self.parents]
        leaving = Counter(parent.name for parent in parents)
        return all(leaving[parent.name] <= self.spare(parent) for parent in parents)


def _swap(lodgers: Lodgers, node: str, name: str, other: Workload) -> None:
    """Let another stand for a lodger of a node; what it has there, and what it costs there, is the same."""
    lodgers[node] = [other if lodger.name == name else lodger for lodger in lodgers[node]]


def member_of(workload: Workload, node: str) -> Workload:
    """Return the workload's member on a node as a workload of its own; one that was told to leave is leaving."""
    told = node in workload.going
    return replace(
        workload,
        name=f"{workload.name}/{node}",
        nodes=(node,),
        bundles=1,
        minimum=None,
        going=(),
        phase=Phase.DRAINING if told else workload.phase,
        deadline_at=workload.going_by if told else workload.deadline_at,
    )
