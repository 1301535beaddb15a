"""The fleet arbiter: training gangs and inference replicas share one GPU fleet on Ray."""

__version__ = "0.1.0"
