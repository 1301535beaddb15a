"""Quantities as people write them, each with its unit: durations, memory, CPUs, counts, names.

Pydantic types that turn `"2m"` into 120.0 seconds, `"4GiB"` into 4096 MiB and `0.5` CPUs into 500 thousandths, and
back. Does not know what a quantity is used for.
"""

from __future__ import annotations

import ipaddress
import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

MOST_GPUS = 1_000_000
"""More than any fleet has: a bound that keeps sums far from any overflow elsewhere."""

LONGEST_S = 365 * 86_400.0
"""The longest duration that may be written: a year."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"

_NAME = re.compile(NAME_PATTERN)
_LEVEL = re.compile(r"[a-z][a-z0-9-]{0,30}")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_DURATION = re.compile(
    r"(?:(?P<d>\d{1,9})d)?(?:(?P<h>\d{1,9})h)?(?:(?P<m>\d{1,9})m(?!s))?"
    r"(?:(?P<s>\d{1,9}(?:\.\d{1,3})?)s)?(?:(?P<ms>\d{1,9})ms)?",
    re.ASCII,
)
_UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_MEMORY = re.compile(r"(?P<count>\d{1,12})(?P<unit>MiB|GiB|TiB)", re.ASCII)
_UNIT_MIB = {"TiB": 1024 * 1024, "GiB": 1024, "MiB": 1}
_CPUS = re.compile(r"\d{1,6}(\.\d{1,3})?", re.ASCII)
_MOST_MIB = 1024**3
_MOST_CPUS = 100_000
_TAKEN_LEVELS = frozenset({"class", "node", "pod", "driver", "partition"})


def _refused(must: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("fleet", "{must}", {"must": must, "fix": fix})


def parse_duration(value: object) -> float:
    """Return seconds from text such as `90s`, `2m`, `1h30m` or `800ms`; the unit is required."""
    matched = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if matched is None:
        raise _refused("must be a duration with its unit", "Write for example 90s, 2m, 1h30m or 800ms")
    milliseconds = sum(Decimal(count) * _UNIT_MS[unit] for unit, count in matched.groupdict().items() if count)
    seconds = float(milliseconds) / 1000
    if seconds > LONGEST_S:
        raise _refused("must be at most 365d", "Write a shorter duration")
    return seconds


def format_duration(seconds: float) -> str:
    """Return seconds as text that `parse_duration` reads back, exact to the millisecond."""
    left = round(seconds * 1000)
    text = ""
    for unit, size in _UNIT_MS.items():
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def parse_memory(value: object) -> int:
    """Return MiB from text such as `512MiB`, `4GiB` or `1TiB`; only nothing may go without a unit."""
    if value == "0" or (value == 0 and type(value) is int):
        return 0
    matched = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise _refused("must be memory with its unit", "Write for example 512MiB, 4GiB or 1TiB")
    mebibytes = int(matched["count"]) * _UNIT_MIB[matched["unit"]]
    if mebibytes > _MOST_MIB:
        raise _refused("must be at most 1024TiB", "Write less memory")
    return mebibytes


def format_memory(mebibytes: int) -> str:
    """Return MiB as text that `parse_memory` reads back, in the largest unit that divides it."""
    for unit, size in _UNIT_MIB.items():
        if mebibytes and mebibytes % size == 0:
            return f"{mebibytes // size}{unit}"
    return "0"


def parse_cpus(value: object) -> int:
    """Return thousandths of a CPU from a number of CPUs with at most three decimals."""
    text = str(value) if type(value) in (int, float, str) and not _is_endless(value) else ""
    thousandths = Decimal(text) * 1000 if _CPUS.fullmatch(text) else Decimal(-1)
    if not 0 <= thousandths <= _MOST_CPUS * 1000:
        raise _refused(
            f"must be a number of CPUs from 0 to {_MOST_CPUS}",
            "Write a number of CPUs such as 4 or 0.5, with at most three decimals",
        )
    return int(thousandths)


def _is_endless(value: object) -> bool:
    """Return whether a number has more digits than Python is willing to print."""
    return isinstance(value, int) and value.bit_length() > 64


def format_cpus(thousandths: int) -> int | float:
    """Return thousandths of a CPU as a number of CPUs."""
    return thousandths // 1000 if thousandths % 1000 == 0 else thousandths / 1000


def _check_name(value: str) -> str:
    if _NAME.fullmatch(value) is None:
        raise _refused(
            "must be a name of at most 63 letters, digits, '_', '.' and '-', the first a letter or digit",
            "Choose a plain name such as llm-pretrain-7",
        )
    return value


def _check_level(value: str) -> str:
    if _LEVEL.fullmatch(value) is None or value in _TAKEN_LEVELS:
        raise _refused(
            f"must be lower-case letters, digits and '-', and none of {', '.join(sorted(_TAKEN_LEVELS))}",
            "Choose a name such as spine, leaf or nvlink-domain",
        )
    return value


def _check_cidr(value: str) -> str:
    try:
        ipaddress.ip_network(value)
    except ValueError:
        fix = "Write for example 10.20.0.0/16, with nothing set behind the prefix"
        raise _refused("must be a block of addresses", fix) from None
    return value


def _check_label(value: str) -> str:
    prefix, slash, name = value.rpartition("/")
    sound = _LABEL_NAME.fullmatch(name) and (not slash or _LABEL_PREFIX.fullmatch(prefix)) and len(prefix) <= 253
    if not sound:
        raise _refused("must be the key of a Kubernetes label", "Write for example topology.kubernetes.io/zone")
    return value


def _check_positive(value: float) -> float:
    if value <= 0:
        raise _refused("must be longer than nothing", "Write for example 30s")
    return value


def _duration_schema(example: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+(\.\d{1,3})?s)?(\d+ms)?$",
            "minLength": 2,
            "examples": [example],
        }
    )


Name = Annotated[str, AfterValidator(_check_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
"""Name of a fleet, team, class, node or workload."""

LevelName = Annotated[str, AfterValidator(_check_level)]
"""Name of a topology level; nodes carry the label `fleet/<level>`."""

Cidr = Annotated[str, AfterValidator(_check_cidr)]
"""A block of IP addresses."""

LabelKey = Annotated[str, AfterValidator(_check_label)]
"""Key of a label of Kubernetes nodes."""

Gpus = Annotated[int, Field(strict=True, ge=0, le=MOST_GPUS)]
"""A number of whole GPUs, none included."""

PositiveGpus = Annotated[int, Field(strict=True, ge=1, le=MOST_GPUS)]
"""A number of whole GPUs, at least one."""

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    _duration_schema("1h30m"),
]
"""A duration, seconds inside, text with a unit outside."""

PositiveSeconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    AfterValidator(_check_positive),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    _duration_schema("2m"),
]
"""A duration of more than nothing."""

Mebibytes = Annotated[
    int,
    BeforeValidator(parse_memory),
    PlainSerializer(format_memory, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^(0|\d+(MiB|GiB|TiB))$", "examples": ["4GiB"]}),
]
"""Memory, MiB inside, text with a unit outside."""

MilliCpus = Annotated[
    int,
    BeforeValidator(parse_cpus),
    PlainSerializer(format_cpus, when_used="json"),
    WithJsonSchema({"type": "number", "minimum": 0, "multipleOf": 0.001, "examples": [0.5, 4]}),
]
"""CPUs, thousandths inside, a number with at most three decimals outside."""
