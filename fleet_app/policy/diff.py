"""The difference between two policies, as a list that a person can read before agreeing to it.

Does not know what the difference costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet_app.policy.schema import PolicyFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value that differs: where, what it was and what it becomes; None where it is not there."""

    path: str
    old: object
    new: object


def diff_policies(old: PolicyFile, new: PolicyFile) -> tuple[Change, ...]:
    """Return every value that differs, by path, in the order of the file; empty when both say the same."""
    return tuple(_changes(_values(old), _values(new), ""))


def _values(policy: PolicyFile) -> dict[str, object]:
    return policy.model_dump(mode="json", exclude_none=True)


def _changes(old: object, new: object, path: str) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield Change(path=path, old=old, new=new)
