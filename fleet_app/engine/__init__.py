"""The decision engine: immutable values in, one plan out.

Pure: imports itself and the standard library, nothing else; no clock, no random, no input or output.
Read `decide.py` first.
"""
