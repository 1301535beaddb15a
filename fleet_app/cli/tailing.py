"""Follows what a workload prints, over the gateway's websocket.

Apart from the other calls, because aiohttp is slow to import. Does not know what is printed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp
import httpx

from fleet_app.cli.client import CALL_S, Gateway, refusal
from fleet_app.engine.errors import FaultError


def tail(gateway: Gateway, path: str, say: Callable[[str], None]) -> None:
    """Call `say` with what the workload at `path` prints, as it prints it, until its end. Raises FleetError."""
    asyncio.run(_tail(gateway, path, say))


async def _tail(gateway: Gateway, path: str, say: Callable[[str], None]) -> None:
    url = f"{gateway.url}/api/jobs/{path}/logs/tail"
    try:
        async with (
            aiohttp.ClientSession(headers=gateway.headers) as session,
            session.ws_connect(url, max_msg_size=0, heartbeat=CALL_S) as socket,
        ):
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    say(message.data)
            if socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
                raise FaultError("the log broke off", where=url, fix="Ask for it again")
    except aiohttp.WSServerHandshakeError as error:
        raise refusal(httpx.Response(error.status, request=httpx.Request("GET", url))) from error
    except (aiohttp.ClientError, OSError) as error:
        raise FaultError(f"the log broke off ({error})", where=url, fix="Ask for it again") from error
