"""Serve as Ray's dashboard shows it: what applications and proxies there are, and which there are to be.

Speaks Serve's REST API. Does not know what the applications do, when they are to be deployed, or the arbiter.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from fleet_app.engine.errors import FaultError, RequestError

CALL_S = 30.0
_PATH = "/api/serve/applications/"

Details = Mapping[str, Any]


def read_config(path: Path) -> dict[str, Any]:
    """Return a Serve config file. Raises RequestError."""
    try:
        return parse_config(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot be read ({error})", where=str(path), fix="Name a Serve config file") from error


def parse_config(text: str, where: str) -> dict[str, Any]:
    """Return the Serve config in a text. Raises RequestError."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RequestError(f"cannot be read ({error})", where=where, fix="Name a Serve config file") from error
    if not isinstance(values, dict) or "applications" not in values:
        raise RequestError("names no applications", where=where, fix="See Ray Serve's config file format")
    return values


def names(config: Mapping[str, Any], where: str) -> frozenset[str]:
    """Return what the applications of a config are called; Serve calls one without a name `default`.

    Raises RequestError.
    """
    applications = config["applications"] or []
    if not isinstance(applications, list) or not all(isinstance(each, dict) for each in applications):
        raise RequestError("applications is no list of mappings", where=where, fix="See Ray Serve's config file format")
    return frozenset(str(each.get("name", "default")) for each in applications)


def put(dashboard: httpx.Client, body: Mapping[str, Any], where: str) -> None:
    """Have exactly the applications of a config. Raises RequestError when Serve refuses it, FaultError."""
    try:
        answer = dashboard.put(_PATH, json=body)
    except httpx.HTTPError as error:
        raise FaultError(f"Ray's dashboard does not answer ({error})", where="serve") from error
    if answer.is_client_error or answer.is_server_error:
        raise RequestError(f"Serve refuses it: {answer.text.strip()[:2000]}", where=where)


def details(dashboard: httpx.Client) -> Details:
    """Return what there is, as Serve says it; no applications when Serve does not run. Raises FaultError."""
    try:
        found = dashboard.get(_PATH).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:  # also while the dashboard's part for Serve is still coming up
        raise FaultError(f"Ray's dashboard does not answer ({error})", where="serve") from error
    return {"applications": {}, "proxies": {}, **found}


def states(found: Details) -> dict[str, tuple[str, str]]:
    """Return status and message of each application."""
    return {name: (each["status"], each.get("message") or "") for name, each in found["applications"].items()}


def proxies(found: Details) -> dict[str, str]:
    """Return the status of each proxy, by the address of its node."""
    return {each["node_ip"]: each["status"] for each in found["proxies"].values()}
