"""What single records come to, told by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet_app.engine.values import NodeClass
from fleet_app.engine.workload import Kind
from fleet_app.twin.record import (
    Admitted,
    Cause,
    ClassSpan,
    Crossed,
    Left,
    QueueSample,
    Record,
    ReplicaReady,
    ServiceSpan,
    Started,
    Submitted,
)
from fleet_app.twin.report.figures import Figures
from fleet_app.twin.report.moments import label, moment, size_of
from fleet_app.twin.report.tally import SETTLES_S, About, Tally


def told(*records: Record) -> Figures:
    about = About(
        name="told",
        lasted_s=7200.0,
        gpus=8,
        price_per_gpu_hour=1.0,
        team_of_service={"chat": "web"},
        class_of_node={"n1": NodeClass.SERVING},
    )
    tally = Tally(about)
    for record in records:
        tally.tell(record)
    return tally.figures()


def span(kind: NodeClass = NodeClass.SERVING, **parts: float) -> ClassSpan:
    nothing = dict.fromkeys(("allocated", "draining", "held", "idle", "down", "total", "lent"), 0.0)
    seconds = {f"{name}_gpu_s": amount for name, amount in {**nothing, **parts}.items()}
    return ClassSpan(began_at=0.0, at=3600.0, node_class=kind, stranded_gpus=1, idle_gpus=2, **seconds)


def admitted(at: float, attempt: int, *nodes: str) -> Admitted:
    return Admitted(at=at, workload="w", attempt=attempt, nodes=nodes, gpus=8, waited_s=0.0)


def left_and_back(kind: Kind, cause: Cause, *nodes: str, crossed: Sequence[Record] = ()) -> Figures:
    """8 GPUs are left within 30 s, with 10 s of work lost, and 20 s pass until the next attempt is at work."""
    return told(
        Submitted(at=0.0, workload="w", team="t", kind=kind, priority=1, gpus=8, bundles=1, run_s=9000.0),
        *crossed,
        admitted(0.0, 1, *nodes),
        Started(at=0.0, workload="w", attempt=1, resumed_s=0.0),
        Left(
            at=130.0,
            workload="w",
            attempt=1,
            cause=cause,
            asked_at=100.0,
            broke=False,
            gpus=8,
            done_s=120.0,
            lost_s=10.0,
            lost_gpu_s=80.0,
        ),
        admitted(200.0, 2, "elsewhere"),
        Started(at=220.0, workload="w", attempt=2, resumed_s=120.0),
        span(lent=1000.0),
    )


TAXES = {
    "what is lost, leaving and coming back of work that yields is tax": (Kind.BACKFILL, Cause.DRAINED, ["n1"], 0.48),
    "a move is too": (Kind.BACKFILL, Cause.MOVED, ["n1"], 0.48),
    "a lost node is nobody's preemption": (Kind.BACKFILL, Cause.NODE, ["n1"], 0.0),
    "committed work is not lent": (Kind.GANG, Cause.DRAINED, ["n1"], 0.0),
    "on training's own nodes nothing of serving's was lent": (Kind.BACKFILL, Cause.DRAINED, ["t1"], 0.0),
    "of what was on both the part on serving's is": (Kind.BACKFILL, Cause.DRAINED, ["n1", "t1"], 0.24),
}


@pytest.mark.parametrize(("kind", "cause", "nodes", "want"), TAXES.values(), ids=TAXES)
def test_tax(kind, cause, nodes, want):
    assert left_and_back(kind, cause, *nodes).tax_share == pytest.approx(want)


CROSSINGS = {
    "a node that went over to serving is serving's": ("t1", NodeClass.SERVING, 0.48),
    "one that went over to training is not any more": ("n1", NodeClass.TRAINING, 0.0),
}


@pytest.mark.parametrize(("name", "to", "want"), CROSSINGS.values(), ids=CROSSINGS)
def test_tax_on_nodes_that_crossed(name, to, want):
    crossed = [Crossed(at=0.0, node=name, to=to, gpus=8)]
    assert left_and_back(Kind.BACKFILL, Cause.DRAINED, name, crossed=crossed).tax_share == pytest.approx(want)


def service_span(began_at: float) -> ServiceSpan:
    return ServiceSpan(
        began_at=began_at,
        at=began_at + 60.0,
        service="chat",
        replica_gpus=2,
        wanted=3,
        granted=2,
        ready=1,
        requests=100.0,
        late=7.0,
        overdue_s=15.0,
    )


def test_a_service_is_short_of_replicas_without_a_place_not_of_those_that_start():
    (chat,) = told(service_span(SETTLES_S)).services
    assert (chat.team, chat.short_gpu_min, chat.late, chat.peak_gpus, chat.mean_gpus) == ("web", 2.0, 7.0, 6, 4.0)


def test_what_was_later_than_the_contract_allows_is_told_apart():
    (chat,) = told(service_span(0.0), service_span(SETTLES_S)).services
    assert chat.overdue_gpu_min == 0.5


def test_what_requests_meet_in_an_empty_fleet_is_not_counted():
    (chat,) = told(service_span(0.0), service_span(SETTLES_S)).services
    assert chat.requests == 100.0


TENTH_S = 720.0


def test_replicas_that_were_wanted_in_an_empty_fleet_are_not_counted():
    ready = [
        ReplicaReady(at=at, service="chat", gpus=2, waited_s=60.0, drained=True) for at in (TENTH_S, TENTH_S + 60.0)
    ]
    found = told(*ready)
    assert found.services[0].ready.count == 1
    assert found.ready_after_drain.count == 1


def test_headroom_is_what_is_idle_or_kept_on_serving_s_nodes():
    spans = [
        span(total=36_000.0, idle=7200.0, held=10_800.0, allocated=18_000.0, lent=3600.0),
        span(NodeClass.TRAINING, total=36_000.0, idle=36_000.0),
    ]
    found = moment(spans, QueueSample(at=3600.0, waiting=2, waiting_gpus=16, running=1), 0.0)
    assert (found.headroom_gpus, found.serving_gpus, found.lent_gpus) == (5.0, 4.0, 1.0)
    assert (found.idle_gpus, found.waiting_gpus, found.stranded_share) == (12.0, 16, 0.1)


SIZES = {
    "one GPU": (1, "1"),
    "a whole node": (8, "8"),
    "two": (16, "9-32"),
    "a part": (3, "2-7"),
    "more": (520, "> 512"),
}


@pytest.mark.parametrize(("gpus", "want"), SIZES.values(), ids=SIZES)
def test_sizes(gpus, want):
    assert label(size_of(gpus)) == want
