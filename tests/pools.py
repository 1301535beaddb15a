"""Node pools in memory, under a world: a pod a node, on a machine of its own, with KubeRay's and Kubernetes' manners.

What breaks a promise to a gang fails the test at once: a pod that goes although something runs in it, and a gang whose
pods are not to be held while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fleet_app.arbiter.ports import MachineView, PodView, PoolChange, PoolsView, PoolsWish, PoolView
from fleet_app.arbiter.surplus import over
from fleet_app.engine.values import NodeClass
from tests.world import BrokenError, FakeNode, World

MOST = 9
BOOT_S = 2.0


@dataclass
class FakePools:
    """The pools `training` and `serving`. While it does not answer, it says what it said last and does nothing."""

    world: World
    answers: bool = True
    cordoned: set[str] = field(default_factory=set)
    ends: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    least: int = 0
    most: int = MOST
    wanted: dict[str, int] = field(default_factory=dict)
    wish: PoolsWish = field(default_factory=PoolsWish)
    seen: PoolsView = field(default_factory=PoolsView)
    held: PoolsWish = field(default_factory=PoolsWish)
    repooled: list[PoolChange] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """Nodes whose pods were too many, and went."""
    _booting: list[tuple[float, str, NodeClass]] = field(default_factory=list)

    def observe(self) -> PoolsView | None:
        for due, name, to in list(self._booting):
            if self.world.now >= due:
                self._booting.remove((due, name, to))
                self.world.add_node(name, serving=to is NodeClass.SERVING)
        pods = tuple(self._pod(node) for node in self._living())
        if self.answers:
            self.seen = PoolsView(
                at=self.world.now,
                pods=pods,
                machines=tuple(
                    MachineView(name=pod.machine, labels=dict(self.labels), cordoned=pod.machine in self.cordoned)
                    for pod in pods
                ),
                pools=tuple(
                    PoolView(
                        name=name,
                        labels={"fleet/class": name, "fleet/leaf": "l1"},
                        nodes=sum(pod.pool == name for pod in pods),
                        least=self.least,
                        most=self.most,
                        wanted=self.wanted.get(name),
                    )
                    for name in ("training", "serving")
                ),
                held_pods=self.held.held_pods,
                held_machines=self.held.held_machines,
            )
        return self.seen

    def want(self, wish: PoolsWish) -> None:
        self.wish = wish
        for name in self.running():
            if self.pod(name) not in wish.held_pods:
                raise BrokenError(f"{name} has a job, and its pod is not to be held")
        if self.answers:
            self.held = wish
            for change in wish.changes:
                self._repool(change)
            for pod in wish.leavers:
                self._let_go(pod)

    def _let_go(self, pod: str) -> None:
        """Let a pod go, unless it is held or its pool has none too many."""
        names = {self.pod(node.labels["fleet/node"]): node.labels["fleet/node"] for node in self._living()}
        pools = {pool.name: pool for pool in self.seen.pools}
        if pod in names and pod not in self.held.held_pods:
            pool = pools[self.world.node(names[pod]).labels["fleet/class"]]
            if over(self.seen, pool):
                self._gone(names[pod])
                self.left.append(names[pod])
                self.seen = replace(
                    self.seen,
                    pods=tuple(each for each in self.seen.pods if each.name != pod),
                    pools=tuple(replace(one, nodes=one.nodes - (one.name == pool.name)) for one in self.seen.pools),
                )

    def _repool(self, change: PoolChange) -> None:
        name = change.machine.removeprefix("m-")
        there = [node for node in self._living() if node.labels["fleet/node"] == name]
        if not there or there[0].labels["fleet/class"] == change.to.value or self.pod(name) != change.pod:
            return
        self._gone(name)
        self.repooled.append(change)
        self._booting.append((self.world.now + BOOT_S, name, change.to))

    def evict(self, name: str) -> bool:
        """Let somebody ask to evict the pod of a node; return whether admission lets that happen."""
        if self.pod(name) in self.held.held_pods:
            return False
        self._gone(name)
        return True

    def _gone(self, name: str) -> None:
        if name in self.running():
            raise BrokenError(f"the pod of {name} goes, and something runs in it")
        self.world.lose_node(name)

    def running(self) -> set[str]:
        """Return the nodes on which a job has processes."""
        world, nodes = self.world, self.world.nodes
        return {
            nodes[node_id].labels["fleet/node"]
            for job in world.jobs.values()
            if job.processes(world.now)
            for group in world.groups_of(job)
            for node_id, _ in group.bundles
            if nodes[node_id].alive
        }

    def pod(self, name: str) -> str:
        """Return the name of the pod of a node."""
        return f"pod-{self.world.node(name).node_id}"

    def _living(self) -> Iterator[FakeNode]:
        return iter([node for node in self.world.nodes.values() if node.alive])

    def _pod(self, node: FakeNode) -> PodView:
        name = node.labels["fleet/node"]
        node.labels["fleet/pod"] = f"pod-{node.node_id}"  # type: ignore[index]  # a dict: the chart puts it there
        return PodView(
            name=f"pod-{node.node_id}",
            pool=node.labels["fleet/class"],
            machine=f"m-{name}",
            ends_at=self.ends.get(name),
        )
