"""From the policy to Kubernetes objects as plain mappings: one module a kind of object, no I/O, no client.

`names.py` has what the rest of the project calls things on Kubernetes.
"""
