"""A small fleet as the control API tells of it."""

from __future__ import annotations

import time
from typing import Any

from tests.surface.control_stand_in import refused

BASE = "/api/fleet/"


def workload(name: str, phase: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "backfill",
        "team": "batch",
        "priority": 1000,
        "phase": phase,
        "attempt": 1,
        "bundles": 1,
        "gpus_per_bundle": 2,
        "nodes": [],
        "submitted_at": time.time() - (3 * 86_400 + 4.5 * 3600),
        "step": None,
        "checkpoint": None,
        "message": "",
        **more,
    }


WORKLOADS = [
    workload(
        "llm",
        "queued",
        kind="gang",
        team="research",
        priority=50_000,
        bundles=4,
        gpus_per_bundle=8,
        message="needs 4 whole nodes on one spine; spine s1 has 3 free, s2 has 1: 1 more on s1 would do",
    ),
    workload("batch-1", "running", nodes=["n03"], step=120, checkpoint={"uri": "file:/x", "step": 100, "at": 1.0}),
    workload("batch-2", "draining", nodes=["n05"], message="12 s left"),
    workload("old", "succeeded", ended_at=time.time()),
]

NODES = [
    {
        "name": "n03",
        "class": "serving",
        "domains": {"spine": "s2", "leaf": "l2"},
        "condition": "ready",
        "gpus_total": 8,
        "gpus_free": 3,
        "gpus_foreign": 1,
        "foreign_owners": ["actor Notebook"],
        "holders": [{"what": "batch-1", "gpus": 2}, {"what": "chat.Chat", "gpus": 2}],
    },
    {
        "name": "n04",
        "class": "training",
        "domains": {"spine": "s1", "leaf": "l2"},
        "condition": "down",
        "gpus_total": 8,
        "gpus_free": 8,
        "gpus_foreign": 0,
        "foreign_owners": [],
        "holders": [],
    },
]

SERVICES = [
    {
        "name": "chat.Chat",
        "team": "serving",
        "wanted": 5,
        "grants": [{"node": "n03", "occupied": True}, {"node": "n05", "occupied": False}],
        "occupied": 1,
        "shape": {"gpus": 4, "cpu_milli": 1000, "memory_mib": 0},
    }
]

FRAGMENTS = {
    "pictures": [
        {
            "part": "fleet",
            "nodes": 3,
            "total_gpus": 24,
            "free_gpus": 14,
            "stranded_gpus": 6,
            "whole_nodes": 1,
            "fits": [{"gpus": 1, "bundles": 14}, {"gpus": 8, "bundles": 1}],
            "blocks": [
                {"level": "fleet", "domain": "fleet", "nodes": 1, "gangs": [{"nodes": 1, "gangs": 1}]},
                {"level": "leaf", "domain": "s1/l2", "nodes": 1, "gangs": [{"nodes": 1, "gangs": 1}]},
            ],
        }
    ],
    "plan": None,
}

MOVES = {
    "moves": [
        {
            "kind": "replica",
            "what": "chat.Chat",
            "grant": "g7",
            "source": "n03",
            "target": "n05",
            "gpus": 2,
            "lost_gpu_s": 0.0,
            "why": "empties n03",
        }
    ],
    "freed_nodes": ["n03"],
    "stranded_before_gpus": 9,
    "stranded_after_gpus": 1,
    "whole_nodes_before": 1,
    "lost_gpu_s": 90.0,
}

WHY = "serving has 16 GPUs, and its p99 peak is 24"
BOUNDARY = {
    "plan": {
        "steps": [
            {
                "node": "n03",
                "was": "training",
                "to": "serving",
                "gpus": 8,
                "moved": ["llm"],
                "lost_gpu_s": 480.0,
                "why": WHY,
            }
        ],
        "peak_gpus": 24,
        "serving_gpus": 16,
        "training_gpus": 48,
        "unmet_gpus": 0,
        "short_gpus": 0,
        "left_this_week": 1,
        "lost_gpu_s": 480.0,
        "sentence": f"{WHY}: 1 node should become serving",
    },
    "crossings": [
        {
            "node": "n02",
            "home": "training",
            "was": "training",
            "to": "serving",
            "gpus": 8,
            "asked_at": 1.0,
            "who": "ada",
            "moved_at": None,
        }
    ],
}
EVENTS = [
    {"seq": 1, "at": 1_800_000_000.25, "kind": "submitted", "subject": "llm", "detail": {"team": "research"}},
    {"seq": 2, "at": 1_800_000_001.5, "kind": "admitted", "subject": "batch-1", "detail": {"nodes": ["n03"]}},
]

ANSWERS: dict[str, Any] = {
    f"GET {BASE}workloads": WORKLOADS,
    f"GET {BASE}nodes": NODES,
    f"GET {BASE}services": SERVICES,
    f"GET {BASE}fragments": FRAGMENTS,
    f"GET {BASE}events": EVENTS,
    f"GET {BASE}status": {
        "arbiter": {"alive": True, "lease_age_s": 0.4},
        "paused": False,
        "counts": {"queued": 1, "running": 2},
        "policy_hash": "abc123",
        "immediate": {
            "gpus": 14,
            "growth_gpus": 14,
            "sentence": "holding 14 GPUs free: p99 growth in 90 s is 14",
        },
    },
    f"GET {BASE}recommendations": [
        {
            "subject": "chat.Chat",
            "team": "serving",
            "unit": "replicas",
            "has": 8,
            "enough": 3,
            "gpus_each": 2,
            "used_percent": 20,
            "measured_s": 86_400.0,
            "saved_gpus": 10,
            "saved_per_day": 600.0,
            "sentence": "used at most 20 % of its 8 replicas in 1 d: 3 would do, and free 10 GPUs",
            "kind": "size",
        },
        {
            "kind": "layout",
            "subject": "n7",
            "cards": [{"index": 0, "layout": ["1g.10gb"] * 7}],
            "sentence": "card 0 should be 7 x 1g.10gb: small waits for it",
        },
    ],
    f"GET {BASE}explain/llm": {
        "name": "llm",
        "sentence": "needs 4 whole nodes on one spine",
        "estimate": {"sentence": "in about 5 min, when batch-1 has left"},
        "ahead": ["first"],
        "turns": [{"workload": "first", "why": "higher priority", "outcome": "starts now with 8 GPUs"}],
        "past": [{"sentence": "was asked to leave 5 min ago for chat; is leaving"}],
    },
    f"GET {BASE}explain/nobody": refused("nothing called 'nobody' waits or runs", "explain", "See `fleet queue`", 404),
    f"GET {BASE}policy": "version: 1\nname: demo\n",
    f"POST {BASE}policy": {
        "changes": [{"path": "headroom.immediate", "old": 4, "new": None}],
        "accepted": True,
    },
    f"POST {BASE}pause": {"name": "arbiter", "accepted": True},
    f"POST {BASE}resume": {"name": "arbiter", "accepted": True},
    f"POST {BASE}drain/batch-1": {"name": "batch-1", "accepted": True},
    f"GET {BASE}boundary": BOUNDARY,
    f"POST {BASE}boundary": {"name": "boundary", "accepted": True},
    f"POST {BASE}boundary/cancel": {"name": "boundary", "accepted": True},
    f"POST {BASE}move/llm": {"name": "llm", "accepted": True},
    f"POST {BASE}drain/llm": refused("it is PENDING, and only what runs can be drained", "llm", "See it", 409),
    f"POST {BASE}quarantine/n04": {"name": "n04", "accepted": True},
    f"POST {BASE}release/n04": {"name": "n04", "accepted": True},
    f"POST {BASE}cancel/llm": {"name": "llm", "accepted": True},
    f"POST {BASE}submit": {"name": "llm", "accepted": True},
    "GET /api/jobs/llm/logs": {"logs": "step 1\nstep 2\n"},
}
