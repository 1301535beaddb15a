"""Reads the objects of a Kubernetes cluster, for whoever looks at all of them: only GETs, by the page.

Knows sorts of objects by group and resource. Does not know what anybody wants them for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_app.adapters.kube_client import Kube
from fleet_app.engine.errors import ConflictError, FaultError, NotFoundError, RequestError

PAGE = 500
ANSWER_S = 30.0
"""How long a page may take."""

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


class KubeObjects:
    """A cluster that can be read."""

    def __init__(self, kube: Kube) -> None:
        """Read this one."""
        self._kube = kube

    @classmethod
    def of_file(cls, kubeconfig: Path | None, context: str | None) -> KubeObjects:
        """Return the cluster that kubectl would take. Raises RequestError when nothing says which."""
        return cls(Kube.of_file(kubeconfig, context, ANSWER_S))

    @property
    def host(self) -> str:
        """Return the address of the API server."""
        return self._kube.host

    def list(self, sort: Sort) -> list[dict[str, Any]]:
        """Return every object of a sort, in all namespaces; none where the cluster does not know the sort.

        Raises RequestError where they may not be read, FaultError where the API server does not answer.
        """
        for _ in range(_TRIES):
            try:
                return list(self._all(sort))
            except NotFoundError:
                return []
            except ConflictError:  # it has forgotten where the list was to go on
                continue
            except RequestError as error:
                fix = "Use an account that may list it in all namespaces"
                raise RequestError(f"may not be read: {error.what}", where=sort.resource, fix=fix) from error
        raise FaultError("its list expired again and again", where=sort.resource, fix="Try again when less is going on")

    def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a ConfigMap; None where there is none, or it may not be read. Raises FaultError."""
        try:
            found = self._kube.ask(self._kube.core.read_namespaced_config_map, name, namespace)
        except RequestError:
            return None
        return {**found, "apiVersion": "v1", "kind": "ConfigMap"}

    def _all(self, sort: Sort) -> Iterator[dict[str, Any]]:
        call, names = self._call(sort)
        options: dict[str, str] = {}
        while True:
            page = self._kube.ask(call, *names, limit=PAGE, **options)
            for each in page["items"]:
                yield {**each, "apiVersion": sort.api_version, "kind": sort.kind}
            rest = (page.get("metadata") or {}).get("continue")
            if not rest:
                return
            options = {"_continue": rest}

    def _call(self, sort: Sort) -> tuple[Callable[..., Any], tuple[str, ...]]:
        match sort:
            case Sort(group="", resource="pods"):
                return self._kube.core.list_pod_for_all_namespaces, ()
            case Sort(group="", resource="nodes"):
                return self._kube.core.list_node, ()
            case _:
                return self._kube.custom.list_cluster_custom_object, (sort.group, sort.version, sort.resource)
