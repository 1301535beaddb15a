"""Serve applications of a local fleet: deployed through Ray's dashboard, answering on one port of loopback.

What else of a local fleet listens does so on loopback too, but for Serve's replicas: each opens a port for Serve's own
calls on all interfaces, which Ray 2.60 leaves no choice about (`serve/_private/replica.py`). Does not know what the
applications do, or the arbiter.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from fleet_app.engine.errors import FaultError, RequestError

DEPLOY_WITHIN_S = 180.0
_CALL_S = 30.0
_PAUSE_S = 0.2
_PATH = "/api/serve/applications/"


def deploy(dashboard_url: str, config: Path, port: int) -> str:
    """Deploy a Serve config file and wait until every application runs; return the URL that they answer on.

    Raises RequestError for a file that Serve refuses, FaultError when an application does not come up in time.
    """
    body = {
        **_read(config),
        # The nodes of a local fleet share one address, so only one of them can listen on a port.
        "proxy_location": "HeadOnly",
        "http_options": {"host": "127.0.0.1", "port": port},
    }
    with httpx.Client(base_url=dashboard_url, timeout=_CALL_S) as client:
        _put(client, body, config)
        _await_running(client, config)
    return f"http://127.0.0.1:{port}"


def _read(config: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RequestError(f"cannot be read ({error})", where=str(config), fix="Name a Serve config file") from error
    if not isinstance(values, dict) or "applications" not in values:
        raise RequestError("names no applications", where=str(config), fix="See Ray Serve's config file format")
    return values


def _put(client: httpx.Client, body: Mapping[str, Any], config: Path) -> None:
    try:
        answer = client.put(_PATH, json=body)
    except httpx.HTTPError as error:
        raise FaultError(f"Ray's dashboard does not answer ({error})", where="serve") from error
    if answer.is_client_error or answer.is_server_error:
        raise RequestError(f"Serve refuses it: {answer.text.strip()[:2000]}", where=str(config))


def _await_running(client: httpx.Client, config: Path) -> None:
    deadline = time.monotonic() + DEPLOY_WITHIN_S
    states: dict[str, tuple[str, str]] = {}
    while time.monotonic() < deadline:
        states = _states(client) or states
        for name, (status, message) in states.items():
            if status == "DEPLOY_FAILED":
                raise FaultError(f"application {name} failed: {message.strip()[-2000:]}", where=str(config))
        if states and all(status == "RUNNING" for status, _ in states.values()):
            return
        time.sleep(_PAUSE_S)
    waiting = ", ".join(f"{name} is {status}: {message}" for name, (status, message) in sorted(states.items()))
    raise FaultError(f"not up within {DEPLOY_WITHIN_S:.0f} s ({waiting or 'no state yet'})", where=str(config))


def _states(client: httpx.Client) -> dict[str, tuple[str, str]]:
    try:
        applications = client.get(_PATH).raise_for_status().json()["applications"]
    except httpx.HTTPError:  # the dashboard's part for Serve is still coming up
        return {}
    return {name: (each["status"], each.get("message") or "") for name, each in applications.items()}
