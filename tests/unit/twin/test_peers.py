"""The runs of other simulators, by their rules as settings of ours: the same figures to the last printed digit (T1).

Those of the smaller trace; `make bench ONLY=twin-events` asserts the same of the larger one.
"""

from __future__ import annotations

import pytest

from benchmarks.peers import PEERS, ours

SMALL = {name: peer for name, peer in PEERS.items() if peer.trace == "itp04" and peer.printed}


@pytest.mark.parametrize("peer", SMALL.values(), ids=SMALL)
def test_our_figures_are_those_that_the_peer_printed(peer):
    assert ours(peer) == peer.printed
