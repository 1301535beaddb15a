"""What an audit looks at and what it finds: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One object and where it comes from: a file and the line where it begins, or a cluster."""

    object: Object
    source: str
    line: int | None = None

    @property
    def where(self) -> str:
        """Return where it comes from, for messages."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def kind(self) -> str:
        """Return its kind."""
        return str(self.object.get("kind", ""))

    @property
    def group(self) -> str:
        """Return its API group, empty for the core's."""
        group, slash, _ = str(self.object.get("apiVersion", "")).rpartition("/")
        return group if slash else ""

    @property
    def metadata(self) -> Object:
        """Return its metadata."""
        found: Object = self.object.get("metadata") or {}
        return found

    @property
    def name(self) -> str:
        """Return its name, or how it would begin."""
        return str(self.metadata.get("name") or self.metadata.get("generateName") or "")

    def namespace(self, default: str) -> str:
        """Return its namespace; one that a manifest leaves out is the default."""
        return str(self.metadata.get("namespace") or default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that an object breaks, and what is to be done about it."""

    rule: str
    kind: str
    namespace: str
    name: str
    message: str
    source: str
    line: int | None = None
    refused: bool = True
    """Whether admission refuses it, or only records it."""
