"""Laws of reclaim: who is asked to leave is enough, all of it needed, and the cheapest there is (I5, I6, R1 to R5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import event, given

from fleet_app.engine import eligibility, mixed_reclaim, reclaim
from fleet_app.engine.ledger import Ledger
from fleet_app.engine.reclaim import EXACT_UP_TO, Eviction
from fleet_app.engine.trial import Asker
from fleet_app.engine.values import Node, NodeClass
from fleet_app.engine.workload import Service, Workload
from tests.laws.effort import tries
from tests.laws.victims import BruteForce
from tests.strategies import crowded
from tests.virtual import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the engine answers, beside the means to check it."""

    eviction: Eviction | None
    brute: BruteForce

    @property
    def victims(self) -> tuple[Workload, ...]:
        return () if self.eviction is None else self.eviction.victims


def found_for(fleet: Fleet, seeker: Workload | Service) -> Found:
    ledger = Ledger(fleet.state, fleet.policy, fleet.now)
    seeks, nodes = asked(ledger, seeker)
    brute = BruteForce(fleet.state, fleet.policy, fleet.now, seeks, nodes)
    known = seeker.team in ledger.tree.entries
    find = reclaim.find if seeks.sought is None else mixed_reclaim.find
    return Found(eviction=find(ledger, seeks, nodes, lambda _: True) if known else None, brute=brute)


def asked(ledger: Ledger, seeker: Workload | Service) -> tuple[Asker, list[Node]]:
    if isinstance(seeker, Workload):
        any_kind = replace(seeker, accelerator=None) if seeker.groups else seeker
        return eligibility.asker(ledger, seeker), eligibility.eligible(ledger, any_kind)
    seeks = Asker(name=seeker.name, team=seeker.team, priority=seeker.priority, shape=seeker.shape, anyone=True)
    return seeks, [node for node in ledger.placeable() if node.node_class is NodeClass.SERVING]


@tries(600)
@given(crowd=crowded())
def test_victims_are_the_cheapest_set_that_is_enough(crowd: tuple[Fleet, Workload | Service]) -> None:
    found = found_for(*crowd)
    if len(found.brute.able()) > EXACT_UP_TO or found.brute.asker.team == "nobody":
        return
    best = min(found.brute.sets(), key=found.brute.cost, default=None)
    if best is None:
        wholes = found.brute.with_wholes()
        whole = next(wholes.sets(), None) if len(wholes.able()) <= EXACT_UP_TO else None
        event("members are not enough" if whole else "nobody")
        assert (found.eviction is not None) == (whole is not None)
    else:
        assert found.eviction is not None, best
        assert found.brute.cost(found.victims) == found.brute.cost(best)


@tries(300)
@given(crowd=crowded(most=24))
def test_victims_are_enough_and_none_can_be_spared(crowd: tuple[Fleet, Workload | Service]) -> None:
    found = found_for(*crowd)
    if found.eviction is None:
        return
    assert found.brute.may_go(found.victims)
    assert found.brute.enough(found.victims)
    for victim in found.victims:
        rest = [one for one in found.victims if one.name != victim.name]
        assert not found.brute.enough(rest), f"{victim.name} is drained in vain"


@tries(150)
@given(crowd=crowded(most=24))
def test_a_replica_is_refused_only_where_all_that_may_be_asked_would_not_be_enough(
    crowd: tuple[Fleet, Workload | Service],
) -> None:
    found = found_for(*crowd)
    if found.eviction is None and found.brute.asker.anyone:
        here = [one for one in found.brute.able() if not found.brute.names.isdisjoint(one.nodes)]
        assert not found.brute.enough(here)
