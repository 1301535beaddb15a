"""Who may talk to whom, asked of the rendered NetworkPolicies as a network plugin would ask them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_app.audit.selectors import selects
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.network import network
from fleet_app.render.site import Site

SITE = Site(cluster="prod", namespace="fleet")


def policy(**kubernetes: Any) -> PolicyFile:
    given = {"version": 1, "name": "p", "organisations": {"lab": {}}, "kubernetes": kubernetes}
    return PolicyFile.model_validate(given)


def worker(role: str) -> tuple[str, dict[str, str]]:
    return "fleet", {"ray.io/cluster": "prod", "ray.io/node-type": "worker", "fleet/class": role}


HEAD = ("fleet", {"ray.io/cluster": "prod", "ray.io/node-type": "head"})
SERVING, TRAINING = worker("serving"), worker("training")
CLEANUP = ("fleet", {"ray.io/cluster": "prod", "ray.io/node-type": "redis-cleanup"})
CLIENT = ("web", {"app": "site"})
OTHER = ("batch", {"app": "other"})
OPERATOR = ("kuberay", {"app.kubernetes.io/name": "kuberay-operator"})
PROMETHEUS = ("monitoring", {"app.kubernetes.io/name": "prometheus"})
DNS = ("kube-system", {"k8s-app": "kube-dns"})
NODE_DNS = ("169.254.20.10/32", {})
REDIS = ("fleet", {"app": "redis"})
Peer = tuple[str, dict[str, str]]


def allowed(rules: PolicyFile, source: Peer, target: Peer, port: int) -> bool:
    """Return whether every side that a policy rules over lets a connection through."""
    policies = list(network(SITE, rules))
    return _one_side(policies, "ingress", target, source, port) and _one_side(policies, "egress", source, target, port)


def _one_side(policies: list[dict[str, Any]], direction: str, pod: Peer, peer: Peer, port: int) -> bool:
    ruling = [
        each["spec"]
        for each in policies
        if direction.capitalize() in each["spec"]["policyTypes"]
        and pod[0] == each["metadata"]["namespace"]
        and selects(each["spec"]["podSelector"], pod[1])
    ]
    doors = [door for spec in ruling for door in spec.get(direction, [])]
    return not ruling or any(_open(door, direction, peer, port) for door in doors)


def _open(door: dict[str, Any], direction: str, peer: Peer, port: int) -> bool:
    peers = door.get("from" if direction == "ingress" else "to")
    ports = door.get("ports")
    named = peers is None or any(_is(each, peer) for each in peers)
    return named and (ports is None or port in {each["port"] for each in ports})


def _is(each: dict[str, Any], peer: Peer) -> bool:
    namespace, labels = peer
    if "ipBlock" in each:
        return namespace == each["ipBlock"]["cidr"]
    there = {"kubernetes.io/metadata.name": namespace}
    in_it = selects(each["namespaceSelector"], there) if "namespaceSelector" in each else namespace == "fleet"
    return in_it and ("podSelector" not in each or selects(each["podSelector"], labels))


USUAL = policy()
NAMED = policy(clients=["web"])
TOGETHER = policy(separate=False)

CASES = {
    "ranks reach one another at any port": (USUAL, TRAINING, TRAINING, 31_234, True),
    "replicas reach one another": (USUAL, SERVING, SERVING, 31_234, True),
    "a rank does not reach a replica": (USUAL, TRAINING, SERVING, 31_234, False),
    "nor at Serve's port": (NAMED, TRAINING, SERVING, 8000, False),
    "nor a replica a rank": (USUAL, SERVING, TRAINING, 31_234, False),
    "the classes may be let together": (TOGETHER, TRAINING, SERVING, 31_234, True),
    "the head reaches ranks": (USUAL, HEAD, TRAINING, 10_002, True),
    "ranks reach the GCS": (USUAL, TRAINING, HEAD, 6379, True),
    "clients reach Serve": (USUAL, CLIENT, SERVING, 8000, True),
    "clients do not reach ranks at all": (USUAL, CLIENT, TRAINING, 8000, False),
    "clients reach the gateway": (USUAL, CLIENT, HEAD, 8090, True),
    "clients do not reach the dashboard": (USUAL, CLIENT, HEAD, 8265, False),
    "clients do not reach the GCS": (USUAL, CLIENT, HEAD, 6379, False),
    "clients that are named": (NAMED, CLIENT, SERVING, 8000, True),
    "clients that are not": (NAMED, OTHER, SERVING, 8000, False),
    "the operator reaches the dashboard": (NAMED, OPERATOR, HEAD, 8265, True),
    "Prometheus reads ranks": (NAMED, PROMETHEUS, TRAINING, 8080, True),
    "and the gateway": (NAMED, PROMETHEUS, HEAD, 8090, True),
    "ranks ask the DNS": (USUAL, TRAINING, DNS, 53, True),
    "or its cache on their node": (USUAL, TRAINING, NODE_DNS, 53, True),
    "which is asked for names only": (USUAL, TRAINING, NODE_DNS, 80, False),
    "ranks reach nothing else outside": (USUAL, TRAINING, OTHER, 443, False),
    "the head reaches Redis": (USUAL, HEAD, REDIS, 6379, True),
    "so does what KubeRay cleans up with": (USUAL, CLEANUP, REDIS, 6379, True),
    "ranks do not": (USUAL, TRAINING, REDIS, 6379, False),
    "another cluster's pods are not the fleet's": (
        USUAL,
        ("fleet", {"ray.io/cluster": "test", "fleet/class": "training"}),
        TRAINING,
        31_234,
        False,
    ),
}


@pytest.mark.parametrize(("rules", "source", "target", "port", "want"), CASES.values(), ids=CASES)
def test_who_may_talk_to_whom(rules, source, target, port, want):
    assert allowed(rules, source, target, port) == want


def test_what_leaves_the_cluster_is_named_by_the_policy():
    rules = policy(egress={"store": {"cidr": "10.20.0.0/16", "ports": [9000]}})
    (found,) = (each for each in network(SITE, rules) if each["metadata"]["name"] == "prod-outside")
    assert found["spec"]["egress"] == [
        {"to": [{"ipBlock": {"cidr": "10.20.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 9000}]}
    ]
    assert "store" in found["metadata"]["annotations"]["fleet/note"]
    assert all(each["metadata"]["name"] != "prod-outside" for each in network(SITE, policy()))
