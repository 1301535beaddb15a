"""The worker side of the board: read and write one entry of Ray's internal KV.

The only module of the worker library that touches Ray's KV. Calls block for as long as Ray's control service is
away, so nothing here belongs on the path of a training step. Does not know what the entries mean.
"""

from __future__ import annotations

import ray
from ray.exceptions import RayError
from ray.experimental import internal_kv

from fleet_app.worker.contract import BOARD_NAMESPACE


class BoardError(ConnectionError):
    """The board could not be reached this time; the same call may be tried again."""


def read(key: str) -> bytes | None:
    """Return what stands under a key, None when nothing does. Raises BoardError."""
    _connected()
    try:
        value: bytes | None = internal_kv._internal_kv_get(key, namespace=BOARD_NAMESPACE)
    except RayError as error:
        raise BoardError(f"cannot read {key} from the board: {error}") from error
    return value


def write(key: str, value: bytes, *, replace: bool = True) -> None:
    """Put a value under a key; an existing one stays unless `replace`. Raises BoardError."""
    _connected()
    try:
        internal_kv._internal_kv_put(key, value, overwrite=replace, namespace=BOARD_NAMESPACE)
    except RayError as error:
        raise BoardError(f"cannot write {key} to the board: {error}") from error


def _connected() -> None:
    if not ray.is_initialized():
        raise BoardError("this process is not connected to Ray: call ray.init() first")
