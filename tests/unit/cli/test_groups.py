"""Groups as options of `fleet submit`."""

from __future__ import annotations

import pytest

from fleet_app.cli.groups import parsed
from fleet_app.engine.errors import RequestError


def test_groups_keep_their_order_and_what_is_not_said_is_left_out() -> None:
    found = parsed(["ps=1x0,cpus=16,memory=64GiB", "actors=4x8", "critic=1x2,cpus=0.5"])
    assert found == {
        "ps": {"nodes": 1, "gpus": 0, "cpus": "16", "memory": "64GiB"},
        "actors": {"nodes": 4, "gpus": 8},
        "critic": {"nodes": 1, "gpus": 2, "cpus": "0.5"},
    }
    assert list(found) == ["ps", "actors", "critic"]


@pytest.mark.parametrize("text", ["ps", "ps=", "=1x0", "ps=1", "ps=1x", "ps=1x0,gpus=8", "ps=-1x0", "a=1x0;b=1x0", ""])
def test_what_is_no_group_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        parsed([text])


def test_a_group_is_named_once() -> None:
    with pytest.raises(RequestError, match="twice"):
        parsed(["a=1x8", "a=2x8"])
