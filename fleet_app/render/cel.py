"""Pieces of CEL, the language of admission policies: literals and the questions that many rules ask.

Only what both the API server's CEL and the offline runtime of the audit have: no Kubernetes libraries, no optionals.
Knows no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def text(value: str) -> str:
    """Return a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def texts(values: Iterable[str]) -> str:
    """Return a list of strings."""
    return "[" + ", ".join(text(value) for value in values) + "]"


def table(values: Mapping[str, Iterable[str]]) -> str:
    """Return a map from strings to lists of strings, an entry a line."""
    return "{\n" + ",\n".join(f"  {text(key)}: {texts(entries)}" for key, entries in values.items()) + "\n}"


def entry_is(owner: str, field: str, key: str, value: str) -> str:
    """Return whether a map such as the labels of an object's metadata, which may be missing, has an entry."""
    return f"has({owner}.{field}) && {text(key)} in {owner}.{field} && {owner}.{field}[{text(key)}] == {text(value)}"


def entry(owner: str, field: str, key: str) -> str:
    """Return the value under a key of such a map, empty where there is none."""
    found = f"has({owner}.{field}) && {text(key)} in {owner}.{field}"
    return f"({found} ? {owner}.{field}[{text(key)}] : '')"


def name_of(thing: str) -> str:
    """Return the name of an object as a message says it."""
    given = f"has({thing}.metadata.generateName) ? {thing}.metadata.generateName + '...' : 'without a name'"
    return f"has({thing}.metadata.name) ? {thing}.metadata.name : ({given})"


def lines(*parts: str) -> str:
    """Return parts that must all hold, one a line."""
    return " &&\n".join(f"({part})" if "||" in part or "?" in part else part for part in parts)
