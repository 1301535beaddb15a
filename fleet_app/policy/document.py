"""YAML as the fleet reads it: small, plain, no surprises, with the line of every path.

Refuses what a policy or a spec has no use for and what would hurt its reader: files over 1 MiB, anchors and aliases
(so nothing can expand), tags, several documents, duplicate keys, deep nesting, bytes that are no UTF-8. Scalars follow
YAML 1.2: `no`, `1:30` and `2024-01-01` are text. Does not know what a document is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from fleet_app.engine.errors import RequestError
from fleet_app.policy.problems import Path, Problem, dotted, refuse, shown

MOST_BYTES = 1024 * 1024
MOST_DEPTH = 32
_MOST_DIGITS = 40
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same language, ten times faster
_INT = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", re.ASCII | re.IGNORECASE)
_WORDS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A mapping read from text: its values, the line of each path, and what the text is called."""

    source: str
    values: dict[str, object]
    lines: dict[Path, int] = field(default_factory=dict)

    def refuse(self, problems: list[Problem]) -> None:
        """Raise one RequestError for the problems, each with its line; return when there is none."""
        refuse(problems, self.source, self.lines)


def read_document(path: FilePath) -> Document:
    """Return the mapping in a file; raise RequestError when it cannot be read or is not one."""
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RequestError(
            f"cannot be read: {error.strerror or error}", where=source, fix="Give the path of a readable file"
        ) from error
    if len(data) > MOST_BYTES:
        raise _too_large(source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}",
            where=source,
            fix="Save the file as UTF-8",
        ) from error
    return parse_document(text, source)


def parse_document(text: str, source: str) -> Document:
    """Return the mapping in a text; raise RequestError when it is too large, no YAML, or no mapping."""
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise _too_large(source)
    try:
        reader = _Reader(source, yaml.parse(text, Loader=_LOADER))
        values = reader.document()
    except yaml.MarkedYAMLError as error:
        raise _malformed(error, text, source) from error
    except (yaml.YAMLError, ValueError) as error:  # bytes that YAML forbids, characters without an encoding
        raise RequestError(
            f"holds what YAML forbids: {' '.join(str(error).split())}",
            where=source,
            fix="Remove control characters",
        ) from error
    refuse(reader.problems, source, reader.lines)
    if not isinstance(values, dict):
        raise RequestError(
            f"must be a mapping at the top level, not {shown(values)}",
            where=source,
            fix="Write `key: value` lines",
        )
    return Document(source=source, values=values, lines=reader.lines)


class _Reader:
    """Builds plain values from YAML events, one pass, without ever following a reference."""

    def __init__(self, source: str, events: Iterator[yaml.Event]) -> None:
        self._source = source
        self._events = events
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []

    def document(self) -> object:
        """Return the only document's value, None when there is none."""
        value: object = None
        seen = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                seen += 1
                if seen > 1:
                    raise self._error(event, "holds more than one document", "Keep one, without `---` lines")
                value = self._value(next(self._events), ())
        return value

    def _value(self, event: yaml.Event, path: Path) -> object:
        self._check(event, path)
        self.lines.setdefault(path, _line(event))
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(path)
            case yaml.SequenceStartEvent():
                return self._sequence(path)
            case yaml.ScalarEvent(value=text, style=style):
                return text if style else _scalar(text)
            case _:
                raise self._error(event, "is no value", "Write a plain value")

    def _mapping(self, path: Path) -> dict[str, object]:
        values: dict[str, object] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            self._check(event, path)
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error(event, "has a key that is not plain text", "Write `key: value` lines")
            key = str(event.value)
            here = (*path, key)
            value = self._value(next(self._events), here)
            if key in values:
                self._duplicate(here, event, value)
                continue
            self.lines[here] = _line(event)
            values[key] = value
        return values

    def _duplicate(self, path: Path, event: yaml.Event, value: object) -> None:
        self.problems.append(
            Problem(
                path=path,
                what=f"is given twice, again in line {_line(event)} as {shown(value)}",
                fix="Keep one of the two",
            )
        )

    def _sequence(self, path: Path) -> list[object]:
        values: list[object] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event, (*path, len(values))))
        return values

    def _check(self, event: yaml.Event, path: Path) -> None:
        """Refuse what could expand, construct or nest without end."""
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise self._error(event, "uses an anchor or alias", "Write the value out where it is needed")
        if getattr(event, "tag", None):
            raise self._error(
                event, f"uses the tag {shown(getattr(event, 'tag', ''))}", "Write the value without a tag"
            )
        if len(path) > MOST_DEPTH:
            raise self._error(event, f"is nested more than {MOST_DEPTH} deep at {dotted(path[:3])}", "Flatten it")

    def _error(self, event: yaml.Event, what: str, fix: str) -> RequestError:
        return RequestError(what, where=f"{self._source}:{_line(event)}", fix=fix)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(text: str) -> object:
    """Return the value of a plain scalar by YAML 1.2's core rules; absurdly long numbers stay text."""
    word = text.lower()
    if word in _WORDS:
        return _WORDS[word]
    if len(text) > _MOST_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(word.replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _malformed(error: yaml.MarkedYAMLError, text: str, source: str) -> RequestError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    rows = text.splitlines()
    written = rows[line - 1] if line <= len(rows) else ""
    tab = "\t" in written[: len(written) - len(written.lstrip())]
    return RequestError(
        f"is not valid YAML: {error.problem or error.context}",
        where=f"{source}:{line}",
        fix="Indent with spaces, not tabs" if tab else f"Correct the line {shown(written.strip())}",
    )


def _too_large(source: str) -> RequestError:
    return RequestError("is larger than 1 MiB", where=source, fix="Give a smaller file")
