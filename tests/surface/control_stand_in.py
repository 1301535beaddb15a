"""A real HTTP server that answers like the control API, with what a test puts into it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: str
    authorization: str | None


@dataclass
class Control:
    """Answers by method and path: a value, or a status with it; text as it stands, else JSON; or several in turn."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> tuple[int, object]:
        self.asked.append(asked)
        key = f"{asked.method} {asked.path}"
        if key not in self.answers:
            return 404, {"error": {"what": f"no answer for {key}", "where": key, "fix": ""}}
        given = self.answers[key]
        if isinstance(given, Turns):
            given = given.next()
        return given if isinstance(given, tuple) else (200, given)


@dataclass
class Turns:
    """Answers in turn; the last one stays."""

    values: list[Any]

    def next(self) -> Any:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


def refused(what: str, where: str = "", fix: str = "", status: int = 400) -> tuple[int, object]:
    """Return a refusal in the control API's own form."""
    return status, {"error": {"what": what, "where": where, "fix": fix}}


@contextmanager
def served(answers: dict[str, Any]) -> Iterator[Control]:
    """Serve these answers on a free port of loopback."""
    control = Control(answers=answers)

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            query = dict(parse_qsl(parts.query))
            asked = Asked(self.command, parts.path, query, body, self.headers.get("Authorization"))
            status, value = control.answer(asked)
            data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do  # noqa: N815  # the names are the standard library's

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    control.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield control
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
