"""What has to be on a node before work starts there: images and weights, how large they are, and where they come from.

Values only. Does not know who needs them, nor which nodes have them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An image or weights: `size_mib` MiB that come from `source`, a registry or store of the policy."""

    name: str
    size_mib: int
    source: str
