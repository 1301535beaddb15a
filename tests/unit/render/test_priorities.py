"""The policy's classes as PriorityClasses: its numbers, and nobody but services preempts pods."""

from __future__ import annotations

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.priorities import priorities
from fleet_app.render.site import Site

SITE = Site(cluster="prod")


def policy(**more: object) -> PolicyFile:
    return PolicyFile.model_validate({"version": 1, "name": "p", "organisations": {"lab": {}}, **more})


def test_the_standard_classes_have_their_numbers_and_only_services_preempt():
    assert [
        (each["metadata"]["name"], each["value"], each["preemptionPolicy"]) for each in priorities(SITE, policy())
    ] == [
        ("serving-production", 100_000, "PreemptLowerPriority"),
        ("training-committed", 50_000, "Never"),
        ("training-backfill", 1_000, "Never"),
    ]


def test_no_class_is_everybodys():
    assert not any(each["globalDefault"] for each in priorities(SITE, policy()))


def test_a_class_that_kubernetes_cannot_name_is_named():
    classes = {"Serving_1": {"value": 3}, "b": {"value": 2, "borrows": True, "yields": True}}
    default = {"service": "Serving_1", "gang": "b", "backfill": "b"}
    with pytest.raises(RequestError, match=r"classes.Serving_1: 'Serving_1' cannot name a Kubernetes object"):
        list(priorities(SITE, policy(classes=classes, default_class=default)))
