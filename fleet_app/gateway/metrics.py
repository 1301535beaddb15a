"""Whether the gateway is well, and the fleet in numbers for Prometheus, read at the moment of the scrape.

Counts what the journal says; the metrics that need Ray come from Ray.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fleet_app.arbiter import agenda, status
from fleet_app.arbiter.booked import BINDING
from fleet_app.engine.policy import Policy
from fleet_app.gateway.known import Workloads

_KEPT = frozenset({"grant", "hold"})
"""Kinds of holders that keep GPUs for somebody who does not use them yet."""

TEXT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsApi:
    """GET /healthz and GET /metrics."""

    def __init__(self, workloads: Workloads) -> None:
        """Count these workloads."""
        self._workloads = workloads
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Fleet(workloads))

    def routes(self) -> list[web.RouteDef]:
        """Return what this serves."""
        return [web.get("/healthz", self._health), web.get("/metrics", self._metrics)]

    async def _health(self, _: web.Request) -> web.Response:
        # A gateway without an arbiter still takes submissions in: it must not be restarted for that.
        return web.json_response({"ok": True, "arbiter_alive": self._workloads.alive()})

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": TEXT})


class _Fleet(Collector):
    """The fleet as gauges."""

    def __init__(self, workloads: Workloads) -> None:
        self._workloads = workloads

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every gauge, as it is now."""
        yield self._phases()
        yield self._gpus()
        yield from self._bookings()
        silent_s = self._workloads.silent_s()
        yield _gauge("fleet_arbiter_lease_age_seconds", "Since the arbiter last gave a sign of life.", silent_s)
        yield _gauge("fleet_inbox_requests", "Requests that wait for the arbiter.", self._workloads.waiting())

    def _phases(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily("fleet_workloads", "Workloads by phase.", labels=["phase"])
        for phase, count in status.counts(self._workloads.journal.phases()).items():
            gauge.add_metric([phase], count)
        return gauge

    def _bookings(self) -> Iterator[GaugeMetricFamily]:
        known = self._workloads.journal.bookings().values()
        gauge = GaugeMetricFamily("fleet_bookings", "Bookings by stage.", labels=["stage"])
        for stage, count in agenda.counts(known).items():
            gauge.add_metric([stage], count)
        yield gauge
        broken = sum(record.stage in BINDING and bool(record.booking.breach) for record in known)
        yield _gauge("fleet_bookings_broken", "Bookings that bind and are not whole.", broken)

    def _gpus(self) -> GaugeMetricFamily:
        """Every GPU of the fleet is in exactly one of the states."""
        gauge = GaugeMetricFamily("fleet_gpus", "GPUs by node class and state.", labels=["class", "state"])
        journal = self._workloads.journal
        grants, records = journal.grants().values(), journal.live().values()
        count: Counter[tuple[str, str]] = Counter()
        for node in status.nodes(self._workloads.snapshot(), records, grants, Policy()):
            for state, gpus in _states(node).items():
                count[str(node["class"]), state] += gpus
        for labels, gpus in sorted(count.items()):
            gauge.add_metric(labels, gpus)
        return gauge


def _states(node: status.Row) -> dict[str, int]:
    holders = cast("list[dict[str, str | int]]", node["holders"])
    held = sum(int(holder["gpus"]) for holder in holders if holder["kind"] in _KEPT)
    used = sum(int(holder["gpus"]) for holder in holders) - held
    free, foreign = int(str(node["gpus_free"])), int(str(node["gpus_foreign"]))
    down = max(0, int(str(node["gpus_total"])) - held - used - free - foreign)
    return {"allocated": used, "held": held, "free": free, "foreign": foreign, "down": down}


def _gauge(name: str, says: str, value: float | None) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, says)
    if value is not None:
        gauge.add_metric([], value)
    return gauge
