"""Who holds what a service waits for, the most first."""

from __future__ import annotations

from fleet_app.engine.holders import holders_of
from fleet_app.engine.plan import Reason
from tests.builders import backfill, gang, node, policy, service, state


def test_a_teams_nominal_is_held_by_what_never_yields_in_it() -> None:
    """Q3."""
    chat = service("chat", on=["v1", "v1"], gpus=3)
    there = [
        gang("large", team="serving", on=["n1"]),
        gang("waits", team="serving"),
        gang("other", team="research", on=["n2"]),
        backfill("lent", team="serving", gpus=4, on=["n3"]),
    ]
    found = holders_of(state(node("n1"), chat, *there), policy(), chat, Reason.QUOTA_USED)
    assert found == ("large (8 GPUs)", "chat (6 GPUs)")
