"""The table of values in charts/fleet/README.md, from values.yaml: `python -m tests.chart.readme` writes it anew.

A comment that begins with `# -- ` is what the table says of the key below it. What else the README says is written by
hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "fleet"
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"

_KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z]\w*):")
LONGEST_DEFAULT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value: its path, its default, and what it is for."""

    key: str
    default: str
    what: str


def path() -> Path:
    """Return the README."""
    return CHART / "README.md"


def rows() -> list[Row]:
    """Return a row for each key of values.yaml that is set by itself."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    found = []
    for where, what in _commented(text):
        value = _at(values, where)
        if what or not isinstance(value, dict) or not value:
            found.append(Row(key=".".join(where), default=_default(value), what=what))
    told = {tuple(row.key.split(".")) for row in found if row.what}
    return [
        row for row in found if row.what or not any(tuple(row.key.split("."))[: len(each)] == each for each in told)
    ]


def _commented(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path of every key of a map, with the comment above it."""
    where: list[tuple[int, str]] = []
    comment: list[str] = []
    block: int | None = None
    for line in text.splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if block is not None and (not stripped or indent > block):
            continue
        block = None
        if stripped.startswith("#"):
            comment = [stripped[5:]] if stripped.startswith("# -- ") else [*comment, stripped[2:]] if comment else []
        elif (key := _KEY.match(line)) is not None:
            where = [each for each in where if each[0] < indent]
            where.append((indent, key["key"]))
            yield tuple(name for _, name in where), " ".join(comment)
            comment = []
            block = indent if stripped.endswith("|") else None
        elif not stripped:
            comment = []


def _at(values: Any, where: tuple[str, ...]) -> Any:
    for key in where:
        values = values[key] if isinstance(values, dict) else None
    return values


def _default(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > LONGEST_DEFAULT:
        return "see values.yaml"
    return f"`{text}`"


def table() -> str:
    """Return the table."""
    lines = [f"| `{row.key}` | {row.default} | {row.what.replace('|', chr(92) + '|')} |" for row in rows()]
    return "\n".join(["| value | default | what |", "|---|---|---|", *lines]) + "\n"


def written() -> str:
    """Return the README with the table of now."""
    text = path().read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    path().write_text(written(), encoding="utf-8")
