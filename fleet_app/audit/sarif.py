"""Findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which scanners show beside the lines.

A finding of a file has the file's line; one of a cluster has no line, and names its object as a logical location.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from fleet_app import __version__
from fleet_app.audit.things import Finding
from fleet_app.render.guards import RULES, Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_NUMBERS = {rule.id: number for number, rule in enumerate(RULES)}


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return a SARIF log of one run."""
    driver = {"name": "fleet audit", "semanticVersion": __version__, "rules": [_rule(rule) for rule in RULES]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(f) for f in findings]}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.holds},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.instead},
        "defaultConfiguration": {"level": "error"},
    }


def _result(finding: Finding) -> dict[str, Any]:
    full = "/".join(part for part in (finding.kind, finding.namespace, finding.name) if part)
    logical = {"name": finding.name, "fullyQualifiedName": full, "kind": "object"}
    location: dict[str, Any] = {"logicalLocations": [logical]}
    if finding.line is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": quote(finding.source)},
            "region": {"startLine": finding.line},
        }
    return {
        "ruleId": finding.rule,
        "ruleIndex": _NUMBERS[finding.rule],
        "level": "error" if finding.refused else "warning",
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {"object/v1": f"{finding.rule}/{full}"},
    }
