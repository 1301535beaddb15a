"""Values to JSON and back, for the journal: records, states, plans.

Knows nothing about what the values mean. Unknown keys are ignored on the way in, so that a journal survives a field
that has been dropped; a field that is new needs a default.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fleet_app.engine.errors import FaultError

T = TypeVar("T")


_adapters: dict[type, TypeAdapter[Any]] = {}


def _adapter(kind: type) -> TypeAdapter[Any]:
    """Building one takes milliseconds, so each is built once."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def dump(value: object) -> str:
    """Return a dataclass as JSON."""
    return _adapter(type(value)).dump_json(value).decode()


def brief(value: object) -> str:
    """Return a dataclass as JSON without what has its default: for what is kept for ever and seldom read."""
    return _adapter(type(value)).dump_json(value, exclude_defaults=True).decode()


def load(kind: type[T], text: str) -> T:
    """Return the dataclass of that type that `dump` or `brief` wrote.

    Raises FaultError when the text is not one.
    """
    try:
        value: T = _adapter(kind).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise FaultError(
            f"not a {kind.__name__}: {'.'.join(map(str, first['loc']))}: {first['msg']}",
            where="journal",
            fix="It was damaged or written by another version: restore it, or move it away to start anew",
        ) from error
    return value
