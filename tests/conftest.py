"""What all tests share."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import settings

from barrage_server.log import Throttle

# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A shell starts what runs in its background with Ctrl-C ignored, which programs started by tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this test's log records a full allowance, whatever other tests of this process have logged."""
    for name, module in list(sys.modules.items()):
        if name.startswith("barrage_server."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, Throttle):
                    monkeypatch.setattr(module, attribute, value.renewed())


@pytest.fixture
def caplog(whole_log: None, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log records of this test."""
    return caplog
