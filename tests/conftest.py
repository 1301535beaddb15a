"""What holds for every test: live ones are marked by their folder, and hypothesis never looks at a clock."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes an example slow, not wrong.
settings.register_profile("fleet", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fleet")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/live, and ask for each file of it to be run by one worker, which spares Ray clusters."""
    for item in items:
        if "live" in item.path.parts:
            item.add_marker(pytest.mark.live)
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
