"""`python -m fleet_app.adapters.attend`: what stands beside Ray's head in a pod, and sees that the fleet is there.

Looks every two seconds, from what is and never from what happened, whether Ray answers, the arbiter's actor exists, the
gateway runs, the policy and Serve's applications are those of the mounted files, and the pods that take requests are
labelled; and takes the next step where not. Never ends by itself: a Ray that is away is waited for, so the head's pod
is never restarted on its account. Ends on SIGTERM. Decides nothing about the fleet.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from fleet_app.adapters.duties import ApplyPolicy, DeployServe, Duty, HaveArbiter, KeepGateway
from fleet_app.adapters.gateway_process import Gateway
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.proxy_pods import LabelProxies, PodLabels
from fleet_app.engine.errors import FleetError
from fleet_app.gateway.auth import read_token
from fleet_app.render import names
from fleet_app.worker.contract import RAY_NAMESPACE

log = logging.getLogger("fleet.attend")

EVERY_S = 2.0
LONGEST_PAUSE_S = 30.0
CALL_S = 10.0


class Attendant:
    """Sees to duties. One that fails is let be for a while, longer each time, and does not keep the others waiting."""

    def __init__(self, duties: Sequence[Duty]) -> None:
        """See to these, in this order."""
        self._duties = tuple(duties)
        self._pauses: dict[str, float] = {}
        self._again_at: dict[str, float] = {}
        self._said: dict[str, str] = {}

    def look(self, monotonic_s: float) -> None:
        """Take one step with each duty that is due."""
        for duty in self._duties:
            if monotonic_s >= self._again_at.get(duty.name, monotonic_s):
                self._tend(duty, monotonic_s)

    def _tend(self, duty: Duty, monotonic_s: float) -> None:
        try:
            duty.tend()
        except FleetError as error:
            self._put_off(duty, monotonic_s, str(error))
        except Exception as error:  # the one guard of this loop: what one duty comes upon must not end the others
            log.exception("%s failed", duty.name)
            self._put_off(duty, monotonic_s, repr(error))
        else:
            self._pauses.pop(duty.name, None)
            self._say(duty, "")

    def _put_off(self, duty: Duty, monotonic_s: float, trouble: str) -> None:
        pause_s = self._pauses.get(duty.name, EVERY_S)
        self._again_at[duty.name] = monotonic_s + pause_s
        self._pauses[duty.name] = min(2 * pause_s, LONGEST_PAUSE_S)
        self._say(duty, trouble)

    def _say(self, duty: Duty, trouble: str) -> None:
        if trouble != self._said.get(duty.name, ""):
            log.log(logging.WARNING if trouble else logging.INFO, "%s: %s", duty.name, trouble or "well again")
        self._said[duty.name] = trouble


def attend(asked: argparse.Namespace, told: threading.Event, environment: Mapping[str, str]) -> None:
    """See to the fleet of a home until told to end."""
    home = FleetHome(asked.home.resolve())
    home.prepare()
    gateway = Gateway(home, asked.dashboard_url, host=asked.host, port=asked.port)
    url = f"http://127.0.0.1:{asked.port}"
    home.write_fleet(_addresses(asked, url))
    with (
        _client(asked.dashboard_url, environment.get("RAY_AUTH_TOKEN")) as ray,
        _client(url, None) as fleet,
    ):
        if asked.token is not None:
            fleet.auth = _bearer(lambda: read_token(home.path))
        duties: list[Duty] = [
            KeepGateway(gateway, home, asked.token),
            ApplyPolicy(asked.policy, home, fleet),
            HaveArbiter(ray, home, asked.dashboard_url),
        ]
        if asked.serve is not None:
            duties.append(DeployServe(asked.serve, ray, home, asked.serve_port))
        if (pods := PodLabels.of(environment)) is not None:
            duties.append(LabelProxies(ray, pods))
        attendant = Attendant(duties)
        try:
            while not told.wait(EVERY_S):
                attendant.look(time.monotonic())
        finally:
            gateway.stop()


def _addresses(asked: argparse.Namespace, gateway_url: str) -> dict[str, object]:
    """Return what `fleet` needs to find the fleet from inside of the pod."""
    return {
        "name": asked.name,
        "ray_address": "auto",
        "dashboard_url": asked.dashboard_url,
        "gateway_url": gateway_url,
        "serve_url": None if asked.serve is None else f"http://127.0.0.1:{asked.serve_port}",
        "namespace": RAY_NAMESPACE,
        "ray_version": importlib.metadata.version("ray"),
    }


def _client(url: str, token: str | None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # `trust_env` off: a proxy of the site's must not see what stays inside of the pod.
    return httpx.Client(base_url=url, headers=headers, timeout=CALL_S, trust_env=False)


def _bearer(token: Callable[[], str | None]) -> Callable[[httpx.Request], httpx.Request]:
    """Return what gives each request the token of now."""

    def authorise(request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = f"Bearer {token()}"
        return request

    return authorise


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fleet_app.adapters.attend", description=__doc__)
    parser.add_argument("--home", type=Path, default=os.environ.get("FLEET_HOME"), help="where it has its files")
    parser.add_argument("--name", default="fleet", help="what the fleet is called")
    parser.add_argument("--policy", type=Path, required=True, help="the policy to put in force whenever it changes")
    parser.add_argument("--serve", type=Path, help="Serve's applications (a Serve config file)")
    parser.add_argument("--token", type=Path, help="the file with the gateway's token; without, it is open")
    dashboard = f"http://127.0.0.1:{names.DASHBOARD_PORT}"
    parser.add_argument("--dashboard-url", default=dashboard, help="Ray's own (default: %(default)s)")
    parser.add_argument("--host", default="0.0.0.0", help="address of the gateway (default: %(default)s)")
    parser.add_argument("--port", type=int, default=names.GATEWAY_PORT, help="of the gateway (default: %(default)s)")
    parser.add_argument("--serve-port", type=int, default=names.SERVE_PORT, help="of Serve (default: %(default)s)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """See to a fleet until SIGTERM; return the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.home is None:
        parser.error("--home is not given, nor FLEET_HOME set")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    attend(asked, told, os.environ)
    return 0


if __name__ == "__main__":
    sys.exit(main())
