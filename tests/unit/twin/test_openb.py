"""The loop of `frag-openb` chooses as the engine does, and what it comes to is counted right."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from benchmarks import openb
from fleet_app.engine import life
from fleet_app.engine.cards import WHOLE_SHARE, Card, Slice
from fleet_app.engine.decide import decide
from fleet_app.engine.plan import Admit, AdmitSlice, Plan, Repartition
from fleet_app.engine.policy import Packing, Policy, PriorityClass, Quota, Slicing
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import Node, Shape
from fleet_app.engine.workload import Kind, Workload
from fleet_app.twin import cutting
from fleet_app.twin.readers.openb import WHOLE_MILLI, Pod
from tests.builders import node

EVERY, FIRST = 60, 150
"""Of the nodes every 60th, of the pods the first 150: they ask for more than those have."""


def policy(cpu_milli_per_gpu: int) -> Policy:
    """Return a policy in which quota limits nobody, and cards are cut one by one."""
    return Policy(
        levels=(),
        quotas=(Quota(name="all", nominal_gpus=1_000_000),),
        classes=(PriorityClass(name="all", value=1, yields=True),),
        packing=Packing(cpu_milli_per_gpu=cpu_milli_per_gpu),
        slicing=Slicing(shares=1_000, repartition=True, settle_s=1e9, whole_nodes=False),
    )


def workload(name: str, pod: Pod) -> Workload:
    """Return a pod as a job."""
    whole = pod.whole
    return Workload(
        name=name,
        kind=Kind.BACKFILL,
        team="all",
        priority=1,
        shape=pod.shape if whole else replace(pod.shape, gpus=0),
        slice=None if whole else Slice(share=pod.gpu_milli * WHOLE_SHARE // WHOLE_MILLI),
    )


class Decided:
    """A fleet that the engine fills up, one pod a decision."""

    def __init__(self, nodes: list[Node], rules: Policy) -> None:
        """Begin with every card whole."""
        self.rules = rules
        self.nodes = {
            one.name: replace(one, cards=tuple(Card(index=at) for at in range(one.capacity.gpus))) for one in nodes
        }
        self.held: dict[str, list[Workload]] = defaultdict(list)

    def place(self, name: str, pod: Pod) -> str | None:
        """Let a pod have its place; a card may have to be shared first."""
        asks = workload(name, pod)
        for action in self._plan(asks).actions:
            match action:
                case Repartition(node=at, card=card, layout=layout):
                    self.nodes[at] = cutting.recut(cutting.taken_out(self.nodes[at], card, layout), 0.0)
                    return self.place(name, pod)
                case Admit(nodes=(at,)):
                    return self._seat(life.at_work(asks, (at,), 0.0), at)
                case AdmitSlice(node=at, card=card):
                    return self._seat(life.started(life.admitted(asks, (at,), 0.0, card), 0.0), at)
        return None

    def _plan(self, asks: Workload) -> Plan:
        held = [one for theirs in self.held.values() for one in theirs]
        return decide(FleetState(nodes=tuple(self.nodes.values()), workloads=(*held, asks)), self.rules, 0.0)

    def _seat(self, one: Workload, at: str) -> str:
        self.held[at].append(one)
        (self.nodes[at],) = cutting.busy([self.nodes[at]], self.held[at], ())
        return at


@pytest.mark.parametrize("cpu_milli_per_gpu", [0, openb.CPU_MILLI_PER_GPU])
def test_the_loop_chooses_the_node_that_the_engine_decides_on(cpu_milli_per_gpu):
    fleet, pods = list(openb.nodes()[::EVERY]), openb.orders()["s42"][:FIRST]
    decided, loop = Decided(fleet, policy(cpu_milli_per_gpu)), openb.Openb(fleet, cpu_milli_per_gpu)
    want = [decided.place(f"p{number:03d}", pod) for number, pod in enumerate(pods)]
    assert [loop.place(pod) for pod in pods] == want
    assert None in want
    assert len({pod.whole for pod, at in zip(pods, want, strict=True) if at}) == 2


def test_ten_orders_ask_for_130_percent_of_all_gpus():
    fleet, orders = openb.nodes(), openb.orders()
    gpus = sum(one.capacity.gpus for one in fleet)
    assert (len(fleet), gpus, len(orders)) == (1_213, 6_212, 10)
    for pods in orders.values():
        asked = sum(pod.gpu_milli * pod.shape.gpus for pod in pods) / (WHOLE_MILLI * gpus)
        assert 1.299 < asked < 1.302


def pod(gpus: int, milli: int = WHOLE_MILLI) -> Pod:
    return Pod(
        name="p",
        shape=Shape(gpus=gpus, cpu_milli=1_000),
        gpu_milli=milli,
        models=(),
        created_at=0.0,
        deleted_at=0.0,
        scheduled_at=None,
    )


def test_what_is_handed_out_and_what_is_refused_is_counted():
    pods = [pod(1, 600), pod(1, 500), pod(2), pod(1, 400), pod(1), pod(1)]
    percent, refused = openb.allocated([node("n", gpus=4, cpus=64)], pods)
    assert percent == 100.0 * (0.6 + 0.5 + 2.0 + 0.4) / 4
    assert refused == {"1 GPUs": 2}
