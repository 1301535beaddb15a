"""Runs as files: another scenario is refused, what cannot be read is said."""

from __future__ import annotations

import pytest

from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.twin.run import Run
from fleet_app.twin.saved import go_on, save
from tests.builders import gang, node, policy
from tests.twins import job, scenario, told


def given(name: str = "g", seed: int = 0):
    return scenario(policy(), [node("n1")], [job(gang(name)), job(gang("h"), at=50.0)], seed=seed)


def begun(path):
    records = []
    run = Run(given(), records.append)
    run.begin()
    run.go(until=70.0)
    save(run, path)
    return records


def test_a_run_goes_on_from_its_file(tmp_path):
    records = begun(tmp_path / "run.json")
    run = go_on(tmp_path / "run.json", given(), records.append)
    run.go()
    run.finish()
    assert records == told(given())


def test_another_scenario_is_refused(tmp_path):
    begun(tmp_path / "run.json")
    with pytest.raises(RequestError, match="another scenario"):
        go_on(tmp_path / "run.json", given(seed=1), lambda _: None)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(RequestError, match="cannot be read"):
        go_on(tmp_path / "none.json", given(), lambda _: None)


def test_what_is_damaged_is_said(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(FaultError):
        go_on(tmp_path / "run.json", given(), lambda _: None)


def test_what_cannot_be_written_is_said(tmp_path):
    run = Run(given(), lambda _: None)
    with pytest.raises(FaultError, match="cannot be saved"):
        save(run, tmp_path / "no" / "run.json")
