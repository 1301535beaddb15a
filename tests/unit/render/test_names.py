"""Names on Kubernetes are names that Kubernetes takes."""

from __future__ import annotations

import re

import pytest

from fleet_app.render import names

# Kubernetes, "Labels and Selectors": an optional DNS prefix, `/`, a name of at most 63 characters.
QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

KEYS = [
    *(names.CLUSTER_LABEL, names.CLASS_LABEL, names.FLAVOR_LABEL, names.NODE_LABEL, names.DRIVER_LABEL),
    *(names.PARTITION_LABEL, names.level_label("leaf"), names.TAINT_KEY, names.FORCED_EVICTION),
    *names.GANG_ANNOTATIONS,
]

OBJECTS = {
    "the head's service is called as KubeRay calls it": (names.head_service("prod"), "prod-head-svc"),
    "the gateway's service begins with the cluster": (names.gateway_service("prod"), "prod-gateway"),
    "what is held is in the cluster's own map": (names.held_map("prod"), "prod-held"),
}

HELD = {
    "a pod": (names.held_pod("prod-training-worker-x7c2p"), True),
    "a node whose name is a domain": (names.held_node("gpu-17.leaf3.example.com"), True),
    "a node whose name leaves no room for the prefix": (names.held_node("n" * 250), False),
    "a node whose name is no name": (names.held_node("a/b"), False),
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_keys_that_kubernetes_takes(key):
    assert QUALIFIED.fullmatch(key)


@pytest.mark.parametrize(("name", "want"), OBJECTS.values(), ids=OBJECTS)
def test_objects(name, want):
    assert name == want


@pytest.mark.parametrize(("key", "want"), HELD.values(), ids=HELD)
def test_what_can_be_named_as_held(key, want):
    assert names.is_key(key) == want


def test_a_pod_and_a_node_of_one_name_have_entries_of_their_own():
    assert names.held_pod("a") != names.held_node("a")


def test_no_two_ports_of_the_head_are_the_same():
    ports = [names.GATEWAY_PORT, names.SERVE_PORT, names.DASHBOARD_PORT, names.GCS_PORT, names.CLIENT_PORT]
    assert len({*ports, names.METRICS_PORT}) == len(ports) + 1
