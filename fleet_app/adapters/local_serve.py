"""Serve applications of a local fleet: deployed through Ray's dashboard, answering on one port of loopback.

What else of a local fleet listens does so on loopback too, but for Serve's replicas: each opens a port for Serve's own
calls on all interfaces, which Ray 2.60 leaves no choice about (`serve/_private/replica.py`). Does not know what the
applications do, or the arbiter.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import httpx

from fleet_app.adapters import serve_rest
from fleet_app.engine.errors import FaultError

DEPLOY_WITHIN_S = 180.0
_PAUSE_S = 0.2


def deploy(dashboard_url: str, config: Path, port: int) -> str:
    """Deploy a Serve config file and wait until every application runs; return the URL that they answer on.

    Raises RequestError for a file that Serve refuses, FaultError when an application does not come up in time.
    """
    body = {
        **serve_rest.read_config(config),
        # The nodes of a local fleet share one address, so only one of them can listen on a port.
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
    }
    with httpx.Client(base_url=dashboard_url, timeout=serve_rest.CALL_S) as client:
        serve_rest.put(client, body, str(config))
        _await_running(client, config)
    return f"http://127.0.0.1:{port}"


def _await_running(client: httpx.Client, config: Path) -> None:
    deadline = time.monotonic() + DEPLOY_WITHIN_S
    states: dict[str, tuple[str, str]] = {}
    while time.monotonic() < deadline:
        with contextlib.suppress(FaultError):
            states = serve_rest.states(serve_rest.details(client)) or states
        for name, (status, message) in states.items():
            if status == "DEPLOY_FAILED":
                raise FaultError(f"application {name} failed: {message.strip()[-2000:]}", where=str(config))
        if states and all(status == "RUNNING" for status, _ in states.values()):
            return
        time.sleep(_PAUSE_S)
    waiting = ", ".join(f"{name} is {status}: {message}" for name, (status, message) in sorted(states.items()))
    raise FaultError(f"not up within {DEPLOY_WITHIN_S:.0f} s ({waiting or 'no state yet'})", where=str(config))
