"""Ray's package endpoints, answered from the spool: does it exist, and here it is.

Knows the two requests that Ray's client makes. Does not know where bytes go.
"""

from __future__ import annotations

from aiohttp import web

from fleet_app.gateway.packages import Spool

_CHUNK_BYTES = 256 * 1024
_PATH = "/api/packages/{protocol}/{name}"


class UploadsApi:
    """GET and PUT of a package."""

    def __init__(self, spool: Spool) -> None:
        """Answer from `spool`."""
        self._spool = spool

    def routes(self) -> list[web.RouteDef]:
        """Return what this serves."""
        return [web.get(_PATH, self._find), web.put(_PATH, self._store)]

    async def _find(self, request: web.Request) -> web.Response:
        self._spool.find(request.match_info["protocol"], request.match_info["name"])
        return web.Response()

    async def _store(self, request: web.Request) -> web.Response:
        chunks = request.content.iter_chunked(_CHUNK_BYTES)
        await self._spool.store(
            request.match_info["protocol"], request.match_info["name"], chunks, request.content_length
        )
        return web.Response()
