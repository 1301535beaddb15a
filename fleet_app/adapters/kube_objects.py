"""Reads the objects of a Kubernetes cluster through the official client: only GETs, by the page, with a time-out each.

Knows sorts of objects by group and resource. Does not know what anybody wants them for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from fleet_app.engine.errors import FaultError, RequestError

PAGE = 500
TIMEOUT_S = 30.0

IN_A_POD = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets it in every container."""

_UNKNOWN, _EXPIRED = 404, 410
_NOT_ALLOWED = frozenset({401, 403})
_TRIES = 3
"""How often a list is begun anew whose next page has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """A sort of objects: API group (empty for the core's), version, resource and kind."""

    group: str
    version: str
    resource: str
    kind: str

    @property
    def api_version(self) -> str:
        """Return what its objects say of themselves."""
        return f"{self.group}/{self.version}" if self.group else self.version


class _ExpiredError(Exception):
    """The API server has forgotten where a list was to go on."""


class KubeObjects:
    """A cluster that can be read."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        """Read how the cluster is reached: from a file, from the usual places, or, in a pod, from its service account.

        Raises RequestError when nothing says how.
        """
        try:
            _reach(kubeconfig, context)
        except (ConfigException, OSError, TypeError, ValueError) as error:
            where = str(kubeconfig or "kubeconfig")
            raise RequestError(f"no cluster is known: {error}", where=where, fix="Give --kubeconfig FILE") from error
        self._client = client.ApiClient()
        self._core = client.CoreV1Api(self._client)
        self._others = client.CustomObjectsApi(self._client)

    @property
    def host(self) -> str:
        """Return the address of the API server."""
        return str(self._client.configuration.host)

    def list(self, sort: Sort) -> list[dict[str, Any]]:
        """Return every object of a sort, in all namespaces; none where the cluster does not know the sort.

        Raises RequestError where they may not be read, FaultError where the API server does not answer.
        """
        for _ in range(_TRIES):
            try:
                return list(self._all(sort))
            except _ExpiredError:
                continue
        raise FaultError("its list expired again and again", where=sort.resource, fix="Try again when less is going on")

    def _all(self, sort: Sort) -> Iterator[dict[str, Any]]:
        page = self._page(sort, None)
        while page is not None:
            for each in page["items"]:
                yield {**each, "apiVersion": sort.api_version, "kind": sort.kind}
            rest = page.get("metadata", {}).get("continue")
            page = self._page(sort, rest) if rest else None

    def _page(self, sort: Sort, rest: str | None) -> dict[str, Any] | None:
        query = {"limit": PAGE, "_request_timeout": TIMEOUT_S, "_preload_content": False}
        try:
            return cast("dict[str, Any]", json.loads(self._get(sort, query | ({"_continue": rest} if rest else {}))))
        except ApiException as error:
            if error.status == _UNKNOWN:
                return None
            if error.status == _EXPIRED:
                raise _ExpiredError from error
            if error.status in _NOT_ALLOWED:
                fix = "Use an account that may list it in all namespaces"
                raise RequestError("may not be read", where=sort.resource, fix=fix) from error
            raise FaultError(f"the API server says {error.status} {error.reason}", where=sort.resource) from error
        except (HTTPError, OSError, ValueError) as error:
            raise FaultError(f"the API server does not answer: {error}", where=self.host) from error

    def _get(self, sort: Sort, query: dict[str, Any]) -> bytes:
        """Return a page as the API server writes it: typed objects would lose what the client does not know."""
        found: Any
        match sort:
            case Sort(group="", resource="pods"):
                found = self._core.list_pod_for_all_namespaces(**query)
            case Sort(group="", resource="nodes"):
                found = self._core.list_node(**query)
            case _:
                found = self._others.list_cluster_custom_object(sort.group, sort.version, sort.resource, **query)
        return cast("bytes", found.data)


def _reach(kubeconfig: Path | None, context: str | None) -> None:
    try:
        config.load_kube_config(str(kubeconfig) if kubeconfig else None, context)
    except ConfigException:
        if kubeconfig is not None or context is not None or not os.environ.get(IN_A_POD):
            raise
        config.load_incluster_config()
