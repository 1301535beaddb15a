"""Scale-ups on a fleet that lends: how they are made of a trace, and what the trace itself recorded (S2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import scale_up
from benchmarks.traces import folder
from fleet_app.engine.policy import Headroom
from fleet_app.engine.values import Node, NodeClass, Shape
from fleet_app.twin.readers.dlrm import Instance

ONE = Shape(gpus=1, cpu_milli=8_000, memory_mib=40_960)
HERE = (folder() / "research-use-only" / "dlrm2025_instances.csv.gz").exists()


def replica(name: str, created_at: float | None, deleted_at: float | None = None, service: str = "a") -> Instance:
    return Instance(
        name=name,
        service=service,
        shape=ONE,
        created_at=created_at,
        scheduled_at=created_at,
        deleted_at=deleted_at,
    )


REPLICAS = (
    replica("before", None, 500.0),
    replica("first", 100.0),
    replica("second", 100.0, 300.0),
    replica("other", 200.0, service="b"),
)


def test_as_many_are_wanted_as_there_were():
    wants = {one.service.name: one.rates for one in scale_up.wants(REPLICAS)}
    assert wants == {"a-0": ((0.0, 1.0), (100.0, 3.0), (300.0, 2.0), (500.0, 1.0)), "b-1": ((200.0, 1.0),)}


def test_late_is_more_than_a_minute():
    found = scale_up.late([0.0, 60.0, 61.0, 200.0])
    assert (found.share, found.waited.longest_s) == (0.5, 200.0)


def waits(headroom: Headroom) -> list[float]:
    node = Node(
        name="n1",
        node_class=NodeClass.TRAINING,
        domains=(),
        capacity=Shape(gpus=8, cpu_milli=96_000, memory_mib=500_000),
    )
    scenario = replace(scale_up.of_dlrm(REPLICAS, [node], headroom), ends_at=2_000.0)
    found = scale_up.ours(scenario).waited
    return [found.count, found.p50_s, found.longest_s]


def test_a_replica_waits_for_who_has_its_gpu_unless_one_is_kept_free():
    count, half_s, longest_s = waits(Headroom())
    assert count == 3
    assert 0.0 < half_s <= longest_s <= 120.0
    assert waits(Headroom(immediate_gpus=4)) == [3, 0.0, 0.0]


@pytest.mark.skipif(not HERE, reason=f"needs dlrm2025_instances.csv.gz in FLEET_TRACES (now {folder()})")
def test_the_trace_recorded_what_is_told_of_it():
    found = scale_up.recorded(scale_up.instances())
    assert (round(found.share, 3), found.waited.p90_s, found.waited.p99_s) == (0.126, 116.0, 9_764.0)
