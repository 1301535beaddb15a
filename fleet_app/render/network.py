"""NetworkPolicies: who may talk to whom, all that is not named being closed.

Serving's pods hear clients at Serve's port, and training's never do: what the world sends to services does not share a
door with the bulk of a gang. Pods of one class reach one another and the head at every port, as Ray needs; the two
classes reach one another only where the policy says `separate: false`. What leaves the cluster is named in the policy,
with one exception: the head reaches the API server, which no selector names, so its ports 443 and 6443 are open to any
address, for entrypoints of jobs too, which run there. A site that wants less has a plugin that knows the API server.

Outside of what a NetworkPolicy rules over, and for the fabric to keep apart: RDMA, pods in the host's network, and how
much of a shared link each class takes (mark serving's traffic with a DSCP of its own, at the node's edge).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import names
from fleet_app.render.objects import Object, metadata
from fleet_app.render.site import Site

Rules = Mapping[str, list[Object]]
"""From `ingress` or `egress` to what is allowed of it."""

_API_SERVER_PORTS = (443, 6443)
_REDIS_PORT = 6379
_AGENT_PORT = 52365
"""Of Ray's dashboard agent, whose health KubeRay asks for."""

_PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
_OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}
_DNS = {"k8s-app": "kube-dns"}
_NODE_DNS = "169.254.20.10/32"
"""Of NodeLocal DNSCache, where pods ask it instead (Kubernetes' documentation, Using NodeLocal DNSCache): in the host's
network, so no selector finds it."""


def network(site: Site, policy: PolicyFile) -> Iterator[Object]:
    """Yield the policies; each adds to the first, which closes everything."""
    rules = policy.kubernetes
    clients = None if rules.clients is None else [{"namespaceSelector": _namespace(name)} for name in rules.clients]
    yield _object(site, "closed", "Nothing that no other policy names.", _pods(site), {"ingress": [], "egress": []})
    yield _dns(site)
    yield _head(site, clients)
    yield _redis(site)
    apart = [(role,) for role in names.CLASSES] if rules.separate else [names.CLASSES]
    for classes in apart:
        yield _workers(site, classes)
    door = {"ingress": [_from(clients, names.SERVE_PORT)]}
    yield _object(site, "serve", "Clients reach Serve's proxies on its nodes.", _pods(site, names.SERVING), door)
    read = {"ingress": [_from([_anywhere(_PROMETHEUS)], names.METRICS_PORT, names.GATEWAY_PORT)]}
    yield _object(site, "metrics", "Prometheus reads every pod.", _pods(site), read)
    if rules.egress:
        yield _outside(site, policy)


def _head(site: Site, clients: list[Object] | None) -> Object:
    everyone = {"podSelector": _pods(site)}
    ingress = [
        {"from": [everyone]},
        # RayJobs come from the operator to the port named `dashboard`: in the chart, that of the gateway.
        _from([_anywhere(_OPERATOR)], names.DASHBOARD_PORT, names.GATEWAY_PORT, _AGENT_PORT),
        _from(clients, names.GATEWAY_PORT, names.SERVE_PORT),
    ]
    egress = [{"to": [everyone]}, {"ports": _ports(*_API_SERVER_PORTS)}]
    what = (
        "Pods of the cluster, the operator and clients of the gateway reach the head; it reaches the API server, "
        "anywhere. Its dashboard, GCS and Ray Client ports are closed to everybody else."
    )
    return _object(site, "head", what, _head_pod(site), {"ingress": ingress, "egress": egress})


def _workers(site: Site, classes: Sequence[str]) -> Object:
    peers = [{"podSelector": _pods(site, *classes)}, {"podSelector": _head_pod(site)}]
    what = f"Pods of {' and '.join(classes)} and the head reach one another at every port, as Ray's workers need."
    rules: Rules = {"ingress": [{"from": peers}], "egress": [{"to": peers}]}
    return _object(site, "-and-".join(classes), what, _pods(site, *classes), rules)


def _dns(site: Site) -> Object:
    servers = {"namespaceSelector": _namespace("kube-system"), "podSelector": {"matchLabels": _DNS}}
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    rules: Rules = {"egress": [{"to": [servers, {"ipBlock": {"cidr": _NODE_DNS}}], "ports": ports}]}
    return _object(site, "dns", "Every pod asks the cluster's DNS, or its node's cache of it.", _pods(site), rules)


def _redis(site: Site) -> Object:
    askers = {
        "matchLabels": {"ray.io/cluster": site.cluster},
        "matchExpressions": [{"key": "ray.io/node-type", "operator": "In", "values": ["head", "redis-cleanup"]}],
    }
    rules: Rules = {"egress": [{"to": [{"podSelector": {}}], "ports": _ports(_REDIS_PORT)}]}
    return _object(site, "to-redis", "The head, and KubeRay's clean-up after it, reach Redis.", askers, rules)


def _outside(site: Site, policy: PolicyFile) -> Object:
    named = sorted(policy.kubernetes.egress.items())
    what = f"Every pod reaches what the policy names: {', '.join(name for name, _ in named)}."
    doors = [{"to": [{"ipBlock": {"cidr": each.cidr}}], "ports": _ports(*each.ports)} for _, each in named]
    return _object(site, "outside", what, _pods(site), {"egress": doors})


def _object(site: Site, name: str, what: str, pods: Object, rules: Rules) -> Object:
    """Return a policy that rules over the directions named, and in them allows what is listed."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(site, f"{site.cluster}-{name}", namespaced=True, notes={names.NOTE: what}),
        "spec": {
            "podSelector": pods,
            "policyTypes": [direction.capitalize() for direction in rules],
            **{direction: allowed for direction, allowed in rules.items() if allowed},
        },
    }


def _pods(site: Site, *classes: str) -> Object:
    """Return the selector of Ray's pods of the cluster, of these classes or of all."""
    labels = {"ray.io/cluster": site.cluster}
    if not classes:
        return {"matchLabels": labels}
    if len(classes) == 1:
        return {"matchLabels": {**labels, names.CLASS_LABEL: classes[0]}}
    return {
        "matchLabels": labels,
        "matchExpressions": [{"key": names.CLASS_LABEL, "operator": "In", "values": list(classes)}],
    }


def _head_pod(site: Site) -> Object:
    return {"matchLabels": {"ray.io/cluster": site.cluster, "ray.io/node-type": "head"}}


def _namespace(name: str) -> Object:
    return {"matchLabels": {"kubernetes.io/metadata.name": name}}


def _anywhere(labels: dict[str, str]) -> Object:
    return {"namespaceSelector": {}, "podSelector": {"matchLabels": labels}}


def _from(peers: list[Object] | None, *ports: int) -> Object:
    """Return a rule for these peers, or for anybody."""
    return {**({"from": peers} if peers is not None else {}), "ports": _ports(*ports)}


def _ports(*ports: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]
