"""`fleet forecast` from outside: a history from a file or from the fleet's own events."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from fleet_app.cli.ahead import from_file
from fleet_app.engine.errors import RequestError
from tests.surface.control_answers import ANSWERS, BASE, SERVICES
from tests.surface.control_stand_in import served
from tests.surface.test_cli import CLUSTERS, fleet, lines

STATUS = ANSWERS[f"GET {BASE}status"]
STEADY = "time,gpus\n" + "".join(f"{60 * minute},{7 * minute}\n" for minute in range(500))


def written(folder: Path, text: str) -> Path:
    (folder / "history.csv").write_text(text)
    return folder / "history.csv"


def test_a_file_s_forecast_is_a_table_and_a_sentence(tmp_path: Path) -> None:
    result = fleet("forecast", "--history", str(written(tmp_path, STEADY)), "--maximum", "10")
    assert result.exit_code == 0, result.output
    shown = lines(result.stdout)
    assert shown[0].split() == ["AT", "P10", "P50", "P90", "P99"]
    assert shown[1].split() == ["1970-01-01", "08:34Z", "3388", "3493", "3598", "3598"]
    assert shown[5] == "holding 10 GPUs free: p99 growth in 90 s is 14, at most 10 are to be held"


def test_a_trace_is_a_history(tmp_path: Path) -> None:
    result = fleet("forecast", "--history", str(CLUSTERS / "traces" / "azure_llm_2024_code_week.csv"), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["samples"], round(found["every_s"])) == (1396, 433)
    assert len(found["forecast"]) == 4
    assert found["immediate"]["gpus"] >= found["immediate"]["growth_gpus"] > 0


def demanded(seconds_ago: float, was: int | None, wanted: int, subject: str = "chat.Chat") -> dict[str, Any]:
    detail = {"wanted": wanted, "was": was}
    return {"seq": 1, "at": time.time() - seconds_ago, "kind": "demanded", "subject": subject, "detail": detail}


def test_without_a_file_the_fleet_s_events_are_the_history() -> None:
    events = [
        demanded(605.0, 1, 2),
        {"seq": 2, "at": 0.0, "kind": "submitted", "subject": "llm", "detail": {}},
        demanded(305.0, 2, 5),
        demanded(300.0, 0, 9, subject="gone"),
    ]
    with served({f"GET {BASE}services": SERVICES, f"GET {BASE}status": STATUS, f"GET {BASE}events": events}) as control:
        result = fleet("forecast", "--json", "--quantile", "1", "--gateway", control.url)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["samples"], found["every_s"], found["now_gpus"]) == (11, 60.0, 20.0)
    assert found["immediate"]["gpus"] == 12


def test_what_was_wanted_before_anything_changed_counts() -> None:
    with served({f"GET {BASE}services": SERVICES, f"GET {BASE}status": STATUS, f"GET {BASE}events": []}) as control:
        found = json.loads(fleet("forecast", "--json", "--minimum", "3", "--gateway", control.url).stdout)
    assert (found["samples"], found["now_gpus"], found["immediate"]["gpus"]) == (1, 20.0, 3)
    assert found["held"]["gpus"] == 14


def test_what_the_arbiter_holds_by_its_own_forecast_is_said_too() -> None:
    with served({f"GET {BASE}services": SERVICES, f"GET {BASE}status": STATUS, f"GET {BASE}events": []}) as control:
        result = fleet("forecast", "--gateway", control.url)
    says = "By the policy in force the arbiter is holding 14 GPUs free: p99 growth in 90 s is 14"
    assert lines(result.stdout)[-1] == says


def test_without_services_there_is_nothing_to_tell() -> None:
    with served({f"GET {BASE}services": []}) as control:
        result = fleet("forecast", "--gateway", control.url)
    assert result.exit_code == 2
    assert "no service has announced itself" in result.stderr


NO_HISTORY = {
    "a single sample": ("time,gpus\n0,1\n", "has 1 samples"),
    "nothing": ("", "has 0 samples"),
    "a gap": ("time,gpus\n0,1\n60,1\n300,1\n360,1\n", "must lie evenly"),
    "times out of order": ("time,gpus\n0,1\n120,1\n60,1\n180,1\n", "must lie evenly"),
    "times that stand still": ("time,gpus\n5,1\n5,1\n", "samples"),
    "less than no GPUs": ("time,gpus\n0,1\n60,-1\n", "is no sample"),
    "no number": ("time,gpus\n0,1\n60,nan\n", "is no sample"),
    "no second column": ("time,gpus\n0\n60\n", "is no sample"),
    "no time": ("time,gpus\nnoon,1\n60,1\n", "is no sample"),
}


@pytest.mark.parametrize(("text", "want"), NO_HISTORY.values(), ids=NO_HISTORY)
def test_a_file_that_is_no_history_is_refused(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(RequestError, match=want):
        from_file(written(tmp_path, text))


def test_times_may_be_written_as_dates_in_utc_unless_they_say_otherwise(tmp_path: Path) -> None:
    text = "at,gpus\n1970-01-01T00:01:00Z,1\n1970-01-01 00:02:00,2\n1970-01-01T01:03:00+01:00,3\n"
    found = from_file(written(tmp_path, text))
    assert (found.first_at, found.every_s, found.wanted_gpus) == (60.0, 60.0, (1.0, 2.0, 3.0))
