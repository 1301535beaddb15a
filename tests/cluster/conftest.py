"""The clusters that tests here run against: `api` and `cluster`, each up from the first test that asks to the last.

`FLEET_TEST_KUBECONFIG` names a cluster to take instead, for both; it must have KubeRay's operator, and for the tests
that run pods `FLEET_TEST_IMAGE` names an image of the fleet that its nodes can have, `FLEET_TEST_NEXT_IMAGE` another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cluster.bed import beds
from tests.cluster.bed.client import Cluster
from tests.tools import UnavailableError

GIVEN = "FLEET_TEST_KUBECONFIG"
GIVEN_IMAGE = "FLEET_TEST_IMAGE"
GIVEN_NEXT = "FLEET_TEST_NEXT_IMAGE"
# The first test of a tier waits until its cluster is up, and on the first day until that is built.
UP_WITHIN_S = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the first wait its time. Those that need only the API server come first: they are the quickest to fail."""
    for item in items:
        if "cluster" in item.path.parts:
            item.add_marker(pytest.mark.timeout(UP_WITHIN_S))
            if "cluster" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.pods)


@pytest.fixture(scope="session")
def api() -> Iterator[Cluster]:
    """A control plane with the operator; pods are made and stay pending."""
    yield from _up(beds.api)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three nodes with the operator in a pod, where the fleet's image can run: one for serving, two for training."""
    yield from _up(beds.full)


def _up(bed: Callable[[], AbstractContextManager[Cluster]]) -> Iterator[Cluster]:
    if given := os.environ.get(GIVEN):
        yield Cluster(kubeconfig=Path(given), image=os.environ.get(GIVEN_IMAGE), next_image=os.environ.get(GIVEN_NEXT))
        return
    try:
        with bed() as cluster:
            yield cluster
    except UnavailableError as missing:
        pytest.skip(str(missing))
