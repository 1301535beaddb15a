"""The demo's promises: each is kept by the right events and broken by the wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_app.cli.demo import promises
from fleet_app.cli.demo.events import Event, Story
from fleet_app.cli.demo.traffic import Request, quantile_s, read_day

ROOT = Path(__file__).parents[3]
SPINES = {"n1": "s1", "n2": "s1", "n3": "s2"}


def story(*told: tuple[float, str, str, dict[str, object]]) -> Story:
    return Story(
        [Event(seq=i, at=at, kind=kind, subject=who, detail=how) for i, (at, kind, who, how) in enumerate(told)]
    )


def placed(*nodes: str) -> Story:
    return story((1.0, "placed", "gang", {"nodes": list(nodes)}))


def drain(**changes: object) -> promises.Drained:
    known = {
        "job": "b",
        "attempt": 1,
        "for_": "chat",
        "noticed_at": 0.0,
        "deadline_at": 10.0,
        "gone_at": 5.0,
        "saved_step": 7,
        "killed": False,
    }
    return promises.Drained(**{**known, **changes})  # type: ignore[arg-type]  # a test's keywords


NOTICE = (1.0, "draining", "b", {"attempt": 1, "deadline_at": 11.0, "beneficiary": "chat"})
SAVED = (2.0, "acknowledged", "b", {"attempt": 1, "step": 7})
GONE = (3.0, "requeued", "b", {"attempt": 1, "freed": [["n1", 4]]})
BACK = (9.0, "started", "b", {"attempt": 2, "resumed_step": 7})
ON_N1 = (1.0, "admitted", "b", {"nodes": ["n1"]})
GRANT_ON_N1 = (2.0, "granted", "chat", {"node": "n1", "grant": "g"})

KEPT = {
    "a gang on one spine": (promises.whole_on_one_domain(placed("n1", "n2"), "gang", SPINES, 2), True),
    "a gang across spines": (promises.whole_on_one_domain(placed("n1", "n3"), "gang", SPINES, 2), False),
    "half a gang": (promises.whole_on_one_domain(placed("n1"), "gang", SPINES, 2), False),
    "a gang that nobody placed": (promises.whole_on_one_domain(story(), "gang", SPINES, 2), False),
    "a gang that ran through": (promises.untouched(story((1.0, "started", "gang", {})), "gang"), True),
    "a gang that was drained": (
        promises.untouched(story((1.0, "started", "gang", {}), (2.0, "draining", "gang", {})), "gang"),
        False,
    ),
    "as many drains as needed": (promises.no_more_than_needed([drain()], 1, name="spike"), True),
    "one drain too many": (promises.no_more_than_needed([drain(), drain()], 1, name="spike"), False),
    "resumed where it saved": (promises.resumed_where_saved(story(BACK), [drain()]), True),
    "resumed elsewhere": (promises.resumed_where_saved(story(BACK), [drain(saved_step=8)]), False),
    "never resumed": (promises.resumed_where_saved(story(), [drain()]), False),
    "killed at its deadline": (promises.killed_at_deadline([drain(killed=True, gone_at=10.4)]), True),
    "killed before its deadline": (promises.killed_at_deadline([drain(killed=True, gone_at=9.9)]), False),
    "killed long after its deadline": (promises.killed_at_deadline([drain(killed=True, gone_at=11.5)]), False),
    "nobody to kill": (promises.killed_at_deadline([drain()]), False),
    "gone in time": (promises.within_deadline([drain()], name="spike"), True),
    "never gone": (promises.within_deadline([drain(gone_at=None)], name="spike"), False),
    "a GPU promised once": (promises.nothing_twice(story(ON_N1, GONE, GRANT_ON_N1), {"n1": 4}, {"b": 4}, 4), True),
    "a GPU promised twice": (promises.nothing_twice(story(ON_N1, GRANT_ON_N1), {"n1": 4}, {"b": 4}, 4), False),
    "all answered": (promises.all_answered(0, 10, 1), True),
    "one not answered": (promises.all_answered(1, 10, 0), False),
    "nothing asked": (promises.all_answered(0, 0, 0), False),
    "a job lost over a kill": (promises.survived(story((1.0, "arbiter", "arbiter", {})), ["b"], 0), False),
    "a job run twice": (
        promises.survived(
            story((0.0, "arbiter", "arbiter", {}), (1.0, "submitted", "b", {}), (2.0, "started", "b", {}), BACK),
            ["b"],
            0,
        ),
        False,
    ),
}


@pytest.mark.parametrize(("promise", "want"), KEPT.values(), ids=KEPT)
def test_a_promise_is_kept_or_broken_by_what_happened(promise: promises.Promise, want: bool) -> None:
    assert promise.kept is want


def test_a_drain_is_told_from_notice_to_exit() -> None:
    (found,) = promises.drains(story(NOTICE, SAVED, GONE))
    assert found == promises.Drained(
        job="b", attempt=1, for_="chat", noticed_at=1.0, deadline_at=11.0, gone_at=3.0, saved_step=7, killed=False
    )


def test_the_time_from_exit_to_grant_counts_only_grants_on_the_freed_node() -> None:
    here = (3.2, "grant-ready", "chat", {"node": "n1"})
    elsewhere = (3.1, "grant-ready", "chat", {"node": "n9"})
    assert promises.granted_after_exit_s(story(NOTICE, GONE, elsewhere, here)) == [pytest.approx(0.2)]


def test_the_day_is_a_real_one_relative_to_its_quietest_moment() -> None:
    day = read_day(ROOT / "clusters" / "traces" / "azure_llm_2024_conv_day.csv")
    assert min(day.levels) == 1.0
    assert 2.0 < max(day.levels) < 2.5
    assert day.at(0.0) == day.levels[0]
    assert day.at(1.0) == day.levels[-1]


def test_a_quantile_is_a_latency_that_was_seen() -> None:
    requests = [Request(at=0.0, latency_s=each / 100, ok=True) for each in range(1, 101)]
    assert quantile_s(requests, 0.99) == 1.0
    assert quantile_s(requests, 0.5) == 0.51
    assert quantile_s([], 0.99) == 0.0
