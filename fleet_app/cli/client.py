"""The control API as the command line asks it: one HTTP call a method, its refusals as the fleet's own errors.

Knows a gateway's URL and a token. Does not know what the answers mean.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from fleet_app.engine.errors import ConflictError, FaultError, FleetError, NotFoundError, RequestError

CALL_S = 30.0
CONTROL = "/api/fleet/"
TOKEN_VARIABLE = "FLEET_TOKEN"

_REFUSALS: Mapping[int, type[RequestError]] = {404: NotFoundError, 409: ConflictError}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Where a fleet's gateway is, and the token that it wants (None: none)."""

    url: str
    token: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every call."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def get(self, path: str, **query: str | int) -> Any:
        """Return the answer to GET below the control API. Raises FleetError."""
        return _decoded(self._call("GET", CONTROL + path, params=query))

    def get_text(self, path: str) -> str:
        """Return the answer to GET below the control API, as text. Raises FleetError."""
        return self._call("GET", CONTROL + path).text

    def post(self, path: str, body: Mapping[str, object] | None = None, **query: str | int) -> Any:
        """Return the answer to POST of a JSON object below the control API. Raises FleetError."""
        return _decoded(self._call("POST", CONTROL + path, json=dict(body or {}), params=query))

    def post_text(self, path: str, text: str, **query: str | int) -> Any:
        """Return the answer to POST of a text below the control API. Raises FleetError."""
        return _decoded(self._call("POST", CONTROL + path, content=text.encode(), params=query))

    def log(self, name: str) -> str:
        """Return all that a workload has printed. Raises FleetError."""
        return str(_decoded(self._call("GET", f"/api/jobs/{name}/logs")).get("logs", ""))

    def _call(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            # `trust_env` off: a proxy of the user's must not see a fleet on loopback.
            with httpx.Client(base_url=self.url, headers=self.headers, timeout=CALL_S, trust_env=False) as client:
                answer = client.request(method, path, **more)
        except httpx.InvalidURL as error:
            raise RequestError(f"is no URL ({error})", where=self.url, fix="Write http://HOST:PORT") from error
        except httpx.HTTPError as error:
            raise FaultError(
                f"the fleet's gateway does not answer ({error})",
                where=self.url,
                fix="Look at `fleet status`; `fleet up` starts a fleet on this machine",
            ) from error
        if answer.is_success:
            return answer
        raise refusal(answer)


def refusal(answer: httpx.Response) -> FleetError:
    """Return the error that a response says, in the fleet's own form or in any other."""
    said: object = None
    with contextlib.suppress(ValueError):
        said = answer.json()
    error = said.get("error") if isinstance(said, dict) else None
    what = error if isinstance(error, dict) else {"what": answer.text.strip()[:500] or answer.reason_phrase}
    parts = {key: str(what.get(key) or "") for key in ("what", "where", "fix")}
    if answer.status_code in {401, 403} and not parts["fix"]:
        parts["fix"] = f"Set {TOKEN_VARIABLE} to the token of the fleet"
    kind = FaultError if answer.is_server_error else _REFUSALS.get(answer.status_code, RequestError)
    return kind(parts["what"], where=parts["where"] or str(answer.url), fix=parts["fix"])


def find(home: Path, url: str | None) -> Gateway:
    """Return the gateway at `url`, or else that of the fleet in `home`. Raises RequestError when neither is known."""
    token = os.environ.get(TOKEN_VARIABLE)
    if url is not None:
        return Gateway(url=url.rstrip("/"), token=token)
    known = read_fleet(home)
    if known is None:
        raise RequestError(
            "no fleet is up here", where=str(home), fix="Start one with `fleet up`, or name --home or --gateway"
        )
    with contextlib.suppress(OSError):
        token = token or (home / "token").read_text(encoding="utf-8").strip()
    return Gateway(url=str(known["gateway_url"]), token=token or None)


def read_fleet(home: Path) -> Mapping[str, Any] | None:
    """Return what `fleet up` wrote of its addresses, None when no fleet is up in `home`."""
    try:
        known = json.loads((home / "fleet.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and known.get("gateway_url") else None


def _decoded(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError as error:
        raise FaultError(
            "what answers is not a fleet's gateway", where=str(answer.url), fix="Check --gateway"
        ) from error
