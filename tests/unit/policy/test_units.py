"""Quantities with units: what is read, what is refused, and that writing and reading agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from fleet_app.policy import units

DURATIONS = {
    "seconds": ("120s", 120.0),
    "minutes": ("2m", 120.0),
    "hours and minutes": ("1h30m", 5400.0),
    "milliseconds are not minutes": ("800ms", 0.8),
    "every unit at once": ("1d2h3m4s5ms", 93784.005),
    "a fraction of a second": ("1.5s", 1.5),
    "nothing": ("0s", 0.0),
}

MEMORY = {
    "GiB": ("4GiB", 4096),
    "MiB": ("512MiB", 512),
    "TiB": ("1TiB", 1024 * 1024),
    "nothing as a number": (0, 0),
    "nothing as text": ("0", 0),
}

CPUS = {
    "a whole number": (4, 4000),
    "a half": (0.5, 500),
    "text, as metadata has it": ("1.25", 1250),
    "a thousandth": ("0.001", 1),
    "none": (0, 0),
}

REFUSED_DURATIONS = [
    *("120", "", "s", "2 m", "-5s", "1m1h", "1.5m", "1e3s", "nan", "infs", "٣s", "366d", "9999999999s"),
    *(120, 1.5, True, None, ["1s"], 2**62),
]
REFUSED_MEMORY = ["4", 4, "4GB", "4 GiB", "-1GiB", "1.5GiB", "", "NaN", True, False, 0.0, None, "2000000TiB", 2**62]
REFUSED_CPUS = [
    True,
    "",
    "four",
    "1.2345",
    -1,
    "-0.5",
    "NaN",
    float("nan"),
    float("inf"),
    2**62,
    "1e99",
    "1_0",
    10**5000,
    "100001",
    None,
    [1],
]


@pytest.mark.parametrize(("text", "want"), DURATIONS.values(), ids=DURATIONS)
def test_a_duration_is_read_in_seconds(text, want):
    assert units.parse_duration(text) == want


@pytest.mark.parametrize(("value", "want"), MEMORY.values(), ids=MEMORY)
def test_memory_is_read_in_mebibytes(value, want):
    assert units.parse_memory(value) == want


@pytest.mark.parametrize(("value", "want"), CPUS.values(), ids=CPUS)
def test_cpus_are_read_in_thousandths(value, want):
    assert units.parse_cpus(value) == want


@pytest.mark.parametrize(
    ("parse", "value"),
    [
        *((units.parse_duration, value) for value in REFUSED_DURATIONS),
        *((units.parse_memory, value) for value in REFUSED_MEMORY),
        *((units.parse_cpus, value) for value in REFUSED_CPUS),
    ],
    ids=lambda part: getattr(part, "__name__", None) or str(part)[:20] if part != 10**5000 else "endless",
)
def test_what_is_no_plain_quantity_with_its_unit_is_refused_with_a_fix(parse, value):
    with pytest.raises(PydanticCustomError) as refused:
        parse(value)
    assert refused.value.context
    assert refused.value.context["fix"]


@given(st.integers(min_value=0, max_value=365 * 86_400_000))
def test_a_duration_written_is_read_back_to_the_millisecond(milliseconds):
    seconds = milliseconds / 1000
    assert units.parse_duration(units.format_duration(seconds)) == seconds


@given(st.integers(min_value=0, max_value=1024**3))
def test_memory_written_is_read_back(mebibytes):
    assert units.parse_memory(units.format_memory(mebibytes)) == mebibytes


@given(st.integers(min_value=0, max_value=100_000_000))
def test_cpus_written_are_read_back(thousandths):
    assert units.parse_cpus(units.format_cpus(thousandths)) == thousandths
