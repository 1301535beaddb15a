"""The guards as objects of the API server: a ValidatingAdmissionPolicy and its binding for each.

No server of ours stands in the way of anybody's requests: the API server evaluates the expressions itself (Kubernetes
1.30 and newer).

An API server stops reading ConfigMaps for policies when the last binding goes that names one, and never begins again
before its own restart: bindings that come later find no parameter, or an old one (kubernetes/kubernetes issue 130887,
seen with v1.34.4). So there is one more binding, the anchor, that matches nothing, is no fleet's own and is to stay; it
is a part of its own, to be kept out of what is deleted together.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import names
from fleet_app.render.account import account
from fleet_app.render.budgets import budgets
from fleet_app.render.guards import Guard, Named
from fleet_app.render.held import held
from fleet_app.render.objects import MANAGED_BY, TOOL, Object, metadata
from fleet_app.render.pods import pods
from fleet_app.render.preemptors import preemptors
from fleet_app.render.scalers import scalers
from fleet_app.render.site import Site
from fleet_app.render.strangers import strangers

_API = "admissionregistration.k8s.io/v1"
_CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap"}

ANCHOR = "fleet-anchor"
_WHY = "Matches nothing. Keep it: while it is there, API servers go on reading ConfigMaps for policies (issue 130887)."


def guards(site: Site, policy: PolicyFile) -> tuple[Guard, ...]:
    """Return everything that admission is asked to look at."""
    return (
        budgets(site, policy),
        scalers(site),
        *pods(policy),
        *held(site),
        strangers(site, policy),
        preemptors(policy),
        *account(site),
    )


def admission(site: Site, policy: PolicyFile) -> Iterator[Object]:
    """Yield the policies and their bindings."""
    for guard in guards(site, policy):
        yield _policy(site, guard)
        yield _binding(site, guard)


def policy_name(site: Site, guard: Guard) -> str:
    """Return the name of a guard's policy, and of its binding; it is in every message of the API server."""
    return f"fleet-{site.cluster}-{guard.name}"


def _policy(site: Site, guard: Guard) -> Object:
    rules = [
        {
            "apiGroups": [target.group],
            "apiVersions": list(target.versions),
            "operations": list(guard.operations),
            "resources": list(target.kinds),
        }
        for target in guard.targets
    ]
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(site, policy_name(site, guard)),
        "spec": {
            "failurePolicy": "Fail" if guard.strict else "Ignore",
            **({"paramKind": _CONFIG_MAP} if guard.held else {}),
            "matchConstraints": {
                **({"objectSelector": {"matchLabels": dict(guard.labels)}} if guard.labels else {}),
                "resourceRules": rules,
            },
            **({"matchConditions": _named(guard.conditions)} if guard.conditions else {}),
            "variables": _named(guard.variables),
            "validations": [
                {"expression": check.expression, "messageExpression": check.message, "reason": "Forbidden"}
                for check in guard.checks
            ],
        },
    }


def _named(expressions: tuple[Named, ...]) -> list[Object]:
    return [{"name": each.name, "expression": each.expression} for each in expressions]


def _binding(site: Site, guard: Guard) -> Object:
    name = policy_name(site, guard)
    parameter = {
        "name": names.held_map(site.cluster),
        "namespace": site.namespace,
        "parameterNotFoundAction": "Allow",
    }
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(site, name),
        "spec": {
            "policyName": name,
            **({"paramRef": parameter} if guard.held else {}),
            "validationActions": ["Deny" if guard.refuses else "Audit"],
        },
    }


def anchor(_site: Site, _policy: PolicyFile) -> Iterator[Object]:
    """Yield what keeps API servers reading ConfigMaps; the same for every fleet of a Kubernetes cluster."""
    about = {"name": ANCHOR, "labels": {MANAGED_BY: TOOL}, "annotations": {names.NOTE: _WHY}}
    nothing = {
        "apiGroups": ["fleet.invalid"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["nothing"],
    }
    yield {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": about,
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": _CONFIG_MAP,
            "matchConstraints": {"resourceRules": [nothing]},
            "validations": [{"expression": "true"}],
        },
    }
    yield {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": about,
        "spec": {
            "policyName": ANCHOR,
            "paramRef": {"name": "none", "namespace": "default", "parameterNotFoundAction": "Allow"},
            "validationActions": ["Audit"],
        },
    }
