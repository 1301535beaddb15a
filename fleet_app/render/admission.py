"""The guards as objects of the API server: a ValidatingAdmissionPolicy and its binding for each.

No server of ours stands in the way of anybody's requests: the API server evaluates the expressions itself (Kubernetes
1.30 and newer). A policy that cannot be evaluated refuses, but for one that only records.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.policy.schema import PolicyFile
from fleet_app.render import names
from fleet_app.render.budgets import budgets
from fleet_app.render.guards import Guard, Named
from fleet_app.render.held import held
from fleet_app.render.objects import Object, metadata
from fleet_app.render.pods import pods
from fleet_app.render.scalers import scalers
from fleet_app.render.site import Site
from fleet_app.render.strangers import strangers

_API = "admissionregistration.k8s.io/v1"


def guards(site: Site, policy: PolicyFile) -> tuple[Guard, ...]:
    """Return everything that admission is asked to look at."""
    return (budgets(site, policy), scalers(site), *pods(policy), *held(site), strangers(site, policy))


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
            "failurePolicy": "Fail" if guard.refuses else "Ignore",
            **({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}} if guard.held else {}),
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
