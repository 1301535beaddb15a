"""Kueue's Workloads: the output of `kubectl get workloads -A -o json` (API kueue.x-k8s.io, v1beta1 and later).

A workload ran from its condition `Admitted` until `Finished`; its GPUs are what its pod sets request of
`nvidia.com/gpu`. Its team is its namespace, its queue the local queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from fleet_app.twin.readers.reading import Aside, Malformed, moment
from fleet_app.twin.readers.row import Row

GPU = "nvidia.com/gpu"


def kueue(lines: Iterable[str]) -> Iterator[Row | Malformed | Aside]:
    """Yield the workloads that have finished and had GPUs; a malformed one is named by its place in the list."""
    try:
        document = json.loads("".join(lines))
        items = document["items"]
    except (ValueError, KeyError, TypeError) as error:
        yield Malformed(line=1, why=f"not a list of Workloads: {error}")
        return
    for number, item in enumerate(items, start=1):
        try:
            yield _row(item)
        except (KeyError, TypeError, ValueError) as error:
            yield Malformed(line=number, why=f"item {number}: {type(error).__name__}: {error}")


def _row(item: dict[str, Any]) -> Row | Aside:
    meta, spec = item["metadata"], item["spec"]
    conditions = {one["type"]: one for one in item.get("status", {}).get("conditions", ()) if one["status"] == "True"}
    sets = [(int(one.get("count", 1)), _gpus(one["template"]["spec"])) for one in spec["podSets"]]
    gpus = sum(count * each for count, each in sets)
    if gpus == 0:
        return Aside(why="workloads without GPUs")
    if "Finished" not in conditions:
        return Aside(why="workloads that have not finished")
    if "Admitted" not in conditions:
        return Aside(why="workloads that finished without having been admitted last")
    started_at, ended_at = _since(conditions["Admitted"]), _since(conditions["Finished"])
    return Row(
        name=f"kueue-{meta['namespace']}-{meta['name']}",
        team=meta["namespace"],
        submitted_at=moment(meta["creationTimestamp"], "creationTimestamp"),
        started_at=started_at,
        run_s=max(0.0, ended_at - started_at),
        gpus=gpus,
        nodes=sum(count for count, each in sets if each) if len({each for _, each in sets if each}) == 1 else None,
        limit_s=_limit_s(spec),
        queue=spec.get("queueName", ""),
        failed=conditions["Finished"].get("reason") == "Failed",
    )


def _gpus(pod: dict[str, Any]) -> int:
    """Return the GPUs of one pod; Kubernetes takes a limit as the request where only that is given."""
    resources = [one.get("resources", {}) for one in pod["containers"]]
    return sum(int(one.get("requests", {}).get(GPU) or one.get("limits", {}).get(GPU) or 0) for one in resources)


def _limit_s(spec: dict[str, Any]) -> float | None:
    limit = spec.get("maximumExecutionTimeSeconds")
    return None if limit is None else float(limit)


def _since(condition: dict[str, Any]) -> float:
    return moment(condition["lastTransitionTime"], "lastTransitionTime")
