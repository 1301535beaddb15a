"""One card of a node, and what may be asked of it: a partition, or a share (rules V1 and V3).

Values only. Knows profiles by name and ten-thousandths of a card, as Ray counts. Does not know teams, nor which layouts
the hardware allows.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.engine.layouts import SHARED, Layout

WHOLE_SHARE = 10_000
"""A whole card, in the unit of shares."""

MIG = "mig-"
"""How the partition of a MIG profile is spelled: `mig-1g.10gb`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Part of one card: a partition by its MIG profile, or else a share in ten-thousandths of a card."""

    profile: str = ""
    share: int = 0

    @property
    def partition(self) -> str:
        """Return the value of the node label `fleet/partition` that goes with it."""
        return MIG + self.profile if self.profile else SHARED

    @property
    def text(self) -> str:
        """Return what is asked as people say it."""
        return f"a partition {self.profile}" if self.profile else f"{self.share / WHOLE_SHARE:g} of a shared GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card: its place in the node, its layout, and what uses it that is on no slice of ours.

    `busy` is whether anything runs on it as a whole; `becomes` is the layout that it is about to have, None when it is
    not being changed; `foreign` is what others use of its slices. `idle_since` is since when nothing has been on it
    (seconds since the epoch), None while something is or when that is not known.
    """

    index: int
    layout: Layout = ()
    busy: bool = False
    becomes: Layout | None = None
    foreign: tuple[Slice, ...] = ()
    idle_since: float | None = None

    @property
    def whole(self) -> bool:
        """Return whether the card has no slices."""
        return not self.layout

    @property
    def changing(self) -> bool:
        """Return whether the card is out of use because its layout is being changed."""
        return self.becomes is not None
