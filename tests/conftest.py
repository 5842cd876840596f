"""What all tests share."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# A shell starts what runs in its background with Ctrl-C ignored, which programs started by tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
