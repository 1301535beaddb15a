"""Alerts are about what the gateway really exports, keep to their fleet, and say what to do."""

from __future__ import annotations

import re
from pathlib import Path

import promql_parser
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


def selected(expression: str) -> list[str]:
    """Return what an expression selects, as Prometheus would read it. Raises ValueError where it would not."""
    found: list[str] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(str(node.name))

    promql_parser.walk(promql_parser.parse(expression), visit)
    return sorted(found)


WRONG = {
    "a parenthesis that nobody closes": ("sum(fleet_gpus", "unclosed left parenthesis"),
    "a range where there is to be none": ("sum(fleet_gpus[5m])", "got matrix"),
    "no range where there is to be one": ("min_over_time(fleet_inbox_requests)", "got vector"),
    "a function that there is not": ("median(fleet_gpus)", "unknown function"),
}


@pytest.mark.parametrize(("expression", "says"), WRONG.values(), ids=WRONG)
def test_what_prometheus_would_not_take_is_noticed(expression, says):
    with pytest.raises(ValueError, match=says):
        selected(expression)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert(rule, exported):
    used = re.findall(r"\bfleet_\w+", rule["expr"])
    assert set(used) <= exported
    assert rule["expr"].count('namespace="ml"') == len(used)
    assert selected(rule["expr"]) == sorted(used)
    assert rule["annotations"]["runbook"].endswith(".")
    assert rule["labels"]["severity"] in {"critical", "warning"}


def test_nothing_is_said_of_headroom_that_the_policy_does_not_keep():
    bare = POLICY.model_copy(update={"headroom": POLICY.headroom.model_copy(update={"min": 0})})
    (rules,) = (group["rules"] for each in alerts(SITE, bare) for group in each["spec"]["groups"])
    assert {rule["alert"] for rule in RULES} - {rule["alert"] for rule in rules} == {"FleetHeadroomGone"}
