"""Hypothesis strategies: small policies and fleets on which limits bind, and histories that the engine itself plays.

A state that no engine would have led to proves little, so states are the ends of histories: a virtual fleet, and what
happened to it. Everything is small, so that quota, room, topology and contracts are in each other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.calendar import Booking, BookingAsk
from fleet_app.engine.cards import Slice
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.policy import (
    Affinity,
    Boundary,
    Calendar,
    FlavorQuota,
    Headroom,
    Idle,
    Ordering,
    Packing,
    Policy,
    PriorityClass,
    Pulls,
    Quota,
    Slicing,
    Source,
    Spares,
)
from fleet_app.engine.reclaim import EXACT_UP_TO
from fleet_app.engine.values import NOTHING, Condition, Node, Shape
from fleet_app.engine.workload import Group, Kind, Service, Workload, widest
from tests import virtual
from tests.builders import (
    BACKFILL,
    CLASSES,
    COMMITTED,
    backfill,
    booking,
    booking_ask,
    cards,
    gang,
    grant,
    node,
    policy,
    quarantined,
    service,
    shape,
    team,
    transfer,
    used,
)
from tests.virtual import Fleet

T = TypeVar("T")

IMAGE = Artifact(name="image", size_mib=20_480, source="registry")
WEIGHTS = Artifact(name="weights", size_mib=81_920, source="store")
URGENT = PriorityClass(name="training-urgent", value=60_000)
POLITE = PriorityClass(name="training-polite", value=900, yields=True)
TEAMS = ("research", "vision", "speech", "serving")
ACCELERATORS = ("h100", "a100")


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Return a policy of four teams, two of them in an organisation below or in a cohort of their own."""
    lab, alone = draw(st.sampled_from([("org", "org"), ("org", "org"), ("lab", "org"), ("org", "other")]))
    parents = {"research": lab, "vision": lab, "speech": alone, "serving": "org"}
    weights = st.sampled_from([1, 1, 2, 3])
    quotas = [Quota(name="other"), Quota(name="lab", parent="org", weight=draw(weights), **draw(limits()))]
    for name in TEAMS:
        nominal = draw(st.sampled_from([2, 4, 8, 8, 12, 16]))
        own = team(name, nominal=nominal, parent=parents[name], weight=draw(weights))
        quotas.append(replace(own, **draw(limits())))
    in_line = draw(st.sampled_from([(), (), ("research", "speech"), TEAMS]))
    quotas = [replace(quota, strict=quota.name in in_line) for quota in quotas]
    inside = sum(quota.nominal_gpus for quota in quotas if quota.parent == "lab")
    quotas[1] = replace(quotas[1], nominal_gpus=inside)
    levels = draw(st.sampled_from([("spine", "leaf"), ("spine", "leaf", "island")]))
    immediate = draw(st.sampled_from([0, 0, 1, 4]))
    rules = policy(*quotas, levels=levels, classes=(*CLASSES, URGENT, POLITE), immediate_gpus=immediate, max_broken=2)
    restart_s = draw(st.sampled_from([60.0, 60.0, 0.0]))
    ordering = Ordering(
        ageing_s=draw(st.sampled_from([None, None, None, 60.0])),
        shortest_first=draw(st.sampled_from([False, False, False, True])),
        keepers=draw(st.sampled_from([None, None, None, 0, 1])),
    )
    packing = Packing(
        first_fit=draw(st.booleans()),
        rest_emptiest=draw(st.sampled_from([False, False, True])),
        cpu_milli_per_gpu=draw(st.sampled_from([0, 0, 1_000, 3_000])),
    )
    at_once = draw(st.sampled_from([None, None, 1, 2]))
    return replace(
        rules,
        quotas=tuple(replace(one, flavors=draw(caps())) for one in rules.quotas),
        drain=replace(rules.drain, restart_cost_s=restart_s, most_at_once=at_once),
        ordering=ordering,
        packing=packing,
        idle=Idle(after_s=60.0),
        pulls=draw(pulls()),
        affinities=draw(affinities()),
        spares=draw(spares()),
        calendar=draw(calendars()),
    )


def caps() -> st.SearchStrategy[tuple[FlavorQuota, ...]]:
    """Return no caps more often than some that bind, on whole GPUs of one accelerator or of both (V9)."""
    gpus = st.sampled_from([0, 2, 4, 6, 8, 12])
    some = st.lists(st.sampled_from(ACCELERATORS), min_size=1, max_size=2, unique=True)
    one = st.builds(lambda kinds, most: tuple(cap(kind, most) for kind in kinds), some, gpus)
    return st.one_of(*[st.just(())] * 4, one)


def cap(accelerator: str, gpus: int) -> FlavorQuota:
    """Return the number of an entry for whole GPUs of an accelerator."""
    return FlavorQuota(flavor=f"{accelerator}-whole", nominal=gpus)


def calendars() -> st.SearchStrategy[Calendar]:
    """Return leads and holds short enough to matter within a history."""
    return st.builds(
        Calendar,
        most_domains=st.sampled_from([1, 1, 2]),
        reclaim_lead_s=st.sampled_from([0.0, 0.0, 200.0, 1200.0]),
        move_lead_s=st.sampled_from([0.0, 300.0]),
        hold_s=st.sampled_from([0.0, 100.0]),
    )


TIGHT = (Source(name="registry", most_at_once=1, gbit_per_s=10), Source(name="store", most_at_once=2))


def pulls() -> st.SearchStrategy[Pulls]:
    """Return no limits as often as tight ones."""
    return st.sampled_from([Pulls(), Pulls(), Pulls(sources=TIGHT), Pulls(sources=TIGHT, most_per_node=1)])


def affinities() -> st.SearchStrategy[tuple[Affinity, ...]]:
    """Return nothing as often as what is in each other's way."""
    spread = (Affinity(service="s0", spread="leaf"),)
    return st.sampled_from(
        [
            *[()] * 3,
            spread,
            (Affinity(service="s0", per_node=1), Affinity(service="s1", per_node=2)),
            (Affinity(service="s1", apart_from=("s0",)), *spread),
        ]
    )


def spares() -> st.SearchStrategy[Spares]:
    """Return none more often than one or two, of the fleet or of each domain."""
    one = (Spares(level="spine", nodes=1), Spares(level="leaf", nodes=1), Spares(nodes=2))
    return st.sampled_from([*[Spares()] * 4, *one])


def limits() -> st.SearchStrategy[dict[str, int | None]]:
    """Return limits that bind more often than not."""
    some = st.sampled_from([None, None, 0, 2, 6])
    return st.fixed_dictionaries({"borrowing_limit_gpus": some, "lending_limit_gpus": some})


@st.composite
def nodes(draw: st.DrawFn, *, depth: int, sizes: Sequence[int] = (4, 4, 4, 2, 8)) -> tuple[Node, ...]:
    """Return two to six nodes of both classes in up to four domains; most are sound and alike."""
    found = []
    mixed = draw(st.sampled_from([False, False, True]))
    for number in range(draw(st.integers(2, 6))):
        place = [draw(st.sampled_from(["a", "a", "b"])) for _ in range(depth)]
        one = node(
            f"n{number}",
            at="/".join(place),
            gpus=draw(st.sampled_from(sizes)),
            cpus=draw(st.sampled_from([8, 8, 3])),
            serving=draw(st.sampled_from([False, False, True])),
            accelerator=draw(st.sampled_from(["h100", "h100", "a100"])) if mixed else "h100",
            driver=draw(st.sampled_from(["550", "550", "560"])) if mixed else "550",
            cached=draw(st.sampled_from([(), (), ("image",), ("image", "weights")])),
        )
        found.append(one)
    return tuple(found)


def shapes() -> st.SearchStrategy[Shape]:
    """Return what a bundle asks: GPUs that divide a node or do not, and CPUs that run out before them."""
    return st.builds(lambda gpus, cpus: shape(gpus, cpus=cpus), st.sampled_from([1, 1, 2, 3, 4]), st.integers(0, 3))


@st.composite
def gangs(draw: st.DrawFn, name: str, levels: Sequence[str]) -> Workload:
    """Return a queued gang."""
    count = draw(st.sampled_from([1, 1, 1, 2, 2, 3]))
    of = draw(st.sampled_from([COMMITTED, COMMITTED, URGENT.value]))
    one = gang(name, nodes=count, priority=of, movable=draw(st.booleans()))
    return draw(now_and_then_mixed(replace(one, **draw(asks(levels)))))


@st.composite
def backfills(draw: st.DrawFn, name: str, levels: Sequence[str]) -> Workload:
    """Return a queued backfill job, now and then one that broke its contract or may not borrow."""
    of = draw(st.sampled_from([BACKFILL, BACKFILL, BACKFILL, POLITE.value]))
    one = backfill(name, nodes=draw(st.sampled_from([1, 1, 1, 2])), priority=of)
    one = replace(one, broken_drains=draw(st.sampled_from([0, 0, 0, 0, 2])), **draw(asks(levels)))
    return draw(now_and_then_mixed(one))


@st.composite
def now_and_then_mixed(draw: st.DrawFn, one: Workload) -> Workload:
    """Return the workload, now and then with groups of several shapes instead of its bundles, or elastic."""
    how = draw(st.sampled_from(["plain", "plain", "mixed", "elastic"]))
    if how == "elastic":
        minimum = draw(st.integers(1, 2))
        return replace(one, minimum=minimum, bundles=minimum + draw(st.integers(0, 3)))
    return mixed(one, draw(groups())) if how == "mixed" else one


@st.composite
def groups(draw: st.DrawFn) -> tuple[Group, ...]:
    """Return two or three groups; some ask for no GPU, some for more of one thing and less of another."""
    gpus, cpus = st.sampled_from([0, 1, 2, 4]), st.sampled_from([1, 3, 6])
    some = st.builds(lambda gpus, cpus: shape(gpus, cpus=cpus), gpus, cpus)
    counts = draw(st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1), (1, 1, 1)]))
    shapes = [draw(some) for _ in counts]
    if not any(one.gpus for one in shapes):
        shapes[0] = replace(shapes[0], gpus=1)  # a spec without any GPU is refused
    return tuple(Group(name=f"g{place}", bundles=count, shape=shapes[place]) for place, count in enumerate(counts))


def mixed(one: Workload, parts: tuple[Group, ...]) -> Workload:
    """Return the workload with those groups as its bundles."""
    return replace(one, groups=parts, bundles=sum(part.bundles for part in parts), shape=widest(parts))


def workloads(name: str, levels: Sequence[str]) -> st.SearchStrategy[Workload]:
    """Return a queued gang or backfill job."""
    return st.one_of(gangs(name, levels), backfills(name, levels))


def asks(levels: Sequence[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Return what a workload asks for, and for whom."""
    return st.fixed_dictionaries(
        {
            "shape": shapes(),
            "team": st.sampled_from([*TEAMS[:3] * 7, "serving", "nobody"]),
            "within": st.sampled_from([None] * 2 * len(levels) + list(levels)),
            "accelerator": st.sampled_from([None] * 8 + ["h100", "a100"]),
            "grace_s": st.sampled_from([30.0, 120.0, 900.0]),
            "artifacts": st.sampled_from([()] * 4 + [(IMAGE,), (IMAGE, WEIGHTS)]),
            "interactive": st.sampled_from([False, False, True]),
            "max_run_s": st.sampled_from([None, None, 50.0, 300.0, 3000.0]),
        }
    )


@st.composite
def services(draw: st.DrawFn, name: str) -> Service:
    """Return a service without grants."""
    wanted = draw(st.integers(0, 4))
    one = service(name, wanted=wanted, floor=draw(st.integers(0, 2)), spread=draw(st.booleans()))
    wish = draw(
        st.sampled_from(
            [
                *[None] * 3,
                Affinity(service=name, spread="leaf", per_node=1),
                Affinity(service=name, apart_from=("s0",) if name != "s0" else ("s1",)),
            ]
        )
    )
    team_of = draw(st.sampled_from(["serving", "serving", "serving", "research"]))
    return replace(one, shape=draw(shapes()), team=team_of, affinity=wish)


@st.composite
def new_fleets(draw: st.DrawFn) -> Fleet:
    """Return a fleet on which nothing runs yet, with work that waits; now and then with cards that are cut."""
    new = draw(whole_fleets())
    return draw(cut(new)) if draw(st.sampled_from([False, False, True])) else new


@st.composite
def whole_fleets(draw: st.DrawFn) -> Fleet:
    """Return a fleet of whole cards on which nothing runs yet, with work that waits."""
    rules = draw(policies())
    queued: list[Workload] = []
    for number in range(draw(st.integers(2, 7))):
        one = draw(workloads(f"w{number}", rules.levels))
        alike = queued and draw(st.booleans())
        queued.append(like(queued[-1], one) if alike else one)
    served = [draw(services(f"s{number}")) for number in range(draw(st.integers(0, 2)))]
    return virtual.fleet(rules, *draw(nodes(depth=len(rules.levels))), *queued, *served, now=1000.0)


LAYOUTS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("shared",),
    ("1g.10gb",) * 7,
    ("3g.40gb", "2g.20gb", "1g.10gb"),
)
"""What cards of a fleet are like at first."""


@st.composite
def cut(draw: st.DrawFn, fleet: Fleet) -> Fleet:
    """Return the fleet with cards that are cut and shared, and with some of those that ask asking for slices.

    Now and then a node is said to have all of its cards as whole GPUs too.
    """
    changed = []
    for one in fleet.nodes:
        layouts = [draw(st.sampled_from(LAYOUTS)) for _ in range(one.capacity.gpus)]
        idle_since = draw(st.sampled_from([None, fleet.now, fleet.now - 1000.0]))
        less = draw(st.sampled_from([0, *[sum(map(bool, layouts))] * 3]))
        capacity = one.capacity - Shape(gpus=less)
        changed.append(replace(one, capacity=capacity, cards=cards(*layouts, idle_since=idle_since)))
    quotas = fleet.policy.quotas
    if draw(st.sampled_from([False, False, True])):
        quotas = tuple(
            replace(one, flavors=(*one.flavors, *draw(flavor_quotas()))) if one.name in TEAMS else one for one in quotas
        )
    slicing = Slicing(
        shares=draw(st.sampled_from([2, 4, 10])),
        repartition=draw(st.booleans()),
        settle_s=draw(st.sampled_from([0.0, 100.0])),
        whole_nodes=draw(st.booleans()),
    )
    return replace(
        fleet,
        policy=replace(fleet.policy, quotas=quotas, slicing=slicing),
        nodes=tuple(changed),
        workloads=tuple(draw(perhaps_sliced(one)) for one in fleet.workloads),
        services=tuple(_of_slices(one, draw(slices_of_cards())) for one in fleet.services),
    )


def slices_of_cards() -> st.SearchStrategy[Slice]:
    """Return what may be asked of a card."""
    profiles = st.sampled_from(["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"])
    shares = st.sampled_from([1_800, 3_000, 6_000, 10_000])
    return st.one_of(st.builds(lambda name: Slice(profile=name), profiles), st.builds(lambda n: Slice(share=n), shares))


def flavor_quotas() -> st.SearchStrategy[tuple[FlavorQuota, ...]]:
    """Return numbers for two flavors that bind."""
    limit = st.sampled_from([None, None, 0, 2])

    def some(name: str, unit: int) -> st.SearchStrategy[FlavorQuota]:
        return st.builds(
            lambda nominal, borrowing, lending: FlavorQuota(
                flavor=name,
                nominal=nominal * unit,
                borrowing_limit=None if borrowing is None else borrowing * unit,
                lending_limit=None if lending is None else lending * unit,
            ),
            st.integers(0, 3),
            limit,
            limit,
        )

    return st.tuples(some("h100-mig-1g.10gb", 1), some("h100-shared", 10_000))


@st.composite
def perhaps_sliced(draw: st.DrawFn, one: Workload) -> Workload:
    """Return the workload, or the same asking for a slice if it is backfill of one bundle that waits."""
    able = one.kind is Kind.BACKFILL and one.bundles == 1 and one.phase is Phase.QUEUED
    return _of_slices(one, draw(slices_of_cards())) if able and draw(st.integers(0, 3)) else one


def _of_slices(one: T, wanted: Slice) -> T:
    assert isinstance(one, Workload | Service)
    return replace(one, slice=wanted, shape=replace(one.shape, gpus=0))


def like(before: Workload, one: Workload) -> Workload:
    """Return the workload before it under another name, and of the other's shape where it has one."""
    return replace(before, name=one.name, shape=before.shape if before.groups else one.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that happens to a fleet: to the `which`-th of those that it can happen to, by `amount`."""

    what: str
    which: int = 0
    amount: int = 0
    new: Workload | None = None
    wanted: Slice | None = None


def happenings(rare: Sequence[str] = ()) -> st.SearchStrategy[Happening]:
    """Return what happens between two decisions; `rare` are what may happen beside the usual."""
    usual = ("leave", "wait", "occupy", "want", "want", "submit", "submit", "submit", "finish")
    return st.builds(
        Happening,
        what=st.sampled_from([*usual, *rare]),
        which=st.integers(0, 5),
        amount=st.integers(0, 5),
        new=workloads("new", ("spine", "leaf")),
        wanted=slices_of_cards(),
    )


ASKED = ("drain", "move", "cross", "stay", "cancel", "quarantine", "book", "book", "unbook")
"""What a person asks for."""

RARE = (*ASKED, "limit", "save", "vacate", "growth", "node", "depart", "foreign", "quota", "fail", "die", "measure")
"""What disturbs a fleet from outside."""


def happened(fleet: Fleet, event: Happening) -> Fleet:
    """Return the fleet after something happened; unchanged when there is nobody that it can happen to."""
    return _EFFECTS[event.what](fleet, event)


@st.composite
def pasts(draw: st.DrawFn, *, longest: int = 18, rare: Sequence[str] = RARE) -> list[Fleet]:
    """Return a fleet again and again: new or full at first, decided on after most of what happened since."""
    full = crowded().map(lambda crowd: asking(*crowd))
    past = [draw(st.one_of(new_fleets(), new_fleets(), full, in_motion()))]
    for event in draw(st.lists(happenings(rare), min_size=4, max_size=longest)):
        decided = virtual.started(virtual.cycle(past[-1])) if event.amount else past[-1]
        past.append(happened(decided, event))
    return past


def fleets(*, longest: int = 18, rare: Sequence[str] = RARE) -> st.SearchStrategy[Fleet]:
    """Return a fleet with a past."""
    return pasts(longest=longest, rare=rare).map(lambda past: past[-1])


def asking(fleet: Fleet, asker: Workload | Service) -> Fleet:
    """Return the fleet with one more that wants in."""
    if isinstance(asker, Service):
        return replace(fleet, services=(*fleet.services, asker))
    return replace(fleet, workloads=(*fleet.workloads, asker))


def _nth(options: Sequence[T], event: Happening) -> T | None:
    return options[event.which % len(options)] if options else None


def _to_one(
    able: Callable[[Workload], bool], effect: Callable[[Fleet, str], Fleet]
) -> Callable[[Fleet, Happening], Fleet]:
    def apply(fleet: Fleet, event: Happening) -> Fleet:
        chosen = _nth([one for one in fleet.workloads if able(one)], event)
        return fleet if chosen is None else effect(fleet, chosen.name)

    return apply


def _to_service(effect: Callable[[Fleet, str, int], Fleet]) -> Callable[[Fleet, Happening], Fleet]:
    def apply(fleet: Fleet, event: Happening) -> Fleet:
        chosen = _nth(fleet.services, event)
        return fleet if chosen is None else effect(fleet, chosen.name, event.amount)

    return apply


def _submit(fleet: Fleet, event: Happening) -> Fleet:
    assert event.new is not None
    number = len(fleet.workloads) + len(fleet.ended)
    new = replace(event.new, name=f"w{number}")
    if fleet.policy.slicing is not None and event.wanted is not None and new.kind is Kind.BACKFILL and new.bundles == 1:
        new = _of_slices(new, event.wanted)
    return fleet if number > 14 else virtual.submitted(fleet, new)


def _limit(fleet: Fleet, event: Happening) -> Fleet:
    """Let gangs ask so many at most in one cycle."""
    drain = replace(fleet.policy.drain, most_per_cycle=event.amount or None)
    return virtual.with_policy(fleet, replace(fleet.policy, drain=drain))


def _growth(fleet: Fleet, event: Happening) -> Fleet:
    """Let the forecast be another, or unknown, and the policy ask for one or not."""
    bounds = [(0, None), (0, 2), (2, 4), (3, None)][event.which % 4]
    headroom = replace(
        fleet.policy.headroom,
        quantile=0.99 if event.which < 5 else None,
        minimum_gpus=bounds[0],
        maximum_gpus=bounds[1],
    )
    known = virtual.with_policy(fleet, replace(fleet.policy, headroom=headroom))
    return replace(known, growth_gpus=None if event.amount == 5 else 2 * event.amount)


def _cross(fleet: Fleet, event: Happening) -> Fleet:
    """Ask for a node to cross, if it does not already, and let everybody on it be one who can be asked to move."""
    rules = replace(fleet.policy, boundary=Boundary(serving="serving", training="research"))
    name = fleet.nodes[event.which % len(fleet.nodes)].name
    if any(one.node == name and one.moved_at is None for one in fleet.crossings):
        return fleet
    movable = tuple(replace(one, movable=event.amount > 1) for one in fleet.workloads)
    return virtual.asked_to_cross(replace(virtual.with_policy(fleet, rules), workloads=movable), name)


def _stay(fleet: Fleet, event: Happening) -> Fleet:
    """Call a crossing off that is under way."""
    chosen = _nth([one for one in fleet.crossings if one.moved_at is None], event)
    return fleet if chosen is None else virtual.stays(fleet, chosen.node)


def _depart(fleet: Fleet, event: Happening) -> Fleet:
    name = fleet.nodes[event.which % len(fleet.nodes)].name
    movable = tuple(replace(one, movable=one.movable or event.amount % 2 == 0) for one in fleet.workloads)
    gone_at = fleet.now + 40.0 * (event.amount - 3) if event.amount > 2 else None
    return virtual.going_away(replace(fleet, workloads=movable), name, gone_at)


def _node(fleet: Fleet, event: Happening) -> Fleet:
    chosen = fleet.nodes[event.which % len(fleet.nodes)]
    condition = [Condition.DOWN, *Condition][event.amount]
    away_since = fleet.now if event.amount > 1 and condition is Condition.DOWN else None
    return virtual.with_node(fleet, replace(chosen, condition=condition, down_since=away_since))


def _quarantine(fleet: Fleet, event: Happening) -> Fleet:
    name = fleet.nodes[event.which % len(fleet.nodes)].name
    if any(one.node == name and one.binds(fleet.now) for one in fleet.quarantines):
        return virtual.released(fleet, name)
    return virtual.quarantined(fleet, quarantined(name, since=fleet.now, until=fleet.now + 50.0 * event.amount))


def _measure(fleet: Fleet, event: Happening) -> Fleet:
    chosen = _nth([one for one in fleet.workloads if _runs(one)], event)
    percent, ago_s = [(0, 0.0), (0, 0.0), (5, 0.0), (6, 0.0), (0, 700.0), (90, 0.0)][event.amount]
    seen = "nobody" if chosen is None else chosen.name
    return virtual.measured(fleet, used(seen, percent, since=0.0, until=fleet.now - ago_s))


def _foreign(fleet: Fleet, event: Happening) -> Fleet:
    chosen = fleet.nodes[event.which % len(fleet.nodes)]
    return virtual.with_node(fleet, replace(chosen, foreign=shape(event.amount % 3)))


def _quota(fleet: Fleet, event: Happening) -> Fleet:
    name = TEAMS[event.which % len(TEAMS)]
    return virtual.with_policy(fleet, with_nominal(fleet.policy, name, 2 * event.amount))


def _book(fleet: Fleet, event: Happening) -> Fleet:
    return virtual.booked(fleet, asked_to_book(fleet, event.which, event.amount)) if len(fleet.bookings) < 4 else fleet


def asked_to_book(fleet: Fleet, which: int, amount: int) -> BookingAsk:
    """Return what somebody asks to book: whole nodes or parts, soon or later, now and then for maintenance."""
    start_at = fleet.now + (0.0, 130.0, 400.0, 700.0, 1300.0, 700.0)[amount]
    return booking_ask(
        f"booking-{int(fleet.now)}-{which}-{amount}",
        team=None if amount == 5 else TEAMS[which % 3],
        count=1 + which % 2,
        gpus=(4, 2, 4, 1, 3, 8)[which],
        start_at=start_at,
        end_at=start_at + 300.0 * (1 + amount),
        transfers=[transfer(TEAMS[(which + 1) % 3], 2)] if which % 2 else [],
        most_domains=1 + which // 4,
    )


def _unbook(fleet: Fleet, event: Happening) -> Fleet:
    chosen = _nth(fleet.bookings, event)
    return fleet if chosen is None else virtual.unbooked(fleet, chosen.name)


def with_nominal(rules: Policy, name: str, gpus: int) -> Policy:
    """Return the policy with another nominal for one team."""
    changed = (replace(one, nominal_gpus=gpus) if one.name == name else one for one in rules.quotas)
    return replace(rules, quotas=tuple(changed))


def _runs(one: Workload) -> bool:
    return one.phase is Phase.RUNNING and not one.killed


def _stays(one: Workload) -> bool:
    return _runs(one) or one.moving


_EFFECTS: dict[str, Callable[[Fleet, Happening], Fleet]] = {
    "cycle": lambda fleet, _: virtual.cycle(fleet),
    "start": lambda fleet, _: virtual.recut(virtual.started(fleet)),
    "wait": lambda fleet, event: virtual.later(fleet, 1.0 + 40.0 * event.amount),
    "submit": _submit,
    "leave": _to_one(lambda one: bool(one.going) or one.leaving or one.moving, virtual.left),
    "finish": _to_one(_runs, virtual.completed),
    "save": _to_one(_runs, virtual.saved),
    "move": _to_one(_runs, virtual.asked_to_move),
    "drain": _to_one(
        lambda one: _runs(one) or one.moving, lambda fleet, name: virtual.told_to_drain(fleet, name, 60.0)
    ),
    "cancel": _to_one(lambda one: one.phase is not Phase.STOPPING, virtual.cancelled),
    "occupy": _to_service(lambda fleet, name, _: virtual.occupied(fleet, name)),
    "vacate": _to_service(virtual.vacated),
    "want": _to_service(virtual.demanded),
    "node": _node,
    "depart": _depart,
    "growth": _growth,
    "limit": _limit,
    "cross": _cross,
    "stay": _stay,
    "foreign": _foreign,
    "fail": _to_one(_runs, virtual.failed),
    "die": _to_one(_runs, virtual.rank_died),
    "quarantine": _quarantine,
    "measure": _measure,
    "quota": _quota,
    "book": _book,
    "unbook": _unbook,
}


@st.composite
def crowded(draw: st.DrawFn, *, most: int = 7) -> tuple[Fleet, Workload | Service]:
    """Return a fleet full of work that yields, and a gang or a service that wants in.

    With `most` above what is searched exactly, the nodes are large enough for so many.
    """
    rules = with_nominal(draw(policies()), "research", draw(st.sampled_from([8, 16])))
    fleet_nodes = draw(nodes(depth=len(rules.levels), sizes=(4, 8) if most > EXACT_UP_TO else (4, 4, 2, 8)))
    room = {one.name: one.capacity for one in fleet_nodes}
    lodgers: list[Workload] = []
    for number in range(draw(st.integers(most // 2, most))):
        one = draw(lodgers_on(f"b{number:02}", [name for name in room if room[name].gpus > 0]))
        if all(part.fits(room.get(name, NOTHING)) for name, part in one.seats):
            lodgers.append(one)
            for name, part in one.seats:
                room[name] -= part
    rest = [gang(f"rest-{name}", team="gone", gpus=left.gpus, on=[name]) for name, left in sorted(room.items())]
    lodgers += [one for one in rest if one.gpus > 0 and draw(st.integers(0, 3))]
    uses = sum(one.gpus for one in lodgers if one.team == "vision")
    rules = with_nominal(rules, "vision", max(0, uses - draw(st.integers(1, 6))))
    asker = draw(st.one_of(gangs("asker", rules.levels), services("asker")))
    return virtual.fleet(rules, *fleet_nodes, *lodgers, now=1000.0), asker


@st.composite
def in_motion(draw: st.DrawFn) -> Fleet:
    """Return more that is to leave by plan than may save at once, and elastic work that could grow too fast.

    Committed work is on nodes that cross, and what yields is on nodes that are booked soon (D7, G5). Some nodes are
    serving's, and beside the elastic work, which has one, too few may be free for more of its class (P12).
    """
    rules = with_nominal(draw(policies()), "research", 32)
    rules = replace(
        rules,
        boundary=Boundary(serving="serving", training="research"),
        calendar=replace(rules.calendar, reclaim_lead_s=draw(st.sampled_from([0.0, 3600.0]))),
        drain=replace(rules.drain, most_at_once=draw(st.sampled_from([1, 1, 2]))),
        pulls=Pulls(sources=TIGHT, most_per_node=draw(st.sampled_from([None, 1]))),
    )
    crossed = [f"c{number}" for number in range(draw(st.integers(0, 3)))]
    booked = [f"b{number}" for number in range(draw(st.integers(0, 3)))]
    other = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    at = "/".join("a" for _ in rules.levels)
    parts: list[Node | Workload | Booking] = [node(name, at=at, gpus=4) for name in (*crossed, *booked, *other)]
    parts += [gang(f"firm-{name}", gpus=draw(st.integers(1, 4)), on=[name], movable=True) for name in crossed]
    parts += [backfill(f"lent-{name}", on=[name], grace_s=draw(st.sampled_from([30.0, 900.0]))) for name in booked]
    if booked:
        starts = draw(st.sampled_from([1100.0, 2000.0, 4000.0]))
        parts.append(booking("soon", *booked, team=None, start_at=starts, end_at=9000.0))
    needs = draw(st.sampled_from([(IMAGE,), (WEIGHTS,), (IMAGE, WEIGHTS)]))
    parts += [node(f"v{number}", at=at, gpus=4, serving=True) for number in range(draw(st.integers(0, 2)))]
    has = draw(st.sampled_from([other[:1], other[:1], ()]))
    least = 1 if has else draw(st.integers(1, 3))
    parts.append(backfill("grows", on=has, nodes=1, gpus=4, minimum=least, at_most=4, artifacts=needs))
    fleet = virtual.fleet(rules, *parts, now=1000.0)
    for name in crossed:
        fleet = virtual.asked_to_cross(fleet, name)
    return fleet


@st.composite
def lodgers_on(draw: st.DrawFn, name: str, names: Sequence[str]) -> Workload:
    """Return backfill that runs on one or two of the nodes, its last checkpoint some time ago."""
    on = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)) if names else []
    one = backfill(
        name,
        on=on or ["gone"],
        team=draw(st.sampled_from(["vision", "vision", "vision", "vision", "vision", *TEAMS])),
        priority=draw(st.sampled_from([BACKFILL, BACKFILL, POLITE.value])),
        started_at=draw(st.sampled_from([100.0, 500.0, 900.0])),
        saved_at=draw(st.sampled_from([None, 940.0, 1000.0])),
        **draw(st.sampled_from([{}, {}, {}, {"phase": Phase.DRAINING, "deadline_at": 1060.0}])),
    )
    one = replace(one, shape=draw(shapes()), killed=draw(st.sampled_from([False] * 7 + [True])))
    how = draw(st.sampled_from(["plain", "mixed", "elastic"])) if len(on) > 1 else "plain"
    if how == "elastic":
        going = tuple(on[:1]) if draw(st.booleans()) else ()
        minimum = draw(st.integers(1, len(on) - len(going)))
        return replace(one, minimum=minimum, going=going, going_by=1060.0 if going else None)
    if how == "plain":
        return one
    return mixed(one, tuple(Group(name=f"g{place}", shape=draw(shapes())) for place in range(len(on))))


@st.composite
def contested(draw: st.DrawFn) -> Fleet:
    """Return serving's nodes full of grants, replicas and backfill, and services that want more than there is."""
    rules = with_nominal(draw(policies()), "serving", draw(st.sampled_from([4, 8, 16])))
    rules = replace(rules, headroom=Headroom(immediate_gpus=draw(st.sampled_from([0, 1, 2, 4]))))
    places = [
        node(f"n{number}", at="a/a/a", gpus=4, cpus=draw(st.sampled_from([8, 3])), serving=number < 3)
        for number in range(draw(st.integers(1, 4)))
    ]
    room = {one.name: one.capacity for one in places}
    served = []
    for number in range(draw(st.integers(2, 3))):
        one = replace(draw(services(f"s{number}")), team="serving")
        granted = []
        for place in draw(st.lists(st.sampled_from(sorted(room)), max_size=3)):
            if one.shape.fits(room[place]):
                room[place] -= one.shape
                granted.append(grant(f"{one.name}-{len(granted)}", node=place, occupied=draw(st.booleans())))
        served.append(replace(one, grants=tuple(granted)))
    lodgers = [draw(lodgers_on(f"b{number}", sorted(room))) for number in range(draw(st.integers(0, 4)))]
    fitting = []
    for one in lodgers:
        if all(part.fits(room[name]) for name, part in one.seats):
            fitting.append(one)
            for name, part in one.seats:
                room[name] -= part
    return virtual.fleet(rules, *places, *served, *fitting, now=1000.0)


@st.composite
def contested_slices(draw: st.DrawFn) -> Fleet:
    """Return serving's cards full of jobs on slices, and services that want slices too."""
    recut, together = draw(st.booleans()), draw(st.booleans())
    slicing = Slicing(shares=draw(st.sampled_from([2, 10])), repartition=recut, whole_nodes=together)
    rules = with_nominal(with_nominal(draw(policies()), "serving", 16), "vision", 16)
    layouts = draw(st.lists(st.sampled_from(LAYOUTS[2:]), min_size=1, max_size=3))
    parts: list[Node | Workload | Service] = [
        node("n0", at="a/a/a", gpus=0, cards=cards(*layouts), serving=True, accelerator="h100")
    ]
    for index, layout in enumerate(layouts):
        room = 10_000
        for number, profile in enumerate(layout if layout != ("shared",) else ("",) * 3):
            share = 0 if profile else min(room, draw(st.sampled_from([1_800, 3_000, 6_000])))
            room -= share
            if (share or profile) and draw(st.integers(0, 4)):
                one = draw(lodgers_on(f"b{index}{number}", ["n0"]))
                part = Slice(profile=profile, share=share)
                parts.append(_of_slices(replace(one, bundles=1, nodes=("n0",), team="vision", card=index), part))
    parts += [
        _of_slices(replace(draw(services(f"s{number}")), team="serving"), draw(slices_of_cards()))
        for number in range(draw(st.integers(1, 2)))
    ]
    return virtual.fleet(replace(rules, slicing=slicing), *parts, now=1000.0)


@st.composite
def scattered(draw: st.DrawFn) -> Fleet:
    """Return domains of which each has some nodes free, and gangs that want them close together."""
    rules = with_nominal(draw(policies()), "research", 32)
    parts: list[Node | Workload] = []
    for number in range(draw(st.integers(3, 8))):
        at = "/".join(draw(st.sampled_from(["a", "b"])) for _ in rules.levels)
        parts.append(node(f"n{number}", at=at, gpus=4))
        if draw(st.integers(0, 2)) == 0:
            parts.append(gang(f"firm{number}", team="gone", gpus=draw(st.integers(1, 4)), on=[f"n{number}"]))
    for number in range(draw(st.integers(1, 3))):
        within = draw(st.sampled_from([None, *rules.levels, *rules.levels]))
        parts.append(gang(f"g{number}", nodes=draw(st.integers(2, 4)), gpus=draw(st.integers(1, 4)), within=within))
    return virtual.fleet(rules, *parts, now=1000.0)
