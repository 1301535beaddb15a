"""Which device a partition is, by the listing of NVIDIA's tool."""

from __future__ import annotations

import pytest

from fleet_app.worker import devices

LISTING = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-0000-0000-0000-000000000000)
  MIG 3g.40gb     Device  0: (UUID: MIG-aaaaaaaa-0000-0000-0000-000000000000)
  MIG 1g.10gb     Device  1: (UUID: MIG-bbbbbbbb-0000-0000-0000-000000000000)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-22222222-0000-0000-0000-000000000000)
  MIG 1g.10gb     Device  0: (UUID: MIG-cccccccc-0000-0000-0000-000000000000)
GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-33333333-0000-0000-0000-000000000000)
"""

CASES = {
    "the first of its profile": ("1g.10gb", 0, "MIG-bbbbbbbb-0000-0000-0000-000000000000"),
    "the next on another card": ("1g.10gb", 1, "MIG-cccccccc-0000-0000-0000-000000000000"),
    "of another profile": ("3g.40gb", 0, "MIG-aaaaaaaa-0000-0000-0000-000000000000"),
    "more than there are": ("1g.10gb", 2, None),
    "none of that profile": ("2g.20gb", 0, None),
}


@pytest.mark.parametrize(("profile", "slot", "want"), CASES.values(), ids=CASES)
def test_partition(profile: str, slot: int, want: str | None) -> None:
    assert devices.partition(LISTING, profile, slot) == want


def test_a_machine_without_the_tool_lists_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert devices.listing() == ""
