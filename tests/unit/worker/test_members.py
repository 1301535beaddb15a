"""A job finds its members on the board, says which has left, and starts a rank on one as that one's own."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_app.worker import members
from fleet_app.worker.contract import Gone, Member, Members, decode, encode
from fleet_app.worker.environment import JobEnvironment
from fleet_app.worker.gang import Membership

JOB = JobEnvironment(
    attempt="rl.2",
    workload="rl",
    group_id="ab" * 18,
    bundles=2,
    gpus_per_bundle=4,
    cpu_milli_per_bundle=1500,
    nodes=("n1", "n2"),
    checkpoint_dir="/data/checkpoints/rl",
    grace_s=30.0,
    min_nodes=1,
)
FIRST = Member(node="n1", group_id="ab" * 18)
SECOND = Member(node="n2", group_id="cd" * 18, leaving=True)


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make this process one of a fleet job."""
    for variable, value in JOB.to_env().items():
        monkeypatch.setenv(variable, value)
    return monkeypatch


def test_members_are_those_on_the_board(in_job: pytest.MonkeyPatch) -> None:
    board = {"members/rl.2": encode(Members(members=(FIRST, SECOND)))}
    assert members.members(board.get) == (FIRST, SECOND)
    assert members.members({}.get) == ()


def test_outside_a_fleet_job_there_are_none_and_nobody_leaves() -> None:
    assert members.members({}.__getitem__) == ()
    members.leave(FIRST, {}.__getitem__)  # type: ignore[arg-type]  # would raise if it were called


LEAVING = {
    "a rank leaves for its member": ("ef" * 18, None, ["gone/rl.2/" + "ef" * 18]),
    "the driver leaves for one that it names": (None, SECOND, ["gone/rl.2/" + "cd" * 18]),
    "the driver is no member": (None, None, []),
}


@pytest.mark.parametrize(("own", "named", "want"), LEAVING.values(), ids=LEAVING)
def test_leaving(own: str | None, named: Member | None, want: list[str], in_job: pytest.MonkeyPatch) -> None:
    if own is not None:
        in_job.setenv("FLEET_MEMBER", own)
    written: dict[str, bytes] = {}
    members.leave(named, written.__setitem__)
    assert list(written) == want
    assert all(decode(Gone, raw).at > 0 for raw in written.values())


class Recorded:
    """An actor class that keeps how it was started."""

    def __init__(self) -> None:
        self.started: list[tuple[dict[str, Any], tuple[object, ...]]] = []

    def options(self, **options: Any) -> Recorded:
        self.said = options
        return self

    def remote(self, *arguments: object) -> str:
        self.started.append((self.said, arguments))
        return "handle"


def test_a_rank_takes_its_members_whole_bundle_and_is_counted_as_its_own() -> None:
    recorded = Recorded()
    assert Membership(JOB).start_rank(SECOND, 7, recorded, "data", name="seven") == "handle"
    ((said, arguments),) = recorded.started
    assert arguments == (7, "data")
    assert (said["num_gpus"], said["num_cpus"], said["max_restarts"], said["name"]) == (4, 1.5, 0, "seven")
    assert said["runtime_env"]["env_vars"]["FLEET_MEMBER"] == SECOND.group_id
    strategy = said["scheduling_strategy"]
    assert (strategy.placement_group.id.hex(), strategy.placement_group_bundle_index) == (SECOND.group_id, 0)
