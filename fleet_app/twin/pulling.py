"""What is pulled before work starts on its nodes: for how long, and that the nodes have it from then on.

A source with a rate sends all that one start needs at that rate, one thing after another; one without takes no time.
Which pulls may begin is decided in the engine (G1 to G4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.pulls import BITS_PER_GIB, MIB_PER_GIB
from fleet_app.twin.clock import What
from fleet_app.twin.world import World


def pull_s(world: World, artifacts: Iterable[Artifact], nodes: Sequence[str]) -> float:
    """Return how long it takes until the nodes have all that is needed, and let them have it then."""
    rates = {source.name: source.gbit_per_s for source in world.policy.pulls.sources}
    took_s = 0.0
    cold: list[tuple[str, str]] = []
    for name in dict.fromkeys(nodes):
        for one in artifacts:
            if one.name not in world.fleet.nodes[name].cached:
                rate = rates.get(one.source)
                took_s += 0.0 if rate is None else one.size_mib / MIB_PER_GIB * BITS_PER_GIB / rate
                cold.append((name, one.name))
    if cold:
        key = str(world.agenda.put_so_far)
        world.pulling[key] = tuple(cold)
        world.agenda.put(world.now + took_s, What.PULLED, key)
    return took_s


def pulled(world: World, key: str) -> None:
    """Let nodes have what was pulled to them."""
    for name, artifact in world.pulling.pop(key):
        node = world.fleet.nodes[name]
        world.fleet.put_node(replace(node, cached=tuple(sorted({*node.cached, artifact}))))
