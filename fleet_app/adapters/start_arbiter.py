"""`python -m fleet_app.adapters.start_arbiter`: have the arbiter of a home in the Ray around this process, then end.

The entrypoint of the Ray job that `attend` submits: so the arbiter is started by a process beside the head's raylet,
whatever container asks for it. An arbiter that is there already stays as it is.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import ray

from fleet_app.adapters import actor
from fleet_app.engine.errors import FleetError
from fleet_app.worker.contract import RAY_NAMESPACE

START_WITHIN_S = 240.0
"""How long it may take: seconds on a quiet machine."""


def main(arguments: list[str] | None = None) -> int:
    """Start the arbiter; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fleet_app.adapters.start_arbiter", description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--dashboard-url", required=True)
    asked = parser.parse_args(arguments)
    ray.init(namespace=RAY_NAMESPACE, log_to_driver=False, logging_level=logging.WARNING)
    try:
        actor.start_arbiter(asked.home, asked.dashboard_url, START_WITHIN_S)
    except FleetError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
