"""The nominal in force: what the policy states, and what bookings transfer while they last (rule C4).

Knows quota entries, bookings and the moment. Does not know usage, nodes or workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet_app.engine.calendar import Booking, Transfer
from fleet_app.engine.policy import Policy, Quota


def quotas_at(policy: Policy, bookings: Iterable[Booking], now: float) -> tuple[Quota, ...]:
    """Return the quota entries with the transfers of the bookings that are in force at `now` carried out (C4).

    What moves from one team to another moves with it through the entries above them, up to the one that both are under.
    """
    entries = {quota.name: quota for quota in policy.quotas}
    change: dict[str, int] = {}
    for booking in bookings:
        if booking.at(now) and booking.team is not None:
            for transfer in booking.transfers:
                _carry_out(entries, booking.team, transfer, change)
    if not change:
        return policy.quotas
    return tuple(
        replace(quota, nominal_gpus=max(0, quota.nominal_gpus + change.get(quota.name, 0))) for quota in policy.quotas
    )


def nominal_at(policy: Policy, bookings: Iterable[Booking], team: str, now: float) -> int:
    """Return the GPUs that are the team's own at a moment; none for a team that is not in the policy."""
    return sum(quota.nominal_gpus for quota in quotas_at(policy, bookings, now) if quota.name == team)


def _carry_out(entries: Mapping[str, Quota], team: str, transfer: Transfer, change: dict[str, int]) -> None:
    """Note what a transfer takes from each entry and gives to each; the entries above both stay as they are."""
    if team not in entries or transfer.lender not in entries:
        return
    above, below = _upwards(entries, transfer.lender), _upwards(entries, team)
    for name in above:
        change[name] = change.get(name, 0) - (transfer.gpus if name not in below else 0)
    for name in below:
        change[name] = change.get(name, 0) + (transfer.gpus if name not in above else 0)


def _upwards(entries: Mapping[str, Quota], name: str) -> list[str]:
    path: list[str] = []
    entry: str | None = name
    while entry is not None and entry in entries and entry not in path:
        path.append(entry)
        entry = entries[entry].parent
    return path
