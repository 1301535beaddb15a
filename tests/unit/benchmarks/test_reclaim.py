from __future__ import annotations

import pytest

from benchmarks.reclaim import Turn

TURN = Turn(asked_at=100.0, noticed_at=100.03, gone_at=107.0, granted_at=107.2, by_hand_s=0.15)


def test_the_share_leaves_out_the_jobs_own_time_and_rays():
    assert TURN.notice_ms == pytest.approx(30.0)
    assert TURN.grant_ms == pytest.approx(200.0)
    assert TURN.share_ms == pytest.approx(80.0)
