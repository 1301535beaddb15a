"""Which fleet an audit is about, where nobody says."""

from __future__ import annotations

import pytest

from fleet_app.audit.sites import find, policy_of
from fleet_app.audit.things import Thing
from fleet_app.engine.errors import RequestError
from fleet_app.render.site import Site
from tests import manifests as kube


def cluster(name: str, namespace: str) -> Thing:
    thing = kube.ray_cluster(kube.group(), name=name)
    thing["metadata"]["namespace"] = namespace
    return Thing(object=thing, source="here")


OTHER = Thing(object=kube.ray_cluster(kube.group(labels={})), source="here")
A, B = cluster("a", "one"), cluster("b", "two")

CASES = {
    "as asked": ([A, B], "x", "y", Site(cluster="x", namespace="y")),
    "the one that there is": ([OTHER, A], None, None, Site(cluster="a", namespace="one")),
    "the one of that name": ([A, B], "b", None, Site(cluster="b", namespace="two")),
    "the one that is there": ([A, B], None, "one", Site(cluster="a", namespace="one")),
    "none of that name": ([A, B], "c", None, Site(cluster="c", namespace="fleet")),
    "none at all": ([OTHER], None, None, Site(cluster="fleet", namespace="fleet")),
}


@pytest.mark.parametrize(("things", "name", "namespace", "want"), CASES.values(), ids=CASES)
def test_find(things, name, namespace, want):
    assert find(things, name, namespace) == want


def test_several_and_nobody_says_which():
    with pytest.raises(RequestError, match=r"--cluster: there are several: a in one, b in two"):
        find([B, A], None, None)


def own(name: str, namespace: str, **data: str) -> Thing:
    metadata = {"name": name, "namespace": namespace}
    return Thing(object={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, source="here")


MINE = own("prod-policy", "ml", **{"fleet.yaml": "name: mine"})
POLICIES = {
    "the fleet's own": ([A, MINE], ("name: mine", "here, ConfigMap prod-policy")),
    "another namespace's is another fleet's": ([own("prod-policy", "two", **{"fleet.yaml": "name: b"})], None),
    "so is one of another name": ([own("test-policy", "ml", **{"fleet.yaml": "name: b"})], None),
    "one without a policy in it": ([own("prod-policy", "ml")], None),
    "none": ([], None),
}


@pytest.mark.parametrize(("things", "want"), POLICIES.values(), ids=POLICIES)
def test_the_policy_that_came_with_it(things, want):
    assert policy_of(things, Site(cluster="prod", namespace="ml")) == want
