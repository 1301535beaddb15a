"""The shared private Ray cluster of the live tests: one a test process, booted when first asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.live import raybox

# Ray reads these when it is imported, which the test modules do right after this file.
os.environ.update(raybox.ENVIRONMENT)
# Nothing that outlives its cluster makes this process a cluster of its own.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"

NODES = tuple(raybox.NodeSpec(name=name, labels={"fleet/class": "training"}) for name in ("n1", "n2", "n3", "spare"))


@pytest.fixture(scope="session")
def box() -> Iterator[raybox.RayBox]:
    """Three nodes of 8 GPUs and 8 CPUs that tests leave as they found them, and a spare that may be lost."""
    with raybox.boot(NODES) as booted:
        yield booted


@pytest.fixture(scope="module")
def connected(box: raybox.RayBox) -> Iterator[raybox.RayBox]:
    """Connect this process to the box, in the fleet's namespace."""
    import ray

    ray.init(address=box.address, namespace="fleet", log_to_driver=False, logging_level="ERROR")
    try:
        yield box
    finally:
        ray.shutdown()
