"""Parts of cards from the ask to the end, on a fleet in memory: also when the arbiter dies in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet_app.arbiter.inbox import Cancel
from fleet_app.arbiter.notes import What
from fleet_app.arbiter.records import GrantRecord
from fleet_app.engine.cards import Slice
from fleet_app.engine.lifecycle import Phase
from fleet_app.engine.plan import Reason, Repartition
from tests.unit.arbiter.rig import LONG, POLICY, Rig
from tests.world import Behaviour

SEVENTH, QUARTER = Slice(profile="1g.10gb"), Slice(share=2_500)
TWO_CARDS = {"mig-1g.10gb": 14}


def cutting(home: Path, rules: str = "", teams: str = "") -> Rig:
    """Return a rig whose policy cuts and shares cards."""
    rig = Rig(home=home)
    policy = POLICY.replace("research: {nominal: 64}", f"research: {{nominal: 64{teams}}}")
    (home / "policy.yaml").write_text(f"{policy}slicing: {{{rules}}}\n")
    return rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Return a fleet with a node that is cut, and one whose two GPUs are shared."""
    rig = cutting(tmp_path)
    rig.world.add_node("cut", gpus=0, serving=True)
    rig.world.cut("cut", TWO_CARDS)
    rig.world.add_node("shared", gpus=2, serving=True)
    rig.world.cut("shared", {}, label="shared")
    return rig


def ask(rig: Rig, name: str, **asked: object) -> None:
    rig.world.behaviours.setdefault(name, Behaviour(steps=8))
    rig.submit(name, cpus=1, **asked)


def groups_of(rig: Rig, prefix: str) -> dict[str, tuple[str, Slice | None, int | None]]:
    """Return by name the node, part of a card and GPU of each standing group."""
    nodes = {node_id: node.labels["fleet/node"] for node_id, node in rig.world.nodes.items()}
    return {
        group.name.removeprefix(prefix): (nodes[group.bundles[0][0]], group.part, group.device)
        for group in rig.world.groups.values()
        if group.gone_at is None and group.name.startswith(prefix)
    }


def environment(rig: Rig, job: str) -> dict[str, str]:
    return {key: text for key, text in rig.world.jobs[job].request.environment.items() if key.startswith("FLEET_")}


def test_a_job_gets_a_partition_and_another_a_share_and_each_is_told_which(rig: Rig) -> None:
    ask(rig, "small", partition="1g.10gb")
    ask(rig, "part", share=0.25)
    rig.run(3.0, until=lambda: len(rig.world.running()) == 2)
    found = groups_of(rig, "fleet/w/")
    assert found == {"small": ("cut", SEVENTH, None), "part": ("shared", QUARTER, 0)}
    told = environment(rig, "small")
    assert (told["FLEET_FLAVOR"], told["FLEET_PARTITION"], told["FLEET_CARD"]) == (
        "h100-mig-1g.10gb",
        "mig-1g.10gb",
        "0",
    )
    told = environment(rig, "part")
    assert (told["FLEET_FLAVOR"], told["FLEET_SHARE"], told["FLEET_GPUS_PER_BUNDLE"]) == ("h100-shared", "0.25", "0")
    rig.run(30.0, until=rig.quiet)
    assert rig.phases() == {"small": Phase.SUCCEEDED, "part": Phase.SUCCEEDED}


def test_no_two_have_the_same_partition_of_a_node_and_what_came_free_is_used_again(rig: Rig) -> None:
    for number in range(3):
        rig.world.behaviours[f"j{number}"] = LONG
        ask(rig, f"j{number}", partition="1g.10gb")
    rig.run(3.0, until=lambda: len(rig.world.running()) == 3)
    assert [environment(rig, f"j{number}")["FLEET_SLOT"] for number in range(3)] == ["0", "1", "2"]
    rig.post(Cancel(name="j1"))
    rig.run(12.0, until=lambda: rig.phases()["j1"] is Phase.STOPPED)
    ask(rig, "j3", partition="1g.10gb")
    rig.run(20.0, until=lambda: "j3" in rig.world.running())
    assert environment(rig, "j3")["FLEET_SLOT"] == "1"


def test_shares_fill_one_card_before_the_next_and_never_go_over_two(rig: Rig) -> None:
    """V3, V4: where the books say that a share fits, Ray has room for it on one GPU."""
    for number, share in enumerate((0.6, 0.6, 0.4, 0.3, 0.2)):
        rig.world.behaviours[f"j{number}"] = LONG
        ask(rig, f"j{number}", share=share)
    rig.run(6.0)
    on = {name: device for name, (_, _, device) in groups_of(rig, "fleet/w/").items()}
    assert sorted(on) == ["j0", "j1", "j2", "j3"]
    assert on["j0"] == on["j2"]
    assert on["j1"] == on["j3"]
    assert rig.phases()["j4"] is Phase.QUEUED


def test_no_whole_job_gets_a_card_that_is_shared_or_cut(rig: Rig) -> None:
    """V1."""
    ask(rig, "whole", gpus=1)
    rig.run(3.0)
    assert rig.phases() == {"whole": Phase.QUEUED}


def test_what_others_use_of_a_card_is_not_given_away(rig: Rig) -> None:
    rig.world.node("cut").foreign_slices = {"mig-1g.10gb": 7}
    for number in range(2):
        rig.world.behaviours[f"j{number}"] = LONG
        ask(rig, f"j{number}", partition="1g.10gb")
    rig.run(4.0)
    assert set(rig.phases().values()) == {Phase.QUEUED}
    rig.world.node("cut").foreign_slices = {}
    rig.run(8.0)
    assert set(rig.phases().values()) == {Phase.RUNNING}


def test_a_replica_takes_a_partition_and_a_job_leaves_one_for_it(rig: Rig) -> None:
    for number in range(14):
        rig.world.behaviours[f"j{number:02}"] = LONG
        ask(rig, f"j{number:02}", partition="1g.10gb", notice="library")
    rig.run(6.0, until=lambda: len(rig.world.running()) == 14)
    rig.world.want("chat", 1, part=SEVENTH)
    rig.run(20.0, until=lambda: "chat" in rig.world.adopted_for.values())
    assert list(groups_of(rig, "fleet/g/").values()) == [("cut", SEVENTH, None)]
    assert len(rig.notes(What.DRAINING)) == 1
    grants: list[GrantRecord] = list(rig.reader().grants().values())
    assert [(grant.slice, grant.card is None, grant.occupied) for grant in grants] == [(SEVENTH, False, True)]


def test_a_service_that_asks_for_another_part_gets_new_grants(rig: Rig) -> None:
    rig.world.want("chat", 1, part=SEVENTH)
    rig.run(5.0, until=lambda: "chat" in rig.world.adopted_for.values())
    rig.world.adopted.clear()
    rig.world.adopted_for.clear()
    rig.world.want("chat", 1, part=QUARTER)
    rig.run(12.0, until=lambda: "chat" in rig.world.adopted_for.values())
    assert [(node, part) for node, part, _ in groups_of(rig, "fleet/g/").values()] == [("shared", QUARTER)]


def test_numbers_of_a_flavor_bind(tmp_path: Path) -> None:
    """V5."""
    rig = cutting(tmp_path, teams=", quota: {h100-shared: {nominal: 1, borrowing_limit: 0}}")
    rig.world.add_node("shared", gpus=4)
    rig.world.cut("shared", {}, label="shared")
    for number in range(3):
        rig.world.behaviours[f"j{number}"] = LONG
        ask(rig, f"j{number}", share=0.5)
    rig.run(5.0)
    assert rig.phases() == {"j0": Phase.RUNNING, "j1": Phase.RUNNING, "j2": Phase.QUEUED}
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    assert [(wait.reason, wait.asked, wait.available) for wait in snapshot.plan.waits] == [(Reason.QUOTA_USED, 5000, 0)]


def test_it_is_gone_from_the_card_at_the_end_whenever_the_arbiter_dies(tmp_path: Path) -> None:
    def story(home: Path, crash: Callable[[int, str], bool]) -> Rig:
        home.mkdir()
        rig = cutting(home)
        rig.crash = crash
        rig.world.add_node("cut", gpus=0, serving=True)
        rig.world.cut("cut", {"mig-1g.10gb": 7})
        ask(rig, "small", partition="1g.10gb", notice="library")
        rig.at(2.0, lambda: rig.world.want("chat", 7, part=SEVENTH))
        rig.at(9.0, lambda: rig.world.want("chat", 0, part=SEVENTH))
        rig.run(60.0, until=rig.quiet)
        return rig

    calm = story(tmp_path / "calm", lambda number, name: False)
    assert calm.phases() == {"small": Phase.SUCCEEDED}
    assert calm.notes(What.DRAINING)
    for died_after in range(1, len(calm.effects), 3):
        rig = story(tmp_path / str(died_after), lambda number, name, at=died_after: number == at)
        assert rig.crashes == 1
        assert rig.phases() == {"small": Phase.SUCCEEDED}, died_after
        assert groups_of(rig, "fleet/") == {}, died_after


RECUT = "repartition: true, settle: 5s"


def whole(home: Path, rules: str = RECUT) -> Rig:
    """Return a fleet with one node of two whole GPUs, whose cards may be cut."""
    rig = cutting(home, rules)
    rig.world.add_node("t1", gpus=2)
    rig.world.cut("t1", {})
    return rig


def come(rig: Rig) -> None:
    """Let the node have the layouts that it was asked for, as another node to Ray."""
    layouts = rig.world.layouts.pop("t1")
    rig.world.lose_node("t1")
    rig.world.add_node("t1", gpus=sum(not layout for layout in layouts))
    pieces = [piece for layout in layouts for piece in layout]
    rig.world.cut("t1", {f"mig-{piece}": pieces.count(piece) for piece in pieces})


def test_cards_are_cut_for_a_job_that_waits_and_made_whole_again_after_it(tmp_path: Path) -> None:
    """V7, V8."""
    rig = whole(tmp_path)
    ask(rig, "small", partition="1g.10gb")
    rig.run(3.0, until=lambda: bool(rig.world.layouts))
    assert rig.world.layouts == {"t1": (("1g.10gb",) * 7,) * 2}
    rig.run(4.0)
    assert rig.phases() == {"small": Phase.QUEUED}
    come(rig)
    rig.run(8.0, until=lambda: bool(rig.world.running()))
    assert groups_of(rig, "fleet/w/") == {"small": ("t1", SEVENTH, None)}
    rig.run(60.0, until=lambda: bool(rig.world.layouts))
    assert rig.world.layouts == {"t1": ((), ())}
    come(rig)
    rig.run(70.0)
    assert [note["cards"] for note in rig.notes(What.REPARTITIONED)] == [
        ["0: " + "+".join(["1g.10gb"] * 7), "1: " + "+".join(["1g.10gb"] * 7)],
        ["0: whole", "1: whole"],
    ]
    assert rig.world.layouts == {}


def test_a_change_that_is_under_way_survives_the_arbiter_and_is_asked_for_once(tmp_path: Path) -> None:
    rig = whole(tmp_path)
    ask(rig, "small", partition="1g.10gb")
    ask(rig, "whole", gpus=2)
    rig.world.behaviours["whole"] = Behaviour(steps=4)
    rig.run(20.0, until=lambda: bool(rig.notes(What.REPARTITIONING)))
    rig.drop()
    rig.run(24.0)
    assert rig.world.count("repartition") == 1
    come(rig)
    rig.run(30.0, until=lambda: rig.phases()["small"] is Phase.RUNNING)
    assert rig.phases()["small"] is Phase.RUNNING


def test_an_arbiter_that_died_before_it_wrote_a_change_down_asks_again(tmp_path: Path) -> None:
    rig = whole(tmp_path)
    rig.crash = lambda number, name: name == "repartition" and rig.world.count("repartition") == 1
    ask(rig, "small", partition="1g.10gb")
    rig.run(6.0)
    assert (rig.crashes, rig.world.count("repartition")) == (1, 2)


def test_no_card_is_cut_while_something_is_on_one_of_its_node(tmp_path: Path) -> None:
    rig = whole(tmp_path)
    rig.world.behaviours["one"] = LONG
    ask(rig, "one", gpus=1)
    rig.run(3.0, until=lambda: bool(rig.world.running()))
    ask(rig, "small", partition="1g.10gb")
    rig.run(10.0)
    assert rig.world.layouts == {}
    assert rig.phases()["small"] is Phase.QUEUED


def test_a_layout_that_cannot_be_had_is_said_and_not_asked_for_all_the_time(tmp_path: Path) -> None:
    rig = whole(tmp_path)
    rig.world.no_layouts["t1"] = "nobody knows that layout"
    ask(rig, "small", partition="1g.10gb")
    rig.run(30.0)
    assert [note["why"] for note in rig.notes(What.NOT_REPARTITIONED)] == ["t1: nobody knows that layout"]
    assert rig.notes(What.REPARTITIONING) == []


def test_where_nobody_changes_layouts_the_plan_says_what_would_help(tmp_path: Path) -> None:
    rig = whole(tmp_path)
    rig.world.recutting = False
    ask(rig, "small", partition="1g.10gb")
    rig.run(5.0)
    snapshot = rig.reader().snapshot()
    assert snapshot is not None
    told = [action for action in snapshot.plan.actions if isinstance(action, Repartition)]
    assert [(one.node, one.card) for one in told] == [("t1", 0), ("t1", 1)]
    ask(rig, "whole", gpus=2)
    rig.run(9.0)
    assert rig.phases()["whole"] in {Phase.RUNNING, Phase.SUCCEEDED}


def test_a_change_that_does_not_come_is_given_up_in_time(tmp_path: Path) -> None:
    rig = whole(tmp_path)
    ask(rig, "small", partition="1g.10gb")
    rig.run(3.0, until=lambda: bool(rig.world.layouts))
    rig.world.now += 1801.0
    rig.run(rig.world.now - rig.began + 2.0)
    assert [note["why"] for note in rig.notes(What.NOT_REPARTITIONED)] == ["it did not come in time"]
