"""`python -m benchmarks [id,id]`: run benchmarks by id, print a table, write `benchmarks/out/latest.json`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    admit,
    busy,
    decide,
    gang_start,
    growth,
    idle,
    openb,
    pool,
    promised,
    reclaim,
    submit,
    twin,
)
from benchmarks.result import Result

OUT = Path(__file__).parent / "out" / "latest.json"
WIDE = 160
BENCHMARKS = {
    **decide.BENCHMARKS,
    **busy.BENCHMARKS,
    **admit.BENCHMARKS,
    **twin.BENCHMARKS,
    **pool.BENCHMARKS,
    **openb.BENCHMARKS,
    **promised.BENCHMARKS,
    "gang-start": gang_start.run,
    "reclaim-live": reclaim.run,
    "arbiter-idle": idle.run,
    "submit": submit.run,
}
WHERE_NAMED = growth.BENCHMARKS
"""Those that take longer than anybody waits for, so they run only where they are named."""


def main(wanted: str = "") -> int:
    """Run the named benchmarks, all short ones when none is named; return an exit code."""
    known = {**BENCHMARKS, **WHERE_NAMED}
    ids = [one.strip() for one in wanted.split(",") if one.strip()] or list(BENCHMARKS)
    unknown = [one for one in ids if one not in known]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or a fleet would outlive the benchmark that has it
    results = [known[one]() for one in ids]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([line.as_json() for line in results], indent=1) + "\n")
    Console(width=WIDE).print(_table(results))
    return 0


def _table(results: list[Result]) -> Table:
    table = Table("id", "what", "ours", "min", "max", "other", "ratio", "runs", "unit")
    for line in results:
        other = "-" if line.other is None else f"{line.other:.2f} ({line.other_name})"
        ratio = "-" if line.ratio is None else f"{line.ratio:.3f}"
        figures = (f"{line.ours:.2f}", f"{line.min:.2f}", f"{line.max:.2f}")
        table.add_row(line.id, line.what, *figures, other, ratio, str(line.runs), line.unit)
    return table


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
