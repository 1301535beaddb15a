"""Which partitions a card can be cut into: the placements that the hardware allows (rule V2).

A table of NVIDIA's MIG profiles: how many of a card's compute and memory slices each takes, and at which memory slices
it may begin. Names, fractions and counts are from the "Supported MIG Profiles" of NVIDIA's MIG User Guide (v580),
placements from the listing of `nvidia-smi mig -lgipp` in its "Getting Started". Variants by media engines (`+me`,
`+gfx`, `-me`) are left out: they are the same slices. Does not know nodes, nor what uses a card.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

SHARED = "shared"
"""The layout of a card that is shared by time slices."""

Layout = tuple[str, ...]
"""What a card is cut into: profiles in order, or only SHARED; empty for a whole card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A partition: the compute slices that it takes, its memory slices, and where those may begin."""

    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A card that can be partitioned: its compute slices, its memory slices and its profiles, smallest first."""

    compute: int
    memory: int
    profiles: tuple[Profile, ...]

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that name; None when the board has none."""
        return next((profile for profile in self.profiles if profile.name == name), None)


def _of_sevenths(eighth: int, quarter: int, half: int, full: int) -> Board:
    """Return a board of seven compute and eight memory slices, by the gigabytes in its profiles' names."""
    rows = (
        (f"1g.{eighth}gb", 1, 1, (0, 1, 2, 3, 4, 5, 6)),
        (f"1g.{quarter}gb", 1, 2, (0, 2, 4, 6)),
        (f"2g.{quarter}gb", 2, 2, (0, 2, 4)),
        (f"3g.{half}gb", 3, 4, (0, 4)),
        (f"4g.{half}gb", 4, 4, (0,)),
        (f"7g.{full}gb", 7, 8, (0,)),
    )
    return Board(compute=7, memory=8, profiles=tuple(_profile(*row) for row in rows))


def _profile(name: str, compute: int, memory: int, starts: tuple[int, ...]) -> Profile:
    return Profile(name=name, compute=compute, memory=memory, starts=starts)


_A30 = Board(
    compute=4,
    memory=4,
    profiles=(
        _profile("1g.6gb", 1, 1, (0, 1, 2, 3)),
        _profile("2g.12gb", 2, 2, (0, 2)),
        _profile("4g.24gb", 4, 4, (0,)),
    ),
)

BOARDS: Mapping[str, Board] = {
    "a30": _A30,
    "a100-40g": _of_sevenths(5, 10, 20, 40),
    "a100-80g": _of_sevenths(10, 20, 40, 80),
    "h100": _of_sevenths(10, 20, 40, 80),
    "h200": _of_sevenths(18, 35, 71, 141),
    "b200": _of_sevenths(23, 45, 90, 180),
}
"""The boards by accelerator type, in lower case, named as Ray names them (`H100`, `A100-80G`)."""


def board_of(accelerator: str) -> Board | None:
    """Return the board of an accelerator type; None for one that cannot be partitioned, or is not in the table."""
    return BOARDS.get(accelerator.lower())


def knows(profile: str) -> bool:
    """Return whether any board has a profile of that name."""
    return any(board.profile(profile) is not None for board in BOARDS.values())


def legal(accelerator: str, layout: Layout) -> bool:
    """Return whether a card of that type can have the layout; whole and shared it always can be."""
    if layout in {(), (SHARED,)}:
        return True
    board = board_of(accelerator)
    return board is not None and _starts(board, layout) is not None


@cache
def filled(accelerator: str, asked: Layout) -> Layout:
    """Return the layout that holds as many as it can of what is asked, what is asked first before what comes later.

    What is left of the card is cut into more of the same: it could not be cut again before the whole card is empty.
    Empty when the board is not in the table or has no such profile.
    """
    board = board_of(accelerator)
    if board is None:
        return ()
    chosen: list[str] = []
    for name in asked:
        if _starts(board, (*chosen, name)) is not None:
            chosen.append(name)
    grew = bool(chosen)
    while grew:
        more = [name for name in dict.fromkeys(chosen) if _starts(board, (*chosen, name)) is not None]
        grew = bool(more)
        chosen += more[:1]
    return _largest_first(board, chosen)


@cache
def spread(accelerator: str, pieces: Layout) -> tuple[Layout, ...]:
    """Return the layouts of the cards that have these partitions together: all alike if they can be, and as few.

    A profile that the table does not know for the accelerator has a card of its own.
    """
    board = board_of(accelerator)
    counts = [pieces.count(name) for name in sorted(set(pieces))]
    for cards in range(1, math.gcd(*counts) + 1):
        each = [name for name in sorted(set(pieces)) for _ in range(pieces.count(name) // cards)]
        if board is not None and all(count % cards == 0 for count in counts) and _starts(board, tuple(each)):
            return (_largest_first(board, each),) * cards
    return () if not pieces else _packed(accelerator, pieces)


def _packed(accelerator: str, pieces: Layout) -> tuple[Layout, ...]:
    """Return the layouts of few cards that have these partitions together, the largest first on the first that can."""
    board = board_of(accelerator)
    known = [name for name in pieces if board is not None and board.profile(name) is not None]
    cards: list[list[str]] = []
    for name in _largest_first(board, known) if board is not None else ():
        room = next((card for card in cards if legal(accelerator, (*card, name))), None)
        if room is None:
            cards.append([name])
        else:
            room.append(name)
    alone = sorted(name for name in pieces if name not in known)
    return (*map(tuple, cards), *((name,) for name in alone))


def _largest_first(board: Board, names: Iterable[str]) -> Layout:
    return tuple(sorted(names, key=lambda name: (-_of(board, name).memory, -_of(board, name).compute, name)))


def _of(board: Board, name: str) -> Profile:
    profile = board.profile(name)
    assert profile is not None
    return profile


@cache
def _starts(board: Board, layout: Layout) -> tuple[int, ...] | None:
    """Return at which memory slice each partition of a layout begins; None when it cannot be had.

    Slices are few, so every placement is tried.
    """
    profiles = [board.profile(name) for name in layout]
    found = [profile for profile in profiles if profile is not None]
    if len(found) < len(profiles) or sum(profile.compute for profile in found) > board.compute:
        return None
    order = sorted(range(len(found)), key=lambda place: (-found[place].memory, found[place].starts, place))
    placed = _place([found[place] for place in order], frozenset())
    if placed is None:
        return None
    by_place = dict(zip(order, placed, strict=True))
    return tuple(by_place[place] for place in range(len(found)))


def _place(profiles: Sequence[Profile], taken: frozenset[int]) -> tuple[int, ...] | None:
    """Return where each may begin beside what is taken, the rightmost first: what is small fits only on the left."""
    if not profiles:
        return ()
    first = profiles[0]
    for start in reversed(first.starts):
        slices = frozenset(range(start, start + first.memory))
        rest = None if slices & taken else _place(profiles[1:], taken | slices)
        if rest is not None:
            return (start, *rest)
    return None
