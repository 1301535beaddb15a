"""SARIF 2.1.0: what code scanners ask of a log, by the parts of the standard's schema that ours uses."""

from __future__ import annotations

import jsonschema
import pytest

from fleet_app.audit.sarif import sarif
from fleet_app.audit.things import Finding
from fleet_app.render.guards import RULES

FINDING = Finding(
    rule="K1", kind="PodDisruptionBudget", namespace="fleet", name="b", message="It selects.", source="a b.yaml", line=3
)
CLUSTER = Finding(
    rule="K8", kind="Pod", namespace="", name="p", message="It asks.", source="https://x", line=None, refused=False
)

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}


def closed(required: list[str], **properties: object) -> dict[str, object]:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def listed(items: object, **more: object) -> dict[str, object]:
    return {"type": "array", "items": items, **more}


# From sarif-schema-2.1.0 (OASIS, errata 01): the same names, types and requirements, of the properties that ours has.
PHYSICAL = closed(
    [],
    artifactLocation=closed([], uri={"type": "string", "format": "uri-reference"}),
    region=closed([], startLine={"type": "integer", "minimum": 1}),
)
LOGICAL = closed([], name={"type": "string"}, fullyQualifiedName={"type": "string"}, kind={"type": "string"})
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RESULT = closed(
    ["message"],
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": -1},
    level=LEVEL,
    message=TEXT,
    locations=listed(closed([], logicalLocations=listed(LOGICAL, uniqueItems=True), physicalLocation=PHYSICAL)),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
)
RULE = closed(
    ["id"],
    id={"type": "string"},
    shortDescription=TEXT,
    fullDescription=TEXT,
    help=TEXT,
    defaultConfiguration=closed([], level=LEVEL),
)
DRIVER = closed(
    ["name"], name={"type": "string"}, semanticVersion={"type": "string"}, rules=listed(RULE, uniqueItems=True)
)
RUN = closed(
    ["tool"],
    tool=closed(["driver"], driver=DRIVER),
    results=listed(RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
SCHEMA = closed(
    ["version", "runs"], **{"$schema": {"type": "string"}, "version": {"enum": ["2.1.0"]}, "runs": listed(RUN)}
)


@pytest.mark.parametrize("findings", [[], [FINDING, CLUSTER]], ids=["nothing was found", "something was"])
def test_it_is_sarif(findings):
    jsonschema.validate(sarif(findings), SCHEMA)


def test_a_finding_points_at_its_rule_its_line_and_its_object():
    log = sarif([FINDING])["runs"][0]
    (result,) = log["results"]
    assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "K1"
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b.yaml"},
        "region": {"startLine": 3},
    }
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "PodDisruptionBudget/fleet/b"


def test_an_object_of_a_cluster_has_no_line_and_what_is_only_recorded_is_a_warning():
    (result,) = sarif([CLUSTER])["runs"][0]["results"]
    assert "physicalLocation" not in result["locations"][0]
    assert result["level"] == "warning"


def test_the_same_finding_is_known_again_wherever_it_has_moved():
    moved = Finding(**{name: getattr(FINDING, name) for name in FINDING.__slots__} | {"line": 9})
    first, second = (sarif([each])["runs"][0]["results"][0]["partialFingerprints"] for each in (FINDING, moved))
    assert first == second


def test_every_rule_is_told():
    rules = sarif([])["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
