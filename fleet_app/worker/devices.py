"""Which CUDA device a partition of a card is: Ray gives a process GPUs, and knows nothing of the parts of one.

Reads what `nvidia-smi -L` lists. Does not know Ray, nor whose the other partitions are.
"""

from __future__ import annotations

import contextlib
import re
import subprocess

VISIBLE = "CUDA_VISIBLE_DEVICES"
LIST_TIMEOUT_S = 10

_DEVICE = re.compile(r"^\s+MIG (?P<profile>\S+)\s+Device\s+\d+: \(UUID: (?P<uuid>MIG-[^)\s]+)\)", re.MULTILINE)


def partition(listing: str, profile: str, slot: int) -> str | None:
    """Return the UUID of one of the partitions of a profile in a listing, in its order; None when there are fewer."""
    found = [match["uuid"] for match in _DEVICE.finditer(listing) if match["profile"] == profile]
    return found[slot] if 0 <= slot < len(found) else None


def listing() -> str:
    """Return what NVIDIA's tool lists on this machine; nothing where there is none."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=LIST_TIMEOUT_S)
        return done.stdout
    return ""
