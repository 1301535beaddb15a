"""The members of an elastic attempt, seen from inside its job: who is there now, who has to leave, and the leaving.

    members()                 the members now; those that joined last stand at the end
    drain_requested()         in a rank of a leaving member: its notice; in the driver and in other ranks: none
    leave()                   in that rank, once what only it has is safe; then it exits

A job that asks for its members now and then can use new ones (`Membership.start_rank`); one that never does goes on
with those that it has, and the new ones stay its own, idle, until they are asked to leave or the job ends. What is in
a member's placement group at its deadline is killed. Ranks belong to a member when the library started them. Does not
know how work is divided over members, or Ray's actors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from fleet_app.worker import board
from fleet_app.worker.contract import (
    Gone,
    Member,
    Members,
    decode,
    encode,
    gone_key,
    member_id,
    members_key,
)
from fleet_app.worker.drain import post
from fleet_app.worker.environment import ENV_MEMBER, JobEnvironment


def this_member() -> str | None:
    """Return the placement group of the member that this process belongs to; None in the driver."""
    return os.environ.get(ENV_MEMBER)


def members(read: Callable[[str], bytes | None] = board.read) -> tuple[Member, ...]:
    """Return the members that this attempt has now, those that joined last at the end; one round trip.

    Nothing outside an elastic job. Raises board.BoardError, and contract.BadEntryError when nobody can read the answer.
    """
    job = JobEnvironment.from_env(os.environ)
    raw = read(members_key(job.attempt)) if job is not None else None
    return () if raw is None else decode(Members, raw).members


def leave(member: Member | None = None, write: Callable[[str, bytes], None] = board.write) -> None:
    """Tell the fleet that a member that was asked to leave is done; default: the one that this process belongs to.

    Its placement group goes once its last process has; so call it last, and exit. The driver calls it for a member that
    it started nothing on. A member that nobody asked to leave stays. Tries until the board has it; does nothing
    outside a fleet job, and in a process that belongs to no member.
    """
    job = JobEnvironment.from_env(os.environ)
    group_id = this_member() if member is None else member.group_id
    if job is not None and group_id is not None:
        post(gone_key(member_id(job.attempt, group_id)), encode(Gone(at=time.time())), write)
