"""An API server of Kubernetes in miniature, and KubeRay's operator, on loopback: for tests of what calls them.

Knows the few requests that the fleet makes, optimistic concurrency, and the ways in which a server fails. The operator
does what KubeRay v1.5 does with worker groups, the deletion of just any pod that is too many included.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubernetes.client import Configuration

Json = dict[str, Any]

CLUSTER, NAMESPACE = "prod", "fleet"
VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Call:
    """A request: what was asked of which resource, of one thing or of all of them."""

    verb: str
    group: str
    resource: str
    name: str
    namespace: str


@dataclass(slots=True)
class FakeKube:
    """Objects by resource and name. `faults` are what the next requests meet, one each, "" for nothing."""

    objects: dict[str, dict[str, Json]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)
    """Every pod that was ever named to the operator."""
    deleted: list[str] = field(default_factory=list)
    late_s: float = 0.0
    between: Callable[[], None] | None = None
    """What happens before the next change that is asked for, once."""
    version: int = 100
    _made: int = 0
    _stale: dict[str, Json] = field(default_factory=dict)

    # What there is.

    def put(self, resource: str, item: Json) -> Json:
        """Keep an object, as a new version."""
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects.setdefault(resource, {})[item["metadata"]["name"]] = item
        return item

    def add_node(self, name: str, node_class: str = "training", **labels: str) -> None:
        """Add a Kubernetes node of the fleet."""
        metadata = {"name": name, "labels": {"fleet/class": node_class, **labels}}
        taint = {"key": "fleet/class", "value": node_class, "effect": "NoSchedule"}
        other = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
        self.put("nodes", {"metadata": metadata, "spec": {"taints": [other, taint]}})

    def add_cluster(self, *groups: Json) -> None:
        """Add the RayCluster, of a newer kind than we know."""
        spec = {"workerGroupSpecs": list(groups), "upgradeStrategy": {"type": "None"}}
        self.put("rayclusters", {"metadata": {"name": CLUSTER, "uid": "u-1"}, "spec": spec})

    def groups(self) -> dict[str, Json]:
        """Return the worker groups by name."""
        return {group["groupName"]: group for group in self.objects["rayclusters"][CLUSTER]["spec"]["workerGroupSpecs"]}

    def pods(self, group: str) -> list[Json]:
        """Return the pods of a worker group, the oldest first."""
        pods = self.objects.get("pods", {}).values()
        return [pod for pod in pods if pod["metadata"]["labels"]["ray.io/group"] == group]

    def held(self) -> dict[str, str]:
        """Return what is published as held."""
        return dict(self.objects.get("configmaps", {}).get(f"{CLUSTER}-held", {}).get("data") or {})

    def cordon(self, node: str, *, cordoned: bool = True) -> None:
        """Close a node to new pods, or open it."""
        self.objects["nodes"][node]["spec"]["unschedulable"] = cordoned
        self.put("nodes", self.objects["nodes"][node])

    def remove_pod(self, name: str) -> None:
        """Let a pod be gone."""
        self.deleted.append(name)
        del self.objects["pods"][name]

    # The operator and the scheduler.

    def operate(self) -> None:
        """Let the operator see to every worker group once, and the scheduler to every pod."""
        before = sorted(self.objects.get("pods", {}))
        for group in self.groups().values():
            named = (group.get("scaleStrategy") or {}).get("workersToDelete") or []
            for name in named:
                if name in self.objects.get("pods", {}):
                    self.remove_pod(name)
            lacking = min(max(group["replicas"], group["minReplicas"]), group["maxReplicas"]) - len(
                self.pods(group["groupName"])
            )
            for pod in self.pods(group["groupName"])[: max(0, -lacking)]:  # just any, as KubeRay does
                self.remove_pod(pod["metadata"]["name"])
            for _ in range(lacking):
                self._make_pod(group)
        self._schedule()
        if sorted(self.objects.get("pods", {})) != before:
            self.put("rayclusters", self.objects["rayclusters"][CLUSTER])  # its status says how many are ready

    def _make_pod(self, group: Json) -> None:
        self._made += 1
        name = f"{CLUSTER}-{group['groupName']}-worker-{self._made:05d}"
        labels = {"ray.io/cluster": CLUSTER, "ray.io/node-type": "worker", "ray.io/group": group["groupName"]}
        self.put("pods", {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"phase": "Pending"}})

    def _schedule(self) -> None:
        for group in self.groups().values():
            for pod in self.pods(group["groupName"]):
                taken = {other["spec"].get("nodeName") for other in self.objects["pods"].values()}
                able = [
                    name
                    for name, node in sorted(self.objects["nodes"].items())
                    if name not in taken
                    and node["metadata"]["labels"].get("fleet/class") == group["labels"]["fleet/class"]
                    and not node["spec"].get("unschedulable")
                ]
                if not pod["spec"].get("nodeName") and able:
                    pod["spec"]["nodeName"] = able[0]
                    pod["status"] = {"phase": "Running", "podIP": f"10.0.0.{self._made}"}
                    self.put("pods", pod)

    # Requests.

    def answer(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, Json]:
        """Return status and body for a request."""
        url = urlsplit(path)
        resource, name, call = _parsed(method, url.path)
        self.calls.append(call)
        if method != "GET" and self.between is not None:
            happens, self.between = self.between, None
            happens()
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "hang":
            time.sleep(self.late_s)
            raise ConnectionError
        if fault == "cut":
            raise ConnectionError
        if fault.isdigit():
            return int(fault), {"kind": "Status", "message": "injected"}
        status, found = self._do(method, resource, name, (body, content_type))
        query = parse_qs(url.query)
        if status == 200 and isinstance(body, list) and any(one["path"].startswith("/spec/") for one in body):
            self._own(self.objects[resource][name], query.get("fieldManager", ["unknown"])[0])
        if fault == "lost":  # it was done, and nobody hears of it
            raise ConnectionError
        if method == "GET" and not name:
            found = self._filtered(found, query)
            if fault == "stale" and url.path in self._stale:
                return 200, self._stale[url.path]
            self._stale[url.path] = copy.deepcopy(found)
            found = _paged(found, query)
        return status, found

    @staticmethod
    def _own(item: Json, manager: str) -> None:
        """Note who changed the list of groups, which is one field: the next one that applies it meets a conflict."""
        entries = item["metadata"].setdefault("managedFields", [{"manager": "helm", "operation": "Apply"}])
        if not any(entry["manager"] == manager for entry in entries):
            entries.append(
                {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:workerGroupSpecs": {}}}}
            )

    def _do(self, method: str, resource: str, name: str, sent: tuple[Any, str]) -> tuple[int, Json]:
        known = self.objects.setdefault(resource, {})
        body, content_type = sent
        if method == "GET" and not name:
            return 200, {"metadata": {"resourceVersion": str(self.version)}, "items": list(known.values())}
        if method == "POST":
            if body["metadata"]["name"] in known:
                return 409, {"message": "AlreadyExists"}
            return 201, self.put(resource, body)
        if name not in known:
            return 404, {"message": f"{resource} {name} not found"}
        if method == "GET":
            return 200, known[name]
        return self._patch(resource, name, body, content_type)

    def _patch(self, resource: str, name: str, body: Any, content_type: str) -> tuple[int, Json]:
        item = copy.deepcopy(self.objects[resource][name])
        if "json-patch" in content_type:
            if not _apply(item, body):
                return 422, {"message": "the server rejected our request due to an error in our request"}
        else:
            expected = body.get("metadata", {}).get("resourceVersion")
            if expected not in {None, item["metadata"]["resourceVersion"]}:
                return 409, {"message": "the object has been modified"}
            _merge(item, body)
        for group in item.get("spec", {}).get("workerGroupSpecs", ()):
            self.doomed += (group.get("scaleStrategy") or {}).get("workersToDelete") or ()
        return 200, self.put(resource, item)

    def _filtered(self, found: Json, query: dict[str, list[str]]) -> Json:
        wanted = [part.split("=") for part in query.get("labelSelector", [""])[0].split(",") if part]

        def chosen(item: Json) -> bool:
            labels = item["metadata"].get("labels", {})
            return all(labels.get(part[0]) == part[1] if len(part) == 2 else part[0] in labels for part in wanted)

        return {**found, "items": [item for item in found["items"] if chosen(item)]}


def group(name: str, node_class: str, replicas: int, *, least: int = 0, most: int = 9, **labels: str) -> Json:
    """Return a worker group of a newer kind than we know."""
    return {
        "groupName": name,
        "replicas": replicas,
        "minReplicas": least,
        "maxReplicas": most,
        "labels": {"fleet/class": node_class, "fleet/leaf": "l1", **labels},
        "template": {"spec": {"containers": []}},
        "priorityClassName": "unknown to us",
    }


def _parsed(method: str, path: str) -> tuple[str, str, Call]:
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = rest[1] if rest[0] == "namespaces" else ""
    rest = rest[2:] if namespace else rest
    name = rest[1] if len(rest) > 1 else ""
    verb = VERBS.get(method) or ("get" if name else "list")
    return rest[0], name, Call(verb=verb, group=group, resource=rest[0], name=name, namespace=namespace)


def _paged(found: Json, query: dict[str, list[str]]) -> Json:
    """Return the page of a list that is asked for; where it goes on is how many came before."""
    if "limit" not in query:
        return found
    first = int(query.get("continue", ["0"])[0])
    end = first + int(query["limit"][0])
    rest = {"continue": str(end)} if end < len(found["items"]) else {}
    return {"metadata": {**found["metadata"], **rest}, "items": found["items"][first:end]}


def _merge(item: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, dict):
            _merge(item.setdefault(key, {}), value)
        else:
            item[key] = value


def _apply(item: Any, patch: list[Json]) -> bool:
    """Apply a JSON patch (RFC 6902: test, add and remove); return whether it held."""
    for one in patch:
        *way, last = one["path"].strip("/").split("/")
        at = item
        for key in way:
            at = at[int(key)] if isinstance(at, list) else at[key]
        if one["op"] == "test" and at.get(last) != one["value"]:
            return False
        if one["op"] == "add":
            at[last] = one["value"]
        if one["op"] == "remove":
            del at[int(last) if isinstance(at, list) else last]
    return True


@contextmanager
def served(fake: FakeKube) -> Iterator[Configuration]:
    """Serve it on loopback, and yield the configuration of a client."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def _any(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(sent) if sent else None
            try:
                status, found = fake.answer(self.command, self.path, body, self.headers.get("Content-Type") or "")
            except ConnectionError:
                self.close_connection = True
                return
            raw = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _any  # noqa: N815 - the names are http.server's

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Configuration(host=f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
