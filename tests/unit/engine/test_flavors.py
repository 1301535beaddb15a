"""V1, V5: names of flavors, and what slices count for."""

from __future__ import annotations

import pytest

from fleet_app.engine.cards import Slice
from fleet_app.engine.flavors import PARTS, count, flavor, is_flavor, parts, unit
from tests.builders import part

SEVENTH = part(profile="1g.10gb")

NAMES = {
    "a partition of a known card": ("h100-mig-1g.10gb", True),
    "a shared card": ("h100-shared", True),
    "a shared card of a type without partitions": ("l4-shared", True),
    "a profile that the card has not": ("h200-mig-1g.10gb", False),
    "a profile of some card, on a type that is not in the table": ("h100-nvl-mig-1g.10gb", True),
    "a profile of none": ("h100-mig-9g.10gb", False),
    "whole cards": ("h100-whole", False),
    "no accelerator": ("-shared", False),
}


@pytest.mark.parametrize(("name", "want"), NAMES.values(), ids=NAMES)
def test_is_flavor(name: str, want: bool) -> None:
    assert is_flavor(name) is want


def test_a_flavor_is_accelerator_and_partition() -> None:
    assert flavor("H100", SEVENTH) == "h100-mig-1g.10gb"
    assert flavor("L4", part(share=0.25)) == "l4-shared"


COUNTED = {
    "a seventh": ("h100", SEVENTH, PARTS // 7, 1),
    "three sevenths, whatever their memory": ("H200", part(profile="3g.71gb"), 3 * PARTS // 7, 1),
    "a quarter of an A30": ("a30", part(profile="1g.6gb"), PARTS // 4, 1),
    "a share": ("l4", part(share=0.18), 18 * PARTS // 100, 1_800),
    "a partition that the table does not know is all of a card": ("l4", SEVENTH, PARTS, 1),
}


@pytest.mark.parametrize(("accelerator", "wanted", "of_a_gpu", "of_its_flavor"), COUNTED.values(), ids=COUNTED)
def test_what_a_slice_counts_for(accelerator: str, wanted: Slice, of_a_gpu: int, of_its_flavor: int) -> None:
    assert parts(accelerator, wanted) == of_a_gpu
    assert count(wanted) == of_its_flavor


WHOLES = {
    "seven sevenths": ("h100", SEVENTH, 7),
    "four quarters": ("a30", part(profile="1g.6gb"), 4),
    "all ten-thousandths": ("l4", part(share=0.0001), 10_000),
}


@pytest.mark.parametrize(("accelerator", "wanted", "times"), WHOLES.values(), ids=WHOLES)
def test_parts_of_every_kind_come_to_exactly_a_whole(accelerator: str, wanted: Slice, times: int) -> None:
    assert parts(accelerator, wanted) * times == PARTS


def test_quota_is_written_in_partitions_or_gpus() -> None:
    assert unit("h100-mig-1g.10gb") == 1
    assert unit("h100-shared") == 10_000
