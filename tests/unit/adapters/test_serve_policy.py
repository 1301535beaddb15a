"""Serve's side of the fleet, as far as it can be had without a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, when Serve is imported

from fleet_app.adapters import board, serve_demand, serve_fences, serve_groups, serve_private  # noqa: E402
from fleet_app.adapters.serve_board import Outlook  # noqa: E402
from fleet_app.adapters.serve_fences import Standing  # noqa: E402
from fleet_app.engine.cards import Slice  # noqa: E402
from fleet_app.engine.errors import RequestError  # noqa: E402
from fleet_app.engine.policy import Affinity  # noqa: E402
from fleet_app.engine.values import Shape  # noqa: E402
from fleet_app.worker import contract  # noqa: E402
from fleet_app.worker.contract import Demand, decode, encode  # noqa: E402

TARGETS = {
    "what is granted is started": ({"wanted": 3, "granted": 3, "running": 1}, 3),
    "no more is started than is granted": ({"wanted": 5, "granted": 3, "running": 1}, 3),
    "no more is started than is wanted": ({"wanted": 2, "granted": 9, "running": 1}, 2),
    "nothing is started before anything is granted": ({"wanted": 2, "granted": 0, "running": 0}, 0),
    "a grant that shrinks stops nothing that runs": ({"wanted": 5, "granted": 1, "running": 3}, 3),
    "what is not wanted any more is stopped": ({"wanted": 1, "granted": 3, "running": 3}, 1),
    "a silent arbiter bounds nothing": ({"wanted": 5, "granted": 1, "running": 1, "silent": True}, 5),
}


@pytest.mark.parametrize(("case", "want"), TARGETS.values(), ids=TARGETS)
def test_allowed(case: dict[str, Any], want: int) -> None:
    assert serve_demand.allowed(**{"silent": False, **case}) == want


SILENCES = {
    "no lease was ever seen": (None, True),
    "a lease of this moment": (100.0, False),
    "a lease that is just not too old": (90.0, False),
    "a lease that is too old": (89.9, True),
}


@pytest.mark.parametrize(("lease_at", "want"), SILENCES.values(), ids=SILENCES)
def test_silent(lease_at: float | None, want: bool) -> None:
    assert Outlook(lease_at=lease_at).silent(100.0) is want


SHAPES = {
    "whole GPUs and CPUs": ({"GPU": 2.0, "CPU": 4.0}, Shape(gpus=2, cpu_milli=4000)),
    "a part of a CPU in thousandths": ({"GPU": 1, "CPU": 0.1}, Shape(gpus=1, cpu_milli=100)),
    "memory in MiB, rounded up": ({"GPU": 1, "memory": 2**20 + 1}, Shape(gpus=1, memory_mib=2)),
    "a custom resource of none": ({"GPU": 1, "slot": 0}, Shape(gpus=1)),
    "a share is no GPU in it": ({"GPU": 0.5, "CPU": 1}, Shape(cpu_milli=1000)),
    "nor is a partition": ({"mig-1g.10gb": 1, "CPU": 1}, Shape(cpu_milli=1000)),
}


@pytest.mark.parametrize(("bundle", "want"), SHAPES.values(), ids=SHAPES)
def test_shape_of(bundle: dict[str, float], want: Shape) -> None:
    assert serve_demand.shape_of(bundle) == want


PARTS = {
    "whole GPUs": ({"GPU": 2.0}, None),
    "a share": ({"GPU": 0.25}, Slice(share=2_500)),
    "a partition": ({"mig-3g.40gb": 1.0, "CPU": 2}, Slice(profile="3g.40gb")),
}


@pytest.mark.parametrize(("bundle", "want"), PARTS.values(), ids=PARTS)
def test_part_of(bundle: dict[str, float], want: Slice | None) -> None:
    assert serve_demand.part_of(bundle) == want


REFUSED = {
    "no GPU": ({"CPU": 1.0}, {"team": "search"}, "placement_group_bundles"),
    "more than a GPU by a part": ({"GPU": 1.5}, {"team": "search"}, "placement_group_bundles"),
    "two partitions": ({"mig-1g.10gb": 2}, {"team": "search"}, "placement_group_bundles"),
    "a partition beside a GPU": ({"mig-1g.10gb": 1, "GPU": 1}, {"team": "search"}, "placement_group_bundles"),
    "a partition beside a share": ({"mig-1g.10gb": 1, "GPU": 0.5}, {"team": "search"}, "placement_group_bundles"),
    "a custom resource": ({"GPU": 1, "slot": 1}, {"team": "search"}, "placement_group_bundles"),
    "no team": ({"GPU": 1}, {}, "policy_kwargs.team"),
    "a team that is no name": ({"GPU": 1}, {"team": 7}, "policy_kwargs.team"),
    "a floor below nothing": ({"GPU": 1}, {"team": "search", "floor": -1}, "policy_kwargs.floor"),
    "a floor that is no number": ({"GPU": 1}, {"team": "search", "floor": "2"}, "policy_kwargs.floor"),
    "a level that is no name": ({"GPU": 1}, {"team": "search", "spread": True}, "policy_kwargs.spread"),
    "none on a node": ({"GPU": 1}, {"team": "search", "per_node": 0}, "policy_kwargs.per_node"),
    "so many on a node that is no number": ({"GPU": 1}, {"team": "search", "per_node": "2"}, "policy_kwargs.per_node"),
    "services that are no list": ({"GPU": 1}, {"team": "search", "apart_from": "a.B"}, "policy_kwargs.apart_from"),
    "services that are no names": ({"GPU": 1}, {"team": "search", "apart_from": [7]}, "policy_kwargs.apart_from"),
    "itself": ({"GPU": 1}, {"team": "search", "apart_from": ["shop.Echo"]}, "policy_kwargs.apart_from"),
}


@pytest.mark.parametrize(("bundle", "keywords", "where"), REFUSED.values(), ids=REFUSED)
def test_ask_of_refuses(bundle: dict[str, float], keywords: dict[str, object], where: str) -> None:
    with pytest.raises(RequestError) as caught:
        serve_demand.ask_of("shop.Echo", bundle, keywords, min_replicas=1)
    assert caught.value.where == where


def test_the_floor_is_what_serve_never_goes_below_unless_it_is_given() -> None:
    floors = [
        serve_demand.ask_of("shop.Echo", {"GPU": 1}, keywords, min_replicas=2).floor
        for keywords in ({"team": "search"}, {"team": "search", "floor": 0})
    ]
    assert floors == [2, 0]


def test_where_replicas_are_to_be_is_said_with_the_demand() -> None:
    paper = PaperBoard()
    desk = serve_demand.Desk(paper)  # type: ignore[arg-type]
    wish = {"team": "search", "spread": "leaf", "per_node": 2, "apart_from": ["shop.Embed"]}
    desk.announce(serve_demand.ask_of("shop.Echo", {"GPU": 1}, wish, min_replicas=1), 1)
    (said,) = paper.published
    assert (said.spread, said.per_node, said.apart_from) == ("leaf", 2, ("shop.Embed",))
    (view,) = board_view({"shop.Echo": said})
    assert view.affinity == Affinity(service="shop.Echo", spread="leaf", per_node=2, apart_from=("shop.Embed",))


def test_who_says_nothing_of_that_asks_for_nothing() -> None:
    paper = PaperBoard()
    desk = serve_demand.Desk(paper)  # type: ignore[arg-type]
    desk.announce(serve_demand.ask_of("shop.Echo", {"GPU": 1}, {"team": "search"}, min_replicas=1), 1)
    (view,) = board_view({"shop.Echo": paper.published[0]})
    assert view.affinity is None


def board_view(posted: dict[str, Demand]) -> list[object]:
    """Return demands as the arbiter reads them from the board."""
    return [board._demand(decode(Demand, encode(one))) for one in posted.values()]


class PaperBoard:
    """Takes what is published, and counts how often the arbiter is woken."""

    def __init__(self) -> None:
        self.published: list[Demand] = []
        self.wakes = 0

    def publish(self, demand: Demand) -> None:
        self.published.append(demand)

    def wake(self) -> None:
        self.wakes += 1

    def outlook(self, service: str) -> Outlook:
        return Outlook()

    def claim(self, group_id: str, replica: str, service: str) -> bool:
        return True

    def release(self, group_id: str) -> None:
        """Do nothing: it was free for everybody all the time."""


def test_a_demand_is_published_when_it_changes_and_not_at_every_loop() -> None:
    board = PaperBoard()
    desk = serve_demand.Desk(board)  # type: ignore[arg-type]
    ask = serve_demand.ask_of("shop.Echo", {"GPU": 1}, {"team": "search"}, min_replicas=0)
    for wanted in (1, 1, 1, 3, 3):
        assert desk.answer(ask, wanted, running=0, lull_s=0.0) == wanted
    assert [demand.wanted for demand in board.published] == [1, 3]
    assert board.wakes == 2


LULLS = {
    "more counts at once": ([(0.0, 2), (0.1, 6)], 6),
    "less does not count at once": ([(0.0, 6), (0.1, 2)], 6),
    "less counts after the delay": ([(0.0, 6), (0.1, 2), (5.2, 2)], 2),
    "a lull that ends was none": ([(0.0, 6), (0.1, 2), (4.0, 6), (8.0, 2)], 6),
    "it falls to the most since": ([(0.0, 6), (1.0, 4), (2.0, 3), (5.5, 2)], 4),
}


@pytest.mark.parametrize(("said", "want"), LULLS.values(), ids=LULLS)
def test_a_demand_falls_only_after_it_was_lower_for_the_whole_delay(said: list[tuple[float, int]], want: int) -> None:
    lull = serve_demand.Lull()
    assert [lull.most(wanted, now, 5.0) for now, wanted in said][-1] == want


def test_replicas_that_wait_are_announced_only_while_the_policy_is_not_asked() -> None:
    board = PaperBoard()
    desk = serve_demand.Desk(board)  # type: ignore[arg-type]
    ask = serve_demand.ask_of("shop.Echo", {"GPU": 1}, {"team": "search"}, min_replicas=0)
    desk.announce_waiting(ask, 1)
    desk.answer(ask, 2, running=0, lull_s=0.0)
    desk.announce_waiting(ask, 1)
    assert [demand.wanted for demand in board.published] == [1, 2]


def fence(name: str, node: str = "a", gpus: int = 1, cpu_milli: int = 1000, part: Slice | None = None) -> Standing:
    return Standing(group_id=name, name=name, node_id=node, shape=Shape(gpus=gpus, cpu_milli=cpu_milli), part=part)


ONE = Shape(gpus=1, cpu_milli=1000)
FOUR = Shape(gpus=4, cpu_milli=1000)

OBSTACLES = {
    "nothing is in the way of what fits": (ONE, {"a": ONE}, [fence("f")], []),
    "a larger fence is": (ONE, {"a": Shape(cpu_milli=1000)}, [fence("f", gpus=4)], ["f"]),
    "fences of one node, and no more than needed": (
        FOUR,
        {"a": Shape(gpus=2), "b": Shape()},
        [fence("b1", "b"), fence("a1"), fence("a2"), fence("a3")],
        ["a1", "a2"],
    ),
    "the node that frees the fewest GPUs": (
        ONE,
        {"a": Shape(), "b": Shape()},
        [fence("a8", "a", gpus=8), fence("b2", "b", gpus=2)],
        ["b2"],
    ),
    "none, where all of them would not be enough": (FOUR, {"a": Shape()}, [fence("a1"), fence("a2")], []),
    "none on nodes that replicas may not use": (ONE, {"a": Shape()}, [fence("x1", "x")], []),
}


@pytest.mark.parametrize(("shape", "free", "fences", "want"), OBSTACLES.values(), ids=OBSTACLES)
def test_in_the_way(shape: Shape, free: dict[str, Shape], fences: list[Standing], want: list[str]) -> None:
    assert [found.name for found in serve_fences.in_the_way(shape, free, fences)] == want


def test_a_service_prefers_its_own_fences_and_takes_none_that_wastes_a_gpu_or_is_too_small() -> None:
    fences = [
        fence("fleet/g/other/1"),
        fence("fleet/g/shop.Echo/2"),
        fence("fleet/h/a/immediate", gpus=2),
        fence("fleet/g/shop.Echo/1", cpu_milli=500),
    ]
    ask = serve_demand.ask_of("shop.Echo", {"GPU": 1, "CPU": 1}, {"team": "search"}, min_replicas=1)
    found = [usable.name for usable in serve_fences.by_preference(ask, fences)]
    assert found == ["fleet/g/shop.Echo/2", "fleet/g/other/1"]


def test_a_replica_with_part_of_a_card_takes_a_fence_with_that_part_alone() -> None:
    shares = [Slice(share=5_000), Slice(share=2_500), Slice(profile="1g.10gb"), None]
    fences = [fence(f"fleet/g/other/{number}", gpus=0, part=share) for number, share in enumerate(shares)]
    ask = serve_demand.ask_of("shop.Echo", {"GPU": 0.25, "CPU": 1}, {"team": "search"}, min_replicas=1)
    assert [usable.name for usable in serve_fences.by_preference(ask, fences)] == ["fleet/g/other/1"]
    said = contract.Fence(group_id="f", node_id="a", gpus=0, cpu_milli=1000, memory_mib=0, share=2_500)
    assert serve_fences.serves(serve_fences.told(said), ask.shape, ask.part)


def test_what_is_said_of_a_service_names_the_part_of_a_card() -> None:
    board = PaperBoard()
    desk = serve_demand.Desk(board)  # type: ignore[arg-type]
    for bundle in ({"GPU": 0.25}, {"mig-1g.10gb": 1}):
        desk.announce(serve_demand.ask_of("shop.Echo", bundle, {"team": "search"}, min_replicas=0), 1)
    assert [(said.gpus, said.share, said.partition) for said in board.published] == [(0, 2_500, ""), (0, 0, "1g.10gb")]


ENTRIES = {
    "a fence of a service": ({"name": "fleet/g/shop.Echo/1"}, True),
    "a hold": ({"name": "fleet/h/a/immediate"}, True),
    "a group of a workload is not for replicas": ({"name": "fleet/w/llm"}, False),
    "a group of somebody else is not ours": ({"name": "mine"}, False),
    "a removed fence does not stand": ({"name": "fleet/h/a/immediate", "state": "REMOVED"}, False),
    "a fence that lost its node does not stand": ({"name": "fleet/h/a/immediate", "state": "RESCHEDULING"}, False),
}


@pytest.mark.parametrize(("entry", "want"), ENTRIES.values(), ids=ENTRIES)
def test_standing(entry: dict[str, Any], want: bool) -> None:
    whole = {"state": "CREATED", "bundles": {0: {"GPU": 1.0}}, "bundles_to_node_id": {0: "a"}, **entry}
    assert bool(serve_fences.standing({"id": whole})) is want


def test_this_ray_has_the_private_parts_that_the_hook_stands_on() -> None:
    assert serve_private.check_contract() == ()


class BrokenGroups:
    """Fails at everything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def request(policy: str = "fleet_app.adapters.serve_policy:FleetPolicy", **more: Any) -> Any:
    scaling = SimpleNamespace(policy=SimpleNamespace(policy_function=policy, policy_kwargs={}), min_replicas=0)
    wrapper = SimpleNamespace(deployment_config=SimpleNamespace(autoscaling_config=scaling))

    def on_scheduled(self: object) -> None:
        """Stand for the wrapper's method."""

    fields = {"gang_placement_group": None, "target_node_id": None, "max_replicas_per_node": None, **more}
    return SimpleNamespace(on_scheduled=on_scheduled.__get__(wrapper), **fields)


SERVICES = {
    "a deployment with our policy": (request(), True),
    "as Serve spells it after a restart": (request("fleet_app.adapters.serve_policy.FleetPolicy"), True),
    "a deployment with another policy": (request("ray.serve.autoscaling_policy:default"), False),
    "a member of a Serve gang": (request(gang_placement_group=object()), False),
    "a replica for one node only": (request(target_node_id="a"), False),
    "a deployment with a limit a node, which groups cannot keep": (request(max_replicas_per_node=1), False),
}


@pytest.mark.parametrize(("asked", "want"), SERVICES.values(), ids=SERVICES)
def test_is_service(asked: Any, want: bool) -> None:
    assert serve_private.is_service(asked) is want


@pytest.mark.parametrize("asked", [request(), object()], ids=["a service", "a request that this Ray does not know"])
def test_whatever_fails_in_the_hook_serve_schedules_the_replica_itself(asked: Any) -> None:
    scheduled: list[Any] = []

    def original(scheduler: Any, request: Any) -> bool:
        scheduled.append(request)
        return True

    hook = serve_groups._schedule(BrokenGroups(), original)  # type: ignore[arg-type]
    assert hook(None, asked)
    assert scheduled == [asked]


LABELS = {
    "a bundle without a selector": (None, [{"fleet/class": "serving"}]),
    "a bundle with one": ([{"rack": "r1"}], [{"fleet/class": "serving", "rack": "r1"}]),
    "a bundle that says it itself": ([{"fleet/class": "in(serving,mixed)"}], [{"fleet/class": "in(serving,mixed)"}]),
}


@pytest.mark.parametrize(("selector", "want"), LABELS.values(), ids=LABELS)
def test_add_label(selector: Any, want: Any) -> None:
    asked = request(placement_group_bundles=[{"GPU": 1}], placement_group_bundle_label_selector=selector)
    serve_private.add_label(asked, "fleet/class", "serving")
    assert asked.placement_group_bundle_label_selector == want


GIVEN = {
    "one of a deployment without bundles gets its own": (
        {"actor_resources": {"GPU": 1.0, "CPU": 0.0}, "actor_options": {"label_selector": {"rack": "r1"}}},
        ([{"GPU": 1.0}], [{"rack": "r1"}]),
    ),
    "one that asks for no node": (
        {"actor_resources": {"GPU": 1.0}, "actor_options": {}},
        ([{"GPU": 1.0}], [{}]),
    ),
    "one with a bundle keeps it": (
        {"placement_group_bundles": [{"GPU": 2}], "actor_resources": {"GPU": 1.0}, "actor_options": {}},
        ([{"GPU": 2}], None),
    ),
}


@pytest.mark.parametrize(("fields", "want"), GIVEN.values(), ids=GIVEN)
def test_a_replica_that_serve_places_itself_has_a_group(fields: dict[str, Any], want: Any) -> None:
    asked = request(**{"placement_group_bundles": None, "placement_group_bundle_label_selector": None, **fields})
    serve_private.give_group(asked)
    assert (asked.placement_group_bundles, asked.placement_group_bundle_label_selector) == want


FREE = {
    "a partition that is free": ({"mig-1g.10gb": 1.0}, Slice(profile="1g.10gb"), True),
    "none of the sort": ({"mig-2g.20gb": 1.0, "GPU": 1.0}, Slice(profile="1g.10gb"), False),
    "a share that is left": ({"GPU": 0.25}, Slice(share=2_500), True),
    "too little of one": ({"GPU": 0.2}, Slice(share=2_500), False),
    "whole GPUs are told by the shape": ({}, None, True),
}


@pytest.mark.parametrize(("room", "part", "want"), FREE.values(), ids=FREE)
def test_a_node_has_part_of_a_card(room: dict[str, float], part: Slice | None, want: bool) -> None:
    assert serve_fences._has(room, part) is want


WAYS = {
    "room that is free": ([Shape(gpus=1)], [], [True]),
    "no room": ([Shape(gpus=0)], [], [False]),
    "room that a fence holds": ([Shape(gpus=0)], ["h"], [True]),
    "room for one, which Ray shows as free a moment longer": ([Shape(gpus=1), Shape(gpus=1)], [], [True, False]),
}


@pytest.mark.parametrize(("free", "held", "want"), WAYS.values(), ids=WAYS)
def test_a_replica_starts_without_an_arbiter_only_where_it_has_room(
    free: list[Shape], held: list[str], want: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None waits in Ray's queue, where a fence that an arbiter makes for it would pass it by."""
    rooms = iter(free)
    monkeypatch.setattr(serve_fences, "free_rooms", lambda _: {"n": next(rooms)})
    removed: list[Any] = []
    monkeypatch.setattr(serve_groups, "_remove", removed.append)
    fences = tuple(Standing(group_id="ab" * 18, name="fleet/h/n/x#1", node_id="n", shape=Shape(gpus=1)) for _ in held)
    ask = serve_demand.ask_of("shop.Echo", {"GPU": 1}, {"team": "search"}, min_replicas=0)
    groups = serve_groups.Groups(serve_demand.Desk(PaperBoard()))  # type: ignore[arg-type]
    assert [groups._make_way(ask, fences) for _ in free] == want
    assert len(removed) == len(held)


def test_the_policy_survives_being_pickled_by_serve_and_patches_nothing_outside_of_the_controller() -> None:
    from ray.serve._private.deployment_scheduler import DeploymentScheduler
    from ray.serve.config import AutoscalingPolicy

    before = DeploymentScheduler._schedule_replica
    policy = AutoscalingPolicy(
        policy_function="fleet_app.adapters.serve_policy:FleetPolicy", policy_kwargs={"team": "a"}
    )
    policy.get_policy()(**policy.policy_kwargs)
    assert DeploymentScheduler._schedule_replica is before
