"""The twin: `twin-events`, events a second on the peers' own run; `twin-month`, a month of 2,048 GPUs on real traces.

An event is one that a peer counts too: a submission, a start, an end. CPU seconds of this process; what the run tells
is asserted to be what the peer printed, so that nobody is fast by being wrong.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from benchmarks.peers import PEERS, TRACES, figures, rows, scenario
from benchmarks.result import Result, Samples, result
from fleet_app.engine.policy import Headroom, Policy, PriorityClass, Quota
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.engine.workload import Service
from fleet_app.twin.chance import Spread
from fleet_app.twin.readers.azure import azure, scaled
from fleet_app.twin.readers.reading import read
from fleet_app.twin.readers.row import Casting
from fleet_app.twin.record import Record
from fleet_app.twin.run import run
from fleet_app.twin.work import Faults, Scenario, Traffic

RUNS = 3
EVENTS_A_JOB = 3
PEER = "philly_oct Helios FIFO"
DAY_S, DAYS = 86_400.0, 31
SERVING_NODES, TRAINING_NODES, SPINES, LEAVES = 150, 106, 4, 8
REPLICA_GPUS, PEAK_GPUS = 4, 1_200


def events() -> Result:
    """Return events a CPU second on philly_oct, with the figures that the peer printed."""
    rates = []
    peer = PEERS[PEER]
    for _ in range(RUNS):
        given, records = scenario(peer), list[Record]()
        began = time.process_time()
        run(given, records.append)
        rates.append(EVENTS_A_JOB * len(rows(peer.trace)) / (time.process_time() - began))
        assert figures(records) == peer.printed, figures(records)
    what = f"events a CPU second, {PEER}, figures equal to the peer's"
    return result("twin-events", what, "1/s", Samples(ours=rates))


def month() -> Result:
    """Return the CPU seconds of a month of a shared fleet; one run, since it is a long one."""
    given, records = month_of_2048(), list[Record]()
    began = time.process_time()
    one = run(given, records.append)
    seconds = time.process_time() - began
    what = f"a month of 2,048 GPUs: Philly's jobs beside Azure's traffic, {one.events} events, {len(records)} records"
    return result("twin-month", what, "s", Samples(ours=[seconds]))


def month_of_2048() -> Scenario:
    """Return October 2017 of Philly and a week of Azure's conversations over and over, on one shared fleet."""
    began_at = datetime(2017, 10, 1, tzinfo=UTC).timestamp()
    casting = Casting(team="research", save_every_s=1_800.0, leaves=Spread(median_s=30.0, sigma=0.5), start_s=20.0)
    return Scenario(
        policy=_policy(),
        nodes=tuple(_nodes()),
        jobs=tuple(casting.jobs(rows("philly_oct"))),
        traffic=(_traffic(began_at),),
        faults=Faults(node_mean_s=365 * DAY_S, repair=Spread(median_s=4 * 3600.0, sigma=0.8)),
        begins_at=began_at,
        ends_at=began_at + DAYS * DAY_S,
    )


def _policy() -> Policy:
    nominal = {"serving": SERVING_NODES * 8, "research": TRAINING_NODES * 8}
    return Policy(
        quotas=(
            Quota(name="fleet"),
            *(Quota(name=team, parent="fleet", nominal_gpus=nominal[team]) for team in nominal),
        ),
        classes=(
            PriorityClass(name="serving", value=100_000),
            PriorityClass(name="committed", value=50_000),
            PriorityClass(name="backfill", value=1_000, borrows=True, yields=True),
        ),
        headroom=Headroom(immediate_gpus=32),
    )


def _nodes() -> list[Node]:
    return [
        Node(
            name=f"n{number:03d}",
            node_class=NodeClass.SERVING if number < SERVING_NODES else NodeClass.TRAINING,
            domains=(f"s{number // (LEAVES * 8)}", f"l{number // 8 % LEAVES}"),
            capacity=Shape(gpus=8),
        )
        for number in range(SERVING_NODES + TRAINING_NODES)
    ]


def _traffic(began_at: float) -> Traffic:
    """Return a week's requests, over and over, so that the peak needs all GPUs of serving's but the immediate tier."""
    week = read(TRACES / "azure_llm_2024_conv_week.csv", azure, strict=True).found
    replicas = (PEAK_GPUS - 32) // REPLICA_GPUS
    rates = scaled(week, 0.7 * replicas)
    first = rates[0][0]
    again = [(began_at + at - first + 7 * DAY_S * turn, rate) for turn in range(5) for at, rate in rates]
    service = Service(name="chat", team="serving", priority=100_000, shape=Shape(gpus=REPLICA_GPUS))
    return Traffic(service=service, rates=tuple(again), slot_rate=1.0, start_s=Spread(median_s=60.0, sigma=0.3))


BENCHMARKS = {"twin-events": events, "twin-month": month}
