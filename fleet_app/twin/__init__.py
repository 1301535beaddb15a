"""The digital twin: the engine's own decisions on a virtual clock and fleet. No Ray; only `readers` touch files."""
