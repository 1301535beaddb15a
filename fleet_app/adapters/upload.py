"""Uploads the local directories of a runtime environment to a gateway, exactly as Ray's own client does.

Uses that client, so that what is left out (.gitignore, .rayignore, excludes), names and limits are Ray's. Does not
know what is submitted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import requests
from ray.dashboard.modules.dashboard_sdk import SubmissionClient

from fleet_app.engine.errors import FaultError, RequestError


def upload(gateway_url: str, headers: Mapping[str, str], runtime_env: Mapping[str, object]) -> dict[str, object]:
    """Return the runtime environment with a package's URI for each local directory.

    Raises RequestError for a directory that is missing or too large, FaultError when the gateway does not answer.
    """
    packed = dict(runtime_env)
    logging.getLogger("ray").setLevel(logging.WARNING)  # it tells of every step
    try:
        # Not the public JobSubmissionClient: it follows RAY_ADDRESS wherever that points.
        client = SubmissionClient(gateway_url, headers=dict(headers))
        client._upload_working_dir_if_needed(packed)
        client._upload_py_modules_if_needed(packed)
    except requests.RequestException as error:
        raise FaultError(f"the upload broke off ({error})", where=gateway_url, fix="Try again") from error
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise RequestError(
            f"cannot be uploaded ({error})", where="runtime_env", fix="Name a directory, and keep large files out of it"
        ) from error
    return packed
