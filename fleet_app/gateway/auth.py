"""Who may talk to the gateway: whoever holds the fleet's token, and no web page of somebody else.

Knows one shared token. Does not know users or roles; what a caller may ask for is the policy's business.
"""

from __future__ import annotations

import hmac
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from fleet_app.engine.errors import RequestError

OPEN_PATHS = frozenset({"/healthz"})
_READING = frozenset({"GET", "HEAD"})


def read_token(home: Path) -> str | None:
    """Return the token in `home`/token, None when there is no such file. Raises RequestError when it is empty."""
    path = home / "token"
    if not path.exists():
        return None
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise RequestError("the token is empty", where=str(path), fix="Write a long random text into it, or remove it")
    return token


def guard(token: str | None) -> Middleware:
    """Return the middleware that lets in only those with the token (everybody when there is none), and no browser page.

    A page from anywhere could otherwise start code on the fleet through the browser of somebody on this machine.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None and request.path not in OPEN_PATHS:
            offered = _offered(request)
            if offered is None:
                return web.Response(status=401, text="Unauthorized: Missing authentication token")
            if not hmac.compare_digest(offered.encode(), token.encode()):
                return web.Response(status=403, text="Forbidden: Invalid authentication token")
        if _from_a_page(request):
            return web.Response(status=405, text="Method Not Allowed for browser traffic")
        return await handler(request)

    return check


def _offered(request: web.Request) -> str | None:
    """Return the token of the request, from where Ray's clients and the proxies before them put it."""
    header = request.headers.get("Authorization") or request.headers.get("X-Ray-Authorization") or ""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token else None


def _from_a_page(request: web.Request) -> bool:
    """Say whether a script on a web page sent what changes something, or would hold a socket."""
    changes = request.method not in _READING or request.headers.get("Upgrade", "").lower() == "websocket"
    return changes and ("Origin" in request.headers or "Sec-Fetch-Mode" in request.headers)
