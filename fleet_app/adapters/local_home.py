"""A fleet's home directory as starting and ending a local fleet see it: whose it is now, and how it is left empty.

The supervisor holds a lock on a file of the home for as long as it lives, so nobody has to trust a pid that may be
somebody else's by now. Does not know how a fleet is started.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from fleet_app.adapters.local_processes import Mark, carries, end_all
from fleet_app.engine.errors import ConflictError, FaultError

END_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The supervisor that holds, or held, a home: its pid, the mark of its processes, Ray's temporary folder."""

    pid: int
    home_id: str
    temp_dir: str

    @property
    def mark(self) -> Mark:
        """Return what the processes of its fleet have."""
        return Mark(home_id=self.home_id, temp_dir=self.temp_dir)


@dataclass(frozen=True, slots=True)
class FleetHome:
    """The files of a home that starting and ending a fleet touch."""

    path: Path

    @property
    def fleet(self) -> Path:
        """Where the fleet's addresses are, for everybody; there while the fleet is up."""
        return self.path / "fleet.json"

    @property
    def policy(self) -> Path:
        """The policy in force."""
        return self.path / "policy.yaml"

    @property
    def lock(self) -> Path:
        """Locked by the supervisor while it lives; says who that is."""
        return self.path / "supervisor.json"

    @property
    def gateway_url(self) -> Path:
        """Where the gateway writes its URL once it listens."""
        return self.path / "gateway.url"

    @property
    def logs(self) -> Path:
        """The folder of logs."""
        return self.path / "logs"

    def prepare(self) -> None:
        """Make the directories."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.logs.mkdir(exist_ok=True)

    def take(self, holder: Holder) -> IO[str] | None:
        """Lock the home for `holder` until the returned file is closed; return None when somebody else has it."""
        file = self.lock.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        file.truncate(0)
        file.write(json.dumps(asdict(holder)))
        file.flush()
        return file

    def held(self) -> bool:
        """Return whether a supervisor lives here."""
        holder = self.holder()
        return holder is not None and carries(holder.pid, holder.mark)

    def holder(self) -> Holder | None:
        """Return who holds the home, or held it and left without clearing up; None when nobody does."""
        try:
            return Holder(**json.loads(self.lock.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write_fleet(self, fleet: Mapping[str, object]) -> None:
        """Say where the fleet is; a reader sees all of it or none."""
        part = self.fleet.with_suffix(".part")
        part.write_text(json.dumps(fleet, indent=2) + "\n", encoding="utf-8")
        part.replace(self.fleet)

    def clear(self, holder: Holder) -> None:
        """End what is left of a fleet, keep Ray's logs, and remove what only a running fleet needs. Safe to repeat.

        Journal, policy, packages and checkpoints stay: a fleet that is started here again goes on with them.
        Raises FaultError when a process cannot be ended.
        """
        mine = self.holder() in (holder, None)
        if mine:
            self.fleet.unlink(missing_ok=True)
            self.gateway_url.unlink(missing_ok=True)
        if left := end_all(holder.mark, END_WITHIN_S):
            raise FaultError(
                f"processes {', '.join(map(str, left))} do not end",
                where=str(self.path),
                fix="End them by hand, then repeat `fleet down`",
            )
        temp_dir = Path(holder.temp_dir)
        self._keep_logs(temp_dir)
        shutil.rmtree(temp_dir, ignore_errors=True)
        if mine:
            self.lock.unlink(missing_ok=True)

    def _keep_logs(self, temp_dir: Path) -> None:
        logs = temp_dir / "ray" / "session" / "logs"
        if logs.is_dir() and self.logs.is_dir():
            shutil.rmtree(self.logs / "ray", ignore_errors=True)
            with contextlib.suppress(OSError, shutil.Error):  # full disk: ending the fleet matters more
                shutil.copytree(logs, self.logs / "ray", symlinks=True, ignore_dangling_symlinks=True)


def already_up(home: FleetHome) -> ConflictError:
    """Return the error that says that a home has a fleet."""
    return ConflictError(
        "a fleet is up here already", where=str(home.path), fix="End it with `fleet down`, or choose another --home"
    )
