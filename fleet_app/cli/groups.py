"""Groups of a gang as options: `--group NAME=NODESxGPUS[,cpus=CPUS][,memory=MEMORY]`. Does not know what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fleet_app.engine.errors import RequestError

_AMOUNTS = r"(,cpus=(?P<cpus>[^,]+))?(,memory=(?P<memory>[^,]+))?"
_WRITTEN = re.compile(r"(?P<name>[^=,]+)=(?P<nodes>\d{1,9})x(?P<gpus>\d{1,9})" + _AMOUNTS, re.ASCII)


def parsed(options: Iterable[str]) -> dict[str, dict[str, object]]:
    """Return groups by name, in the order of the options, as a spec has them. Raises RequestError."""
    found: dict[str, dict[str, object]] = {}
    for text in options:
        matched = _WRITTEN.fullmatch(text)
        if matched is None:
            raise RequestError(
                f"{text!r} is no group", where="--group", fix="Write for example ps=1x0,cpus=16 or actors=4x8"
            )
        if matched["name"] in found:
            raise RequestError(f"{matched['name']!r} is given twice", where="--group", fix="Name each group once")
        amounts = {key: matched[key] for key in ("cpus", "memory") if matched[key] is not None}
        found[matched["name"]] = {"nodes": int(matched["nodes"]), "gpus": int(matched["gpus"]), **amounts}
    return found
