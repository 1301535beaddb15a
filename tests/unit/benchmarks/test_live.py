"""What the live benchmarks share. Starting a fleet is left to them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import live

NODES = {
    "a class of the fleet's is on the label": ("serving", "serving"),
    "a node of another class stands outside of the fleet": ("outside", None),
}


@pytest.mark.parametrize(("node_class", "want"), NODES.values(), ids=NODES)
def test_nodes(node_class, want):
    found = live.nodes(2, node_class)
    assert [node.labels.get("fleet/class") for node in found] == [want, want]
    assert [node.name for node in found] == [f"{node_class}-00", f"{node_class}-01"]


def test_no_benchmark_imports_ray_before_its_fleet_is_up():
    """Ray reads its settings when it is imported: one that came first would look for the fleet at another address."""
    told = "import sys, benchmarks.__main__; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
