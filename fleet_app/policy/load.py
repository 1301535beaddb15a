"""Read a policy: text to `PolicyFile` to the engine's `Policy`, and back to text; and its JSON schema.

Does not know where the policy in force is kept.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from fleet_app.engine import policy as engine
from fleet_app.engine.flavors import unit
from fleet_app.policy.checks import check
from fleet_app.policy.document import Document, parse_document, read_document
from fleet_app.policy.problems import from_pydantic
from fleet_app.policy.schema import (
    Boundary,
    Entry,
    FlavorLimits,
    PolicyFile,
    PriorityClass,
    Slicing,
    entries,
    may_use,
    nominal_gpus,
)


def load_policy(path: Path | str) -> PolicyFile:
    """Return the policy in a file; raise RequestError with every problem, one a line."""
    return _policy(read_document(Path(path)))


def parse_policy(text: str, source: str = "policy") -> PolicyFile:
    """Return the policy in a text that messages call `source`; raise RequestError with every problem."""
    return _policy(parse_document(text, source))


def dump_policy(policy: PolicyFile) -> str:
    """Return a policy as YAML that `parse_policy` reads back to the same; every default is written out."""
    values = policy.model_dump(mode="json", exclude_none=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def policy_schema() -> dict[str, object]:
    """Return the JSON schema of a policy file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **PolicyFile.model_json_schema()}


def to_engine(policy: PolicyFile) -> engine.Policy:
    """Return what the engine needs of a policy."""
    return engine.Policy(
        levels=policy.topology.levels,
        quotas=tuple(_quota(entry) for entry in entries(policy)),
        classes=tuple(_class(policy, name, item) for name, item in sorted(policy.classes.items())),
        drain=engine.DrainContract(
            grace_s=policy.drain.grace,
            longest_grace_s=policy.drain.longest_grace,
            max_broken=policy.drain.max_broken,
            restart_cost_s=policy.drain.restart_cost,
            min_run_s=policy.drain.min_run,
            most_per_cycle=policy.drain.most_per_cycle,
            most_at_once=policy.drain.most_at_once,
        ),
        spares=engine.Spares(level=policy.spares.level, nodes=policy.spares.nodes),
        affinities=tuple(
            engine.Affinity(service=name, spread=item.spread, per_node=item.per_node, apart_from=item.apart_from)
            for name, item in sorted(policy.services.items())
        ),
        pulls=_pulls(policy),
        idle=engine.Idle(after_s=policy.idle.after, used_percent=policy.idle.used_percent),
        right_size=engine.RightSize(
            after_s=policy.right_size.after,
            below_percent=policy.right_size.below_percent,
            target_percent=policy.right_size.target_percent,
        ),
        ordering=engine.Ordering(
            ageing_s=policy.ordering.ageing,
            shortest_first=policy.ordering.shortest_first,
            keepers=policy.ordering.keepers,
        ),
        packing=engine.Packing(
            first_fit=policy.packing.nodes == "first",
            rest_emptiest=policy.packing.rest == "emptiest",
            cpu_milli_per_gpu=policy.packing.cpus_per_gpu,
        ),
        slicing=_slicing(policy.slicing),
        node_pools=engine.NodePools(
            scales=policy.node_pools.scales,
            boot_s=policy.node_pools.boot,
            quantile=policy.node_pools.quantile,
            gpus_per_node=policy.topology.gpus_per_node,
        ),
        headroom=engine.Headroom(
            immediate_gpus=policy.headroom.immediate,
            quantile=policy.headroom.quantile,
            startup_s=policy.headroom.startup,
            minimum_gpus=policy.headroom.min,
            maximum_gpus=policy.headroom.max,
        ),
        boundary=None if policy.boundary is None else _boundary(policy.boundary),
        health=engine.Health(
            tolerance_s=policy.health.tolerance,
            quarantine_s=policy.health.quarantine,
            failures=policy.health.failures,
            window_s=policy.health.window,
            most_percent=policy.health.most_percent,
            restarts=policy.health.restarts,
        ),
        calendar=engine.Calendar(
            most_displaced_gpu_s=policy.calendar.approve_above_gpu_hours * 3600,
            most_domains=policy.calendar.most_domains,
            price_per_gpu_hour=policy.accounting.price_per_gpu_hour,
            reclaim_lead_s=policy.calendar.reclaim_lead,
            move_lead_s=policy.calendar.move_lead,
            hold_s=policy.calendar.hold,
        ),
    )


def _policy(document: Document) -> PolicyFile:
    try:
        policy = PolicyFile.model_validate(document.values)
    except ValidationError as error:
        document.refuse(from_pydantic(error, PolicyFile))
        raise  # not reached: pydantic never reports an error without details
    document.refuse(check(policy))
    return policy


def _boundary(boundary: Boundary) -> engine.Boundary:
    return engine.Boundary(
        serving=boundary.serving,
        training=boundary.training,
        quantile=boundary.quantile,
        horizon_s=boundary.horizon,
        margin_gpus=boundary.margin,
        most_nodes_a_week=boundary.most_nodes_a_week,
    )


def _pulls(policy: PolicyFile) -> engine.Pulls:
    sources = tuple(
        engine.Source(name=name, most_at_once=item.most_at_once, gbit_per_s=item.gbit_per_s)
        for name, item in sorted(policy.pulls.sources.items())
    )
    return engine.Pulls(sources=sources, most_per_node=policy.pulls.most_per_node)


def _class(policy: PolicyFile, name: str, item: PriorityClass) -> engine.PriorityClass:
    able = tuple(entry.name for entry in entries(policy) if entry.is_team and may_use(entry, item))
    teams = None if item.teams is None else able
    return engine.PriorityClass(name=name, value=item.value, borrows=item.borrows, yields=item.yields, teams=teams)


def _slicing(slicing: Slicing | None) -> engine.Slicing | None:
    if slicing is None:
        return None
    return engine.Slicing(
        shares=slicing.shares,
        repartition=slicing.repartition,
        settle_s=slicing.settle,
        whole_nodes=slicing.together == "node",
    )


def _flavor(name: str, limits: FlavorLimits) -> engine.FlavorQuota:
    """Return the numbers of one flavor in its unit."""
    one = unit(name)
    return engine.FlavorQuota(
        flavor=name,
        nominal=limits.nominal * one,
        borrowing_limit=None if limits.borrowing_limit is None else limits.borrowing_limit * one,
        lending_limit=None if limits.lending_limit is None else limits.lending_limit * one,
    )


def _quota(entry: Entry) -> engine.Quota:
    return engine.Quota(
        name=entry.name,
        parent=entry.parent,
        nominal_gpus=nominal_gpus(entry.team),
        borrowing_limit_gpus=entry.team.borrowing_limit,
        lending_limit_gpus=entry.team.lending_limit,
        weight=entry.team.weight,
        strict=entry.team.queue == "strict",
        flavors=tuple(_flavor(name, limits) for name, limits in sorted(entry.team.quota.items())),
    )
