"""The control API and the metrics: what is shown comes from the journal, what is asked for lands in the inbox."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from fleet_app.arbiter import inbox
from fleet_app.arbiter.notes import What
from fleet_app.engine.lifecycle import Event
from fleet_app.engine.plan import Hold, Plan, Reason, Wait
from fleet_app.engine.state import FleetState
from fleet_app.engine.values import NodeClass
from tests.builders import crossing, node, quarantined, service, shape, state
from tests.surface.bench import POLICY, Bench, bench
from tests.surface.hand import Hand
from tests.surface.test_gateway_jobs import running, spooled, submit

SPEC = {"name": "llm", "kind": "gang", "team": "research", "gpus": 8, "entrypoint": "python train.py"}


async def get(gateway: Bench, what: str) -> object:
    answer = await gateway.get(f"/api/fleet/{what}")
    assert answer.status == 200, await answer.text()
    return await answer.json()


@pytest.mark.anyio
async def test_everything_is_shown_before_there_is_an_arbiter(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        for what in ("workloads", "nodes", "services", "events", "recommendations"):
            assert await get(gateway, what) == []
        assert await get(gateway, "fragments?plan=true") == {"pictures": [], "plan": None}
        status = await get(gateway, "status")
        assert isinstance(status, dict)
        assert status["arbiter"] == {"alive": False, "lease_age_s": None}
        assert status["paused"] is False
        assert (await gateway.get("/metrics")).status == 200


@pytest.mark.anyio
async def test_a_spec_is_submitted_and_shown_at_once_though_nobody_has_taken_it_in(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        answer = await gateway.post("/api/fleet/submit", json=SPEC)
        assert await answer.json() == {"name": "llm", "accepted": True}
        rows = await get(gateway, "workloads")
        assert isinstance(rows, list)
        assert [(row["name"], row["phase"], row["message"]) for row in rows] == [("llm", "queued", "spooled")]
        status = await get(gateway, "status")
        assert isinstance(status, dict)
        assert (status["inbox"], status["counts"]["queued"]) == (1, 1)
        why = await get(gateway, "explain/llm")
        assert isinstance(why, dict)
        assert why["sentence"] == "is pending: the arbiter is not running; spooled"


@pytest.mark.anyio
async def test_the_fleet_is_shown_as_the_arbiter_last_saw_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        hand.book.note(1.0, What.NODE, "n1", condition="ready")
        hold = Hold(node="n2", beneficiary="chat", shape=shape(gpus=2))
        state = FleetState(nodes=(node("n1"), node("n2")), workloads=(hand.get("llm").workload,))
        hand.show(state, Plan(holds=(hold,)))
        rows = await get(gateway, "nodes")
        assert isinstance(rows, list)
        assert [(row["name"], row["gpus_free"]) for row in rows] == [("n1", 8), ("n2", 6)]
        assert await get(gateway, "events?limit=1") == [
            {"seq": 1, "at": 1.0, "kind": "node", "subject": "n1", "detail": {"condition": "ready"}}
        ]
        assert await get(gateway, "events?after=1") == []
        why = await get(gateway, "explain/llm")
        assert isinstance(why, dict)
        assert why["sentence"].startswith("is running on")
        text = await (await gateway.get("/metrics")).text()
        for line in (
            'fleet_workloads{phase="running"} 1.0',
            'fleet_gpus{class="training",state="held"} 2.0',
            'fleet_gpus{class="training",state="free"} 14.0',
            "fleet_inbox_requests 0.0",
            "fleet_arbiter_lease_age_seconds 0",
        ):
            assert f"\n{line}" in text


@pytest.mark.anyio
async def test_free_gpus_are_surveyed_and_moves_are_recommended_when_asked_for(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        parts = (*(node(name, serving=True) for name in ("n1", "n2")), service("chat", on=["n1", "n2"], team="serving"))
        Hand(tmp_path).show(state(*parts), Plan())
        found = await get(gateway, "fragments")
        assert isinstance(found, dict)
        assert [(each["part"], each["stranded_gpus"]) for each in found["pictures"]] == [("fleet", 14), ("serving", 14)]
        assert found["plan"] is None
        found = await get(gateway, "fragments?plan=true&nodes=1")
        assert isinstance(found, dict)
        assert [(move["source"], move["target"]) for move in found["plan"]["moves"]] == [("n1", "n2")]
        assert (await gateway.get("/api/fleet/fragments?nodes=0")).status == 400


@pytest.mark.anyio
async def test_a_wait_is_explained_in_numbers(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await gateway.post("/api/fleet/submit", json=SPEC)
        hand = Hand(tmp_path)
        hand.ingest()
        wait = Wait(workload="llm", reason=Reason.NO_ROOM, asked=1, available=0)
        hand.show(FleetState(nodes=(node(gpus=4),), workloads=(hand.get("llm").workload,)), Plan(answers=(wait,)))
        why = await get(gateway, "explain/llm")
        assert isinstance(why, dict)
        assert why["reason"] is not None
        assert why["sentence"].startswith("needs 1 node with 8 free GPUs")


ORDERS: dict[str, tuple[str, dict[str, object] | None, inbox.Request]] = {
    "drain with its own grace": ("drain/llm", None, inbox.Drain(name="llm")),
    "drain with another": ("drain/llm", {"grace_s": 5}, inbox.Drain(name="llm", grace_s=5)),
    "move": ("move/llm", None, inbox.Move(name="llm")),
    "cancel": ("cancel/llm", None, inbox.Cancel(name="llm")),
    "pause": ("pause", None, inbox.Pause()),
    "resume": ("resume", None, inbox.Resume()),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "body", "want"), ORDERS.values(), ids=ORDERS)
async def test_an_order_lands_in_the_inbox(
    tmp_path: Path, path: str, body: dict[str, object] | None, want: inbox.Request
) -> None:
    async with bench(tmp_path) as gateway:
        await running(gateway, tmp_path)
        answer = await gateway.post(f"/api/fleet/{path}", data=b"" if body is None else json.dumps(body).encode())
        assert answer.status == 200, await answer.text()
        assert spooled(tmp_path) == [want]


KEEPING_OUT: dict[str, tuple[str, dict[str, object], inbox.Request]] = {
    "a quarantine for as long as the policy says": (
        "quarantine/n1",
        {"reason": "fan noise", "who": "ada"},
        inbox.Quarantine(node="n1", reason="fan noise", who="ada"),
    ),
    "for two hours": (
        "quarantine/n1",
        {"reason": "fan noise", "for_s": 7200},
        inbox.Quarantine(node="n1", reason="fan noise", for_s=7200, who="unnamed"),
    ),
    "a release": ("release/n2", {"who": "ada"}, inbox.Release(node="n2", who="ada")),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("path", "body", "want"), KEEPING_OUT.values(), ids=KEEPING_OUT)
async def test_who_keeps_a_node_out_or_lets_it_in_is_heard(
    tmp_path: Path, path: str, body: dict[str, object], want: inbox.Request
) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        told = quarantined("n2", until=2e9)
        hand.show(FleetState(nodes=(node("n1"), node("n2")), quarantines=(told,)), Plan())
        answer = await gateway.post(f"/api/fleet/{path}", json=body)
        assert answer.status == 200, await answer.text()
        assert spooled(tmp_path) == [want]
        rows = await get(gateway, "nodes")
        assert isinstance(rows, list)
        assert [(row["condition"], row["quarantine"]) for row in rows] == [
            ("ready", None),
            ("quarantined", {"reason": "it smells", "owner": "ada", "since": 0.0, "until": 2e9}),
        ]


@pytest.mark.anyio
async def test_what_is_not_kept_out_is_not_released(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        hand = await running(gateway, tmp_path)
        hand.show(FleetState(nodes=(node("n1"),)), Plan())
        assert (await gateway.post("/api/fleet/release/n1")).status == 409
        assert (await gateway.post("/api/fleet/quarantine/n9", json={"reason": "x"})).status == 404
        assert (await gateway.post("/api/fleet/quarantine/n1", json={})).status == 400


REFUSED: dict[str, tuple[str, str, str, int]] = {
    "cancel of nothing": ("POST", "cancel/nobody", "", 404),
    "drain of nothing": ("POST", "drain/nobody", "", 404),
    "explain of nothing": ("GET", "explain/nobody", "", 404),
    "a grace that is no number": ("POST", "drain/llm", '{"grace_s": "soon"}', 400),
    "a grace of NaN": ("POST", "drain/llm", '{"grace_s": NaN}', 400),
    "a grace below nothing": ("POST", "drain/llm", '{"grace_s": -1}', 400),
    "an unknown option of a drain": ("POST", "drain/llm", '{"grace": 1}', 400),
    "an unknown key of a spec": ("POST", "submit", '{"name": "x", "entrypoint": "y", "gpu": 1}', 400),
    "a spec without an entrypoint": ("POST", "submit", '{"name": "x"}', 400),
    "a service": ("POST", "submit", '{"name": "x", "kind": "service", "entrypoint": "y"}', 400),
    "events before the first": ("GET", "events?after=-1", "", 400),
    "all events there ever were": ("GET", "events?limit=1000000", "", 400),
    "a policy that is none": ("POST", "policy", "version: 7", 400),
    "a policy of aliases": ("POST", "policy", "a: &a [x]\nb: *a", 400),
    "a path that leads nowhere": ("GET", "nowhere", "", 404),
    "a verb that is not for it": ("POST", "status", "", 405),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("method", "path", "body", "want"), REFUSED.values(), ids=REFUSED)
async def test_refused_with_what_where_and_fix_and_nothing_changed(
    tmp_path: Path, method: str, path: str, body: str, want: int
) -> None:
    async with bench(tmp_path) as gateway:
        await running(gateway, tmp_path)
        answer = await gateway.client.request(method, f"/api/fleet/{path}", data=io.BytesIO(body.encode()))
        assert answer.status == want, await answer.text()
        said = (await answer.json())["error"]
        assert set(said) == {"what", "where", "fix"}
        assert said["what"]
    assert spooled(tmp_path) == []


@pytest.mark.anyio
async def test_what_waits_is_not_drained_and_what_has_ended_not_cancelled(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        await submit(gateway)
        assert (await gateway.post("/api/fleet/drain/llm")).status == 409
        assert (await gateway.post("/api/fleet/move/llm")).status == 409
        hand = Hand(tmp_path)
        hand.ingest()
        hand.step("llm", Event.CANCEL)
        assert (await gateway.post("/api/fleet/cancel/llm")).status == 409


@pytest.mark.anyio
async def test_a_policy_is_shown_tried_and_handed_on(tmp_path: Path) -> None:
    text = POLICY.read_text()
    async with bench(tmp_path) as gateway:
        assert await (await gateway.get("/api/fleet/policy")).text() == text
        other = text.replace("immediate: 2", "immediate: 4")
        want = [{"path": "headroom.immediate", "old": 2, "new": 4}]
        answer = await gateway.post("/api/fleet/policy?dry_run=true", data=other)
        assert await answer.json() == {"changes": want, "accepted": False}
        assert spooled(tmp_path) == []
        answer = await gateway.post("/api/fleet/policy?who=ada", data=other)
        assert await answer.json() == {"changes": want, "accepted": True}
        assert spooled(tmp_path) == [inbox.SetPolicy(text=other, who="ada")]


BOUNDARY = POLICY.read_text() + "\nboundary: {serving: serving, training: research}\n"


@pytest.mark.anyio
async def test_only_nodes_that_are_recommended_may_cross(tmp_path: Path) -> None:
    async with bench(tmp_path) as gateway:
        assert await get(gateway, "boundary") == {"plan": None, "crossings": []}
        (tmp_path / "policy.yaml").write_text(BOUNDARY)
        hand = Hand(tmp_path)
        hand.show(state(node("n1"), node("v1", serving=True)), Plan())
        found = await get(gateway, "boundary")
        assert isinstance(found, dict)
        assert found["plan"]["steps"] == []
        asked = {"nodes": ["n1"], "to": "serving", "who": "ada"}
        assert (await gateway.post("/api/fleet/boundary", json=asked)).status == 409
        hand.want(9)
        assert (await gateway.post("/api/fleet/boundary", json=asked)).status == 200
        assert spooled(tmp_path) == [inbox.MoveBoundary(nodes=("n1",), to=NodeClass.SERVING, who="ada")]
        assert (await gateway.post("/api/fleet/boundary", json={**asked, "to": "nobody"})).status == 400
        assert (await gateway.post("/api/fleet/boundary", json={**asked, "nodes": []})).status == 400
        stay = {"nodes": ["n1"], "who": "grace"}
        assert (await gateway.post("/api/fleet/boundary/cancel", json=stay)).status == 404
        hand.show(state(node("n1"), crossing("n1")), Plan())
        assert (await gateway.post("/api/fleet/boundary/cancel", json=stay)).status == 200
        assert spooled(tmp_path)[1:] == [inbox.StayBoundary(nodes=("n1",), who="grace")]
        hand.show(state(node("n1"), crossing("n1", moved_at=1.0)), Plan())
        assert (await gateway.post("/api/fleet/boundary/cancel", json=stay)).status == 404
