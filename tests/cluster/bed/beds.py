"""The two tiers of the test bed, each up for as long as a `with` lasts, beside any other on this machine.

`api`: a control plane and KubeRay's operator on the loopback; nothing that it makes runs. Needs Go, but not root.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.bed import control, operator
from tests.cluster.bed.client import Cluster
from tests.cluster.bed.folder import run_folder
from tests.cluster.bed.programs import Programs


@contextlib.contextmanager
def running(folder: Path, world: tuple[str, ...] = ()) -> Iterator[Programs]:
    """Hold a keeper of programs."""
    programs = Programs(folder, world)
    try:
        yield programs
    finally:
        programs.close()


@contextlib.contextmanager
def api() -> Iterator[Cluster]:
    """Hold a control plane with the operator, and no nodes."""
    with run_folder() as folder, running(folder) as programs:
        plane = control.start(programs, folder, control.Reach())
        cluster = Cluster(kubeconfig=plane.kubeconfig)
        operator.define(cluster)
        operator.run_beside(programs, plane)
        yield cluster
