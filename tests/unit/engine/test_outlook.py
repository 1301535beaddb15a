"""B1: the most that serving is forecast to want."""

from __future__ import annotations

import pytest

from fleet_app.engine.forecast import History
from fleet_app.engine.outlook import Outlook, outlook
from fleet_app.engine.policy import Boundary

RULES = Boundary(serving="serving", training="research", quantile=0.5, horizon_s=86_400.0)
DAY = [10.0] * 60 * 12 + [40.0] * 60 + [10.0] * 60 * 11
SPIKE = [10.0] * 60 * 12 + [10.0, 90.0, 10.0, 10.0] + [10.0] * (60 * 12 - 4)

AHEAD = {
    "nothing is known": (None, Outlook(peak_gpus=0, known=False)),
    "nothing was ever wanted": ([0.0] * 60, Outlook(peak_gpus=0, known=False)),
    "a part of a GPU is a whole one": ([0.25] * 60, Outlook(peak_gpus=1, known=False)),
    "a day is too little": (DAY, Outlook(peak_gpus=10, known=False)),
    "what was wanted last is wanted": ([1.0, 7.0, 3.0], Outlook(peak_gpus=7, known=False)),
    "the peak of the day comes again": (DAY * 3, Outlook(peak_gpus=40, known=True)),
    "however short it is": (SPIKE * 3, Outlook(peak_gpus=90, known=True)),
}


@pytest.mark.parametrize(("wanted", "want"), AHEAD.values(), ids=AHEAD)
def test_the_peak(wanted: list[float] | None, want: Outlook) -> None:
    known = None if wanted is None else History(first_at=0.0, every_s=60.0, wanted_gpus=tuple(wanted))
    now = 0.0 if known is None else known.last_at
    assert outlook(known, now, RULES) == want
