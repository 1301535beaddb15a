"""Alerts are about what the gateway really exports, keep to their fleet, and say what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet_app.gateway.known import Workloads
from fleet_app.gateway.metrics import _Fleet
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.alerts import alerts
from fleet_app.render.site import Site

SITE = Site(cluster="prod", namespace="ml")
POLICY = PolicyFile.model_validate(
    {"version": 1, "name": "p", "organisations": {"lab": {"nominal": 64}}, "headroom": {"quantile": 0.99, "min": 8}}
)
(RULES,) = (group["rules"] for each in alerts(SITE, POLICY) for group in each["spec"]["groups"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    home: Path = tmp_path_factory.mktemp("home")
    return frozenset(gauge.name for gauge in _Fleet(Workloads(home)).collect())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert(rule, exported):
    used = re.findall(r"\bfleet_\w+", rule["expr"])
    assert set(used) <= exported
    assert rule["expr"].count('namespace="ml"') == len(used)
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert rule["annotations"]["runbook"].endswith(".")
    assert rule["labels"]["severity"] in {"critical", "warning"}


def test_nothing_is_said_of_headroom_that_the_policy_does_not_keep():
    bare = POLICY.model_copy(update={"headroom": POLICY.headroom.model_copy(update={"min": 0})})
    (rules,) = (group["rules"] for each in alerts(SITE, bare) for group in each["spec"]["groups"])
    assert {rule["alert"] for rule in RULES} - {rule["alert"] for rule in rules} == {"FleetHeadroomGone"}
