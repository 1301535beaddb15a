"""`fleet what-if` from outside: the past of a small fleet under another policy, and with other nodes."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from fleet_app.arbiter.book import Book
from fleet_app.arbiter.journal import Journal, Snapshot
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import Job, Record
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Plan
from fleet_app.engine.state import FleetState
from tests.builders import gang, node, shape
from tests.surface.test_cli import fleet

HOUR = 3600.0
POLICY = """
version: 1
name: present
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations: {lab: {teams: {research: {nominal: 16}, serving: {nominal: 8, borrowing_limit: 0}}}}
accounting: {price_per_gpu_hour: 2.5}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the home of a fleet of three nodes that ran two gangs at once for an hour each, and then a third."""
    book = Book()
    for name, (began, at) in {"a": (0.0, 0.0), "b": (0.0, 10.0), "c": (HOUR, 20.0)}.items():
        one = replace(gang(name, submitted_at=at), phase=Phase.SUCCEEDED)
        book.put(Record(workload=one, job=Job(entrypoint="true")))
        book.note(at, What.SUBMITTED, name)
        book.note(max(at, began), What.ADMITTED, name)
        book.note(max(at, began), What.STARTED, name)
        book.note(max(at, began) + HOUR, What.SUCCEEDED, name)
    demand = Demand(service="chat", team="serving", shape=shape(2), wanted=1, floor=1, at=130.0)
    book.demands.put("chat", demand)
    book.note(0.0, What.DEMANDED, "chat", was=0, wanted=2)
    kept = Journal(tmp_path / "journal.db")
    nodes = (node("t1"), node("t2"), node("s1", serving=True))
    kept.commit(book, Snapshot(at=2 * HOUR + 20, state=FleetState(nodes=nodes), plan=Plan()))
    kept.close()
    (tmp_path / "policy.yaml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def other(home: Path) -> str:
    """Return a policy under which the third gang could have run at once, had there been room."""
    path = home / "other.yaml"
    path.write_text(POLICY.replace("nominal: 16", "nominal: 8"))
    return str(path)


def unwrapped(text: str) -> str:
    """Return what was said, however long the path in it is that made a terminal break the lines."""
    return " ".join(text.split())


def test_what_changed_and_for_whom(home: Path, other: str) -> None:
    page = home / "page.html"
    result = fleet("what-if", "--policy", other, "--history", str(home), "--html", str(page))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split() == ["WHAT", "WHOSE", "AS", "IT", "WAS", "OTHER", "CHANGE"]
    assert "its own used" in result.stdout
    assert "research" in result.stdout
    assert "3 workloads, 1 services, 0 bookings on 3 nodes" in unwrapped(result.stderr)
    assert "as it was and other" in page.read_text()


def test_the_same_as_json(home: Path, other: str) -> None:
    result = fleet("what-if", "--policy", other, "--history", str(home / "journal.db"), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found["runs"]) == ["as it was", "other"]
    assert (found["history"]["workloads"], found["history"]["malformed"]) == (3, [])
    waited = [row for row in found["compared"] if (row["what"], row["whose"]) == ("waited (p99)", "research")]
    assert [(row["before"], row["after"]) for row in waited] == [(HOUR - 20.0, 2 * HOUR - 20.0)]


def test_a_node_more_and_quota_for_it_let_nobody_wait(home: Path) -> None:
    put = "organisations.lab.teams.research.nominal=24"
    result = fleet("what-if", "--nodes", "+1", "--set", put, "--home", str(home), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    name = f"{put}, +1 nodes"
    teams = {run: {one["team"]: one for one in told["figures"]["teams"]} for run, told in found["runs"].items()}
    assert (found["runs"][name]["figures"]["gpus"], teams[name]["research"]["waited"]["longest_s"]) == (32, 0.0)


def test_a_node_more_that_is_nobody_s_is_said(home: Path) -> None:
    result = fleet("what-if", "--nodes", "+1", "--home", str(home))
    assert "8 of 32 GPUs are no team's nominal" in unwrapped(result.stderr)


def test_a_row_that_makes_no_sense_is_shown_or_refused(home: Path, other: str) -> None:
    with sqlite3.connect(home / "journal.db") as db:
        db.execute("UPDATE workloads SET value = '{' WHERE name = 'b'")
    db.close()
    asked = ("what-if", "--policy", other, "--history", str(home))
    skipped, refused = fleet(*asked), fleet(*asked, "--strict")
    assert (skipped.exit_code, "1 malformed and skipped" in unwrapped(skipped.stderr)) == (0, True)
    assert (refused.exit_code, "workload b: not a Record" in unwrapped(refused.stderr)) == (2, True)


WRONG = {
    "nothing is different": ((), "nothing is to be different"),
    "no change of nodes": (("--nodes", "64"), "is no change of nodes"),
    "a team that the policy does not have": (("--set", "organisations.lab.teams.research=null"), "no team is called"),
    "no journal": (("--nodes", "+1", "--history", "none.db"), "there is no journal"),
}


@pytest.mark.parametrize(("asked", "want"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_said(home: Path, asked: tuple[str, ...], want: str) -> None:
    result = fleet("what-if", "--home", str(home), *asked)
    assert (result.exit_code, want in result.stderr) == (2, True), result.output
