"""A small policy as text, and how to change one line of it."""

from __future__ import annotations

from fleet_app.policy.load import parse_policy
from fleet_app.policy.schema import PolicyFile

POLICY = """\
version: 1
name: test
topology: {levels: [spine, leaf], gpus_per_node: 8}
organisations:
  lab:
    nominal: 80
    teams:
      serving: {nominal: 32, borrowing_limit: 0}
      research: {nominal: 48}
      batch: {nominal: 0, borrowing_limit: 40}
classes:
  serving-production: {value: 100000, teams: [serving]}
  training-committed: {value: 50000, teams: [research, serving]}
  training-backfill: {value: 1000, borrows: true, yields: true}
drain: {grace: 60s, longest_grace: 5m}
headroom: {immediate: 4}
defaults: {team: batch}
"""


def with_line(old: str, new: str) -> str:
    """Return the policy with `old` replaced by `new`; `old` must be there."""
    assert old in POLICY
    return POLICY.replace(old, new)


def policy() -> PolicyFile:
    """Return the small policy, read."""
    return parse_policy(POLICY)
