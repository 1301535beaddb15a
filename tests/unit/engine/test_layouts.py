"""V2: which layouts a card can have."""

from __future__ import annotations

import pytest

from fleet_app.engine.layouts import BOARDS, SHARED, filled, knows, legal, spread

LEGAL = {
    "a whole card": ("h100", (), True),
    "a shared card of any type": ("l4", (SHARED,), True),
    "seven of the smallest": ("h100", ("1g.10gb",) * 7, True),
    "not eight, though there are eight memory slices": ("h100", ("1g.10gb",) * 8, False),
    "four with a quarter of the memory": ("H100", ("1g.20gb",) * 4, True),
    "nothing beside four that have all of the memory": ("h100", (*["1g.20gb"] * 4, "1g.10gb"), False),
    "three of two slices": ("h100", ("2g.20gb",) * 3, True),
    "not four: the last memory slices are no place for one": ("h100", ("2g.20gb",) * 4, False),
    "but the other sort of a quarter fits there": ("h100", (*["2g.20gb"] * 3, "1g.20gb"), True),
    "two halves": ("h100", ("3g.40gb", "3g.40gb"), True),
    "four and three sevenths": ("h100", ("3g.40gb", "4g.40gb"), True),
    "not four sevenths twice": ("h100", ("4g.40gb", "4g.40gb"), False),
    "a half and four small ones, if the half is on the right": ("h100", ("3g.40gb", *["1g.10gb"] * 4), True),
    "names of another card mean nothing": ("h200", ("1g.10gb",), False),
    "an H200 by its own names": ("h200", (*["1g.18gb"] * 3, "4g.71gb"), True),
    "a B200 by its own names": ("b200", ("3g.90gb", "3g.90gb"), True),
    "an A100 with 40 GB": ("a100-40g", ("1g.5gb",) * 7, True),
    "an A30 has four slices": ("a30", ("1g.6gb",) * 4, True),
    "and not five": ("a30", ("2g.12gb", *["1g.6gb"] * 3), False),
    "a card that cannot be cut": ("l4", ("1g.10gb",), False),
}


@pytest.mark.parametrize(("accelerator", "layout", "want"), LEGAL.values(), ids=LEGAL)
def test_legal(accelerator: str, layout: tuple[str, ...], want: bool) -> None:
    assert legal(accelerator, layout) is want


FILLED = {
    "one asked for, and the rest of the card like it": (("1g.10gb",), ("1g.10gb",) * 7),
    "what is asked first goes first": (("7g.80gb", "1g.10gb"), ("7g.80gb",)),
    "then what fits beside it": (("3g.40gb", "1g.10gb"), ("3g.40gb", *["1g.10gb"] * 4)),
    "what is unknown is left out": (("1g.18gb",), ()),
    "nothing is asked": ((), ()),
}


@pytest.mark.parametrize(("asked", "want"), FILLED.values(), ids=FILLED)
def test_filled(asked: tuple[str, ...], want: tuple[str, ...]) -> None:
    assert filled("h100", asked) == want


def test_what_is_filled_is_legal_for_every_profile_of_every_board() -> None:
    for name, board in BOARDS.items():
        for profile in board.profiles:
            layout = filled(name, (profile.name,))
            assert profile.name in layout
            assert legal(name, layout)


INSTANCES = {"1g": 7, "1g of a quarter": 4, "2g": 3, "3g": 2, "4g": 1, "7g": 1}
"""How many of each fit on one card, by the user guide's tables of the H100, H200, B200 and A100."""


@pytest.mark.parametrize("name", ["a100-40g", "a100-80g", "h100", "h200", "b200"])
def test_as_many_of_each_fit_as_the_user_guide_says(name: str) -> None:
    most = [
        next(count for count in range(8, 0, -1) if legal(name, (profile.name,) * count))
        for profile in BOARDS[name].profiles
    ]
    assert most == list(INSTANCES.values())


NAMED = {
    "a30": "1g.6gb 2g.12gb 4g.24gb",
    "a100-40g": "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-80g": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100": "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h200": "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "b200": "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
}
"""The names of the user guide's tables, smallest first."""


@pytest.mark.parametrize("board", BOARDS)
def test_profiles_have_the_names_that_the_user_guide_gives_them(board: str) -> None:
    assert [profile.name for profile in BOARDS[board].profiles] == NAMED[board].split()


@pytest.mark.parametrize("name", BOARDS)
def test_wherever_a_partition_may_begin_all_of_it_is_on_the_card(name: str) -> None:
    board = BOARDS[name]
    for profile in board.profiles:
        assert profile.starts == tuple(sorted({*profile.starts}))
        assert (profile.starts[0], profile.starts[-1] + profile.memory <= board.memory) == (0, True)


def test_profiles_are_known_by_name() -> None:
    assert knows("1g.10gb")
    assert not knows("9g.10gb")


HALF, SEVENTH = "3g.40gb", "1g.10gb"
SPREAD = {
    "nothing is on no card": ("h100", (), ()),
    "what one card can have is on one": ("h100", (HALF, HALF), ((HALF, HALF),)),
    "what two alike can have is on two alike": ("h100", (HALF,) * 4, ((HALF, HALF),) * 2),
    "all alike, though fewer would do unlike": ("h100", (HALF, HALF, SEVENTH, SEVENTH), ((HALF, SEVENTH),) * 2),
    "else the largest on the first that can, and the rest beside": (
        "h100",
        (HALF, HALF, HALF, SEVENTH),
        ((HALF, HALF), (HALF, SEVENTH)),
    ),
    "what no table knows has a card of its own": ("h100", (HALF, "odd"), ((HALF,), ("odd",))),
    "also on a card that no table knows": ("l4", (SEVENTH, SEVENTH), ((SEVENTH,), (SEVENTH,))),
}


@pytest.mark.parametrize(("accelerator", "pieces", "want"), SPREAD.values(), ids=SPREAD)
def test_partitions_are_spread_over_cards(
    accelerator: str, pieces: tuple[str, ...], want: tuple[tuple[str, ...], ...]
) -> None:
    assert spread(accelerator, pieces) == want


def test_what_no_table_knows_is_filled_with_nothing() -> None:
    assert filled("l4", (SEVENTH,)) == ()
