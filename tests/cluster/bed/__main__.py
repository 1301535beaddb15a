"""`python -m tests.cluster.bed [api|full]`: a cluster to look at, until Ctrl-C; its kubeconfig is printed."""

from __future__ import annotations

import contextlib
import signal
import sys

from tests.cluster.bed import beds

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), getattr(beds, sys.argv[1] if sys.argv[1:] else "full")() as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
        signal.pause()
