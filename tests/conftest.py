"""What all tests share: everything that starts a real Spark runs in one test process, one after the other."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Java process takes all cores there are: two at a time would only be slower, and their timeouts wrong."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
