"""Serve's REST API, passed on to Ray's dashboard as it is: `serve deploy` and KubeRay's RayService speak it.

What is deployed asks the arbiter by its own autoscaling policy, so there is nothing to add here but the token that the
gateway asks for. Does not know what is deployed.
"""

from __future__ import annotations

from aiohttp import web

from fleet_app.gateway.body import read_text
from fleet_app.gateway.dashboard import Answer, Dashboard

TIMEOUT_S = 60.0
_APPLICATIONS = "/api/serve/applications/"
_VERSION = "/api/ray/version"


class ServeApi:
    """What Serve's own client asks of a dashboard."""

    def __init__(self, dashboard: Dashboard) -> None:
        """Pass on to this dashboard."""
        self._dashboard = dashboard

    def routes(self) -> list[web.RouteDef]:
        """Return what this serves."""
        return [
            web.get(_VERSION, self._pass_on),
            web.get(_APPLICATIONS, self._pass_on),
            web.put(_APPLICATIONS, self._pass_on),
            web.delete(_APPLICATIONS, self._pass_on),
        ]

    async def _pass_on(self, request: web.Request) -> web.Response:
        body = (await read_text(request)).encode()
        answer: Answer = await self._dashboard.ask(
            request.method, request.path_qs, body=body or None, timeout_s=TIMEOUT_S
        )
        return web.Response(status=answer.status, body=answer.body, content_type=answer.content_type)
