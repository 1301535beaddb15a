"""Part of a GPU in a submission: a partition or a share of one card (rules V3 and V4).

Knows how they are written, and who may ask for one. Does not know cards, nor what is free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from fleet_app.engine.cards import MIG, WHOLE_SHARE, Slice
from fleet_app.engine.layouts import BOARDS, board_of, knows
from fleet_app.policy.problems import Problem, closest, refuse
from fleet_app.policy.schema import PolicyFile

SLICE_KEYS = ("partition", "share")

_SHARE = re.compile(r"0?\.\d{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceAsk:
    """What is asked of a card, and by what: `alone` is whether it is one bundle that could live on one card."""

    kind: str
    partition: str | None
    share: int | None
    alone: bool = True
    accelerator: str | None = None

    @property
    def slice(self) -> Slice | None:
        """Return the engine's slice; None when whole GPUs are asked for."""
        if self.partition is None and self.share is None:
            return None
        return Slice(profile=self.partition or "", share=0 if self.partition else self.share or 0)


def check_slice(ask: SliceAsk, policy: PolicyFile) -> Iterator[Problem]:
    """Yield why the policy, or any card, would never let this be."""
    if ask.slice is None:
        return
    key = SLICE_KEYS[ask.partition is None]
    if ask.partition is not None and ask.share is not None:
        yield Problem(path=("share",), what="is given beside partition", fix="Write one of the two")
    if policy.slicing is None:
        yield Problem(
            path=(key,),
            what="asks for part of a GPU, but the policy cuts and shares no cards",
            fix="Ask for whole gpus, or add slicing: {} to the policy",
        )
    if ask.kind == "gang":
        fix = "Submit it as backfill, or ask for whole gpus"
        yield Problem(path=(key,), what="asks for part of a GPU, but gangs have whole GPUs", fix=fix)
    if not ask.alone:
        fix = "Leave out nodes, min_nodes and groups: each slice is a job of its own"
        yield Problem(path=(key,), what="is on one card, but several bundles are asked for", fix=fix)
    yield from _of_accelerator(ask)


def _of_accelerator(ask: SliceAsk) -> Iterator[Problem]:
    board = None if ask.accelerator is None else board_of(ask.accelerator)
    if ask.partition is None or ask.accelerator is None:
        return
    if board is None:
        able = sorted(name for name, known in BOARDS.items() if known.profile(ask.partition))
        fix = f"Leave it out, or choose of: {', '.join(able)}"
        yield Problem(path=("accelerator",), what=f"{ask.accelerator!r} cannot be partitioned", fix=fix)
    elif board.profile(ask.partition) is None:
        names = [profile.name for profile in board.profiles]
        what = f"{ask.accelerator} has no partition {ask.partition!r}"
        yield Problem(path=("partition",), what=what, fix=closest(ask.partition, names))


def refuse_gpus_beside_a_slice(given: Mapping[str, object], source: str) -> None:
    """Refuse a submission that asks for part of a GPU and for whole ones. Raises RequestError."""
    if given.get("gpus") is not None and any(given.get(key) is not None for key in SLICE_KEYS):
        problem = Problem(path=("gpus",), what="is given beside part of a GPU", fix="Leave one of the two out")
        refuse([problem], source)


def _check_profile(value: str) -> str:
    profile = value.removeprefix(MIG)
    if not knows(profile):
        names = {known.name for board in BOARDS.values() for known in board.profiles}
        raise _refused("must be the profile of a partition", closest(profile, names))
    return profile


def parse_share(value: object) -> int:
    """Return ten-thousandths of a card from a part of a GPU with at most four decimals, such as 0.25."""
    text = str(value) if type(value) in (float, str) else ""
    share = int(Decimal(text) * WHOLE_SHARE) if _SHARE.fullmatch(text) else 0
    if not 0 < share < WHOLE_SHARE:
        raise _refused("must be a part of a GPU between 0 and 1", "Write for example 0.25, with at most four decimals")
    return share


def format_share(share: int) -> float:
    """Return ten-thousandths of a card as a part of a GPU."""
    return share / WHOLE_SHARE


def _refused(must: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("fleet", "{must}", {"must": must, "fix": fix})


Partition = Annotated[
    str, AfterValidator(_check_profile), WithJsonSchema({"type": "string", "examples": ["1g.10gb", "mig-3g.40gb"]})
]
"""The profile of a MIG partition; `mig-` in front of it, as in flavors and labels, means the same."""

Share = Annotated[
    int,
    BeforeValidator(parse_share),
    PlainSerializer(format_share, when_used="json"),
    WithJsonSchema(
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "multipleOf": 0.0001, "examples": [0.25]}
    ),
]
"""Part of one shared card: ten-thousandths inside, a number with at most four decimals outside."""
