"""A PrometheusRule: what somebody should be told of, with what to do, from what the gateway exports at /metrics.

Every expression keeps to the fleet's namespace, which a ServiceMonitor's scrape labels by itself. Thresholds come from
the policy where it has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet_app.policy.schema import PolicyFile
from fleet_app.render.objects import Object, metadata
from fleet_app.render.site import Site

SILENT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert: when, for how long, how bad, what to say, and what to do."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    runbook: str


def alerts(site: Site, policy: PolicyFile) -> Iterator[Object]:
    """Yield the one rule object."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasts,
            "labels": {"severity": alert.severity, "fleet_cluster": site.cluster},
            "annotations": {"summary": alert.summary, "runbook": alert.runbook},
        }
        for alert in _alerts(f'namespace="{site.namespace}"', policy)
    ]
    yield {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata(site, f"{site.cluster}-fleet", namespaced=True),
        "spec": {"groups": [{"name": f"fleet-{site.cluster}", "rules": rules}]},
    }


def _alerts(here: str, policy: PolicyFile) -> Iterator[Alert]:
    yield Alert(
        name="FleetArbiterSilent",
        expression=f"fleet_arbiter_lease_age_seconds{{{here}}} > {SILENT_S}",
        lasts="1m",
        severity="critical",
        summary="The arbiter has given no sign of life for {{ $value | humanizeDuration }}.",
        runbook="Nothing is admitted or drained; Serve goes on by itself, and jobs that run go on. Look at the logs of "
        "the head's container that attends to the fleet, then at `fleet status`. What is queued is kept.",
    )
    yield Alert(
        name="FleetGatewayGone",
        expression=f"absent(fleet_inbox_requests{{{here}}})",
        lasts="5m",
        severity="critical",
        summary="The gateway exports nothing: no submission can come in.",
        runbook="Look whether the head's pod is ready, and whether its /healthz answers at the gateway's port. Running "
        "jobs and services do not need the gateway.",
    )
    yield Alert(
        name="FleetInboxStands",
        expression=f"min_over_time(fleet_inbox_requests{{{here}}}[5m]) > 0",
        lasts="5m",
        severity="warning",
        summary="{{ $value }} requests have waited for the arbiter for five minutes.",
        runbook="The arbiter is slow, paused (`fleet status` says so) or gone. `fleet resume` ends a pause.",
    )
    yield Alert(
        name="FleetGpusForeign",
        expression=f'sum by (class) (fleet_gpus{{{here},state="foreign"}}) > 0',
        lasts="5m",
        severity="warning",
        summary="{{ $value }} GPUs of {{ $labels.class }} are used by something that the arbiter did not admit.",
        runbook="`fleet nodes` names who it is, and `fleet audit` finds pods that another scheduler placed on the "
        "fleet's nodes. Ask for the work to be submitted to the fleet.",
    )
    down = f'sum(fleet_gpus{{{here},state="down"}})'
    yield Alert(
        name="FleetGpusDown",
        expression=f"100 * {down} / sum(fleet_gpus{{{here}}}) > {policy.health.most_percent}",
        lasts="15m",
        severity="warning",
        summary="{{ $value | humanize }} % of the GPUs are on nodes that are away.",
        runbook=f"Beyond {policy.health.most_percent} % (health.most_percent) no more nodes are kept out for failures. "
        "`fleet nodes` shows which are down: look for what they share, a leaf, a driver, a rack.",
    )
    yield Alert(
        name="FleetBookingBroken",
        expression=f"fleet_bookings_broken{{{here}}} > 0",
        lasts="5m",
        severity="critical",
        summary="{{ $value }} bookings that bind lack nodes that were promised.",
        runbook="`fleet calendar` marks them, and `fleet events --subject NAME` says what they lack. Bring nodes of "
        "their domain back, or agree on another time with their team (`fleet book --extend`, `--cancel`).",
    )
    if policy.headroom.min:
        yield Alert(
            name="FleetHeadroomGone",
            expression=f'sum(fleet_gpus{{{here},class="serving",state=~"free|held"}}) < {policy.headroom.min}',
            lasts="10m",
            severity="warning",
            summary="Serving has {{ $value }} GPUs ready for the next replicas.",
            runbook=f"Fewer than the {policy.headroom.min} of headroom.min, for longer than a drain takes. `fleet "
            "services` shows who wants more than is granted, `fleet boundary` whether nodes should cross.",
        )
