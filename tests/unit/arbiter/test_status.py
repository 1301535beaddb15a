"""What the control API shows, from what the journal says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fleet_app.arbiter import status
from fleet_app.arbiter.journal import Snapshot
from fleet_app.arbiter.notes import Entry, Note, What
from fleet_app.arbiter.ports import Demand
from fleet_app.arbiter.records import Checkpoint, GrantRecord, Job, Record
from fleet_app.engine.calendar import Booking
from fleet_app.engine.decide import decide
from fleet_app.engine.errors import NotFoundError
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Hold, Plan
from fleet_app.engine.policy import Slicing
from fleet_app.engine.values import Condition
from fleet_app.engine.workload import Workload
from tests.builders import backfill, cards, gang, node, policy, service, shape, sliced, state, used

JOB = Job(entrypoint="true")


def record(workload: Workload, **more: object) -> Record:
    return Record(workload=workload, job=JOB, **more)  # type: ignore[arg-type]  # a test's keywords


def decided(*parts: object) -> Snapshot:
    seen = state(*parts)  # type: ignore[arg-type]  # nodes, workloads and services
    return Snapshot(at=10.0, state=seen, plan=decide(seen, policy(), 10.0))


def test_every_phase_is_counted() -> None:
    found = status.counts({"queued": 2, "running": 1}, spooled=3)
    assert found == dict.fromkeys(map(str, Phase), 0) | {"queued": 5, "running": 1}


def test_a_waiting_workload_says_why_and_a_running_one_where() -> None:
    runs, waits = gang("runs", on=("n1",), submitted_at=1.0), gang("waits", nodes=2, submitted_at=2.0)
    saved = Checkpoint(uri="file:///x", step=4, at=5.0, attempt=1)
    rows = status.workloads(
        [record(waits), record(runs, checkpoint=saved, step=6)], decided(node("n1"), runs, waits), policy()
    )
    assert [row["name"] for row in rows] == ["runs", "waits"]
    assert (rows[0]["nodes"], rows[0]["step"], rows[0]["checkpoint"]) == (
        ["n1"],
        6,
        {"uri": "file:///x", "step": 4, "at": 5.0, "attempt": 1},
    )
    assert (rows[0]["priority"], rows[0]["reason"]) == ("training-committed", None)
    assert rows[1]["reason"] == "too-large-for-fleet"
    assert "needs 2 nodes" in str(rows[1]["message"])


def test_who_is_forgotten_is_not_shown() -> None:
    ended = replace(gang("a"), phase=Phase.SUCCEEDED)
    assert status.workloads([record(ended, ended_at=1.0, forgotten=True)], None, policy()) == []


def test_a_node_names_who_has_its_gpus() -> None:
    seen = state(node("n1", foreign=shape(1), owners=("actor X",)), node("n2", condition=Condition.DOWN))
    snapshot = Snapshot(at=1.0, state=seen, plan=Plan(holds=(Hold(node="n1", beneficiary="llm", shape=shape(1)),)))
    grants = [
        GrantRecord(name="1", service="chat", node="n1", shape=shape(2), made_at=0.0, occupied=True),
        GrantRecord(name="2", service="chat", node="n1", shape=shape(2), made_at=0.0),
    ]
    rows = status.nodes(snapshot, [record(backfill("b", on=("n1",)))], grants, policy())
    assert (rows[0]["gpus_total"], rows[0]["gpus_free"], rows[0]["gpus_foreign"]) == (8, 1, 1)
    assert rows[0]["foreign_owners"] == ["actor X"]
    assert [(h["what"], h["kind"], h["gpus"]) for h in rows[0]["holders"]] == [  # type: ignore[attr-defined]  # a list
        ("b", "running", 1),
        ("chat", "replica", 2),
        ("chat", "grant", 2),
        ("llm", "hold", 1),
    ]
    assert (rows[1]["condition"], rows[1]["gpus_free"]) == ("down", 0)


BENCH = Booking(
    name="bench", team="research", shape=shape(8), nodes=("n1", "n2"), start_at=100.0, end_at=200.0, asked_by="ada"
)


def test_a_node_says_for_whom_it_is_booked_the_earliest_first() -> None:
    window = replace(BENCH, name="fans", team=None, nodes=("n1",), start_at=50.0, end_at=60.0)
    seen = replace(state(node("n1"), node("n3")), bookings=(BENCH, window))
    rows = status.nodes(Snapshot(at=1.0, state=seen, plan=Plan()), [], [], policy())
    assert [[(one["name"], one["team"]) for one in row["bookings"]] for row in rows] == [  # type: ignore[attr-defined]
        [("fans", None), ("bench", "research")],
        [],
    ]


INSIDE: dict[str, tuple[Workload, str | None]] = {
    "what began in its team's booking": (gang("a", on=("n1", "n2"), started_at=150.0), "bench"),
    "what began before": (gang("a", on=("n1", "n2"), started_at=99.0), None),
    "what has a node elsewhere, too": (gang("a", on=("n1", "n3"), started_at=150.0), None),
    "another team's": (gang("a", on=("n1",), started_at=150.0, team="batch"), None),
    "what waits": (gang("a"), None),
}


@pytest.mark.parametrize(("workload", "want"), INSIDE.values(), ids=INSIDE)
def test_a_workload_says_in_which_booking_it_runs(workload: Workload, want: str | None) -> None:
    seen = replace(state(node("n1"), workload), bookings=(BENCH,))
    (row,) = status.workloads([record(workload)], Snapshot(at=160.0, state=seen, plan=Plan()), policy())
    assert row["booking"] == want


def test_a_service_shows_what_it_wants_and_has() -> None:
    demand = Demand(service="chat", team="serving", shape=shape(2), wanted=3, floor=1, at=0.0)
    grants = [GrantRecord(name="1", service="chat", node="n1", shape=shape(2), made_at=0.0, occupied=True)]
    (row,) = status.services([demand], grants, None)
    assert (row["wanted"], row["floor"], row["grants"], row["occupied"], row["nodes"]) == (3, 1, 1, 1, ["n1"])


def test_an_explanation_has_its_numbers() -> None:
    snapshot = decided(node("n1"), gang("big", nodes=2), service("chat", wanted=1))
    row = status.explain(snapshot, policy(), "big")
    assert (row["reason"], row["asked"], row["available"]) == ("too-large-for-fleet", 2, 1)
    with pytest.raises(NotFoundError):
        status.explain(snapshot, policy(), "nobody")


def test_an_explanation_says_who_is_ahead_and_what_happened_before() -> None:
    snapshot = decided(node("n1"), gang("first"), gang("x", submitted_at=1.0))
    told = Note(at=5.0, kind=What.DRAINING, subject="x", detail={"beneficiary": "chat", "why": "it needs room"})
    row = status.explain(snapshot, policy(), "x", [Entry(seq=1, note=told)])
    assert (row["ahead"], row["turns"]) == (
        ["first"],
        [{"workload": "first", "why": "earlier", "outcome": "starts now with 8 GPUs"}],
    )
    (past,) = row["past"]  # type: ignore[misc]  # a list
    assert past["sentence"] == "was asked to leave 5 s ago for chat (it needs room); is leaving"


def test_a_planned_start_is_shown_in_the_queue_and_explained() -> None:
    runs, waits = gang("runs", on=("n1",), max_run_s=100.0), gang("waits", submitted_at=2.0)
    snapshot = decided(node("n1"), runs, waits)
    rows = status.workloads([record(waits), record(runs)], snapshot, policy())
    assert [(row["max_run_s"], row["planned_at"]) for row in rows] == [(100.0, None), (None, 700.0)]
    assert str(rows[1]["message"]).endswith("planned start in 11 min 30 s, when runs has ended")
    row = status.explain(snapshot, policy(), "waits")
    assert (row["planned_at"], row["planned_after"]) == (700.0, "runs")


def test_an_estimate_is_in_numbers_and_in_words() -> None:
    snapshot = decided(node("n1"), gang("runs", on=("n1",), max_run_s=100.0), backfill("waits", gpus=8))
    row = status.explain(snapshot, policy(), "waits")
    assert row["estimate"] == {
        "at": 220.0,
        "beyond": False,
        "after": ("runs",),
        "because": "",
        "sentence": "in about 3 min 30 s, when runs has left, if all goes as declared and nobody else comes",
    }
    assert status.explain(snapshot, policy(), "runs")["estimate"] is None


def test_what_could_be_smaller_has_its_price() -> None:
    seen = state(node("n1"), service("chat", wanted=4, on=["n1"] * 4), used("chat", 20, until=86_400.0))
    (row,) = status.recommendations(Snapshot(at=86_400.0, state=seen, plan=Plan()), policy(), 2.5)
    assert (row["enough"], row["saved_gpus"], row["saved_per_day"]) == (2, 2, 120.0)
    assert status.recommendations(None, policy(), 2.5) == []


def test_cards_and_who_has_part_of_one_are_shown() -> None:
    job = sliced("job", profile="1g.10gb", on=("n1", 0))
    snapshot = decided(node("n1", gpus=0, cards=cards(("1g.10gb",) * 7, ("shared",))), job)
    (row,) = status.nodes(snapshot, [record(job)], [], policy())
    first, second = row["cards"]  # type: ignore[misc]  # a list
    assert (first["layout"], second["layout"], second["users"]) == (["1g.10gb"] * 7, ["shared"], [])
    assert [(user["what"], user["part"]["text"]) for user in first["users"]] == [("job", "a partition 1g.10gb")]
    (row,) = status.workloads([record(job)], snapshot, policy())
    assert (row["part"], row["card"]) == ({"profile": "1g.10gb", "share": 0, "text": "a partition 1g.10gb"}, 0)


def test_which_cards_should_be_cut_is_recommended() -> None:
    rules = policy(slicing=Slicing(repartition=True))
    seen = state(node("n1", gpus=2, cards=cards((), ()), accelerator="H100"), sliced("job", profile="1g.10gb"))
    snapshot = Snapshot(at=5.0, state=seen, plan=decide(seen, rules, 5.0))
    (row,) = status.recommendations(snapshot, rules, 1.0)
    assert (row["kind"], row["subject"]) == ("layout", "n1")
    assert row["sentence"] == "cards 0, 1 should be 7 x 1g.10gb: job waits for it"


def test_everything_is_json() -> None:
    snapshot = decided(node("n1"), gang("big", nodes=2), service("chat", wanted=1, on=("n1",)))
    rows = [
        status.nodes(snapshot, [], [], policy()),
        status.workloads([record(gang("big", nodes=2))], snapshot, policy()),
        status.explain(snapshot, policy(), "big"),
        status.fragments(snapshot, policy(), plan=True),
    ]
    assert json.loads(json.dumps(rows))
    assert status.nodes(None, [], [], policy()) == []
