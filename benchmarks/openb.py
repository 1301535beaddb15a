"""`frag-openb`: how much of a heterogeneous fleet is handed out once more was asked for than it has (F1).

The published run of FGD (Weng et al., USENIX ATC 2023): the 1,213 GPU nodes of Alibaba's openb cluster, 6,212 GPUs of
seven kinds; its pods in random order, drawn again until they ask for 130 % of all GPUs; nobody leaves; what fits
nowhere is refused. A pod asks for CPUs and memory, and for whole GPUs, none, or a part of one, which is a share of a
card here: cards are whole until a share needs one (V7). The ten orders are those of the artifact's seeds 42 to 51.

A decision for each of 108,000 pods on 1,213 nodes would take hours, so the rules by which a place is chosen (P2, P13,
V4, V7) stand here once more, in a loop; `tests/unit/twin/test_openb.py` shows on small fleets that `decide` chooses the
same node for every pod. `frag-openb-cpus` is the same with `packing.cpus_per_gpu: 6`.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.peers import TRACES
from benchmarks.result import Result, Samples, result
from fleet_app.engine.values import Node
from fleet_app.twin.readers.openb import WHOLE_MILLI, Pod, openb_nodes, openb_pods
from fleet_app.twin.readers.reading import read

CPU_MILLI_PER_GPU = 6_000
PRINTED = "FGD printed 95.39, best fit 93.08, random 87.47"

Card = tuple[int, int]
"""A shared card: the number of its node, and which one to be shared it was."""


class Openb:
    """A fleet as it fills up: what is free on each node, and what is left of each shared card."""

    def __init__(self, nodes: Sequence[Node], cpu_milli_per_gpu: int = 0) -> None:
        """Begin with an empty fleet, whose policy says how many CPUs a free GPU needs, or 0."""
        ordered = sorted(nodes, key=lambda node: node.name)
        self.names = [node.name for node in ordered]
        self._kinds = [node.accelerator for node in ordered]
        self._gpus = [node.capacity.gpus for node in ordered]
        self._cpus = [node.capacity.cpu_milli for node in ordered]
        self._memory = [node.capacity.memory_mib for node in ordered]
        self._per_gpu = cpu_milli_per_gpu
        self._cards = 0
        self._by_left: dict[int, set[Card]] = defaultdict(set)

    def place(self, pod: Pod) -> str | None:
        """Let a pod have its place, and return its node; None where none would do."""
        number = self._whole(pod) if pod.whole else self._share(pod)
        if number is None:
            return None
        self._cpus[number] -= pod.shape.cpu_milli
        self._memory[number] -= pod.shape.memory_mib
        return self.names[number]

    def _whole(self, pod: Pod) -> int | None:
        """Take whole GPUs: of the accelerator that has the tightest node, and of equals the fewest nodes (P2)."""
        kinds: dict[str, list[int]] = defaultdict(list)
        for number in self._with_room(pod, pod.shape.gpus):
            kinds[self._kinds[number]].append(number)
        best: tuple[tuple[int, int], int, int, int] | None = None
        for able in kinds.values():
            order, chosen = min((self._tightness(number, pod, pod.shape.gpus), number) for number in able)
            found = (order, len(able), able[0], chosen)
            best = found if best is None or found < best else best
        if best is None:
            return None
        self._gpus[best[-1]] -= pod.shape.gpus
        return best[-1]

    def _share(self, pod: Pod) -> int | None:
        """Take a share of the fullest card on which it fits (V4), else of one that is whole until now (V7)."""
        card = next((card for card in self._fullest_first(pod.gpu_milli) if self._has_room(card[0], pod)), None)
        if card is not None:
            left = next(left for left, cards in self._by_left.items() if card in cards)
            self._by_left[left].remove(card)
            self._by_left[left - pod.gpu_milli].add(card)
            return card[0]
        able = [(self._tightness(number, pod, 1), number) for number in self._with_room(pod, 1)]
        if not able:
            return None
        number = min(able)[1]
        self._gpus[number] -= 1
        self._cards += 1
        self._by_left[WHOLE_MILLI - pod.gpu_milli].add((number, self._cards))
        return number

    def _fullest_first(self, milli: int) -> Iterator[Card]:
        for left in sorted(left for left, cards in self._by_left.items() if cards and left >= milli):
            yield from sorted(self._by_left[left])

    def _with_room(self, pod: Pod, gpus: int) -> list[int]:
        cpus, memory = pod.shape.cpu_milli, pod.shape.memory_mib
        rooms = zip(self._gpus, self._cpus, self._memory, strict=True)
        return [at for at, room in enumerate(rooms) if room[0] >= gpus and room[1] >= cpus and room[2] >= memory]

    def _has_room(self, number: int, pod: Pod) -> bool:
        return self._cpus[number] >= pod.shape.cpu_milli and self._memory[number] >= pod.shape.memory_mib

    def _tightness(self, number: int, pod: Pod, gpus: int) -> tuple[int, int]:
        """Return how many more free GPUs lack CPUs with the pod there (P13), and how many are free."""
        free, cpus = self._gpus[number], self._cpus[number]
        if not self._per_gpu:
            return 0, free
        before = max(0, free - cpus // self._per_gpu)
        return max(0, free - gpus - (cpus - pod.shape.cpu_milli) // self._per_gpu) - before, free


def nodes() -> tuple[Node, ...]:
    """Return the nodes that have GPUs."""
    return read(TRACES / "openb_nodes.csv.gz", openb_nodes, strict=True).found


def orders() -> dict[str, list[Pod]]:
    """Return the pods as they come, by the seed of the order."""
    pods = {pod.name: pod for pod in read(TRACES / "openb_pods_default.csv.gz", openb_pods, strict=True).found}
    found: dict[str, list[Pod]] = defaultdict(list)
    with gzip.open(TRACES / "fgd_arrival_order.csv.gz", "rt", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            for seed, number in line.items():
                if seed != "i" and number:
                    found[seed].append(pods[f"openb-pod-{int(number):04d}"])
    return dict(found)


def allocated(fleet: Sequence[Node], pods: Sequence[Pod], cpu_milli_per_gpu: int = 0) -> tuple[float, Counter[str]]:
    """Return the share of all GPUs that is handed out in the end (%), and what was refused, by what it asked for."""
    filling, milli, refused = Openb(fleet, cpu_milli_per_gpu), 0, Counter[str]()
    for pod in pods:
        if filling.place(pod) is None:
            refused[f"{pod.shape.gpus} GPUs" if pod.whole else "a share"] += 1
        else:
            milli += pod.gpu_milli * pod.shape.gpus
    return 100.0 * milli / (WHOLE_MILLI * sum(node.capacity.gpus for node in fleet)), refused


def run(cpu_milli_per_gpu: int = 0) -> Result:
    """Return the share of all GPUs that is handed out, by ten orders of the pods."""
    fleet = nodes()
    found = [allocated(fleet, pods, cpu_milli_per_gpu)[0] for _, pods in sorted(orders().items())]
    mean = sum(found) / len(found)
    name = "frag-openb-cpus" if cpu_milli_per_gpu else "frag-openb"
    what = f"GPUs handed out at 130 % asked, openb, ten orders, mean {mean:.2f}; {PRINTED}"
    return result(name, what, "%", Samples(ours=found))


BENCHMARKS = {"frag-openb": run, "frag-openb-cpus": partial(run, CPU_MILLI_PER_GPU)}
