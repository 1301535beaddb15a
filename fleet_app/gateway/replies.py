"""How a refusal is said: Ray's clients print the text of a body, the fleet's own read {"error": {...}}.

Knows the two shapes. Does not know what was refused.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from fleet_app.engine.errors import FleetError

CONTROL = "/api/fleet/"
"""Below this path the fleet's own API lives; everything else speaks as Ray does."""


def refusal(path: str, error: FleetError) -> web.Response:
    """Return the response that says `error` to whoever asked for `path`."""
    if path.startswith(CONTROL):
        said = {"what": error.what, "where": error.where, "fix": error.fix}
        return web.json_response({"error": said}, status=error.http_status)
    return web.Response(text=error.sentence(), status=error.http_status)


@web.middleware
async def say_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn the fleet's errors, and the router's own 404 and 405 below CONTROL, into responses."""
    try:
        return await handler(request)
    except FleetError as error:
        return refusal(request.path, error)
    except web.HTTPException as error:
        if error.status < 400 or not request.path.startswith(CONTROL):
            raise
        said = {"what": error.reason, "where": request.path, "fix": "See the fleet's control API"}
        return web.json_response({"error": said}, status=error.status)
