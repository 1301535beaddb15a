"""The quota tree as Kueue's objects: whose is what, who borrows from whom, who takes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet_app.engine.errors import RequestError
from fleet_app.policy.load import load_policy
from fleet_app.policy.schema import PolicyFile
from fleet_app.render.kueue import kueue
from fleet_app.render.site import Site

SITE = Site(cluster="prod", namespace="ml")
LARGE = load_policy(Path(__file__).parents[3] / "clusters" / "fleet-2048.yaml")


def objects(policy: PolicyFile = LARGE) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in kueue(SITE, policy)}


FOUND = objects()


def quota(team: str) -> dict[str, dict[str, int]]:
    """Return a team's numbers by ResourceFlavor."""
    (group,) = FOUND["ClusterQueue", team]["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["nvidia.com/gpu"]
    return {
        flavor["name"]: {key: value for key, value in flavor["resources"][0].items() if key != "name"}
        for flavor in group["flavors"]
    }


QUOTAS = {
    "who serves borrows nothing, and lends as the policy says": (
        "chat",
        {"prod-serving": {"nominalQuota": 800, "lendingLimit": 640, "borrowingLimit": 0}},
    ),
    "who trains has its own there, and backfill of it may take what serving lends": (
        "pretraining",
        {"prod-training": {"nominalQuota": 640}, "prod-serving": {"nominalQuota": 0}},
    ),
    "who borrows takes what either class lends": (
        "batch",
        {
            "prod-training": {"nominalQuota": 0, "borrowingLimit": 1024},
            "prod-serving": {"nominalQuota": 0, "borrowingLimit": 1024},
        },
    ),
}


@pytest.mark.parametrize(("team", "want"), QUOTAS.values(), ids=QUOTAS)
def test_quota(team, want):
    assert quota(team) == want


def test_who_serves_borrows_nothing_whatever_its_limit_is():
    lab = {"teams": {"serve": {"nominal": 40, "borrowing_limit": 8}, "train": {"nominal": 50}}}
    classes = {"s": {"value": 2, "teams": ["serve"]}, "t": {"value": 1}}
    default = {"service": "s", "gang": "t", "backfill": "t"}
    given = {"version": 1, "name": "p", "organisations": {"lab": lab}, "classes": classes, "default_class": default}
    (group,) = objects(PolicyFile.model_validate(given))["ClusterQueue", "serve"]["spec"]["resourceGroups"]
    assert [each["resources"][0]["borrowingLimit"] for each in group["flavors"]] == [0]


def test_every_queue_takes_back_what_it_lends():
    queues = [each for (kind, _), each in FOUND.items() if kind == "ClusterQueue"]
    assert {each["spec"]["preemption"]["reclaimWithinCohort"] for each in queues} == {"Any"}


def test_organisations_are_cohorts_inside_one_another():
    parents = {name: each["spec"].get("parentName") for (kind, name), each in FOUND.items() if kind == "Cohort"}
    assert parents == {"company": None, "products": "company", "models": "company"}
    assert FOUND["ClusterQueue", "chat"]["spec"]["cohortName"] == "products"


def test_the_numbers_add_up_to_the_fleet():
    teams = [name for kind, name in FOUND if kind == "ClusterQueue"]
    assert sum(numbers["nominalQuota"] for team in teams for numbers in quota(team).values()) == 2048


def test_what_an_organisation_has_beyond_its_teams_is_its_cohorts():
    lab = {"nominal": 100, "teams": {"serve": {"nominal": 40}, "train": {"nominal": 50}}}
    classes = {"s": {"value": 2, "teams": ["serve"]}, "t": {"value": 1}}
    default = {"service": "s", "gang": "t", "backfill": "t"}
    given = {"version": 1, "name": "p", "organisations": {"lab": lab}, "classes": classes, "default_class": default}
    (group,) = objects(PolicyFile.model_validate(given))["Cohort", "lab"]["spec"]["resourceGroups"]
    assert group["flavors"] == [
        {"name": "prod-training", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 10}]}
    ]


def test_flavors_are_the_classes_nodes_with_the_fabric():
    assert FOUND["ResourceFlavor", "prod-serving"]["spec"] == {
        "nodeLabels": {"fleet/class": "serving"},
        "tolerations": [{"key": "fleet/class", "operator": "Equal", "value": "serving", "effect": "NoSchedule"}],
        "topologyName": "prod",
    }
    assert [level["nodeLabel"] for level in FOUND["Topology", "prod"]["spec"]["levels"]] == [
        "fleet/spine",
        "fleet/leaf",
        "kubernetes.io/hostname",
    ]


def test_only_local_queues_have_a_namespace():
    kinds = {kind for (kind, _), each in FOUND.items() if each["metadata"].get("namespace") == "ml"}
    assert kinds == {"LocalQueue"}


def test_every_object_says_who_owns_the_quota():
    assert all("has one owner" in each["metadata"]["annotations"]["fleet/note"] for each in FOUND.values())


def test_nobody_is_said_to_serve():
    everybody = PolicyFile.model_validate({"version": 1, "name": "p", "organisations": {"lab": {}}})
    with pytest.raises(RequestError, match=r"classes.serving-production.teams: every team may serve"):
        objects(everybody)
