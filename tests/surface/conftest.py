"""What every test of the surface shares."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run the asynchronous tests on asyncio, which aiohttp needs."""
    return "asyncio"
