"""What was last seen of the pools, in a file of the home: whoever shows the fleet's state reads its age and troubles.

A file of its own and not the journal, since it changes with every look. Does not know what follows from it.
"""

from __future__ import annotations

import json
from pathlib import Path

from fleet_app.arbiter.ports import PoolsView

NAME = "pools.json"


def write(home: Path, view: PoolsView) -> None:
    """Replace what the file says. Raises OSError."""
    machines = {pod.machine for pod in view.pods if pod.machine}
    said = {
        "at": view.at,
        "pods": len(view.pods),
        "waiting_pods": sum(not pod.machine for pod in view.pods),
        "machines": len(machines),
        "cordoned": [machine.name for machine in view.machines if machine.cordoned and machine.name in machines],
        "held_pods": len(view.held_pods),
        "asked": [{"class": ask.node_class.value, "nodes": ask.nodes, "why": ask.why} for ask in view.asked],
        "troubles": list(view.troubles),
    }
    new = home / f"{NAME}.new"
    new.write_text(json.dumps(said), encoding="utf-8")
    new.replace(home / NAME)


def read(home: Path, now: float) -> dict[str, object] | None:
    """Return what the file says, with the age of it in seconds (None before the first look); None without pools."""
    try:
        said = json.loads((home / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    at = said.pop("at", 0.0)
    return {"age_s": max(0.0, now - at) if at else None, **said}
