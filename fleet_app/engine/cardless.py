"""Why somebody has no slice of a card, as a sentence with its numbers (rules V3 to V7).

Knows the wait, what was asked and the cards as they are. Decides nothing.
"""

from __future__ import annotations

from fleet_app.engine.cards import Slice
from fleet_app.engine.plan import Reason, Wait
from fleet_app.engine.state import FleetState


def sentence(wait: Wait, team: str, wanted: Slice, leaving: str = "", state: FleetState | None = None) -> str:
    """Return the wait of who asks for a slice; `leaving` names whose exit it waits for."""
    if wait.reason is Reason.UNKNOWN_TEAM:
        return f"team {team} is not in the policy; add it, or name a team that is"
    if wait.reason is Reason.BEHIND:
        return f"team {team} takes its queue strictly in order; {', '.join(wait.blocked_by)} is ahead of it"
    counts = f"which counts as {wait.asked} in its quota; team {team}"
    why = {
        Reason.QUOTA_USED: f", {counts} has {wait.available} left there",
        Reason.TOO_LARGE_FOR_QUOTA: f", {counts} may never have more than {wait.available} there",
        Reason.TOO_LARGE_FOR_FLEET: "; no card that it may use has one, and none can be cut for it",
        Reason.DRAIN_UNDER_WAY: f"; waiting for {leaving or 'what is leaving'} to exit",
        Reason.REPARTITION_UNDER_WAY: "; it waits for an empty card to be cut for it",
        Reason.APART: "; wherever it could have one it would be beside what it is kept apart from",
    }
    return f"needs {wanted.text}{why.get(wait.reason, '; ' + _cards(state, wanted))}"


def _cards(state: FleetState | None, wanted: Slice) -> str:
    """Return how many cards have such slices at all: all of those are taken, or nothing may be placed there."""
    nodes = () if state is None else state.nodes
    found = [card for node in nodes for card in node.cards if (wanted.profile or wanted.partition) in card.layout]
    if not found:
        return "no card has room for it"
    count = sum(card.layout.count(wanted.profile) for card in found) if wanted.profile else len(found)
    what = f"{count} such partitions" if wanted.profile else f"{count} shared cards"
    return f"none of the {what} that the fleet has is free for it"
