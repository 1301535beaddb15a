"""What the arbiter's attendant sees to, one class a duty: gateway, policy, arbiter, Serve's applications.

Each looks at what is and takes the next step towards what should be, so that it can be done again at any time: nothing
is remembered that is not looked up again, but the jobs that were started. Reaches Ray by its dashboard alone, so it
need not live beside a raylet. Decides nothing about the fleet.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from fleet_app.adapters import serve_rest
from fleet_app.adapters.actor import ALIVE_FILE
from fleet_app.adapters.gateway_process import Gateway
from fleet_app.adapters.local_home import FleetHome
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.policy.load import parse_policy
from fleet_app.worker.contract import ARBITER_ACTOR, LEASE_STALE_S

WHO = "helm"
"""Who asked, in the journal, for a policy that came with the chart."""

FORGET_AFTER_S = 15.0
"""How long after its end a job's entry is removed. Ray looks after a job for some seconds more, and when its entry is
gone by then writes a new one, that the job failed."""

_LOG_TAIL = 1000
_ACTORS = "/api/v0/actors"
_JOBS = "/api/jobs/"


class Duty(Protocol):
    """Something that should be so."""

    @property
    def name(self) -> str:
        """Return what it is about, for messages."""

    def tend(self) -> None:
        """Take the next step towards it, if one is needed. Raises FleetError when none is possible now."""


class KeepGateway:
    """The gateway runs, and asks for the token that is to be asked for."""

    name = "gateway"

    def __init__(self, gateway: Gateway, home: FleetHome, token: Path | None) -> None:
        """Keep this one; `token` is the file that the token is in."""
        self._gateway = gateway
        self._link = home.path / "token"
        self._token = token
        self._started = False

    def tend(self) -> None:
        """Start it, or start it again."""
        if self._started:
            self._gateway.keep()
            return
        self._link.unlink(missing_ok=True)
        if self._token is not None:
            self._link.symlink_to(self._token)
        self._gateway.start()
        self._started = True


class ApplyPolicy:
    """The policy of a file is in force, each time that the file changes; in between, others may change the policy."""

    name = "policy"

    def __init__(self, file: Path, home: FleetHome, gateway: httpx.Client) -> None:
        """Put this file's policy in force, by asking the fleet's gateway."""
        self._file = file
        self._home = home
        self._gateway = gateway
        self._note = home.path / "policy.attended.yaml"

    def tend(self) -> None:
        """Put a policy in force that was not yet. Raises RequestError when the fleet refuses it."""
        text = _read(self._file)
        if text is None:
            raise FaultError("there is no policy", where=str(self._file), fix="Mount it there")
        if text == _read(self._note):
            return
        parse_policy(text, str(self._file))
        if self._home.policy.exists():
            self._ask(text)
        else:  # nobody has taken this home yet: the arbiter starts with it
            _write(self._home.policy, text)
        _write(self._note, text)

    def _ask(self, text: str) -> None:
        try:
            answer = self._gateway.post("/api/fleet/policy", params={"who": WHO}, content=text.encode())
        except httpx.HTTPError as error:
            raise FaultError(f"the gateway does not answer ({error})", where="policy") from error
        if not answer.is_success:
            raise RequestError(f"the fleet refuses it: {answer.text.strip()[:2000]}", where=str(self._file))


class HaveArbiter:
    """The arbiter's actor is there. Started by a Ray job, whose driver runs beside the head's raylet."""

    name = "arbiter"

    def __init__(
        self, ray: httpx.Client, home: FleetHome, dashboard_url: str, clock: Callable[[], float] = time.time
    ) -> None:
        """Have the arbiter of this home in the Ray behind this dashboard."""
        self._ray = ray
        self._home = home
        self._dashboard_url = dashboard_url
        self._clock = clock
        self._job: str | None = None
        self._ended: dict[str, float] = {}

    def tend(self) -> None:
        """Start it when Ray knows none; one that is restarting is Ray's business."""
        if self._job is not None:
            self._follow(self._job)
        elif not self._vouched() and not self._known() and self._home.policy.exists():
            self._job = self._submit()
        self._forget()

    def _vouched(self) -> bool:
        """Return whether it has said lately that it is alive: then Ray need not be asked."""
        try:
            at = (self._home.path / ALIVE_FILE).stat().st_mtime
        except OSError:
            return False
        return self._clock() - at < LEASE_STALE_S

    def _known(self) -> bool:
        filters = {"filter_keys": "name", "filter_predicates": "=", "filter_values": ARBITER_ACTOR}
        found = self._call("GET", _ACTORS, params=filters).json()
        return any(each["state"] != "DEAD" for each in found["data"]["result"]["result"])

    def _submit(self) -> str:
        command = (
            *(sys.executable, "-m", "fleet_app.adapters.start_arbiter"),
            *("--home", str(self._home.path), "--dashboard-url", self._dashboard_url),
        )
        job = f"fleet-attend-{int(self._clock() * 1000)}"
        self._call("POST", _JOBS, json={"entrypoint": shlex.join(command), "submission_id": job})
        return job

    def _follow(self, job: str) -> None:
        answer = self._call("GET", _JOBS + quote(job), missing_ok=True)
        status = answer.json()["status"] if answer.is_success else "LOST"  # with the head that it ran on
        if status in {"PENDING", "RUNNING"}:
            return
        self._job, self._ended[job] = None, self._clock()
        if status == "FAILED":
            said = self._call("GET", f"{_JOBS}{quote(job)}/logs").json()["logs"].strip()
            raise FaultError(f"the arbiter does not start: {said[-_LOG_TAIL:]}", where=job)

    def _forget(self) -> None:
        """Let no job of ours stay in everybody's lists; what Ray refuses to remove is tried again."""
        for job in [job for job, at in self._ended.items() if self._clock() - at >= FORGET_AFTER_S]:
            self._call("DELETE", _JOBS + quote(job), missing_ok=True)
            del self._ended[job]

    def _call(self, method: str, path: str, *, missing_ok: bool = False, **more: Any) -> httpx.Response:
        try:
            answer = self._ray.request(method, path, **more)
        except httpx.HTTPError as error:
            raise FaultError(f"Ray's dashboard does not answer ({error})", where=self._dashboard_url) from error
        if not answer.is_success and not (missing_ok and answer.status_code == httpx.codes.NOT_FOUND):
            raise FaultError(f"Ray refuses: {answer.text.strip()[:2000]}", where=path)
        return answer


class DeployServe:
    """Serve has the applications of a file: each time that the file changes, and whenever one of them is missing."""

    name = "serve"

    def __init__(self, file: Path, ray: httpx.Client, home: FleetHome, port: int) -> None:
        """Deploy this file's applications, where it does not say else: with a proxy on every node with a replica."""
        self._file = file
        self._ray = ray
        self._note = home.path / "serve.attended.yaml"
        self._defaults = {"proxy_location": "EveryNode", "http_options": {"host": "0.0.0.0", "port": port}}

    def tend(self) -> None:
        """Deploy what is new or missing. Raises RequestError when Serve refuses it."""
        text = _read(self._file)
        if not text or not text.strip():
            return
        config = serve_rest.parse_config(text, str(self._file))
        wanted = serve_rest.names(config, str(self._file))
        there = serve_rest.states(serve_rest.details(self._ray)).keys()
        if text == _read(self._note) and wanted <= there:
            return
        serve_rest.put(self._ray, {**self._defaults, **config}, str(self._file))
        _write(self._note, text)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or none."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
