"""Manifests as `helm template` and people write them: YAML or JSON, several documents, Lists, to objects.

Unlike a policy a manifest may have anchors and several documents; what would expand without end is refused. Empty
values are taken out, as the API server does. Does not know what kinds there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from fleet_app.audit.things import Thing
from fleet_app.engine.errors import RequestError

MOST_BYTES = 64 * 1024 * 1024
MOST_VALUES = 2_000_000
"""Of one input, aliases written out; a fleet of thousands of nodes has a tenth of it."""

MOST_DEPTH = 100

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]  # the one in C where there is one
    """Reads dates as the text that they are."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}


def parse(text: str, source: str) -> list[Thing]:
    """Return the objects in a text that messages call `source`. Raises RequestError for what are no objects."""
    if len(text) > MOST_BYTES:
        raise RequestError("is larger than 64 MiB", where=source, fix="Give it in parts")
    try:
        documents = list(_documents(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split()) or "nested without end"
        raise RequestError(f"is not valid YAML: {said}", where=source, fix="Give what kubectl would apply") from error
    counter = _Counter(source)
    return [thing for line, value in documents for thing in _things(counter.clean(value), source, line)]


def _documents(text: str) -> Iterator[tuple[int, object]]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield node.start_mark.line + 1, loader.construct_document(node)
    finally:
        loader.dispose()


def _things(value: object, source: str, line: int) -> Iterator[Thing]:
    """Yield an object, or those of a List; a document of comments alone is none."""
    where = f"{source}:{line}"
    if value is None:
        return
    if not isinstance(value, dict) or not _said(value, "kind") or not _said(value, "apiVersion"):
        raise RequestError("is no Kubernetes object: it has no apiVersion and kind", where=where, fix="Take it out")
    for part in ("metadata", "spec"):
        if not isinstance(value.get(part, {}), dict):
            raise RequestError(f"{part} is no mapping", where=where, fix="Give what kubectl would apply")
    if str(value["kind"]).endswith("List") and "name" not in value.get("metadata", {}):
        items = value.get("items", [])
        for item in items if isinstance(items, list) else [items]:
            yield from _things(item, source, line)
        return
    yield Thing(object=value, source=source, line=line)


def _said(value: dict[str, Any], key: str) -> bool:
    return isinstance(value.get(key), str) and bool(value[key])


class _Counter:
    """Takes empty values out, and counts so that no alias makes more of a text than it is."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._left = MOST_VALUES

    def clean(self, value: object, depth: int = 0) -> object:
        self._left -= 1
        if self._left < 0 or depth > MOST_DEPTH:
            what = f"holds more than {MOST_VALUES} values, or one more than {MOST_DEPTH} deep"
            raise RequestError(what, where=self._source, fix="Write its aliases out, in parts")
        if isinstance(value, dict):
            return {str(key): self.clean(each, depth + 1) for key, each in value.items() if each is not None}
        if isinstance(value, list):
            return [self.clean(each, depth + 1) for each in value if each is not None]
        return value
