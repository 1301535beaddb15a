"""What a local fleet is to be, as the one who asks hands it to the supervisor: values, and their JSON.

Does not know how any of it is started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """One Ray node to start: what it declares to have, its labels and other resources as Ray carries them."""

    name: str
    gpus: int
    cpus: float
    memory_mib: int
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fleet to start for `home`.

    Its Ray is started here from `nodes`, or is the one at `attach`. `home_id` is the mark of its processes,
    `temp_dir` where Ray keeps its sockets and logs, `serve_config` a file of Serve applications to deploy.
    """

    name: str
    home: str
    home_id: str
    temp_dir: str
    nodes: tuple[LocalNode, ...] = ()
    attach: str | None = None
    serve_config: str | None = None

    def dumped(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def loaded(text: str) -> Plan:
        """Return the plan in a JSON text that `dumped` made."""
        values = json.loads(text)
        return Plan(**{**values, "nodes": tuple(LocalNode(**node) for node in values["nodes"])})
