"""What happens to services: traffic changes, replicas take grants, become ready, end.

What traffic wants is counted here as an autoscaler would (`work.Traffic`); how many it gets is in the plan. Decides
nothing.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import ceil

from fleet_app.engine import life
from fleet_app.engine.forecast import EXACT, WEEK_S, History
from fleet_app.engine.headroom import growth_gpus, immediate_gpus
from fleet_app.engine.workload import Grant, Service
from fleet_app.twin.clock import What
from fleet_app.twin.pulling import pull_s
from fleet_app.twin.queueing import late_share, replicas_for
from fleet_app.twin.record import Demanded, Foreseen, ReplicaReady, ServiceSpan
from fleet_app.twin.world import Serving, World

GONE_S = 5.0
"""Within so long after the grace all that was asked to leave is gone, whether it saved its work or was killed."""
KEPT_S = 3 * WEEK_S
"""For how long samples of demand are kept: every hour of the week was seen twice."""


def opened(world: World, serving: Serving) -> None:
    """Let a service begin, with the traffic that it has by now."""
    service = serving.traffic.service
    world.serving[service.name] = serving
    world.fleet.put_service(service)
    serving.began_at = world.now
    demanded(world, service.name)


def demanded(world: World, name: str) -> None:
    """Let a service meet the traffic of this moment, and want as many replicas as that needs."""
    serving = world.serving[name]
    traffic, rates = serving.traffic, serving.traffic.rates
    settle(world, serving)
    while serving.point + 1 < len(rates) and rates[serving.point + 1][0] <= world.now:
        serving.point += 1
        serving.rate = rates[serving.point][1]
        if serving.point + 1 < len(rates) and rates[serving.point + 1][0] > world.now:
            world.agenda.put(rates[serving.point + 1][0], What.DEMANDED, name)
    if serving.point < 0 and rates:
        world.agenda.put(rates[0][0], What.DEMANDED, name)
    _wants(world, serving, replicas_for(serving.rate, traffic.slot_rate, traffic.slots, traffic.busy))


def _wants(world: World, serving: Serving, needed: int) -> None:
    """Want what is needed, and fewer only once that was enough for a while."""
    service = world.fleet.services[serving.traffic.service.name]
    past, keeps_s = serving.past, serving.traffic.keeps_s
    if needed < serving.needed:
        past.append((world.now, serving.needed))
        world.agenda.put(world.now + keeps_s, What.DEMANDED, service.name)
    while past and past[-1][1] <= needed:
        past.pop()
    while past and past[0][0] + keeps_s <= world.now:
        past.popleft()
    serving.needed = needed
    wanted = max(service.floor, needed, past[0][1] if past else 0)
    if wanted != service.wanted:
        world.fleet.put_service(replace(service, wanted=wanted))
        world.tell(Demanded(at=world.now, service=service.name, gpus=wanted * service.shape.gpus))
        _follow(world, serving)
        world.woken = True


def _follow(world: World, serving: Serving) -> None:
    """Let replicas start in idle grants, or end, so that there are as many as are wanted, as far as may be."""
    service = world.fleet.services[serving.traffic.service.name]
    more = service.wanted - len(serving.ready) - len(serving.missing)
    serving.missing.extend([world.now] * more)
    for _ in range(min(-more, len(serving.missing))):
        serving.missing.pop()
    surplus = len(serving.ready) - service.wanted
    _entered(world, serving, _ended(world, serving, service, surplus) if surplus > 0 else service)


def _ended(world: World, serving: Serving, service: Service, count: int) -> Service:
    """Let so many replicas end, those that came last first, and those that do not answer yet before all others.

    They may be there for a moment more.
    """
    latest = list(reversed(serving.ready))
    latest.sort(key=serving.ready.__getitem__)
    for name in latest[:count]:
        _forget(serving, name)
        if serving.traffic.stops_s > 0.0:
            world.agenda.put(world.now + serving.traffic.stops_s, What.VACATED, f"{service.name}/{name}")
    return service if serving.traffic.stops_s > 0.0 else _idle(service, set(latest[:count]))


def _idle(service: Service, names: AbstractSet[str]) -> Service:
    """Return a service in whose grants of these names nobody is any more."""
    grants = [replace(one, occupied=False) if one.name in names else one for one in service.grants]
    return replace(service, grants=tuple(grants))


def vacated(world: World, which: str) -> None:
    """Let the last process of a replica that ended be gone; another may start in its place."""
    name, _, grant = which.rpartition("/")
    serving, service = world.serving[name], world.fleet.services[name]
    if grant not in serving.ready:
        settle(world, serving)
        _entered(world, serving, _idle(service, {grant}))


def _forget(serving: Serving, name: str) -> None:
    del serving.ready[name]
    del serving.wanted_at[name]


def _entered(world: World, serving: Serving, service: Service) -> None:
    """Let a service have these grants, and a replica start in every idle one that one waits for."""
    grants = list(service.grants)
    for place, grant in enumerate(grants):
        if not serving.missing:
            break
        if not grant.occupied:
            grants[place] = replace(grant, occupied=True)
            serving.ready[grant.name] = False
            serving.wanted_at[grant.name] = serving.missing.popleft()
            delay_s = world.chance.seconds(serving.traffic.start_s, service.name, grant.name)
            delay_s += pull_s(world, service.artifacts, (grant.node,)) if service.artifacts else 0.0
            world.agenda.put(world.now + delay_s, What.READY, f"{service.name}/{grant.name}")
    if tuple(grants) != world.fleet.services[service.name].grants:
        world.fleet.put_service(replace(service, grants=tuple(grants)))


def ready(world: World, which: str) -> None:
    """Let a replica answer from now on, if it is still there."""
    name, _, grant = which.rpartition("/")
    serving = world.serving[name]
    if serving.ready.get(grant) is not False:
        return
    settle(world, serving)
    serving.ready[grant] = True
    world.tell(
        ReplicaReady(
            at=world.now,
            service=name,
            gpus=serving.traffic.service.shape.gpus,
            waited_s=world.now - serving.wanted_at[grant],
            drained=serving.drained,
        )
    )
    if not serving.missing:
        serving.drained = False


def granted(world: World, name: str, node: str, card: int | None = None) -> None:
    """Let a service have a grant, in which a replica that waits starts at once."""
    serving, service = world.serving[name], world.fleet.services[name]
    settle(world, serving)
    world.fleet.grants_made += 1
    grant = Grant(name=f"grant-{world.fleet.grants_made:07}", node=node, card=card)
    _entered(world, serving, life.with_grant(service, grant))


def taken_back(world: World, name: str, grant: str) -> None:
    """Let a service lose an idle grant."""
    settle(world, world.serving[name])
    world.fleet.put_service(life.without_grants(world.fleet.services[name], (grant,)))
    # What it leaves is free for others, who are decided about in the next cycle as by the arbiter.
    world.agenda.put(world.now, What.DUE, "")


def node_lost(world: World, node: str) -> None:
    """Let every replica and grant on a node be gone."""
    for name, serving in world.serving.items():
        service = world.fleet.services[name]
        gone = [grant.name for grant in service.grants if grant.node == node]
        if not gone:
            continue
        settle(world, serving)
        for grant in gone:
            if grant in serving.ready:
                _forget(serving, grant)
        world.fleet.put_service(life.without_grants(service, gone))
        _follow(world, serving)


def sampled(world: World) -> None:
    """Look at what is wanted now and may be soon, and do so again later; with a forecast, what is kept follows (S7).

    As far ahead as a forecast does: for a start-up, in whole samples (F6).
    """
    headroom, every_s = world.policy.headroom, world.scenario.sample_s
    if headroom.quantile is not None:
        _foresee(world)
    world.tell(
        Foreseen(
            at=world.now,
            within_s=max(1, ceil(headroom.startup_s / every_s - EXACT)) * every_s,
            quantile=headroom.quantile,
            growth_gpus=world.fleet.growth_gpus,
            kept_gpus=immediate_gpus(headroom, world.fleet.growth_gpus),
        )
    )
    world.agenda.put(world.now + every_s, What.SAMPLED, "")


def _foresee(world: World) -> None:
    """Note what is wanted now, and by how much that may grow within a start-up."""
    every_s, before = world.scenario.sample_s, world.fleet.demand
    wanted = float(sum(one.wanted * one.shape.gpus for one in world.fleet.services.values()))
    kept = () if before is None else before.wanted_gpus[-int(KEPT_S // every_s) :]
    first_at = world.now - len(kept) * every_s
    world.fleet.demand = History(first_at=first_at, every_s=every_s, wanted_gpus=(*kept, wanted))
    growth = growth_gpus(world.policy.headroom, world.fleet.demand, world.now)
    world.woken = world.woken or growth != world.fleet.growth_gpus
    world.fleet.growth_gpus = growth


def settle(world: World, serving: Serving) -> None:
    """Tell what a service and its requests met since it last changed."""
    seconds = world.now - serving.began_at
    if seconds <= 0.0:
        return
    traffic, service = serving.traffic, world.fleet.services[serving.traffic.service.name]
    answering = sum(serving.ready.values())
    requests = share = 0.0
    if traffic.objective_s is not None:
        requests = serving.rate * seconds
        share = late_share(serving.rate, traffic.slot_rate, answering * traffic.slots, traffic.objective_s)
    world.tell(
        ServiceSpan(
            began_at=serving.began_at,
            at=world.now,
            service=service.name,
            replica_gpus=service.shape.gpus,
            wanted=service.wanted,
            granted=len(service.grants),
            ready=answering,
            requests=requests,
            late=requests * share,
            overdue_s=_overdue_s(serving, world.policy.drain.grace_s + GONE_S, world.now),
        )
    )
    serving.began_at = world.now


def _overdue_s(serving: Serving, within_s: float, now: float) -> float:
    """Return for how long in this span replicas were missing that should have had a place by then."""
    found = 0.0
    for since in serving.missing:  # those that are missing for longest come first
        over_s = now - max(serving.began_at, since + within_s)
        if over_s <= 0.0:
            break
        found += over_s
    return found
