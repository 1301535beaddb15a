"""What must hold of any plan on fleets whose cards are cut or shared: rules V1 to V8, worked out from the facts.

Each takes a case, as those in `reference.py` do, and knows nothing of how the engine counts. The placements that the
hardware allows stand here once more, as a picture of eight memory slices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from fleet_app.engine.cards import Card, Slice
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import AdmitSlice, Drain, Expire, GiveSlice, Kill, Lose, Reason, Repartition, TakeGrant
from fleet_app.engine.values import NodeClass

PLACES = {"1g.10gb": "0123456", "1g.20gb": "0246", "2g.20gb": "024", "3g.40gb": "04", "4g.40gb": "0", "7g.80gb": "0"}
TAKES = {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}

On = dict[tuple[str, int], list[tuple[str, Slice]]]
"""By card: who is on it, and with what."""


def on_cards(case: Any) -> On:
    """Return who is on which card before the plan, others' use counted; who is leaving is there until it has left."""
    found: On = defaultdict(list)
    for node in case.state.nodes:
        for card in node.cards:
            found[node.name, card.index] += [("others", one) for one in card.foreign]
    for one in case.state.workloads:
        if one.slice is not None and one.holding:
            found[one.nodes[0], one.card].append((one.name, one.slice))
    for one in case.state.services:
        for grant in one.grants if one.slice is not None else ():
            found[grant.node, grant.card].append((f"{one.name}/{grant.name}", one.slice))
    return found


def placed(case: Any) -> list[AdmitSlice | GiveSlice]:
    """Return what the plan puts on cards."""
    return case.actions(AdmitSlice, GiveSlice)


def card_of(case: Any, node: str, index: int) -> Card:
    """Return a card."""
    return next(card for card in case.nodes[node].cards if card.index == index)


def room_for(case: Any, card: Card, on_it: list[Slice], wanted: Slice) -> bool:
    """Return whether a card holds a slice beside these."""
    if card.becomes is not None or card.busy:
        return False
    if wanted.profile:
        return sum(one.profile == wanted.profile for one in on_it) < card.layout.count(wanted.profile)
    users = len(on_it) < case.policy.slicing.shares
    return card.layout == ("shared",) and users and sum(one.share for one in on_it) + wanted.share <= 10_000


def no_card_is_promised_twice(case: Any) -> None:
    """V1, V3: each slice is on one card that has room for it beside everything else, in turn."""
    on = on_cards(case)
    for action in placed(case):
        here = on[action.node, action.card]
        card = card_of(case, action.node, action.card)
        assert room_for(case, card, [one for _, one in here], action.slice), (action, here, card)
        here.append((action.workload if isinstance(action, AdmitSlice) else action.service, action.slice))


def slices_go_where_they_may(case: Any) -> None:
    """V4, P5: what is asked is what is given; gangs get none; replicas are on serving's nodes."""
    for action in placed(case):
        node = case.nodes[action.node]
        if isinstance(action, GiveSlice):
            assert action.slice == case.services[action.service].slice
            assert node.node_class is NodeClass.SERVING
            continue
        job = case.workloads[action.workload]
        trusted = job.broken_drains < case.policy.drain.max_broken
        assert action.slice == job.slice
        assert job.phase is Phase.QUEUED
        assert job.accelerator in {None, node.accelerator}
        assert node.node_class is NodeClass.TRAINING or (class_of(case.policy, job).yields and trusted)


def nobody_waits_for_a_free_slice(case: Any) -> None:
    """Who finds no card, or waits for one to be cut, would fit on none after all that the plan puts there."""
    on = on_cards(case)
    for action in placed(case):
        on[action.node, action.card].append(("new", action.slice))
    waiting = (Reason.NO_ROOM, Reason.REPARTITION_UNDER_WAY)
    for wait in case.plan.waits if not comes_free(case) else ():
        asker = case.workloads.get(wait.workload) or case.services.get(wait.workload)
        if asker.slice is None or wait.reason not in waiting:
            continue
        serving = wait.workload in case.services
        if serving and (case.policy.affinities or any(one.affinity for one in case.state.services)):
            continue  # where replicas may not be beside one another, room is not enough
        for name, card in sound_cards(case, serving=serving, accelerator=getattr(asker, "accelerator", None)):
            taken = [one for _, one in on[name, card.index]]
            # CPUs are as scarce as cards: only asks without any are judged.
            free = not asker.shape.cpu_milli and room_for(case, card, taken, asker.slice)
            assert not free or not quota_surely_allows(case, asker), (wait, name, card)


def comes_free(case: Any) -> bool:
    """Return whether anything is on its way out of a card: how much of that is spoken for is not in the plan."""
    going = any(one.leaving and one.slice is not None for one in case.state.workloads)
    return going or bool(case.actions(TakeGrant, Drain, Kill, Lose, Expire))


def quota_surely_allows(case: Any, asker: Any) -> bool:
    """Return whether the plain numbers leave a whole GPU beside all that anybody has, is given or waits for."""
    from tests.laws.reference import enlarges_nothing, usage_of_services

    named = [own.flavor for quota in case.policy.quotas for own in quota.flavors]
    if asker.team not in {quota.name for quota in case.policy.quotas} or any(
        not one.endswith("-whole") for one in named
    ):
        return False
    use, firm = usage_of_services(case), usage_of_services(case)[asker.team]
    for one in case.state.workloads:
        use[one.team] += one.gpus if one.slice is None else 0
        firm += one.gpus if one.team == asker.team and not class_of(case.policy, one).yields else 0
    nominal = {quota.name: quota.nominal_gpus for quota in case.policy.quotas}
    return firm < nominal[asker.team] and enlarges_nothing(case.policy, use, asker.team, 1)


def sound_cards(case: Any, *, serving: bool, accelerator: str | None) -> Iterator[tuple[str, Card]]:
    """Yield the cards on which a job that may go anywhere, or a replica, may be placed."""
    from tests.laws.reference import sound

    for node in case.state.nodes:
        wanted = node.node_class is NodeClass.SERVING if serving else node.node_class is NodeClass.TRAINING
        if wanted and sound(case, node) and accelerator in {None, node.accelerator}:
            yield from ((node.name, card) for card in node.cards)


def layouts_change_on_empty_cards_only(case: Any) -> None:
    """V2, V7: only with leave, once a card, with nothing on it before or after; to a layout that the hardware has.

    Where the cards of a node change together they are all alike afterwards.
    """
    told = [(action.node, action.card) for action in case.actions(Repartition)]
    assert len(told) == len(set(told))
    on, whole_left = on_cards(case), whole_gpus_left(case)
    for action in placed(case):
        on[action.node, action.card].append(("new", action.slice))
    for action in case.actions(Repartition):
        card, slicing = card_of(case, action.node, action.card), case.policy.slicing
        assert slicing.repartition
        assert not on[action.node, action.card], (action, on[action.node, action.card])
        assert not card.busy
        assert card.becomes is None
        assert card.layout != action.layout
        assert action.layout in {(), ("shared",)} or can_be_cut(action.layout), action
        if card.layout:
            assert case.now - card.idle_since >= slicing.settle_s
        else:
            whole_left[action.node] -= 1
            assert whole_left[action.node] >= 0, action
    for name in sorted({name for name, _ in told}) if told and case.policy.slicing.whole_nodes else ():
        layouts = {card.index: card.layout for card in case.nodes[name].cards}
        layouts |= {action.card: action.layout for action in case.actions(Repartition) if action.node == name}
        assert len(set(layouts.values())) == 1, (name, layouts)


def whole_gpus_left(case: Any) -> dict[str, int]:
    """Return the whole GPUs of each node that nobody has, is given or has kept after the plan."""
    from fleet_app.engine.plan import Admit, GiveGrant
    from tests.laws.reference import used_rooms

    room = used_rooms(case)
    for action in case.actions(Admit):
        for name in action.nodes:
            room[name] -= case.workloads[action.workload].shape
    for action in case.actions(GiveGrant):
        room[action.node] -= action.shape
    for hold in case.plan.holds:
        room[hold.node] -= hold.shape
    return {name: left.gpus for name, left in room.items()}


def can_be_cut(layout: tuple[str, ...]) -> bool:
    """Return whether some choice of places for the partitions overlaps nowhere, with no more than seven sevenths."""
    for starts in product(*(PLACES[name] for name in layout)):
        taken = [
            slice_
            for start, name in zip(starts, layout, strict=True)
            for slice_ in range(int(start), int(start) + TAKES[name])
        ]
        if len(taken) == len(set(taken)) and sum(int(name[0]) for name in layout) <= 7:
            return True
    return False


def flavor_quotas_are_kept(case: Any) -> None:
    """V5: no slice given makes or enlarges an excess of any flavor's cohort; who never yields keeps to its nominal."""
    for name in sorted({own.flavor for quota in case.policy.quotas for own in quota.flavors}):
        before, firm_before = flavor_use(case, name, after=False)
        after, firm_after = flavor_use(case, name, after=True)
        nominal = {
            quota.name: sum(own.nominal for own in quota.flavors if own.flavor == name) for quota in case.policy.quotas
        }
        assert sum(after.values()) <= max(sum(nominal.values()), sum(before.values())), (name, after, nominal)
        for team in firm_after:
            assert firm_after[team] <= max(nominal.get(team, 0), firm_before[team]), (name, team)


def flavor_use(case: Any, name: str, *, after: bool) -> tuple[Counter[str], Counter[str]]:
    """Return what each team has of a flavor, and what of that never yields."""
    use: Counter[str] = Counter()
    firm: Counter[str] = Counter()
    for team, wanted, node, yields in have(case, after=after):
        if flavor_of(wanted, node) == name:
            use[team] += wanted.share or 1
            firm[team] += 0 if yields else wanted.share or 1
    for action in case.actions(TakeGrant) if after else ():
        service = case.services[action.service]  # what is taken back is nobody's entitlement any more
        node = next(case.nodes.get(grant.node) for grant in service.grants if grant.name == action.grant)
        if service.slice is not None and flavor_of(service.slice, node) == name:
            firm[service.team] -= service.slice.share or 1
    return use, firm


def flavor_of(wanted: Slice, node: Any) -> str:
    """Return the flavor of a slice on a node; empty when that is not known."""
    return f"{node.accelerator}-{'mig-' + wanted.profile if wanted.profile else 'shared'}" if node else ""


def gpus_of_slices(case: Any, *, after: bool = True) -> Counter[str]:
    """Return the whole GPUs that each team's slices count for where their flavor has no numbers of its own (V6)."""
    named = {own.flavor for quota in case.policy.quotas for own in quota.flavors}
    parts: dict[str, Fraction] = defaultdict(Fraction)
    for team, wanted, node, _ in have(case, after=after):
        accelerator = node.accelerator if node else "unknown"
        if f"{accelerator}-{'mig-' + wanted.profile if wanted.profile else 'shared'}" in named:
            continue
        known = wanted.share or accelerator == "h100"
        sevenths = int(wanted.profile[0]) if wanted.profile and known else 7
        parts[team] += Fraction(wanted.share, 10_000) if wanted.share else Fraction(sevenths, 7)
    return Counter({team: -(-part.numerator // part.denominator) for team, part in parts.items()})


def have(case: Any, *, after: bool) -> Iterator[tuple[str, Slice, Any, bool]]:
    """Yield whose each slice is, what it is, its node, and whether it yields; with those that the plan gives."""
    for one in case.state.workloads:
        if one.slice is not None and one.holding:
            yield one.team, one.slice, case.nodes.get(one.nodes[0]), class_of(case.policy, one).yields
    for one in case.state.services:
        for grant in one.grants if one.slice is not None else ():
            yield one.team, one.slice, case.nodes.get(grant.node), False
    for action in placed(case) if after else ():
        node = case.nodes[action.node]
        if isinstance(action, GiveSlice):
            yield case.services[action.service].team, action.slice, node, False
        else:
            job = case.workloads[action.workload]
            yield job.team, action.slice, node, class_of(case.policy, job).yields


def replicas_find_slices_when_they_can(case: Any) -> None:
    """I3: where a replica finds no card, none would have room even if every job on it had left."""
    if comes_free(case):
        return
    on = on_cards(case)
    for action in placed(case):
        who = action.workload if isinstance(action, AdmitSlice) else "replica"
        on[action.node, action.card].append((who, action.slice))
    for wait in case.plan.waits:
        service = case.services.get(wait.workload)
        if service is None or service.slice is None or wait.reason is not Reason.NO_ROOM or service.shape.cpu_milli:
            continue
        for name, card in sound_cards(case, serving=True, accelerator=None):
            stays = [one for who, one in on[name, card.index] if not leaves_for(case, who, service.priority)]
            assert not room_for(case, card, stays, service.slice) or not quota_surely_allows(case, service), (
                wait,
                name,
            )


def leaves_for(case: Any, who: str, priority: int) -> bool:
    """Return whether a job may be asked to leave for a priority, and is not asked already."""
    one = case.workloads.get(who)
    return one is not None and class_of(case.policy, one).yields and one.priority < priority and not one.leaving


SLICE_LAWS = (
    no_card_is_promised_twice,
    slices_go_where_they_may,
    nobody_waits_for_a_free_slice,
    layouts_change_on_empty_cards_only,
    flavor_quotas_are_kept,
    replicas_find_slices_when_they_can,
)
