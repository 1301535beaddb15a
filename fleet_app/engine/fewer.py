"""Which pods go when a pool is to have fewer of them: those with which the least is lost (N5).

Knows of each pod what would go with it. Does not know where pools come from, how many they are to have, or who takes
pods away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Loss(IntEnum):
    """What goes with a pod, the least first; what is only kept free there is a hold, or a stranger's."""

    NO_NODE = 0
    NOTHING = 1
    WHAT_IS_KEPT = 2
    WHAT_YIELDS = 3
    WHAT_STAYS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod that may go, by name; `closed` says that its machine takes nothing new anyway."""

    pod: str
    loss: Loss
    closed: bool = False

    @property
    def empty(self) -> bool:
        """Return whether nothing is lost with it: it may go at once."""
        return self.loss <= Loss.NOTHING


def first_to_go(candidates: Iterable[Candidate], count: int) -> tuple[Candidate, ...]:
    """Return so many, those with the least loss first, of equals those whose machines are closed."""
    return tuple(sorted(candidates, key=lambda one: (one.loss, not one.closed, one.pod))[:count])
