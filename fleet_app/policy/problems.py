"""What is wrong with a document, said so that its writer can put it right: path, value, fix.

Turns lists of problems, pydantic's included, into one `RequestError`. Does not know what the documents mean.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fleet_app.engine.errors import RequestError

Path = tuple[str | int, ...]

SHOWN_CHARACTERS = 60
SHOWN_PROBLEMS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: where in the document, what, and what to do about it."""

    path: Path
    what: str
    fix: str


def dotted(path: Path) -> str:
    """Return a path as people write it: `organisations.lab.teams.research.nominal`, `nodes[3].gpus`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "(top level)"


def shown(value: object) -> str:
    """Return a value as it appears in a message: quoted, on one line, never long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print an integer of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


def closest(word: str, known: Iterable[str]) -> str:
    """Return the fix for an unknown word: the known one that is nearest to it, or all of them."""
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}" if names else "There is none to choose from"


def refuse(problems: Iterable[Problem], source: str, lines: Mapping[Path, int] | None = None) -> None:
    """Raise one RequestError that lists every problem, one a line; return when there is none.

    `source` names the document; `lines` gives the line of each path, where it is known.
    """
    found = list(problems)
    if not found:
        return
    if len(found) == 1:
        raise RequestError(found[0].what, where=_where(found[0], source, lines), fix=found[0].fix)
    rows = [f"{_where(problem, source, lines)}: {problem.what}. {problem.fix}" for problem in found[:SHOWN_PROBLEMS]]
    count = f"{len(found)} problems" if len(found) == len(rows) else f"more than {SHOWN_PROBLEMS} problems"
    raise RequestError("\n".join([count, *rows]), where=source)


def from_pydantic(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return pydantic's findings about `model` as problems, no more than a person would read."""
    found = error.errors(include_url=False)[: 2 * SHOWN_PROBLEMS]
    wrong_inside = {details["loc"][:-1] for details in found}
    return [
        _problem(details, model)
        for details in found
        if not (details["type"] == "too_short" and details["loc"] in wrong_inside)  # only counts what is in order
    ]


def _where(problem: Problem, source: str, lines: Mapping[Path, int] | None) -> str:
    line = _line(problem.path, lines or {})
    return f"{source}:{line}: {dotted(problem.path)}" if line else f"{source}: {dotted(problem.path)}"


def _line(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Return the line of a path, or of the innermost thing around it that the document has."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _problem(details: ErrorDetails, model: type[BaseModel]) -> Problem:
    path: Path = tuple(part for part in details["loc"] if part != "[key]")
    context: dict[str, Any] = details.get("ctx", {})
    value = shown(details["input"])
    match details["type"]:
        case "missing":
            return Problem(path=path, what="is missing", fix=f"Add {dotted(path[-1:])}")
        case "extra_forbidden":
            return Problem(
                path=path,
                what=f"{shown(path[-1])} is not a known key (its value is {value})",
                fix=closest(str(path[-1]), _keys(model)),
            )
        case "fleet":
            return Problem(path=path, what=f"{context['must']}, not {value}", fix=context["fix"])
        case kind:
            what, fix = _PLAIN.get(kind, ("{message}", "Correct the value"))
            facts = {"message": _lower(details["msg"]), **context}
            return Problem(path=path, what=f"{what.format(**facts)}, not {value}", fix=fix.format(**facts))


_PLAIN = {
    "int_type": ("must be a whole number", "Write it without quotes, point or unit"),
    "float_type": ("must be a number", "Write it without quotes or unit"),
    "finite_number": ("must be a finite number", "Write an ordinary number"),
    "string_type": ("must be text", "Put it in quotes"),
    "bool_type": ("must be true or false", "Write true or false"),
    "greater_than": ("must be more than {gt}", "Write a number above {gt}"),
    "greater_than_equal": ("must be at least {ge}", "Write {ge} or more"),
    "less_than_equal": ("must be at most {le}", "Write {le} or less"),
    "literal_error": ("must be {expected}", "Write {expected}"),
    "dict_type": ("must be a mapping of keys to values", "Write `key: value` lines below it"),
    "model_type": ("must be a mapping of keys to values", "Write `key: value` lines below it"),
    "tuple_type": ("must be a list", "Write `- item` lines below it"),
    "too_short": ("must have at least {min_length} entries", "Add what is missing"),
    "too_long": ("must have at most {max_length} entries", "Take out what is too many"),
}
"""What to say, and what to do, for the kinds of error that pydantic names itself."""


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


@cache
def _keys(model: type[BaseModel]) -> frozenset[str]:
    """Return every key that a document of this model can have, at any depth."""
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return frozenset(key for part in parts for key in part.get("properties", {}))
