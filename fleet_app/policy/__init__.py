"""From files that people write to values that the engine reads: the only parser of the project.

`load.py` reads a policy, `specs.py` a submission, `fleet.py` the nodes of a local fleet. Everything refused is a
`RequestError` that names path, value and fix, and changes nothing. Does not know Ray, the journal or the gateway.
"""
