"""Which pods take Serve's requests: those whose proxy is healthy have a label, and the Service selects it.

Serve has a proxy only where it has a replica, so a Service for all of the serving class would send requests to where
nobody listens; and a pod without a replica is not unready, or the cluster would never be. While nobody tends the
labels, as when the head is away, they stay: a pod that dies leaves the Service by itself. Knows addresses and labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import kubernetes
import urllib3

from fleet_app.adapters import serve_rest
from fleet_app.engine.errors import FaultError
from fleet_app.render import names

CALL_S = 10.0
LOOK_EVERY = 10


class PodLabels:
    """The pods of one cluster, by the Kubernetes API."""

    def __init__(self, api: Any, cluster: str, namespace: str) -> None:
        """Speak through this CoreV1Api."""
        self._api = api
        self._cluster = cluster
        self._namespace = namespace

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> PodLabels | None:
        """Return the pods of the cluster that the environment names; None outside of Kubernetes."""
        cluster, namespace = environment.get(names.CLUSTER_VARIABLE), environment.get(names.NAMESPACE_VARIABLE)
        if not cluster or not namespace:
            return None
        kubernetes.config.load_incluster_config()
        return cls(kubernetes.client.CoreV1Api(), cluster, namespace)

    def look(self) -> dict[str, tuple[str, bool]]:
        """Return address, and whether it has the label, of each running pod by name. Raises FaultError."""
        selector = f"ray.io/cluster={self._cluster}"
        try:
            found = self._api.list_namespaced_pod(self._namespace, label_selector=selector, _request_timeout=CALL_S)
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError) as error:
            raise FaultError(f"Kubernetes does not answer ({error})", where="pods") from error
        return {
            pod.metadata.name: (pod.status.pod_ip, names.PROXY_LABEL in (pod.metadata.labels or {}))
            for pod in found.items
            if pod.status.pod_ip and pod.metadata.deletion_timestamp is None
        }

    def label(self, pod: str, *, on: bool) -> None:
        """Give a pod the label or take it away; nothing happens when the pod is gone. Raises FaultError."""
        body = {"metadata": {"labels": {names.PROXY_LABEL: "true" if on else None}}}
        try:
            self._api.patch_namespaced_pod(pod, self._namespace, body, _request_timeout=CALL_S)
        except kubernetes.client.ApiException as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise FaultError(f"Kubernetes refuses ({error.reason})", where=pod) from error
        except urllib3.exceptions.HTTPError as error:
            raise FaultError(f"Kubernetes does not answer ({error})", where=pod) from error


class LabelProxies:
    """A pod has the label when its proxy takes requests, and only then."""

    name = "proxies"

    def __init__(self, ray: httpx.Client, pods: PodLabels) -> None:
        """Ask Serve through Ray's dashboard."""
        self._ray = ray
        self._pods = pods
        self._labelled: frozenset[str] | None = None
        self._looks = 0

    def tend(self) -> None:
        """Put the labels right. Raises FaultError, and changes nothing, when Serve or Kubernetes does not answer.

        Kubernetes is asked when the proxies are others than before, and now and then besides: pods come and go.
        """
        healthy = serve_rest.healthy_proxies(serve_rest.details(self._ray))
        self._looks += 1
        if healthy == self._labelled and self._looks % LOOK_EVERY:
            return
        self._labelled = None
        for pod, (address, has) in sorted(self._pods.look().items()):
            if (address in healthy) != has:
                self._pods.label(pod, on=not has)
        self._labelled = healthy
