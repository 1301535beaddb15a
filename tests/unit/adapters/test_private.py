"""Which of Ray's dead actors died by no doing of the program or of Ray, and how that is told."""

from __future__ import annotations

from typing import Any

import pytest
from ray.core.generated import common_pb2 as untyped_common_pb2
from ray.core.generated import gcs_pb2 as untyped_gcs_pb2

from fleet_app.adapters import jobs, private

gcs_pb2: Any = untyped_gcs_pb2
common_pb2: Any = untyped_common_pb2

LOST = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
    "Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are causes."
)
LEFT = LOST.replace("SYSTEM_ERROR", "INTENDED_USER_EXIT")
EXITED = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
    "Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code 3."
)
DIED = {
    "a process that was lost": ("WORKER_DIED", LOST, True),
    "one that left": ("WORKER_DIED", LEFT, False),
    "one that left with an exit code": ("WORKER_DIED", EXITED, False),
    "one whose driver left": ("OWNER_DIED", LOST, False),
    "one that was told to": ("RAY_KILL", LOST, False),
    "one whose node died, which the node's own absence says": ("NODE_DIED", LOST, False),
}


@pytest.mark.parametrize(("reason", "text", "want"), DIED.values(), ids=DIED)
def test_which_deaths_count(reason: str, text: str, want: bool) -> None:
    row = gcs_pb2.ActorTableData(class_name="Rank", node_id=b"\xab", pid=7, end_time=12)
    row.death_cause.actor_died_error_context.reason = common_pb2.ActorDiedErrorContext.Reason.Value(reason)
    row.death_cause.actor_died_error_context.error_message = text
    death = private._death(row)
    assert (death is not None) == want
    if death is not None:
        assert (death.node_id, death.at_ms) == ("ab", 12)
        assert jobs._how(death) == "Rank (pid 7): Worker unexpectedly exits with a connection error code 2"


def test_an_actor_without_a_cause_of_death_is_none() -> None:
    assert private._death(gcs_pb2.ActorTableData(class_name="Rank")) is None
