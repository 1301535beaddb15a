"""Which pods take Serve's requests: those whose proxy is healthy have a label, and the Service selects it.

Serve has a proxy only where it has a replica, so a Service for all of the serving class would send requests to where
nobody listens; and a pod without a replica is not unready, or the cluster would never be. While nobody tends the
labels, as when the head is away, they stay: a pod that dies leaves the Service by itself. So they do while Serve's
controller is coming back and has not found its proxies again, which go on meanwhile. Knows addresses and labels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import httpx

from fleet_app.adapters import serve_rest
from fleet_app.adapters.kube_client import MERGE_PATCH, Kube, of_environment
from fleet_app.adapters.kube_nodes import CLUSTER_LABEL
from fleet_app.engine.errors import NotFoundError
from fleet_app.render import names

LOOK_EVERY = 10
MISSED_LOOKS = 15
"""How often in a row Serve must not name a proxy before its pod takes no more requests. One that ends drains first, and
that is believed at once; one that just is not there may not have been found again yet."""

HEALTHY = "HEALTHY"


class PodLabels:
    """The pods of one cluster, by the Kubernetes API."""

    def __init__(self, connect: Callable[[], Kube], cluster: str, namespace: str) -> None:
        """Ask nobody yet; `connect` says where the API server is, and is asked again until it does."""
        self._connect = connect
        self._connected: Kube | None = None
        self._cluster = cluster
        self._namespace = namespace

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> PodLabels | None:
        """Return the pods of the cluster that the environment names; None outside of Kubernetes."""
        found = of_environment(environment)
        return None if found is None else cls(Kube.of_pod, *found)

    @property
    def _kube(self) -> Kube:
        if self._connected is None:
            self._connected = self._connect()
        return self._connected

    def look(self) -> dict[str, tuple[str, bool]]:
        """Return address, and whether it has the label, of each pod that has one, by name. Raises FleetError."""
        ours = f"{CLUSTER_LABEL}={self._cluster}"
        found = self._kube.ask(self._kube.core.list_namespaced_pod, self._namespace, label_selector=ours)
        return {
            pod["metadata"]["name"]: (address, names.PROXY_LABEL in (pod["metadata"].get("labels") or {}))
            for pod in found.get("items") or []
            if (address := (pod.get("status") or {}).get("podIP"))
        }

    def label(self, pod: str, *, on: bool) -> None:
        """Give a pod the label or take it away; nothing happens when the pod is gone. Raises FleetError."""
        body = {"metadata": {"labels": {names.PROXY_LABEL: "true" if on else None}}}
        call = self._kube.core.patch_namespaced_pod
        with contextlib.suppress(NotFoundError):
            self._kube.ask(call, pod, self._namespace, body=body, _content_type=MERGE_PATCH)


class LabelProxies:
    """A pod has the label when its proxy takes requests, and only then."""

    name = "proxies"

    def __init__(self, ray: httpx.Client, pods: PodLabels) -> None:
        """Ask Serve through Ray's dashboard."""
        self._ray = ray
        self._pods = pods
        self._seen: dict[str, str] | None = None
        self._looks = 0
        self._missed: dict[str, int] = {}

    def tend(self) -> None:
        """Put the labels right. Raises FaultError, and changes nothing, when Serve or Kubernetes does not answer.

        Kubernetes is asked when the proxies are others than before, and now and then besides: pods come and go.
        """
        seen = serve_rest.proxies(serve_rest.details(self._ray))
        self._looks += 1
        if seen == self._seen and not self._missed and self._looks % LOOK_EVERY:
            return
        self._seen = None
        missed: dict[str, int] = {}
        for pod, (address, has) in sorted(self._pods.look().items()):
            if has and address not in seen:
                missed[pod] = self._missed.get(pod, 0) + 1
            wanted = self._wanted(seen.get(address), has=has, missed=missed.get(pod, 0))
            if wanted != has:
                self._pods.label(pod, on=wanted)
                missed.pop(pod, None)
        self._seen, self._missed = seen, missed

    @staticmethod
    def _wanted(status: str | None, *, has: bool, missed: int) -> bool:
        """Return whether a pod is to have the label, from what Serve says of its proxy."""
        match status:
            case None:
                return has and missed < MISSED_LOOKS
            case "STARTING":  # a new one has no label yet; one that had it is being found again
                return has
            case _:
                return status == HEALTHY
