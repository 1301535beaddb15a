"""Facts for tests, every default the dull value: `gang("llm", nodes=4)`, `node("n1", at="s1/l1")`.

Knows engine values only. A test names what matters to it and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.calendar import Booking, BookingAsk, Transfer
from fleet_app.engine.cards import Card, Slice
from fleet_app.engine.failures import Cause, Failure, Quarantined
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import (
    Calendar,
    DrainContract,
    FlavorQuota,
    Headroom,
    Health,
    Policy,
    PriorityClass,
    Quota,
    Slicing,
)
from fleet_app.engine.state import FleetState
from fleet_app.engine.telemetry import Usage
from fleet_app.engine.values import NOTHING, Condition, Crossing, Departure, Node, NodeClass, Shape
from fleet_app.engine.workload import Grant, Group, Kind, Service, Workload, widest

SERVING = 100_000
COMMITTED = 50_000
BACKFILL = 1_000

CLASSES = (
    PriorityClass(name="serving-production", value=SERVING),
    PriorityClass(name="training-committed", value=COMMITTED),
    PriorityClass(name="training-backfill", value=BACKFILL, borrows=True, yields=True),
)


def shape(gpus: int = 0, *, cpus: int = 0, memory_mib: int = 0) -> Shape:
    """Return a shape; `cpus` are whole CPUs."""
    return Shape(gpus=gpus, cpu_milli=cpus * 1000, memory_mib=memory_mib)


def node(
    name: str = "n1",
    *,
    at: str = "s1/l1",
    gpus: int = 8,
    cpus: int = 64,
    memory_mib: int = 512 * 1024,
    serving: bool = False,
    accelerator: str = "unknown",
    driver: str = "",
    condition: Condition = Condition.READY,
    foreign: Shape = NOTHING,
    owners: Sequence[str] = (),
    down_since: float | None = None,
    cached: Sequence[str] = (),
    cards: Sequence[Card] = (),
) -> Node:
    """Return a training node with 8 GPUs; `at` is its place in the fabric, outermost first: spine/leaf."""
    return Node(
        name=name,
        node_class=NodeClass.SERVING if serving else NodeClass.TRAINING,
        domains=tuple(part for part in at.split("/") if part),
        capacity=shape(gpus, cpus=cpus, memory_mib=memory_mib),
        accelerator=accelerator,
        driver=driver,
        condition=condition,
        foreign=foreign,
        foreign_owners=tuple(owners),
        down_since=down_since,
        cached=tuple(cached),
        cards=tuple(cards),
    )


def nodes(count: int, *, prefix: str = "n", at: str = "s1/l1", first: int = 1, **same: int | bool) -> tuple[Node, ...]:
    """Return `count` nodes of one leaf, named prefix1, prefix2 and so on."""
    gpus, serving = int(same.get("gpus", 8)), bool(same.get("serving", False))
    return tuple(node(f"{prefix}{first + i}", at=at, gpus=gpus, serving=serving) for i in range(count))


def workload(
    name: str,
    kind: Kind,
    *,
    nodes: int,
    gpus: int,
    on: Sequence[str],
    phase: Phase | None,
    team: str,
    priority: int,
    cpus: int = 0,
    memory_mib: int = 0,
    groups: Mapping[str, tuple[int, Shape]] | None = None,
    minimum: int | None = None,
    at_most: int | None = None,
    going: Sequence[str] = (),
    going_by: float | None = None,
    within: str | None = None,
    accelerator: str | None = None,
    submitted_at: float = 0.0,
    started_at: float | None = None,
    saved_at: float | None = None,
    attempt: int = 1,
    grace_s: float = 120.0,
    max_run_s: float | None = None,
    deadline_at: float | None = None,
    drained_for: str | None = None,
    requeued: bool = False,
    movable: bool = False,
    broken_drains: int = 0,
    expired: bool = False,
    interactive: bool = False,
    artifacts: Sequence[Artifact] = (),
    slice: Slice | None = None,  # noqa: A002  # as the field is called
    card: int | None = None,
) -> Workload:
    """Return a workload; one that is `on` nodes runs there since `started_at` (default: its submission).

    With `groups`, such as `{"ps": (1, shape(0, cpus=16)), "actors": (4, shape(8))}`, it has those bundles instead.
    With `minimum` it is elastic, and on as few nodes as it is, of `at_most` bundles.
    """
    parts = tuple(Group(name=each, bundles=count, shape=of) for each, (count, of) in (groups or {}).items())
    known = phase or (Phase.RUNNING if on else Phase.QUEUED)
    began = (submitted_at if started_at is None else started_at) if known is not Phase.QUEUED else None
    return Workload(
        name=name,
        kind=kind,
        team=team,
        priority=priority,
        shape=widest(parts) if parts else shape(gpus, cpus=cpus, memory_mib=memory_mib),
        bundles=sum(part.bundles for part in parts) or at_most or len(on) or nodes,
        groups=parts,
        minimum=minimum,
        going=tuple(going),
        going_by=going_by,
        within=within,
        accelerator=accelerator,
        submitted_at=submitted_at,
        phase=known,
        attempt=attempt,
        nodes=tuple(on),
        admitted_at=began,
        started_at=None if known is Phase.ADMITTED else began,
        saved_at=began if saved_at is None else saved_at,
        grace_s=grace_s,
        max_run_s=max_run_s,
        deadline_at=deadline_at,
        drained_for=drained_for,
        requeued=requeued,
        movable=movable,
        broken_drains=broken_drains,
        expired=expired,
        interactive=interactive,
        artifacts=tuple(artifacts),
        slice=slice,
        card=card,
    )


def gang(
    name: str = "gang",
    *,
    nodes: int = 1,
    gpus: int = 8,
    on: Sequence[str] = (),
    phase: Phase | None = None,
    team: str = "research",
    priority: int = COMMITTED,
    **rest: object,
) -> Workload:
    """Return a queued gang of `nodes` bundles of 8 GPUs; `on=("n1", "n2")` makes it run there instead."""
    return workload(
        name,
        Kind.GANG,
        nodes=nodes,
        gpus=gpus,
        on=on,
        phase=phase,
        team=team,
        priority=priority,
        **rest,  # type: ignore[arg-type]  # a test's keywords
    )


def backfill(
    name: str = "backfill",
    *,
    nodes: int = 1,
    gpus: int = 1,
    on: Sequence[str] = (),
    phase: Phase | None = None,
    team: str = "research",
    priority: int = BACKFILL,
    **rest: object,
) -> Workload:
    """Return a queued backfill job of one bundle of 1 GPU; `on=("n1",)` makes it run there instead."""
    return workload(
        name,
        Kind.BACKFILL,
        nodes=nodes,
        gpus=gpus,
        on=on,
        phase=phase,
        team=team,
        priority=priority,
        **rest,  # type: ignore[arg-type]  # a test's keywords
    )


def sliced(
    name: str = "small",
    *,
    share: float = 0.0,
    profile: str = "",
    on: tuple[str, int] | None = None,
    **rest: object,
) -> Workload:
    """Return a queued backfill job that asks for a slice; `on=("n1", 0)` makes it run there, on that card."""
    where, card = ((on[0],), on[1]) if on else ((), None)
    asked = part(profile=profile, share=share)
    return backfill(name, gpus=0, on=where, slice=asked, card=card, **rest)


def part(*, share: float = 0.0, profile: str = "") -> Slice:
    """Return a slice: `share` is a part of a GPU, such as 0.25."""
    return Slice(profile=profile, share=round(share * 10_000))


def cards(*layouts: Sequence[str], idle_since: float | None = None) -> tuple[Card, ...]:
    """Return cards with these layouts, numbered from 0."""
    return tuple(
        Card(index=index, layout=tuple(layout), idle_since=idle_since if layout else None)
        for index, layout in enumerate(layouts)
    )


def grant(name: str = "g1", *, node: str = "n1", occupied: bool = True, card: int | None = None) -> Grant:
    """Return a grant that a replica occupies."""
    return Grant(name=name, node=node, occupied=occupied, card=card)


def service(
    name: str = "chat",
    *,
    team: str = "serving",
    priority: int = SERVING,
    gpus: int = 1,
    cpus: int = 0,
    memory_mib: int = 0,
    wanted: int = 0,
    floor: int = 0,
    spread: bool = False,
    on: Sequence[str] = (),
    grants: Sequence[Grant] = (),
    slice: Slice | None = None,  # noqa: A002  # as the field is called
) -> Service:
    """Return a service of 1-GPU replicas; `on=("n1", "n1")` gives it that many occupied grants there."""
    running = tuple(grant(f"{name}-{i}", node=where) for i, where in enumerate(on, start=1))
    return Service(
        name=name,
        team=team,
        priority=priority,
        shape=shape(gpus, cpus=cpus, memory_mib=memory_mib),
        wanted=wanted,
        floor=floor,
        spread=spread,
        grants=running + tuple(grants),
        slice=slice,
    )


def team(
    name: str = "research",
    *,
    nominal: int = 64,
    borrowing: int | None = None,
    lending: int | None = None,
    parent: str | None = "org",
    weight: int = 1,
    strict: bool = False,
    flavors: Sequence[FlavorQuota] = (),
) -> Quota:
    """Return a team of the organisation `org`, with 64 GPUs of its own and no limits on lending and borrowing."""
    return Quota(
        name=name,
        parent=parent,
        nominal_gpus=nominal,
        borrowing_limit_gpus=borrowing,
        lending_limit_gpus=lending,
        weight=weight,
        strict=strict,
        flavors=tuple(flavors),
    )


def policy(
    *quotas: Quota,
    levels: Sequence[str] = ("spine", "leaf"),
    classes: Sequence[PriorityClass] = CLASSES,
    grace_s: float = 120.0,
    longest_grace_s: float = 600.0,
    max_broken: int = 3,
    most_per_cycle: int | None = None,
    immediate_gpus: int = 0,
    health: Health | None = None,
    calendar: Calendar | None = None,
    slicing: Slicing | None = None,
) -> Policy:
    """Return a policy with the teams given (default: research and serving) under one organisation, `org`."""
    teams = quotas or (team("research"), team("serving"))
    return Policy(
        levels=tuple(levels),
        quotas=(Quota(name="org"), *teams),
        classes=tuple(classes),
        drain=DrainContract(
            grace_s=grace_s, longest_grace_s=longest_grace_s, max_broken=max_broken, most_per_cycle=most_per_cycle
        ),
        headroom=Headroom(immediate_gpus=immediate_gpus),
        health=health or Health(),
        calendar=calendar or Calendar(),
        slicing=slicing,
    )


def failure(
    who: str = "gang", *on: str, at: float = 0.0, cause: Cause = Cause.JOB, node: str | None = None, why: str = "x"
) -> Failure:
    """Return a gang's failure on these nodes, for a reason that nobody knows."""
    return Failure(workload=who, nodes=on or ((node,) if node else ()), at=at, cause=cause, node=node, why=why)


def quarantined(
    name: str = "n1",
    *,
    since: float = 0.0,
    until: float = 1000.0,
    owner: str = "ada",
    released_at: float | None = None,
) -> Quarantined:
    """Return a node that is kept out for 1000 seconds."""
    return Quarantined(node=name, reason="it smells", owner=owner, since=since, until=until, released_at=released_at)


def transfer(lender: str = "vision", gpus: int = 8, approved_by: str = "grace") -> Transfer:
    """Return 8 GPUs of nominal that vision lends, approved by Grace."""
    return Transfer(lender=lender, gpus=gpus, approved_by=approved_by)


def booking(
    name: str = "run",
    *on: str,
    team: str | None = "research",
    gpus: int = 8,
    cpus: int = 0,
    start_at: float = 1000.0,
    end_at: float = 2000.0,
    transfers: Sequence[Transfer] = (),
    within: str | None = "spine",
    breach: str = "",
) -> Booking:
    """Return 8 GPUs on each of the nodes, for research, from 1000 to 2000 seconds."""
    return Booking(
        name=name,
        team=team,
        shape=shape(gpus, cpus=cpus),
        nodes=on or ("n1",),
        start_at=start_at,
        end_at=end_at,
        within=within,
        transfers=tuple(transfers),
        breach=breach,
    )


def booking_ask(
    name: str = "run",
    *on: str,
    team: str | None = "research",
    count: int = 1,
    gpus: int = 8,
    start_at: float = 1000.0,
    end_at: float = 2000.0,
    transfers: Sequence[Transfer] = (),
    within: str | None = None,
    most_domains: int = 1,
    replaces: str | None = None,
) -> BookingAsk:
    """Return what research asks for: one node of 8 GPUs from 1000 to 2000 seconds."""
    return BookingAsk(
        name=name,
        team=team,
        shape=shape(gpus),
        count=len(on) or count,
        nodes=on,
        start_at=start_at,
        end_at=end_at,
        transfers=tuple(transfers),
        within=within,
        most_domains=most_domains,
        asked_by="ada",
        replaces=replaces,
    )


def crossing(
    name: str = "n1",
    *,
    to: NodeClass = NodeClass.SERVING,
    gpus: int = 8,
    at: float = 0.0,
    moved_at: float | None = None,
    machine: str = "",
    settled_at: float | None = None,
) -> Crossing:
    """Return a node of 8 GPUs that crosses for the first time; with a machine it is a pool's."""
    was = NodeClass.TRAINING if to is NodeClass.SERVING else NodeClass.SERVING
    return Crossing(
        node=name,
        home=was,
        was=was,
        to=to,
        gpus=gpus,
        asked_at=at,
        who="ada",
        moved_at=moved_at,
        machine=machine,
        pool=machine and "its-pool",
        settled_at=settled_at,
    )


def used(subject: str = "x", percent: int = 0, *, since: float = 0.0, until: float = 1000.0, memory: int = 0) -> Usage:
    """Return what was measured in the first 1000 seconds: nothing was used."""
    return Usage(subject=subject, since=since, until=until, sm_active_percent=percent, memory_percent=memory)


def departure(name: str = "n1", gone_at: float | None = None) -> Departure:
    """Return a node that is to be left."""
    return Departure(node=name, why="it is cordoned", gone_at=gone_at)


Part = Node | Workload | Service | Failure | Quarantined | Usage | Crossing | Departure | Booking


def state(*parts: Part) -> FleetState:
    """Return a state of these facts, in any order."""
    return FleetState(
        nodes=tuple(part for part in parts if isinstance(part, Node)),
        workloads=tuple(part for part in parts if isinstance(part, Workload)),
        services=tuple(part for part in parts if isinstance(part, Service)),
        failures=tuple(part for part in parts if isinstance(part, Failure)),
        quarantines=tuple(part for part in parts if isinstance(part, Quarantined)),
        bookings=tuple(part for part in parts if isinstance(part, Booking)),
        crossings=tuple(part for part in parts if isinstance(part, Crossing)),
        departures=tuple(part for part in parts if isinstance(part, Departure)),
        usage=tuple(part for part in parts if isinstance(part, Usage)),
    )
