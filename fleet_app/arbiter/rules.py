"""The policy in force: `<home>/policy.yaml`, as its file and as the engine reads it.

The file is the truth, so a policy survives everything that the home survives. Does not know what a policy means.
"""

from __future__ import annotations

import os
from pathlib import Path

from fleet_app.engine import policy as engine
from fleet_app.engine.errors import FaultError
from fleet_app.policy.diff import Change, diff_policies
from fleet_app.policy.load import load_policy, parse_policy, to_engine
from fleet_app.policy.schema import PolicyFile


class Rules:
    """The policy in force at one home."""

    def __init__(self, home: Path) -> None:
        """Read the file. Raises RequestError when it holds no policy."""
        self._path = home / "policy.yaml"
        self.file: PolicyFile = load_policy(self._path)
        self.engine: engine.Policy = to_engine(self.file)

    def replace(self, text: str) -> tuple[Change, ...]:
        """Put another policy in force and return what differs.

        Raises RequestError when the text is no policy, FaultError when it cannot be written; nothing changed then.
        """
        new = parse_policy(text)
        changes = diff_policies(self.file, new)
        try:
            self._write(text)
        except OSError as error:
            raise FaultError(f"the policy cannot be written: {error}", where=str(self._path)) from error
        self.file, self.engine = new, to_engine(new)
        return changes

    def _write(self, text: str) -> None:
        temporary = self._path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
