"""Reads a request body as JSON that is safe to keep: bounded in size and depth, finite numbers, storable text.

Knows limits, and how what does not fit a model is refused. Does not know what a body means.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from fleet_app.engine.errors import RequestError
from fleet_app.policy.problems import from_pydantic, refuse

MAX_BODY_BYTES = 1024 * 1024
MAX_DEPTH = 32

Model = TypeVar("Model", bound=BaseModel)


class TooLargeError(RequestError):
    """A body is over its limit: HTTP 413."""

    http_status = 413


async def read_object(request: web.Request) -> dict[str, object]:
    """Return the body as a JSON object; an empty body is an empty object. Raises RequestError."""
    value = parse_json(await read_text(request))
    if not isinstance(value, dict):
        raise RequestError("it must be a JSON object", where="body", fix='Send {"entrypoint": ...} or the like')
    return value


async def read_text(request: web.Request) -> str:
    """Return the body as text of at most MAX_BODY_BYTES. Raises RequestError."""
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLargeError(
            f"it is larger than {MAX_BODY_BYTES} bytes", where="body", fix="Put large inputs into the working directory"
        ) from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(f"it is not UTF-8 (byte {error.start})", where="body", fix="Encode it as UTF-8") from None


def valid(model: type[Model], given: dict[str, object], where: str) -> Model:
    """Return what was given as the model. Raises RequestError with everything that does not fit it."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        refuse(from_pydantic(error, model), where)
        raise  # not reached: pydantic never reports an error without details


def parse_json(text: str) -> object:
    """Return the value of a JSON text. Raises RequestError for what JSON, or the journal, cannot hold."""
    try:
        value: object = json.loads(text or "{}", parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise RequestError(
            f"it is not JSON ({error.msg}, line {error.lineno})", where="body", fix="Send valid JSON"
        ) from None
    except ValueError as error:  # digits beyond Python's limit
        raise RequestError(str(error), where="body", fix="Send smaller numbers") from None
    _check(value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise RequestError(f"{name} is no number", where="body", fix="Send finite numbers")


def _check(root: object) -> None:
    """Walk without recursion, so that depth cannot hurt before it is measured."""
    waiting = [(root, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, dict):
            waiting.extend((part, depth + 1) for pair in value.items() for part in pair)
        elif isinstance(value, list):
            waiting.extend((part, depth + 1) for part in value)
        else:
            _check_leaf(value)


def _check_leaf(value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise RequestError("a number is too large", where="body", fix="Send finite numbers")
    if isinstance(value, str) and not _storable(value):
        raise RequestError("a text holds NUL or half a surrogate pair", where="body", fix="Send plain UTF-8 text")


def _storable(text: str) -> bool:
    try:
        return b"\0" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False


def _too_deep() -> RequestError:
    return RequestError(f"it is nested deeper than {MAX_DEPTH} levels", where="body", fix="Flatten it")
