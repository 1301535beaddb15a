"""The node pools of a fleet on KubeRay: worker groups of one RayCluster, on Kubernetes nodes.

A thread of its own looks at them and works towards what the arbiter wishes, step by step, each from what the API server
says at that moment; so the arbiter never waits for that server, and what was seen last stands, with its age. Nothing is
deleted here: KubeRay's operator deletes the pods that are named to it, and only those are named that the arbiter says
are empty, that no held list names, and that a list of this very moment shows. Decides nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from fleet_app.adapters import kube_nodes
from fleet_app.adapters.kube_client import JSON_PATCH, MERGE_PATCH, Kube
from fleet_app.adapters.kube_nodes import Group, Held, Pod, RayCluster
from fleet_app.arbiter.ports import Clock, PoolChange, PoolsView, PoolsWish
from fleet_app.arbiter.surplus import over
from fleet_app.engine.errors import ConflictError, FaultError, FleetError, NotFoundError
from fleet_app.engine.scaling import NodesAsk
from fleet_app.render import names

log = logging.getLogger("fleet.pools")

LOOK_S = 2.0
REST_S = 0.1
ASK_AGAIN_S = 60.0
GONE_S = 5.0
"""How long a pod must be missing before its name is taken back: the operator's own view may be that much behind, and
a pod that it still counts and that is named no more would cost another one its life."""

RAY = ("ray.io", "v1")
_OTHER_POOL = "to its other pool:"
_FEWER = "has too many nodes:"
MOST_SINGLE = 20
"""Kubernetes nodes without the fleet's label that are looked at one by one."""


class KubePools:
    """The worker groups of the RayCluster of that name."""

    def __init__(self, connect: Callable[[], Kube], cluster: str, namespace: str, clock: Clock) -> None:
        """Look at nothing yet; `connect` says where the API server is, and is asked again until it does."""
        self._connect = connect
        self._connected: Kube | None = None
        self._cluster = cluster
        self._namespace = namespace
        self._clock = clock
        self._wake = threading.Event()
        self._view = PoolsView()
        self._wish: PoolsWish | None = None
        self._held: Held | None = None
        self._missing: dict[str, float] = {}
        self._troubles: dict[str, str] = {}
        self._asked: tuple[float, tuple[NodesAsk, ...]] | None = None
        self.ask_nodes: Callable[[tuple[NodesAsk, ...]], None] = lambda asks: None
        """Who makes nodes on demand."""
        self.tell: Callable[[PoolsView], None] = lambda view: None
        """Who wants to hear of every look."""

    @property
    def _kube(self) -> Kube:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def observe(self) -> PoolsView | None:
        """Return what was last seen."""
        return self._view

    def want(self, wish: PoolsWish) -> None:
        """Say what the pools should come to."""
        if wish != self._wish:
            self._wish = wish
            self._wake.set()

    def run(self, ends: Callable[[], bool] = lambda: False) -> None:
        """Look and work, until somebody says that it ends."""
        looked_at = float("-inf")
        while not ends():
            self._wake.clear()
            look = time.monotonic() - looked_at >= LOOK_S
            looked_at = time.monotonic() if look else looked_at
            try:
                self.turn(look=look)
            except Exception as error:  # the one guard of this thread: whatever it was, the next turn looks anew
                log.exception("a turn failed")
                self._view = replace(self._view, troubles=(f"a turn failed: {error!r}",))
            with suppress(OSError):
                self.tell(self._view)
            time.sleep(REST_S)
            self._wake.wait(max(0.0, looked_at + LOOK_S - time.monotonic()))

    def turn(self, *, look: bool = True) -> None:
        """Look at everything if it is time to, then take a step towards what is wished; what fails is said."""
        wish = self._wish
        if look:
            with self._trying("look"):
                self._look()
        if wish is not None:
            with self._trying("publish what is held"):
                self._publish(wish)
            for change in wish.changes:
                with self._trying(f"{_OTHER_POOL} {change.machine}"):
                    self._repool(change)
            for pod in wish.leavers:
                with self._trying(f"{_FEWER} {pod}"):
                    self._let_go(pod)
            with self._trying("ask for nodes"):
                self._ask(wish.asks)
        if look:
            with self._trying("tidy up"):
                self._tidy()
        self._show()

    @contextmanager
    def _trying(self, what: str) -> Iterator[None]:
        try:
            yield
        except FleetError as error:
            if self._troubles.get(what) != error.sentence():
                log.warning("%s: %s", what, error.sentence())
            self._troubles[what] = error.sentence()
        else:
            self._troubles.pop(what, None)

    def _show(self) -> None:
        wish = self._wish
        current = {f"{_OTHER_POOL} {change.machine}" for change in (wish.changes if wish else ())}
        current |= {f"{_FEWER} {pod}" for pod in (wish.leavers if wish else ())}
        for what in [what for what in self._troubles if what.startswith((_OTHER_POOL, _FEWER)) and what not in current]:
            del self._troubles[what]
        held = self._held or Held()
        self._view = replace(
            self._view,
            held_pods=held.of(names.HELD_POD),
            held_machines=held.of(names.HELD_NODE),
            asked=self._asked[1] if self._asked else (),
            troubles=tuple(f"{what}: {why}" for what, why in sorted(self._troubles.items())),
        )

    # Looking.

    def _look(self) -> None:
        at = self._clock.now()
        cluster, pods = self._see()
        nodes = self._kube.ask(self._kube.core.list_node, label_selector=names.CLASS_LABEL).get("items") or []
        labelled = {node["metadata"]["name"] for node in nodes}
        others = sorted({pod.view.machine for pod in pods} - labelled - {""})
        nodes += [node for name in others[:MOST_SINGLE] if (node := self._machine(name)) is not None]
        self._held = self._read_held()
        doomed = {name for group in cluster.groups for name in group.doomed}
        self._view = replace(
            self._view,
            at=at,
            pods=tuple(replace(pod.view, doomed=pod.view.name in doomed) for pod in pods if not pod.over),
            machines=kube_nodes.machines(nodes),
            pools=tuple(group.view for group in cluster.groups),
        )

    def _ray_cluster(self) -> RayCluster:
        found = self._kube.ask(
            self._kube.custom.get_namespaced_custom_object, *RAY, self._namespace, "rayclusters", self._cluster
        )
        return kube_nodes.ray_cluster(found)

    def _see(self) -> tuple[RayCluster, list[Pod]]:
        """Return the RayCluster, and its pods no earlier than that. Raises ConflictError when they are of an older day.

        The operator changes the RayCluster's status when it has replaced a pod, so what a patch of that version rests
        on holds of the pods too.
        """
        cluster = self._ray_cluster()
        ours = f"{kube_nodes.CLUSTER_LABEL}={self._cluster},{kube_nodes.TYPE_LABEL}=worker"
        found = self._kube.ask(self._kube.core.list_namespaced_pod, self._namespace, label_selector=ours)
        if not kube_nodes.as_new(found, cluster):
            raise ConflictError(
                "the list of pods is older than the RayCluster", where="Kubernetes", fix="It is tried again"
            )
        return cluster, kube_nodes.worker_pods(found)

    def _machine(self, name: str) -> Mapping[str, object] | None:
        try:
            return self._kube.ask(self._kube.core.read_node, name)
        except NotFoundError:
            return None

    def _read_held(self) -> Held | None:
        """Return what is published as held; None when there is no such object."""
        name = names.held_map(self._cluster)
        try:
            return kube_nodes.held(self._kube.ask(self._kube.core.read_namespaced_config_map, name, self._namespace))
        except NotFoundError:
            return None

    # Who holds what.

    def _publish(self, wish: PoolsWish) -> None:
        """Let everybody know what is held; a version that somebody else made meanwhile is read in the next look."""
        entries = {names.held_pod(pod): whose for pod, whose in wish.held_pods.items()}
        entries |= {names.held_node(machine): whose for machine, whose in wish.held_machines.items()}
        odd = sorted(key for key in entries if not names.is_key(key))
        if self._held is None:
            self._held = self._make_held(entries)
        patch = kube_nodes.holding(self._held, {key: whose for key, whose in entries.items() if key not in odd})
        if patch is not None:
            self._held = self._patch_held(patch)
        if odd:
            raise FaultError(f"has too long a name to be named there: {odd[0]}", where=names.held_map(self._cluster))

    def _patch_held(self, patch: Mapping[str, object]) -> Held:
        name = names.held_map(self._cluster)
        call = self._kube.core.patch_namespaced_config_map
        try:
            answer = self._kube.ask(call, name, self._namespace, body=patch, _content_type=MERGE_PATCH)
        except (ConflictError, NotFoundError):
            self._held = self._read_held()
            raise
        return kube_nodes.held(answer)

    def _make_held(self, entries: Mapping[str, str]) -> Held:
        """Make the object, unless it is there by now."""
        found = self._read_held()
        if found is not None:
            return found
        sound = {key: whose for key, whose in entries.items() if names.is_key(key)}
        body = kube_nodes.new_map(self._cluster, self._ray_cluster(), sound)
        return kube_nodes.held(self._kube.ask(self._kube.core.create_namespaced_config_map, self._namespace, body=body))

    # Machines that change pools.

    def _repool(self, wish: PoolChange) -> None:
        """Take one step: the machine's class first, so that no pod of its old pool can come back to it."""
        self._held = self._read_held()
        held = self._held or Held()
        if wish.pod in held.of(names.HELD_POD) or wish.machine in held.of(names.HELD_NODE):
            raise ConflictError("the held list still names it", where=wish.machine, fix="It is tried again")
        cluster, pods = self._see()
        leaves = cluster.group(wish.pool)
        joins = None if leaves is None else cluster.counterpart(leaves, wish.to)
        if leaves is None or joins is None:
            fix = "Give it one that is the same but for its class"
            raise FaultError(f"the pool {wish.pool} has no counterpart for {wish.to}", where=wish.machine, fix=fix)
        there = [pod for pod in pods if pod.view.machine == wish.machine and not pod.over]
        if any(pod.view.pool != joins.view.name and pod.view.name != wish.pod for pod in there):
            raise ConflictError("another pod of the fleet is on it", where=wish.machine, fix="It is tried again")
        patch = _step(cluster, pods, (leaves, joins), there)
        self._relabel(wish)
        self._change(patch)

    def _let_go(self, name: str) -> None:
        """Name a pod to the operator as its pool gets smaller by one, if it is not held and there is one too many (N5).

        It is doomed from here on: whoever looks before the next look sees that.
        """
        self._held = self._read_held()
        if name in (self._held or Held()).of(names.HELD_POD):
            raise ConflictError("the held list names it", where=name, fix="It is tried again")
        cluster, pods = self._see()
        pod = next((pod for pod in pods if pod.view.name == name and not pod.over), None)
        group = None if pod is None else cluster.group(pod.view.pool)
        if pod is None or group is None or name in group.doomed or pod.view.ends_at is not None:
            return
        if over(PoolsView(pools=tuple(each.view for each in cluster.groups)), group.view):
            ours = {one.view.name for one in pods if one.view.pool == group.view.name}
            _check_leaves(group, len(ours - set(group.doomed)))  # the operator does not count who is named to it
            self._change(kube_nodes.shrunk(cluster, group, name))
            doomed = (replace(each, doomed=each.doomed or each.name == name) for each in self._view.pods)
            self._view = replace(self._view, pods=tuple(doomed))

    def _change(self, patch: kube_nodes.Patch) -> None:
        """Change the RayCluster, if there is something to change."""
        if patch:
            call = self._kube.custom.patch_namespaced_custom_object
            where = (*RAY, self._namespace, "rayclusters", self._cluster)
            self._kube.ask(call, *where, body=patch, field_manager=names.FIELD_MANAGER, _content_type=JSON_PATCH)

    def _relabel(self, wish: PoolChange) -> None:
        patch = kube_nodes.relabelled(self._kube.ask(self._kube.core.read_node, wish.machine), wish.to)
        if patch is not None:
            self._kube.ask(self._kube.core.patch_node, wish.machine, body=patch, _content_type=MERGE_PATCH)

    def _tidy(self) -> None:
        """Take back the names of pods that have been gone for a while; a list that fails says nothing of any pod.

        And, when there is no name to be taken back, make the nodes that the chart came to want, or else give up what we
        own of the RayCluster.
        """
        cluster, pods = self._ray_cluster(), list[Pod]()
        if any(group.doomed for group in cluster.groups):  # else no pod's name matters, and there are thousands
            cluster, pods = self._see()
        doomed = {name for group in cluster.groups for name in group.doomed}
        there, now = {pod.view.name for pod in pods}, self._clock.now()
        self._missing = {name: self._missing.get(name, now) for name in sorted(doomed - there)}
        gone = frozenset(name for name, since in self._missing.items() if now - since >= GONE_S)
        self._change(kube_nodes.tidied(cluster, gone) or kube_nodes.grown(cluster) or kube_nodes.disowned(cluster))

    # Nodes on demand.

    def _ask(self, asks: tuple[NodesAsk, ...] | None) -> None:
        """Ask whenever that changes, and now and then, so that who makes nodes knows after a restart too."""
        if asks is None and self._asked is None:
            return
        now, wanted = self._clock.now(), asks or ()
        at, before = self._asked or (float("-inf"), ())
        if now - at >= ASK_AGAIN_S or _numbers(before) != _numbers(wanted):
            self.ask_nodes(wanted)
            at = now
        self._asked = (at, wanted)


def _numbers(asks: tuple[NodesAsk, ...]) -> list[tuple[str, int, int]]:
    return [(ask.node_class, ask.gpus, ask.nodes) for ask in asks]


def _step(cluster: RayCluster, pods: list[Pod], pools: tuple[Group, Group], there: list[Pod]) -> kube_nodes.Patch:
    """Return the change of the groups for a machine that goes from one to the other; empty when none is to be made now.

    The pod that is there is named as its group gets smaller by one. Where there is none, it went before it could be
    named: then the new group gets its node, and of the old one goes the pod that now waits for a machine in vain.
    """
    leaves, joins = pools
    left, joined = ([pod for pod in pods if pod.view.pool == group.view.name] for group in pools)
    here = next((pod.view for pod in there if pod in left), None)
    if here is not None:
        if here.name in leaves.doomed or here.ends_at is not None:
            return []
        _check(leaves, joins, len(left))
        return kube_nodes.repooled(cluster, leaves, joins, here.name)
    on_its_way = len(joined) != joins.view.nodes or any(not pod.view.machine for pod in joined)
    if there or on_its_way:
        return []
    if joins.view.nodes >= joins.view.most:
        raise _full(joins)
    idle = [pod.view.name for pod in left if not pod.view.machine and pod.view.name not in leaves.doomed]
    if idle and leaves.view.least < leaves.view.nodes and len(left) <= leaves.view.nodes:
        return kube_nodes.repooled(cluster, leaves, joins, idle[0])
    return kube_nodes.repooled(cluster, None, joins, "")


def _check(leaves: Group, joins: Group, pods: int) -> None:
    """Raise unless the operator will delete the pod that is named, and no other, and make the new one."""
    _check_leaves(leaves, pods)
    if joins.view.nodes >= joins.view.most:
        raise _full(joins)


def _check_leaves(leaves: Group, pods: int) -> None:
    """Raise unless the operator will delete the pod that is named, and no other."""
    if leaves.hosts > 1:
        raise FaultError("its nodes have several hosts each", where=f"pool {leaves.view.name}", fix="Leave it as it is")
    if leaves.view.nodes <= leaves.view.least:
        raise FaultError(
            f"has its {leaves.view.least} least", where=f"pool {leaves.view.name}", fix="Lower minReplicas"
        )
    if pods > leaves.view.nodes:
        # The operator deletes any pod that is too many, not only those that are named.
        raise ConflictError(
            f"has {pods} pods, and is to have {leaves.view.nodes}", where=f"pool {leaves.view.name}", fix="It settles"
        )


def _full(group: Group) -> FaultError:
    return FaultError(f"has its {group.view.most} most", where=f"pool {group.view.name}", fix="Raise maxReplicas")
