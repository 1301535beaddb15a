"""The rules of admission asked of what exists, or of manifests: findings, and how they are told. No I/O.

`judge.py` asks; `relations.py` knows what one object alone does not say; `sarif.py` writes for code scanners.
"""
