"""Where a workload may run, full or not: class, replicas, spares, who is ahead (rules P4 to P6, P8, O4, O7, C1).

Knows nodes, priority classes and reservations. Does not know room or quota sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fleet_app.engine.ends import gone_before
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.matching import Sought
from fleet_app.engine.spares import is_barred, spares_of
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Service, Workload


def eligible(ledger: Ledger, workload: Workload) -> list[Node]:
    """Return the nodes that class, accelerator and caps let the workload run on (P5, P6, V9).

    What runs already is charged for what it has: for that the caps say nothing.
    """
    found = uncapped(ledger, workload)
    if ledger.caps is None or workload.nodes:
        return found
    return _of_kinds(
        ledger, found, [kind for kind in accelerators(ledger, found) if cap_allows(ledger, workload, kind)]
    )


def eligible_together(ledger: Ledger, workload: Workload) -> list[Node]:
    """Return the nodes that it may use; which accelerator they have matters only to groups that ask for GPUs (P7)."""
    return uncapped(ledger, replace(workload, accelerator=None)) if workload.groups else eligible(ledger, workload)


def accelerators(ledger: Ledger, nodes: list[Node]) -> list[str]:
    """Return the accelerators of some nodes; found out once a list."""
    known = ledger.memo.accelerators.get(id(nodes))
    if known is None:
        known = ledger.memo.accelerators[id(nodes)] = (nodes, sorted({node.accelerator for node in nodes}))
    return known[1]


def cap_allows(ledger: Ledger, workload: Workload, accelerator: str) -> bool:
    """Return whether its caps leave a workload as many GPUs of an accelerator as it asks for (V9)."""
    left = cap_left(ledger, workload, accelerator) if workload.gpus else None
    return left is None or left >= workload.gpus


def cap_left(ledger: Ledger, workload: Workload, accelerator: str) -> int | None:
    """Return how many GPUs of an accelerator the caps leave a workload beside who is ahead of it; None without any."""
    assert ledger.caps is not None
    return ledger.caps.left(workload.team, accelerator, ahead_under_caps(ledger, workload, accelerator))


def ahead_under_caps(ledger: Ledger, workload: Workload, accelerator: str) -> list[Workload]:
    """Return for whom what comes free of an accelerator is kept, but for those that the workload may pass (O4, O7)."""
    assert ledger.caps is not None
    kind, yields = accelerator.lower(), ledger.class_of(workload).yields
    waiting = [one for one, of in ledger.caps.kept if of == kind and not (yields and workload.priority < one.priority)]
    return [one for one in waiting if not _passes(ledger, workload, one)]


def _of_kinds(ledger: Ledger, nodes: list[Node], kinds: Sequence[str]) -> list[Node]:
    """Return the nodes of some of their accelerators; the same list for the same answer."""
    able = frozenset(kinds)
    key = (id(nodes), able)
    if len(able) == len(accelerators(ledger, nodes)):
        return nodes
    if key not in ledger.memo.eligible:
        ledger.memo.eligible[key] = [node for node in nodes if node.accelerator in able]
    return ledger.memo.eligible[key]


def uncapped(ledger: Ledger, workload: Workload) -> list[Node]:
    """Return the nodes whose class and accelerator let the workload run there (P5, P6).

    What never yields keeps to training's nodes, and off spares (P8). What yields may use serving's headroom, but with
    several bundles only nodes without replicas; having broken the contract too often it loses that headroom. Asked when
    services have got what is theirs; the answer is the same for all that are alike in this.
    """
    headroom = may_use_headroom(ledger, workload)
    alone = workload.bundles > 1 or workload.minimum is not None
    barred = is_barred(ledger, workload)
    key = (headroom, alone, workload.accelerator, barred)
    if key not in ledger.memo.eligible:
        spares = spares_of(ledger) if barred else frozenset()
        ledger.memo.eligible[key] = [
            node
            for node in ledger.placeable()
            if (node.node_class is NodeClass.TRAINING or headroom)
            and (workload.accelerator is None or node.accelerator == workload.accelerator)
            and not (alone and ledger.replicas.get(node.name, 0))
            and not (barred and node.name in spares)
        ]
    return ledger.memo.eligible[key]


def serving_nodes(ledger: Ledger, service: Service | None = None) -> list[Node]:
    """Return the nodes that replicas may start on, those of one service where it is named (P5, S1, C8, V9).

    The same list throughout a decision, but where a cap keeps a service off some.
    """
    if NodeClass.SERVING not in ledger.memo.eligible:
        ledger.memo.eligible[NodeClass.SERVING] = [
            node
            for node in ledger.placeable()
            if node.node_class is NodeClass.SERVING and not (ledger.calendar and ledger.calendar.closing(node.name))
        ]
    found = ledger.memo.eligible[NodeClass.SERVING]
    if ledger.caps is None or service is None:
        return found
    left = {kind: ledger.caps.left(service.team, kind) for kind in accelerators(ledger, found)}
    gpus = service.shape.gpus
    return _of_kinds(ledger, found, [kind for kind, most in left.items() if not gpus or most is None or most >= gpus])


def unreserved(ledger: Ledger, workload: Workload, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that are open to a workload that would start there now."""
    nodes = list(filter(is_open(ledger, workload), nodes)) if ledger.reserved else list(nodes)
    return unbooked(ledger, workload, nodes)


def unbooked(ledger: Ledger, workload: Workload, nodes: Sequence[Node], until: float | None = None) -> list[Node]:
    """Return the nodes that bookings leave to a workload, which will have left `until` (C1 to C3)."""
    if ledger.calendar is None:
        return list(nodes)
    is_open = ledger.calendar.open_to(workload, yields=ledger.class_of(workload).yields, until=until)
    return [node for node in nodes if is_open(node.name)]


def is_open(ledger: Ledger, workload: Workload) -> Callable[[Node], bool]:
    """Return whether a node is kept for nobody ahead of the workload.

    What yields to who is ahead may pass (O4, R2), and what is gone before its planned start (O7).
    """
    reserved, priority, yields = ledger.reserved, workload.priority, ledger.class_of(workload).yields

    def holds(node: Node) -> bool:
        ahead = reserved.get(node.name)
        return ahead is None or (yields and priority < ahead.priority) or _passes(ledger, workload, ahead)

    return holds


def booked_ahead(ledger: Ledger, workload: Workload) -> Sequence[Workload]:
    """Return who waits for the nominal of the workload's team before it, but for those that it may pass (O4, O7)."""
    booked = ledger.booked.get(workload.team, ())
    return [ahead for ahead in booked if not _passes(ledger, workload, ahead)] if ledger.starts else booked


def passed(ledger: Ledger, workload: Workload) -> tuple[object, ...]:
    """Return for whose planned starts the workload, admitted now, would be gone in time (O7).

    Where something is booked, what that depends on: any other run time or grace is another question (C1, C2).
    """
    if ledger.calendar is not None:
        return (workload.max_run_s, workload.grace_s)
    if workload.max_run_s is None or not ledger.starts:
        return ()
    drain, now = ledger.policy.drain, ledger.now
    return tuple(name for name, start in ledger.starts.items() if gone_before(drain, workload, now, start))


def asker(ledger: Ledger, workload: Workload) -> Asker:
    """Return what the workload looks for."""
    return Asker(
        name=workload.name,
        team=workload.team,
        priority=workload.priority,
        shape=workload.shape,
        bundles=workload.bundles,
        depth=depth(ledger, workload),
        since=workload.submitted_at,
        sought=sought_now(ledger, workload) if workload.groups else None,
    )


def sought(ledger: Ledger, workload: Workload) -> Sought:
    """Return what the groups of a workload look for together (P7)."""
    return Sought(groups=workload.groups, depth=depth(ledger, workload), accelerator=workload.accelerator)


def sought_now(ledger: Ledger, workload: Workload) -> Sought:
    """Return what the groups of a workload look for together, off the accelerators that its caps bar now (V9)."""
    wants = sought(ledger, workload)
    if ledger.caps is None:
        return wants
    kinds = accelerators(ledger, uncapped(ledger, replace(workload, accelerator=None)))
    return replace(wants, barred=frozenset(kind for kind in kinds if not cap_allows(ledger, workload, kind)))


def depth(ledger: Ledger, workload: Workload) -> int:
    """Return how many levels deep one domain must hold all of the workload; 0 when none must (P4)."""
    levels = ledger.policy.levels
    return levels.index(workload.within) + 1 if workload.within in levels else 0


def may_use_headroom(ledger: Ledger, workload: Workload) -> bool:
    """Return whether serving's nodes are open to the workload: it yields, and kept to the drain contract (P5, D4)."""
    return ledger.class_of(workload).yields and not distrusted(ledger, workload)


def distrusted(ledger: Ledger, workload: Workload) -> bool:
    """Return whether it broke the drain contract so often that it lost the right to lent capacity (D4)."""
    return workload.broken_drains >= ledger.policy.drain.max_broken


def _passes(ledger: Ledger, workload: Workload, ahead: Workload) -> bool:
    start = ledger.starts.get(ahead.name)
    return start is not None and gone_before(ledger.policy.drain, workload, ledger.now, start)
