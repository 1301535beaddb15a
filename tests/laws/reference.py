"""What must hold of any plan, worked out again from the facts and not with the engine's own means.

Each law takes a `Case` and raises AssertionError, with what it found, when the plan breaks it. Sums are done the slow
way. Of the engine it uses only values, and what a priority class entitles to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from fleet_app.engine.calendar import Booking
from fleet_app.engine.failures import Cause
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.ordering import class_of
from fleet_app.engine.plan import (
    ROOM_COMES,
    Admit,
    AdmitSlice,
    Drain,
    Expire,
    GiveGrant,
    GiveSlice,
    Grow,
    Kill,
    Lose,
    Move,
    Plan,
    Quarantine,
    Reason,
    Rebook,
    Relabel,
    Release,
    Shrink,
    TakeGrant,
    Wait,
)
from fleet_app.engine.policy import Policy, Quota
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NOTHING, Condition, Departure, Node, NodeClass, Shape
from fleet_app.engine.workload import Service, Workload
from tests.laws.caps import CAP_LAWS, allows, is_in_the_way_of_a_cap
from tests.laws.in_line import IN_LINE_LAWS, aged, in_order
from tests.laws.slices import SLICE_LAWS, gpus_of_slices
from tests.virtual import Fleet, plan_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A decision: what it was made of, and what came of it."""

    state: FleetState
    policy: Policy
    now: float
    plan: Plan

    @property
    def nodes(self) -> dict[str, Node]:
        return {node.name: node for node in self.state.nodes}

    @property
    def workloads(self) -> dict[str, Workload]:
        return {workload.name: workload for workload in self.state.workloads}

    @property
    def services(self) -> dict[str, Service]:
        return {service.name: service for service in self.state.services}

    @property
    def bookings(self) -> dict[str, Booking]:
        """The bookings that are not over, as the plan leaves them."""
        changed = {action.booking: action for action in self.actions(Rebook)}
        return {
            one.name: replace(one, nodes=changed[one.name].nodes) if one.name in changed else one
            for one in self.state.bookings
            if self.now < one.end_at
        }

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """The quota entries with what bookings in force transfer."""
        nominal = Counter({quota.name: quota.nominal_gpus for quota in self.policy.quotas})
        for one in self.state.bookings:
            if one.start_at <= self.now < one.end_at and one.team is not None:
                for transfer in one.transfers:
                    lenders, takers = self._path(transfer.lender), self._path(one.team)
                    nominal.subtract(dict.fromkeys(set(lenders) - set(takers), transfer.gpus))
                    nominal.update(dict.fromkeys(set(takers) - set(lenders), transfer.gpus))
        return tuple(replace(quota, nominal_gpus=max(0, nominal[quota.name])) for quota in self.policy.quotas)

    def _path(self, name: str | None) -> list[str]:
        parents = {quota.name: quota.parent for quota in self.policy.quotas}
        path = []
        while name in parents:
            path.append(name)
            name = parents[name]
        return path

    def actions(self, *kinds: type) -> list:
        return [action for action in self.plan.actions if isinstance(action, kinds)]

    def yields(self, workload: Workload) -> bool:
        return class_of(self.policy, workload).yields

    def wait(self, name: str) -> Wait | None:
        return next((wait for wait in self.plan.waits if wait.workload == name), None)


def case_of(fleet: Fleet) -> Case:
    """Return what is decided on a fleet now."""
    return Case(state=fleet.state, policy=in_force(fleet), now=fleet.now, plan=plan_of(fleet))


def in_force(fleet: Fleet) -> Policy:
    """Return the policy with the nominal that went along with the nodes that have crossed (B4)."""
    rules = fleet.policy.boundary
    away = [one for one in fleet.crossings if one.moved_at is not None and one.to is not one.home]
    away += [one for one in fleet.crossings if one.moved_at is None and one.was is not one.home]
    gpus = sum(one.gpus if one.home is NodeClass.TRAINING else -one.gpus for one in away)
    if rules is None or not gpus:
        return fleet.policy
    of = {quota.name: quota for quota in fleet.policy.quotas}
    giver, taker = (rules.training, rules.serving) if gpus > 0 else (rules.serving, rules.training)
    given = min(abs(gpus), of[giver].nominal_gpus)
    change: Counter[str] = Counter()
    for team, sign in ((giver, -given), (taker, given)):
        name: str | None = team
        while name in of:
            change[name] += sign
            name = of[name].parent
    quotas = (replace(quota, nominal_gpus=quota.nominal_gpus + change[quota.name]) for quota in of.values())
    return replace(fleet.policy, quotas=tuple(quotas))


def sound(case: Case, node: Node) -> bool:
    """Return whether anything new may be placed on a node: it is ready, and nobody keeps it out or begins to now."""
    names = {one.node for one in case.state.quarantines if one.released_at is None and case.now < one.until}
    names |= {action.node for action in case.actions(Quarantine)}
    return node.condition is Condition.READY and node.name not in names


def closing(case: Case, node: Node) -> bool:
    """Return whether a maintenance window on a node is so near that no replica is to be there."""
    lead_s = case.policy.calendar.move_lead_s
    near = (one for one in case.bookings.values() if one.team is None and case.now >= one.start_at - lead_s)
    return any(node.name in one.nodes for one in near)


def told_to_end(workload: Workload) -> bool:
    """Return whether a workload has nodes that come free by a known time, without anybody being asked again."""
    drains = workload.phase is Phase.DRAINING and workload.deadline_at is not None
    return workload.holding and (workload.killed or drains or workload.phase is Phase.STOPPING)


# --- room -----------------------------------------------------------------------------------------------------------


def whole(case: Case, node: Node) -> Shape:
    """Return what a node has for whole work: none of the cards that are cut or shared, whatever it is said to have."""
    if case.policy.slicing is None or not node.cards:
        return node.capacity
    cards = sum(card.layout == () and card.becomes is None for card in node.cards)
    return replace(node.capacity, gpus=min(node.capacity.gpus, cards))


def used_rooms(case: Case) -> dict[str, Shape]:
    """Return what is free on every node before the plan, foreign use counted; parts may be negative."""
    room = {node.name: whole(case, node) - node.foreign for node in case.state.nodes}
    for workload in case.state.workloads:
        for name, shape in workload.seats if workload.holding else ():
            if name in room:
                room[name] -= shape
    for service in case.state.services:
        for grant in service.grants:
            if grant.node in room:
                room[grant.node] -= service.shape
    return room


def nothing_is_promised_twice(case: Case) -> None:
    """I1: admissions, grants and holds fit into what is free; what is only about to be free is not given away."""
    before = used_rooms(case)
    after = dict(before)
    for action in case.actions(Admit):
        for name, shape in zip(action.nodes, shapes_of(case, action), strict=True):
            after[name] -= shape
    for action in case.actions(Grow):
        for name in action.nodes:
            after[name] -= case.workloads[action.workload].shape
    for action in case.actions(GiveGrant, GiveSlice):
        assert action.shape == case.services[action.service].shape
        after[action.node] -= action.shape
    for action in case.actions(AdmitSlice):
        after[action.node] -= case.workloads[action.workload].shape
    for hold in case.plan.holds:
        assert not hold.shape.is_nothing(), hold
        after[hold.node] -= hold.shape
    touched = [name for name in after if after[name] != before[name]]
    for name in touched:
        for part in ("gpus", "cpu_milli", "memory_mib"):
            left, was = getattr(after[name], part), getattr(before[name], part)
            assert left >= min(0, was), f"{name} is {-left} {part} short; {was} were free"


def gangs_are_whole_and_where_they_may_be(case: Case) -> None:
    """I2, P4 to P7, P12: a bundle a node, sound nodes of one kind and class in one domain, none of serving's for gangs.

    Bundles of a gang of several shapes that ask for no GPU may be on nodes of any kind.
    """
    for action in case.actions(Admit):
        workload = case.workloads[action.workload]
        found = [case.nodes[name] for name in action.nodes]
        assert workload.phase is Phase.QUEUED
        assert len(set(action.nodes)) == len(action.nodes)
        assert least(workload) <= len(action.nodes) <= workload.bundles
        seats = list(zip(found, shapes_of(case, action), strict=True))
        assert all(may_run_on(case, workload, node, shape) for node, shape in seats), (workload, found)
        bound = [node for node, shape in seats if shape.gpus or not workload.groups]
        assert len({(node.accelerator, node.driver) for node in bound}) <= 1
        assert len({domain(case, workload, node) for node in found}) == 1
        assert len({node.node_class for node in found}) == 1


def least(workload: Workload) -> int:
    """Return with how many bundles a workload can run."""
    return workload.bundles if workload.minimum is None else workload.minimum


def shapes_of(case: Case, action: Admit) -> tuple[Shape, ...]:
    """Return the shapes of an admitted workload's bundles; of an elastic one there may be fewer than it asks for."""
    return case.workloads[action.workload].shapes[: len(action.nodes)]


def least_gpus(workload: Workload) -> int:
    """Return the GPUs with which a workload can run."""
    return workload.gpus if workload.minimum is None else workload.shape.gpus * workload.minimum


def leave_gpus(case: Case, workload: Workload) -> int:
    """Return the GPUs of the members that were or are told to leave."""
    told = [len(action.nodes) for action in case.actions(Shrink) if action.workload == workload.name]
    return workload.shape.gpus * (len(workload.going) + sum(told))


def gpus_after(case: Case, workload: Workload) -> int:
    """Return the GPUs that a workload has once the plan's admissions and growth are carried out."""
    given = [len(action.nodes) for action in case.actions(Admit, Grow) if action.workload == workload.name]
    if workload.minimum is None:
        return workload.gpus if workload.holding or given else 0
    return workload.shape.gpus * (len(workload.nodes) + sum(given))


def elastic_workloads_keep_their_minimum(case: Case) -> None:
    """R8: members leave of what is elastic, runs and yields, never below the minimum; it grows where nobody waits."""
    for action in case.actions(Shrink):
        workload = case.workloads[action.workload]
        assert workload.minimum is not None
        assert workload.holding
        assert not told_to_end(workload)
        assert case.yields(workload)
        assert workload.priority < priority_of(case, action.beneficiary)
        assert action.deadline_at == case.now + min(workload.grace_s, case.policy.drain.longest_grace_s)
    for workload in case.state.workloads:
        told = [name for action in case.actions(Shrink) if action.workload == workload.name for name in action.nodes]
        if told:
            assert set(told) <= set(workload.nodes) - set(workload.going)
            assert len(told) == len(set(told))
            assert len(workload.nodes) - len(workload.going) - len(told) >= workload.minimum
    grown = case.actions(Grow)
    hopeless = {
        Reason.UNKNOWN_TEAM,
        Reason.TOO_LARGE_FOR_FLEET,
        Reason.TOO_LARGE_FOR_QUOTA,
        Reason.CONTRACT_BROKEN,
    }
    assert not grown or all(wait.reason in hopeless for wait in case.plan.waits)
    for action in grown:
        workload = case.workloads[action.workload]
        nodes = [*workload.nodes, *action.nodes]
        assert len(nodes) == len(set(nodes)) <= workload.bundles
        assert workload.phase is Phase.RUNNING
        assert not workload.going
        assert all(may_run_on(case, workload, case.nodes[name], workload.shape) for name in action.nodes)
        assert len({domain(case, workload, case.nodes[name]) for name in nodes}) == 1
        assert len({(case.nodes[name].accelerator, case.nodes[name].driver) for name in nodes}) == 1
        assert len({case.nodes[name].node_class for name in nodes}) == 1
    asked = {action.workload for action in case.actions(Drain, Expire, Lose)}
    assert asked.isdisjoint(action.workload for action in grown)


def may_run_on(case: Case, workload: Workload, node: Node, shape: Shape) -> bool:
    """Return whether class, accelerator, condition and replicas let a workload's bundle of a shape run on a node."""
    taken = {action.grant for action in case.actions(TakeGrant)}
    kept = (grant.node for service in case.state.services for grant in service.grants if grant.name not in taken)
    replicas = {*kept, *(action.node for action in case.actions(GiveGrant, GiveSlice))}
    trusted = workload.broken_drains < case.policy.drain.max_broken
    headroom = case.yields(workload) and trusted
    return (
        sound(case, node)
        and (node.node_class is NodeClass.TRAINING or headroom)
        and (workload.accelerator in {None, node.accelerator} or (workload.groups and not shape.gpus))
        and ((workload.bundles == 1 and workload.minimum is None) or node.name not in replicas)
        and (case.yields(workload) or workload.requeued or node.name not in spare_nodes(case))
    )


def spare_nodes(case: Case) -> set[str]:
    """Return the last nodes of each domain, in the fabric's order, that have nothing that never yields on them (P8)."""
    rules = case.policy.spares
    depth = case.policy.levels.index(rules.level) + 1 if rules.level is not None else 0
    firm = {name for one in case.state.workloads if one.holding and not case.yields(one) for name in one.nodes}
    able: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node in sorted(case.state.nodes, key=lambda one: (one.domains, one.name), reverse=True):
        training = node.node_class is NodeClass.TRAINING and sound(case, node)
        if training and node.name not in firm and node.foreign.gpus == 0 and len(node.domains) >= depth:
            able[node.domains[:depth]].append(node.name)
    return {name for names in able.values() for name in names[: rules.nodes]}


def domain(case: Case, workload: Workload, node: Node) -> tuple[str, ...] | None:
    """Return the domain that has to hold all of the workload; None for a node that lies in none."""
    levels = case.policy.levels
    depth = levels.index(workload.within) + 1 if workload.within in levels else 0
    return node.domains[:depth] if len(node.domains) >= depth else None


# --- reclaim --------------------------------------------------------------------------------------------------------


def reclaim_is_one_way(case: Case) -> None:
    """I4, R1, S5: only what yields is drained, for something higher; only idle grants are taken, each once."""
    asked = [action.workload for action in case.actions(Drain)]
    assert len(asked) == len(set(asked))
    for action in case.actions(Drain):
        victim = case.workloads[action.workload]
        assert victim.holding
        assert not told_to_end(victim)
        if action.beneficiary in ends_of(case):
            continue  # whoever is on a node that goes has to leave it
        assert case.yields(victim), f"{victim.name} never yields"
        assert victim.priority < priority_of(case, action.beneficiary)
        longest = case.policy.drain.longest_grace_s
        assert action.deadline_at == case.now + min(victim.grace_s, longest)
        for_work = action.beneficiary not in case.services and action.beneficiary not in case.bookings
        assert not for_work or not case.yields(case.workloads[action.beneficiary])
    taken = [(action.service, action.grant) for action in case.actions(TakeGrant)]
    assert len(taken) == len(set(taken))
    for name, grant_name in taken:
        grant = next(grant for grant in case.services[name].grants if grant.name == grant_name)
        assert not grant.occupied, f"a replica of {name} runs in {grant_name}"
    ended = [action.workload for action in case.actions(Kill, Lose)]
    assert len(ended) == len(set(ended))
    assert not any(case.workloads[name].killed for name in ended)


def priority_of(case: Case, name: str) -> int:
    """Return the priority of a workload or service; a booking goes before whatever yields."""
    if name in case.bookings:
        return max(known.value for known in case.policy.classes) + 1
    return case.workloads[name].priority if name in case.workloads else case.services[name].priority


def what_must_end_ends(case: Case) -> None:
    """D2, D3, D5: past its deadline it is killed, without a node lost, past its run time asked; nothing else ends."""
    asked = {action.workload: action.deadline_at for action in case.actions(Expire)}
    killed = {action.workload for action in case.actions(Kill)}
    lost = {action.workload for action in case.actions(Lose)}
    for workload in case.state.workloads:
        if not workload.holding or workload.killed:
            continue
        nodes = [case.nodes.get(name) for name in workload.nodes]
        broken = any(node is None or is_lost(case, node) for node in nodes)
        due = workload.deadline_at is not None and workload.deadline_at <= case.now
        assert (workload.name in lost) == (broken and workload.phase is not Phase.STOPPING), workload
        assert (workload.name in killed) == (due and workload.phase is Phase.DRAINING and not broken), workload
        over = workload.max_run_s is not None and workload.admitted_at + workload.max_run_s <= case.now
        ends = over or is_idle(case, workload)
        assert (workload.name in asked) == (ends and not told_to_end(workload) and not broken), workload
        deadline_at = case.now + min(workload.grace_s, case.policy.drain.longest_grace_s)
        assert asked.get(workload.name, deadline_at) == deadline_at


def is_idle(case: Case, workload: Workload) -> bool:
    """Return whether a session ran unused for as long as the policy allows, by a measurement of the last 10 minutes."""
    rules = case.policy.idle
    if not workload.interactive or told_to_end(workload) or workload.started_at is None or not workload.holding:
        return False
    seen = [one for one in case.state.usage if one.subject == workload.name and case.now - one.until <= 600.0]
    unused = [one for one in seen if one.sm_active_percent <= rules.used_percent]
    return any(one.until - max(one.since, workload.started_at) >= rules.after_s for one in unused)


def is_lost(case: Case, node: Node) -> bool:
    """Return whether a node is away for good, or for longer than the policy tolerates."""
    away_s = case.policy.health.tolerance_s if node.down_since is None else case.now - node.down_since
    return node.condition is Condition.DOWN and away_s >= case.policy.health.tolerance_s


def nothing_new_comes_to_a_node_that_is_kept_out(case: Case) -> None:
    """H4, P5: neither a workload, nor a grant, nor room that is kept for somebody."""
    placed = [name for action in case.actions(Admit) for name in action.nodes]
    placed += [action.node for action in case.actions(GiveGrant, AdmitSlice, GiveSlice)]
    placed += [hold.node for hold in case.plan.holds]
    assert all(sound(case, case.nodes[name]) for name in placed)


def quarantines_are_for_what_happened(case: Case) -> None:
    """H1 to H4: each keeps a node out that was not, for a failure there in the window, and ends as the policy says."""
    health = case.policy.health
    known = {one.node: one for one in case.state.quarantines}
    for action in case.actions(Quarantine):
        before = known.get(action.node)
        assert before is None or before.released_at is not None, action
        since = max(case.now - health.window_s, before.released_at or 0.0 if before else 0.0)
        there = [one for one in case.state.failures if action.node in one.suspects and one.at > since]
        known_to_be_at_fault = any(
            one.cause is Cause.RANK or (one.cause is Cause.NODE and is_lost(case, case.nodes[action.node]))
            for one in there
        )
        assert known_to_be_at_fault or len({one.workload for one in there}) >= health.failures
        assert action.until == case.now + health.quarantine_s
    over = {one.node for one in case.state.quarantines if one.released_at is None and one.until <= case.now}
    assert {action.node for action in case.actions(Release)} == over


def gangs_reclaim_from_borrowers_only(case: Case) -> None:
    """I5, R2: of another team a gang's victims come from what that team has above its nominal, or passed the gang.

    Or they are below a cap that the gang waits for (V9).
    """
    most = soon_at_most(case)
    victims: dict[str, list[int]] = defaultdict(list)
    for action in case.actions(Drain, Shrink):
        victim, gang = case.workloads[action.workload], case.workloads.get(action.beneficiary)
        whole = isinstance(action, Drain)
        lost = [victim.gpus - leave_gpus(case, victim)] if whole else [victim.shape.gpus * len(action.nodes)]
        if gang is None or gang.team == victim.team:
            continue
        passed_it = victim.admitted_at is not None and victim.admitted_at > gang.submitted_at
        own = {name for one in case.bookings.values() if one.team == gang.team for name in one.nodes}
        if not passed_it and own.isdisjoint(victim.nodes) and not is_in_the_way_of_a_cap(case, victim, gang):
            victims[victim.team] += lost
    for team, gone in victims.items():
        nominal = sum(quota.nominal_gpus for quota in case.quotas if quota.name == team)
        assert most[team] - sum(gone) + max(gone) > nominal, f"{team} does not borrow what it loses: {gone}"


def soon_at_most(case: Case) -> Counter[str]:
    """Return the most GPUs that each team can be said to use once all that was told to leave before has left."""
    use: Counter[str] = Counter()
    for workload in case.state.workloads:
        waits = case.wait(workload.name)
        admitted = workload.name in {action.workload for action in case.actions(Admit)}
        claims = waits is not None and waits.reason in ROOM_COMES
        if (workload.holding and not told_to_end(workload)) or admitted or claims:
            use[workload.team] += workload.gpus
    for service in case.state.services:
        replicas = max(len(service.grants), service.wanted, service.floor) + immediate(case)
        use[service.team] += replicas * service.shape.gpus
    return use + gpus_of_slices(case)


# --- quota ----------------------------------------------------------------------------------------------------------


def usage(case: Case, *, after: bool, firm: bool = False) -> Counter[str]:
    """Return the GPUs that each team uses before or after the plan; `firm` counts only what never yields.

    A grant that is taken back is used until it has gone, but it is nobody's entitlement any more.
    """
    use: Counter[str] = Counter()
    for workload in case.state.workloads:
        if not (firm and case.yields(workload)):
            now = workload.gpus if workload.holding else 0
            use[workload.team] += gpus_after(case, workload) if after else now
    for service in case.state.services:
        given = sum(action.service == service.name for action in case.actions(GiveGrant)) if after else 0
        taken = sum(action.service == service.name for action in case.actions(TakeGrant)) if after and firm else 0
        use[service.team] += (len(service.grants) + given - taken) * service.shape.gpus
    return use + gpus_of_slices(case, after=after)


def excess(quotas: Iterable[Quota], use: Counter[str]) -> dict[str, int]:
    """Return by how much each limit is exceeded: cohorts by what is drawn from them, entries by what they borrow."""
    entries = {quota.name: quota for quota in quotas}
    below: dict[str | None, list[str]] = defaultdict(list)
    for quota in entries.values():
        below[quota.parent if quota.parent in entries else None].append(quota.name)
    over: dict[str, int] = {}

    def drawn(name: str) -> tuple[int, int]:
        """Return what the entry draws from its parent, and what it lends to it at most."""
        quota = entries[name]
        parts = [drawn(child) for child in below[name]]
        own = max(0, quota.nominal_gpus - sum(entries[child].nominal_gpus for child in below[name]))
        has = own + sum(lent for _, lent in parts)
        takes = use[name] + sum(drawn for drawn, _ in parts)
        kept = 0 if quota.lending_limit_gpus is None else max(0, has - quota.lending_limit_gpus)
        if quota.parent not in entries:
            over[f"cohort {name}"] = takes - has
        elif quota.borrowing_limit_gpus is not None:
            over[f"borrowing of {name}"] = takes - has - quota.borrowing_limit_gpus
        return max(0, takes - kept), has - kept

    for top in below[None]:
        drawn(top)
    return over


def replicas_are_apart(case: Case) -> None:
    """S8: no grant is given on a node that has too many of the service, or one of a service that it is apart from."""
    taken = {(action.service, action.grant) for action in case.actions(TakeGrant)}
    there: dict[str, Counter[str]] = defaultdict(Counter)
    for service in case.state.services:
        for grant in service.grants:
            there[grant.node][service.name] += (service.name, grant.name) not in taken
    for action in case.actions(GiveGrant, GiveSlice):
        there[action.node][action.service] += 1
    services, own = case.services, [one.affinity for one in case.state.services if one.affinity is not None]
    apart = {(one.service, other) for one in case.policy.affinities for other in one.apart_from}
    wished = {(one.service, other) for one in own for other in one.apart_from if other in services}
    apart |= {(one, other) for one, other in wished if services[one].team == services[other].team}
    new = {(action.node, action.service) for action in case.actions(GiveGrant, GiveSlice)}
    most: dict[str, int] = {}
    for one in (*case.policy.affinities, *own):
        if one.per_node is not None:
            most[one.service] = min(one.per_node, most.get(one.service, one.per_node))
    for action in case.actions(GiveGrant, GiveSlice):
        here = +there[action.node]
        assert here[action.service] <= most.get(action.service, here[action.service]), action
        assert not any({(action.service, other), (other, action.service)} & apart for other in here), action
        assert not any((action.service, other) in wished for other in here if (action.node, other) not in new), action


def pulls_are_limited(case: Case) -> None:
    """G1 to G3, G5: what starts or joins fetches beside no more than may; where nobody fetches nobody waits."""
    limits = {one.name: one.most_at_once for one in case.policy.pulls.sources}
    begun: Counter[str] = Counter()
    for workload in case.state.workloads:
        if workload.phase is Phase.ADMITTED and not workload.killed:
            begun += lacking(case, workload, workload.nodes)
    for service in case.state.services:
        starting = max(0, service.wanted - sum(grant.occupied for grant in service.grants))
        ready = sorted(grant.node for grant in service.grants if not grant.occupied)[:starting]
        begun += lacking(case, service, ready)
    for workload in case.state.workloads:
        begun += joined_lately(case, workload)
    waits = [wait for wait in case.plan.waits if wait.reason is Reason.PULLING]
    for action in case.actions(Admit, AdmitSlice, Grow):
        nodes = (action.node,) if isinstance(action, AdmitSlice) else action.nodes
        more = lacking(case, case.workloads[action.workload], nodes)
        for source in more.keys() & limits.keys():
            alone = not begun[source] and (not isinstance(action, Grow) or len(nodes) == 1)
            assert alone or begun[source] + more[source] <= limits[source], action
        begun += more
    assert not waits or any(begun[source] for source in limits), waits


def joined_lately(case: Case, workload: Workload) -> Counter[str]:
    """Return what members that joined cannot have fetched yet, at the speed of its source."""
    runs = workload.phase is Phase.RUNNING and workload.minimum is not None and not told_to_end(workload)
    if not runs or workload.grown_at is None:
        return Counter()
    sizes = {artifact.source: 0 for artifact in workload.artifacts}
    for name in set(workload.nodes) & case.nodes.keys():
        for artifact in workload.artifacts:
            if artifact.name not in case.nodes[name].cached:
                sizes[artifact.source] += artifact.size_mib
    rates = {one.name: one.gbit_per_s for one in case.policy.pulls.sources if one.gbit_per_s is not None}
    bits = {source: 8 * 1024 * 1024 * mib for source, mib in sizes.items()}
    late = {name for name in rates if bits.get(name, 0) / (1e9 * rates[name]) > case.now - workload.grown_at}
    found = lacking(case, workload, workload.nodes)
    return Counter({source: found[source] for source in found if source in late})


def lacking(case: Case, one: Workload | Service, nodes: Iterable[str]) -> Counter[str]:
    """Return how many pulls from each source it takes to start on the nodes."""
    return Counter(
        artifact.source
        for name in set(nodes)
        if name in case.nodes
        for artifact in one.artifacts
        if artifact.name not in case.nodes[name].cached
    )


def quotas_are_kept(case: Case) -> None:
    """I5, Q1 to Q3: no admission or grant causes an excess or enlarges one; who never yields keeps to its nominal."""
    before = excess(case.quotas, usage(case, after=False))
    after = excess(case.quotas, usage(case, after=True))
    for what, over in after.items():
        assert over <= max(0, before[what]), f"{what} exceeded by {over}, was {before[what]}"
    was, firm = usage(case, after=False, firm=True), usage(case, after=True, firm=True)
    used = usage(case, after=True)
    nominal: Counter[str] = Counter({quota.name: quota.nominal_gpus for quota in case.quotas})
    for team in firm:
        assert firm[team] <= max(nominal[team], was[team]), f"{team} has {firm[team]} of {nominal[team]}"
    for action in case.actions(Admit):
        workload = case.workloads[action.workload]
        rules = class_of(case.policy, workload)
        assert workload.team in nominal
        if rules.yields and not rules.borrows:
            assert used[workload.team] <= nominal[workload.team] + later_than(case, workload), workload


def later_than(case: Case, workload: Workload) -> int:
    """Return the GPUs of the same team that were admitted after the workload, in the same plan."""
    order = [action.workload for action in case.actions(Admit)]
    after = order[order.index(workload.name) + 1 :]
    grown = sum(gpus_after(case, one) - one.gpus for one in case.state.workloads if one.holding and one.minimum)
    later = (case.workloads[name] for name in after if case.workloads[name].team == workload.team)
    return grown + sum(gpus_after(case, one) for one in later)


# --- answers --------------------------------------------------------------------------------------------------------


IN_ORDER = {Reason.BEHIND, Reason.ITS_TURN}
"""Why who is behind others of a strict queue waits: `in_line` has its laws."""


def everybody_is_answered_once(case: Case) -> None:
    """I9: who is queued is admitted or has one wait; waits name who waits, and say what is missing."""
    queued = {workload.name for workload in case.state.workloads if workload.phase is Phase.QUEUED}
    admitted = Counter(action.workload for action in case.actions(Admit, AdmitSlice))
    waits = Counter(wait.workload for wait in case.plan.waits if wait.workload not in case.services)
    assert admitted + waits == Counter(queued)
    for wait in case.plan.waits:
        if wait.reason in {Reason.NO_ROOM, Reason.QUOTA_USED, Reason.TOO_LARGE_FOR_QUOTA, Reason.TOO_LARGE_FOR_FLEET}:
            assert wait.available >= 0
            assert wait.asked > wait.available, wait
        assert wait.reason is not Reason.RESERVED or wait.blocked_by, wait


def nobody_waits_for_what_is_free(case: Case) -> None:
    """Who waits would not fit into what is left by those before it, in its team's quota, beside who is ahead of it."""
    order = in_order(case)
    for place, workload in enumerate(order):
        wait = case.wait(workload.name) if workload.slice is None else None
        ahead = order[:place] + [one for one in order[place + 1 :] if may_have_come_first(case, workload, one)]
        if wait is not None and wait.reason not in {*IN_ORDER, *ROOM_COMES, Reason.UNKNOWN_TEAM, Reason.PULLING}:
            kept = [one for one in ahead if not case.yields(one) and case.wait(one.name)]
            if not (kept and same_team_waits(workload, kept)):
                spared = sum(least(one) for one in kept if case.wait(one.name).reason not in ROOM_COMES)
                fits = fits_beside(case, workload, ahead, spared)
                assert not fits or not quota_left(case, workload, ahead), (workload, wait)


def may_have_come_first(case: Case, workload: Workload, other: Workload) -> bool:
    """Return whether one behind it in the order of O1 was admitted, in a turn that its team's share gave it (O5)."""
    alike = (aged(case, workload), workload.requeued) == (aged(case, other), other.requeued)
    return alike and class_of(case.policy, other).borrows and case.wait(other.name) is None


def same_team_waits(workload: Workload, kept: Iterable[Workload]) -> bool:
    return any(one.team == workload.team for one in kept)


def fits_beside(case: Case, workload: Workload, ahead: Iterable[Workload], spared: int) -> bool:
    """Return whether a workload fits in one domain after all that was given before its turn, without `spared` nodes.

    Whichever nodes those are: who is ahead keeps them.
    """
    room = room_behind(case, ahead)
    booked = {name for one in case.bookings.values() for name in one.nodes}  # laws of their own say who may use those
    able = [one for one in case.state.nodes if domain(case, workload, one) is not None and one.name not in booked]
    parts = {(domain(case, workload, node), node.node_class) for node in able}
    kinds = {(node.accelerator, node.driver) for node in able}

    def open_to(place: int, node: Node, kind: tuple[str, str]) -> bool:
        shape = workload.shapes[place]
        of_kind = (node.accelerator, node.driver) == kind or (workload.groups and not shape.gpus)
        return of_kind and may_run_on(case, workload, node, shape) and shape.fits(room[node.name])

    for part in parts:
        here = [node for node in able if (domain(case, workload, node), node.node_class) == part]
        for kind in kinds:
            if not allows(case, workload.team, kind[0], least_gpus(workload), {one.name for one in ahead}):
                continue
            places = range(least(workload))
            options = [{node.name for node in here if open_to(place, node, kind)} for place in places]
            open_names = sorted(set().union(*options))
            if all(together(options, set(gone)) for gone in combinations(open_names, min(spared, len(open_names)))):
                return True
    return False


def together(options: list[set[str]], taken: set[str]) -> bool:
    """Return whether each of some bundles can have a node of its options to itself, none of those that are taken."""
    if not options:
        return True
    return any(together(options[1:], {*taken, name}) for name in sorted(options[0] - taken))


def room_behind(case: Case, ahead: Iterable[Workload]) -> dict[str, Shape]:
    """Return what is free on every node after all that was given away before the turn of those behind."""
    first = {one.name for one in ahead} | set(case.services)
    room = used_rooms(case)
    for action in case.actions(Admit):
        if action.workload in first:
            for name, shape in zip(action.nodes, shapes_of(case, action), strict=True):
                room[name] -= shape
    for action in case.actions(GiveGrant, GiveSlice):
        room[action.node] -= action.shape
    for hold in case.plan.holds:
        if hold.beneficiary in first:
            room[hold.node] -= hold.shape
    return room


def quota_left(case: Case, workload: Workload, ahead: Iterable[Workload]) -> bool:
    """Return whether its team's limits let the workload run beside all that is used, given and claimed before it.

    Room that is coming free for somebody is counted as used by whoever has it now, or by whoever it is for.
    """
    if any(transfer.lender == workload.team for one in case.bookings.values() for transfer in one.transfers):
        return False  # what it lends may be needed before it has ended
    first = {one.name for one in ahead}
    admitted = {action.workload for action in case.actions(Admit)} & first
    now, soon = Counter(usage_of_services(case)), Counter(usage_of_services(case))
    drained = {action.workload for action in case.actions(Drain)}
    for one in case.state.workloads:
        wait = case.wait(one.name)
        claims = one.name in first and wait is not None and wait.reason in ROOM_COMES
        if one.holding:
            now[one.team] += one.gpus
            soon[one.team] += 0 if told_to_end(one) or one.name in drained else one.gpus - leave_gpus(case, one)
        elif one.name in admitted:
            now[one.team] += gpus_after(case, one)
            soon[one.team] += gpus_after(case, one)
        elif claims:
            soon[one.team] += least_gpus(one)
    nominal = {quota.name: quota.nominal_gpus for quota in case.quotas}
    rules = class_of(case.policy, workload)
    trusted = workload.broken_drains < case.policy.drain.max_broken
    own_only = rules.yields and not (rules.borrows and trusted)
    asked = least_gpus(workload)
    if own_only and now[workload.team] + asked > nominal[workload.team]:
        return False
    if not rules.yields and firm_use(case, workload.team, first) + asked > nominal[workload.team]:
        return False
    return all(within_limits(case, use, workload) for use in (now, soon))


def within_limits(case: Case, use: Counter[str], workload: Workload) -> bool:
    return enlarges_nothing(case.policy, use, workload.team, least_gpus(workload))


def enlarges_nothing(policy: Policy, use: Counter[str], team: str, gpus: int) -> bool:
    """Return whether a team may use so many GPUs more without causing an excess or enlarging one."""
    more = use.copy()
    more[team] += gpus
    before, after = excess(policy.quotas, use), excess(policy.quotas, more)
    return all(after[what] <= max(0, before[what]) for what in after)


def usage_of_services(case: Case) -> Counter[str]:
    """Return the most that services can be said to use: what they have, were given, or wait for."""
    use: Counter[str] = Counter()
    for service in case.state.services:
        given = sum(action.service == service.name for action in case.actions(GiveGrant))
        replicas = max(len(service.grants) + given, service.wanted, service.floor)
        use[service.team] += (replicas + immediate(case)) * service.shape.gpus
    return use + gpus_of_slices(case)


def firm_use(case: Case, team: str, first: set[str]) -> int:
    use = usage_of_services(case)[team]
    admitted = {action.workload for action in case.actions(Admit)} & first
    for one in case.state.workloads:
        wait = case.wait(one.name)
        claims = one.name in first and wait is not None and wait.reason in ROOM_COMES
        if one.team == team and not case.yields(one) and (one.holding or one.name in admitted or claims):
            use += least_gpus(one) if claims else one.gpus if one.holding else gpus_after(case, one)
    return use


# --- serving --------------------------------------------------------------------------------------------------------


def immediate(case: Case) -> int:
    """Return how many GPUs are to be free beyond what is wanted: as many as are forecast, where that is asked for."""
    rules, growth = case.policy.headroom, case.state.growth_gpus
    if rules.quantile is None or growth is None:
        return rules.immediate_gpus
    most = growth if rules.maximum_gpus is None else min(growth, rules.maximum_gpus)
    return max(most, rules.minimum_gpus)


def no_more_is_kept_free_than_the_tier(case: Case) -> None:
    """S4, S5, S7: grants beyond what is wanted are for the immediate tier, and are no more than that."""
    beyond = 0
    for service in case.state.services:
        taken = {action.grant for action in case.actions(TakeGrant) if action.service == service.name}
        kept = [grant for grant in service.grants if grant.name not in taken]
        given = sum(action.service == service.name for action in case.actions(GiveGrant))
        wanted = max(service.wanted, service.floor, sum(grant.occupied for grant in kept))
        beyond += max(0, len(kept) + given - wanted) * service.shape.gpus
    assert beyond <= immediate(case), f"{beyond} GPUs are kept free"


def serving_is_met_when_it_can_be(case: Case) -> None:
    """I3: where a replica finds no room, no node of serving's would have it even if all that yields there left.

    Not judged while room is coming free for replicas: how much of it is spoken for is not in the plan.
    """
    waits = [wait for wait in case.plan.waits if wait.workload in case.services]
    if case.policy.affinities:
        return  # where replicas may not be beside one another, room is not enough
    if any(wait.reason is Reason.DRAIN_UNDER_WAY for wait in waits) or comes_free_for_serving(case):
        return
    for wait in waits:
        service = case.services[wait.workload]
        if service.slice is not None:
            continue
        if wait.reason is Reason.NO_ROOM:
            assert not could_be_placed(case, service) or not _could_be_charged(case, service), service.name
        if wait.reason is Reason.QUOTA_USED and wait.level is None:
            nominal = {quota.name: quota.nominal_gpus for quota in case.quotas}
            firm = usage(case, after=True, firm=True)[service.team]
            assert firm + service.shape.gpus > nominal[service.team], service.name


def replicas_take_no_larger_place(case: Case) -> None:
    """S9: no grant is given where a larger replica could have been if there was a node where none could.

    Not judged while room is coming free for replicas: how much of it is spoken for is not in the plan.
    """
    waits = [wait for wait in case.plan.waits if wait.workload in case.services]
    coming = any(wait.reason is Reason.DRAIN_UNDER_WAY for wait in waits) or comes_free_for_serving(case)
    if coming or case.policy.slicing is not None:
        return
    room = whole_rooms_of_serving(case)
    for action in case.actions(GiveGrant):
        one = case.services[action.service]
        sizes = sorted({other.shape.gpus for other in case.services.values()} - set(range(one.shape.gpus + 1)))
        lost = {
            name: [free.gpus // size - (free - one.shape).gpus // size for size in reversed(sizes)]
            for name, free in room.items()
            if one.shape.fits(free) and (name == action.node or cap_allows(case, one, case.nodes[name]))
        }
        if one.shape.gpus and not may_go_only_to_some(case, one):
            assert lost[action.node] == min(lost.values()), (action, lost)
        room[action.node] -= one.shape


def may_go_only_to_some(case: Case, service: Service) -> bool:
    """Return whether the next replica of a service is to be spread, or apart from others (S2, S8)."""
    rules = (*case.policy.affinities, *(one.affinity for one in case.services.values() if one.affinity is not None))
    return service.spread or any(service.name in (rule.service, *rule.apart_from) for rule in rules)


def whole_rooms_of_serving(case: Case) -> dict[str, Shape]:
    """Return what each node that takes replicas would have if all who yield had left, beside the grants from before."""
    room = {
        node.name: whole(case, node) - node.foreign
        for node in case.state.nodes
        if node.node_class is NodeClass.SERVING and sound(case, node) and not closing(case, node)
    }
    stay = [seat for one in case.state.workloads if _stays(case, one) for seat in one.seats]
    grants = [(grant.node, one.shape) for one in case.services.values() for grant in one.grants]
    for name, shape in (*stay, *grants):
        if name in room:
            room[name] -= shape
    return room


def comes_free_for_serving(case: Case) -> bool:
    serving = {node.name for node in case.state.nodes if node.node_class is NodeClass.SERVING}
    ended = {action.workload for action in case.actions(Lose)}
    ended |= {action.workload for action in case.actions(Drain, Shrink) if action.beneficiary in case.services}
    leaving = [one for one in case.state.workloads if told_to_end(one) or one.name in ended or one.going]
    held = any(hold.beneficiary in case.services for hold in case.plan.holds)
    return held or bool(case.actions(TakeGrant)) or any(not serving.isdisjoint(one.nodes) for one in leaving)


def _stays(case: Case, workload: Workload) -> bool:
    return workload.holding and not told_to_end(workload) and not case.yields(workload)


def could_be_placed(case: Case, service: Service, accelerator: str | None = None) -> bool:
    """Return whether a replica would find room, on a node of an accelerator, if all that yields to it had left."""
    room = {node.name: whole(case, node) - node.foreign for node in case.state.nodes}
    taken = {action.grant for action in case.actions(TakeGrant)}
    for workload in case.state.workloads:
        if _stays(case, workload) or (workload.holding and workload.priority >= service.priority):
            for name, shape in workload.seats:
                room[name] = room.get(name, NOTHING) - shape
    for other in case.state.services:
        for grant in other.grants:
            if grant.name not in taken:
                room[grant.node] = room.get(grant.node, NOTHING) - other.shape
    for action in case.actions(GiveGrant, GiveSlice):
        room[action.node] -= action.shape
    for hold in case.plan.holds:
        room[hold.node] -= hold.shape if hold.beneficiary in case.services else NOTHING
    return any(
        service.shape.fits(room[node.name])
        for node in case.state.nodes
        if node.node_class is NodeClass.SERVING and sound(case, node) and not closing(case, node)
        if (accelerator or node.accelerator) == node.accelerator
        if accelerator or cap_allows(case, service, node)
    )


def cap_allows(case: Case, service: Service, node: Node) -> bool:
    """Return whether the caps would let a service have one more replica on a node."""
    return allows(case, service.team, node.accelerator, service.shape.gpus, {one.name for one in case.state.workloads})


def _could_be_charged(case: Case, service: Service) -> bool:
    use = usage(case, after=True, firm=True)
    return enlarges_nothing(case.policy, use, service.team, service.shape.gpus)


# --- calendar -------------------------------------------------------------------------------------------------------


def gone_by(case: Case, workload: Workload, at: float) -> bool:
    """Return whether a workload, admitted now if it waits, will have left by a moment by its declared run time."""
    grace_s = min(workload.grace_s, case.policy.drain.longest_grace_s)
    if workload.max_run_s is None:
        return False
    began = case.now if workload.admitted_at is None else workload.admitted_at
    return max(case.now, began + workload.max_run_s) + grace_s <= at


def in_the_way(case: Case, node: Node, at: float, admitted: Iterable[Workload]) -> int:
    """Return how many GPUs of a node are missing at a moment, beside what never yields, for what is booked then."""
    in_force = [one for one in case.bookings.values() if node.name in one.nodes and one.start_at <= at < one.end_at]
    use: Counter[str] = Counter()
    running = [one for one in case.state.workloads if node.name in one.nodes and not told_to_end(one)]
    for one in [*running, *admitted]:
        if not case.yields(one) and not gone_by(case, one, at):
            use[one.team] += gpus_on(case, one, node)
    room = node.capacity.gpus - node.foreign.gpus
    if any(one.team is None for one in in_force):
        return sum(use.values())
    own: Counter[str] = Counter()
    for one in in_force:
        own[one.team] += one.shape.gpus
    return max(0, sum(own.values()) + sum(max(0, use[team] - own[team]) for team in use) - room)


def gpus_on(case: Case, workload: Workload, node: Node) -> int:
    """Return the GPUs that a workload has on a node, or was given there now."""
    given = [action.nodes for action in case.actions(Admit) if action.workload == workload.name]
    names = workload.nodes or next(iter(given), ())
    return sum(shape.gpus for name, shape in zip(names, workload.shapes, strict=False) if name == node.name)


def nobody_is_placed_in_the_way_of_a_booking(case: Case) -> None:
    """I8, C1, C3: no admission of what never yields takes room that is booked for others when it is needed."""
    for node in case.state.nodes:
        new = [case.workloads[one.workload] for one in case.actions(Admit) if node.name in one.nodes]
        for one in case.bookings.values():
            if new and node.name in one.nodes:
                at = max(case.now, one.start_at)
                assert in_the_way(case, node, at, new) <= in_the_way(case, node, at, ()), (node, one, new)


def what_yields_can_leave_before_a_booking(case: Case) -> None:
    """C2, C3, C8: what yields comes to a booked node only while there is time to leave, or it fits beside all there."""
    for action in case.actions(Admit):
        new = case.workloads[action.workload]
        for one in case.bookings.values() if case.yields(new) else ():
            if one.team == new.team or set(one.nodes).isdisjoint(action.nodes):
                continue
            grace_s = min(new.grace_s, case.policy.drain.longest_grace_s)
            in_time = case.now + grace_s < one.start_at or gone_by(case, new, one.start_at)
            lent = one.team is not None and one.start_at + case.policy.calendar.hold_s <= case.now
            for name in {*one.nodes} & {*action.nodes}:
                assert in_time or lent or (one.team and _fit_together(case, case.nodes[name], one)), (new, one)


def _fit_together(case: Case, node: Node, booking: Booking) -> bool:
    """Return whether all that is booked on a node, and all that stays or comes, fits there side by side."""
    at = max(case.now, booking.start_at)
    here = [one for one in case.bookings.values() if node.name in one.nodes and one.start_at <= at < one.end_at]
    coming = {action.workload for action in case.actions(Admit) if node.name in action.nodes}
    others = [
        one
        for one in case.state.workloads
        if one.name in coming or (node.name in one.nodes and not told_to_end(one))
        if one.team not in {each.team for each in here} and not gone_by(case, one, at)
    ]
    booked = sum(one.shape.gpus for one in here)
    return booked + sum(gpus_on(case, one, node) for one in others) <= node.capacity.gpus - node.foreign.gpus


def who_leaves_for_a_booking_has_to(case: Case) -> None:
    """C2, C5: only outsiders on its nodes who would still be there, near its start, what yields by a drain."""
    longest_s = max(case.policy.drain.longest_grace_s, case.policy.calendar.reclaim_lead_s)
    for action in case.actions(Drain, Move):
        one, booking = case.workloads[action.workload], case.bookings.get(action.beneficiary)
        if booking is None:
            continue
        assert one.team != booking.team or not case.yields(one)
        assert not set(booking.nodes).isdisjoint(one.nodes)
        assert not gone_by(case, one, booking.start_at)
        lead_s = longest_s if isinstance(action, Drain) else case.policy.calendar.move_lead_s
        assert case.now >= booking.start_at - lead_s
        assert isinstance(action, Drain) or (one.movable and not one.moving)


def so_many_save_at_once(case: Case) -> None:
    """D7: nobody more is asked by plan while so many leave or move, unless a booking leaves no time for that."""
    most, drain = case.policy.drain.most_at_once, case.policy.drain
    already = sum(one.holding and (told_to_end(one) or one.moving) for one in case.state.workloads)
    hurried = {*case.bookings, *ends_of(case)}  # neither for a start, nor off a node that goes away, is it put off
    planned = [action for action in case.actions(Move) if action.beneficiary not in hurried]
    for action in case.actions(Drain):
        booking, one = case.bookings.get(action.beneficiary), case.workloads[action.workload]
        longest_s = drain.longest_grace_s + min(one.grace_s, drain.longest_grace_s)
        if booking is not None and case.now + longest_s <= booking.start_at:
            planned.append(action)
    assert most is None or not planned or already + len(planned) <= most, planned


def bookings_are_never_smaller(case: Case) -> None:
    """C6: a booking has as many nodes as before, and one that lacks some says so."""
    before = {one.name: one for one in case.state.bookings}
    for action in case.actions(Rebook):
        assert len(set(action.nodes)) == len(action.nodes) == len(before[action.booking].nodes)
        assert action.nodes != before[action.booking].nodes or action.breach != before[action.booking].breach
    said = {action.booking: action.breach for action in case.actions(Rebook)}
    for one in case.bookings.values():
        lost = [name for name in one.nodes if is_lost(case, case.nodes[name])]
        assert one.team is None or not lost or said.get(one.name, one.breach), (one, lost)


def gangs_ask_no_more_than_they_may(case: Case) -> None:
    """R9: all sets of the gangs together stay within the limit, unless there is but one; who waits for that is told."""
    most = case.policy.drain.most_per_cycle
    sets = Counter(one.beneficiary for one in case.actions(Drain) if one.beneficiary in case.workloads)
    assert most is None or len(sets) <= 1 or sets.total() <= most, sets
    for wait in case.plan.waits:
        if wait.reason is Reason.DRAINS_LIMITED:
            assert most is not None
            assert sets
            assert wait.asked > wait.available
            assert wait.workload not in sets


def nodes_cross_with_nothing_torn(case: Case) -> None:
    """B5, D6: only what hears it is asked to move, off nodes that cross; a node has its class once free for it."""
    crossing = {one.node: one for one in case.state.crossings if one.moved_at is None}
    others = {*case.bookings, *case.workloads, *ends_of(case)}
    moved = [one.workload for one in case.actions(Move) if one.beneficiary not in others]
    assert len(moved) == len(set(moved))
    for name in moved:
        one = case.workloads[name]
        assert one.movable
        assert one.phase in {Phase.ADMITTED, Phase.RUNNING}
        assert not one.killed
        assert not case.yields(one)
        assert any(crossing[node].to is NodeClass.SERVING for node in one.nodes if node in crossing)
    relabelled = {action.node: action.node_class for action in case.actions(Relabel)}
    for name, one in crossing.items():
        firm = [each for each in case.state.workloads if name in each.nodes and not case.yields(each)]
        replicas = [grant for service in case.state.services for grant in service.grants if grant.node == name]
        free = not (firm if one.to is NodeClass.SERVING else replicas) and not is_lost(case, case.nodes[name])
        assert relabelled.get(name) == (one.to if free else None), (one, firm, replicas)
    assert relabelled.keys() <= crossing.keys()


def ends_of(case: Case) -> dict[str, Departure]:
    """Return the nodes that go away, by what somebody leaves them for."""
    return {f"the end of {one.node}": one for one in case.state.departures}


def nodes_that_go_are_left(case: Case) -> None:
    """N1, N2: who is on them and can be asked is, once, by what time there is; and nobody comes."""
    ends, going = ends_of(case), {one.node: one for one in case.state.departures}
    told = Counter(action.workload for action in case.actions(Drain, Expire, Lose, Kill))
    moved = {action.workload for action in case.actions(Move)}
    for action in case.actions(Drain, Move):
        end = ends.get(action.beneficiary)
        one = case.workloads[action.workload]
        if end is None:
            continue
        assert end.node in one.nodes
        if isinstance(action, Move):
            assert one.movable
            assert not case.yields(one)
            assert not one.moving
            continue
        assert case.yields(one) or end.gone_at is not None
        grace_at = case.now + min(one.grace_s, case.policy.drain.longest_grace_s)
        assert action.deadline_at == (grace_at if end.gone_at is None else max(case.now, min(grace_at, end.gone_at)))
    for one in case.state.workloads:
        there = [going[name] for name in one.nodes if name in going]
        if not there or told_to_end(one):
            continue
        hurried = case.yields(one) or any(end.gone_at is not None for end in there)
        asked = told[one.name] == 1 or not hurried
        assert asked, f"{one.name} was told {told[one.name]} times to leave {there}"
        if not hurried and one.movable and not one.moving:
            assert told[one.name] or one.name in moved
    placed = {name for action in case.actions(Admit, Grow) for name in action.nodes}
    placed |= {action.node for action in case.actions(GiveGrant)}
    assert placed.isdisjoint(going)


LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law
    for law in (
        nothing_is_promised_twice,
        elastic_workloads_keep_their_minimum,
        nothing_new_comes_to_a_node_that_is_kept_out,
        quarantines_are_for_what_happened,
        gangs_are_whole_and_where_they_may_be,
        reclaim_is_one_way,
        what_must_end_ends,
        nodes_that_go_are_left,
        gangs_reclaim_from_borrowers_only,
        pulls_are_limited,
        replicas_are_apart,
        quotas_are_kept,
        everybody_is_answered_once,
        nobody_waits_for_what_is_free,
        no_more_is_kept_free_than_the_tier,
        gangs_ask_no_more_than_they_may,
        nodes_cross_with_nothing_torn,
        serving_is_met_when_it_can_be,
        replicas_take_no_larger_place,
        nobody_is_placed_in_the_way_of_a_booking,
        what_yields_can_leave_before_a_booking,
        who_leaves_for_a_booking_has_to,
        so_many_save_at_once,
        bookings_are_never_smaller,
        *SLICE_LAWS,
        *CAP_LAWS,
        *IN_LINE_LAWS,
    )
}
"""Every law that one decision can be held to."""


def check(case: Case) -> None:
    """Hold a decision to every law."""
    for law in LAWS.values():
        law(case)
