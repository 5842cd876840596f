"""What all tests share: everything that starts a real Spark runs in one test process, one after the other."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A shell starts what runs in its background with Ctrl-C ignored, which programs started by tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Java process takes all cores there are: two at a time would only be slower, and their timeouts wrong."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
