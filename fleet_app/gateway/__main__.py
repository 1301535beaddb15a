"""`python -m fleet_app.gateway`: serve a fleet's gateway until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

from fleet_app.engine.errors import FleetError, RequestError
from fleet_app.gateway.auth import read_token
from fleet_app.gateway.server import Settings, known_dashboard, serve

log = logging.getLogger("fleet_app.gateway")

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def main(arguments: list[str] | None = None) -> int:
    """Run the gateway; return the exit code."""
    asked = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = _settings(asked.home, asked.dashboard_url)
        if settings.token is None and asked.host not in _LOOPBACK:
            log.warning("%s is reachable from outside, and %s/token does not exist", asked.host, asked.home)
        asyncio.run(serve(settings, asked.host, asked.port, asked.url_file))
    except FleetError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fleet_app.gateway", description=__doc__)
    home = Path(os.environ.get("FLEET_HOME", "~/.fleet")).expanduser()
    parser.add_argument("--home", type=Path, default=home, help="the fleet's home directory (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    parser.add_argument("--dashboard-url", help="Ray's dashboard (default: the one in fleet.json)")
    parser.add_argument("--url-file", type=Path, help="write the gateway's URL here once it listens")
    return parser


def _settings(home: Path, dashboard_url: str | None) -> Settings:
    if not home.is_dir():
        raise RequestError("there is no fleet", where=str(home), fix="Start one with `fleet up`, or name its --home")
    url = dashboard_url or known_dashboard(home)
    if url is None:
        raise RequestError("no dashboard is known", where=str(home / "fleet.json"), fix="Give --dashboard-url")
    return Settings(
        home=home, dashboard_url=url, token=read_token(home), ray_token=os.environ.get("RAY_AUTH_TOKEN") or None
    )


if __name__ == "__main__":
    sys.exit(main())
