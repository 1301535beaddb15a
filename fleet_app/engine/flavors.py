"""Flavors: accelerator type and partition in one name, and what a slice counts for (rules V1 and V5).

Knows names and numbers. Does not know who uses what.
"""

from __future__ import annotations

from fleet_app.engine.cards import MIG, WHOLE_SHARE, Slice
from fleet_app.engine.layouts import SHARED, board_of, knows

WHOLE = "whole"
"""How the partition of a GPU that is not cut is spelled."""

PARTS = 70_000
"""A whole GPU in the unit in which slices of every kind are summed up: sevenths and ten-thousandths divide it."""


def flavor(accelerator: str, wanted: Slice) -> str:
    """Return the flavor of a slice on an accelerator: `h100-mig-1g.10gb`, `h100-shared`."""
    return f"{accelerator.lower()}-{wanted.partition}"


def parts(accelerator: str, wanted: Slice) -> int:
    """Return what a slice is of a GPU, in PARTS: a share itself, a partition its compute slices.

    One that the table does not know for the accelerator counts as all of it.
    """
    if wanted.share:
        return wanted.share * PARTS // WHOLE_SHARE
    board = board_of(accelerator)
    profile = None if board is None else board.profile(wanted.profile)
    return PARTS if board is None or profile is None else PARTS * profile.compute // board.compute


def count(wanted: Slice) -> int:
    """Return a slice in the unit of its flavor's quota: ten-thousandths of a GPU for shares, else one partition."""
    return wanted.share or 1


def unit(name: str) -> int:
    """Return what 1 in the quota of a flavor counts for in its unit."""
    return WHOLE_SHARE if name.endswith(f"-{SHARED}") else 1


def whole_of(name: str) -> str:
    """Return the accelerator of a flavor of whole GPUs, such as `h100-whole`; empty for other flavors."""
    accelerator, _, partition = name.rpartition("-")
    return accelerator if partition == WHOLE else ""


def is_flavor(name: str) -> bool:
    """Return whether a name is that of a flavor of slices."""
    accelerator, _, profile = name.partition(f"-{MIG}")
    if profile:
        board = board_of(accelerator)
        return knows(profile) if board is None else board.profile(profile) is not None
    return name.endswith(f"-{SHARED}") and len(name) > len(SHARED) + 1
