"""The digital twin: the engine's own decisions on a virtual clock and fleet. No Ray.

Only `readers`, `scenarios` and `saved` touch files.
"""
