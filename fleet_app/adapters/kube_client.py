"""Kubernetes' API as the fleet calls it: every call has a time limit, and every failure leaves here as one of ours.

Answers are JSON as the server sent it, so that nothing that this client does not know is lost on the way. That
something is not there is said only by a server that says so: a time-out or a failing server is a FaultError, never a
NotFoundError. Does not know what is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration, CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from fleet_app.engine.errors import ConflictError, FaultError, FleetError, NotFoundError, RequestError
from fleet_app.render import names

CONNECT_S = 2.0
ANSWER_S = 5.0
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

_LONGEST_MESSAGE = 600
_CHANGED_MEANWHILE = {409, 410, 422}
"""Somebody was faster; or a list has changed too much to be gone on with; or what a JSON patch tests before it changes
anything does not hold, which is the same."""

IN_A_POD = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets it in every container."""


class Kube:
    """The API server that a configuration names."""

    def __init__(self, configuration: Configuration, answer_s: float = ANSWER_S) -> None:
        """Connect to nobody yet; an answer that does not come within `answer_s` seconds is none."""
        self._timeout = (CONNECT_S, answer_s)
        configuration.retries = False  # a cycle later is soon enough, and says so meanwhile
        self._api = ApiClient(configuration)
        self.core = CoreV1Api(self._api)
        self.custom = CustomObjectsApi(self._api)

    @classmethod
    def of_pod(cls, answer_s: float = ANSWER_S) -> Kube:
        """Return the one of the cluster that this pod runs in, as its service account. Raises FaultError."""
        configuration = Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except ConfigException as error:
            raise FaultError(f"this is no pod with a service account: {error}", where="Kubernetes") from error
        return cls(configuration, answer_s)

    @classmethod
    def of_file(cls, kubeconfig: Path | None = None, context: str | None = None, answer_s: float = ANSWER_S) -> Kube:
        """Return the one that a kubeconfig names; without one, the one that kubectl would take: in a pod, the pod's.

        Raises RequestError when nothing says which.
        """
        configuration = Configuration()
        file = None if kubeconfig is None else str(kubeconfig)
        try:
            config.load_kube_config(config_file=file, context=context, client_configuration=configuration)
        except (ConfigException, OSError, TypeError, ValueError) as error:
            if kubeconfig is None and context is None and os.environ.get(IN_A_POD):
                return cls.of_pod(answer_s)
            where = file or "kubeconfig"
            said = str(error).rstrip(".")
            raise RequestError(f"no cluster is known: {said}", where=where, fix="Give --kubeconfig FILE") from error
        return cls(configuration, answer_s)

    @property
    def host(self) -> str:
        """Return the address of the API server."""
        return str(self._api.configuration.host)

    def ask(self, call: Callable[..., Any], *arguments: str, **options: Any) -> dict[str, Any]:
        """Return the answer to one of the client's calls.

        Raises NotFoundError when the server says that there is no such thing, ConflictError when it changed meanwhile,
        RequestError when we may not, and FaultError for everything else.
        """
        what = getattr(call, "__name__", "call").replace("_", " ")
        where = f"Kubernetes, {what}"
        try:
            answer = call(*arguments, _preload_content=False, _request_timeout=self._timeout, **options)
            found = json.loads(answer.data)
        except ApiException as error:
            raise _refused(error, where) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise FaultError(f"no answer: {error}"[:_LONGEST_MESSAGE], where=where) from error
        if not isinstance(found, dict):
            raise FaultError("the answer is no object", where=where)
        return found

    def close(self) -> None:
        """Close the connections."""
        self._api.close()


def of_environment(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return the name and namespace of the RayCluster that this process is part of; None outside of one."""
    cluster, namespace = environment.get(names.CLUSTER_VARIABLE), environment.get(names.NAMESPACE_VARIABLE)
    return (cluster, namespace) if cluster and namespace else None


def _refused(error: ApiException, where: str) -> FleetError:
    said = _message(error)
    if error.status == 404:
        return NotFoundError(said, where=where)
    if error.status in _CHANGED_MEANWHILE:
        return ConflictError(said, where=where, fix="It is tried again")
    if error.status in {400, 401, 403}:
        return RequestError(said, where=where, fix="See the role of the arbiter's service account")
    return FaultError(said, where=where)


def _message(error: ApiException) -> str:
    try:
        said = json.loads(error.body or "")["message"]
    except (TypeError, ValueError, KeyError):
        said = error.reason or "no reason given"
    return f"{error.status}: {said}"[:_LONGEST_MESSAGE]
