"""The examples run, by themselves and to their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {
    "subscribe.py": "~ price:",
    "viewport.py": "the last five rows now",
    "publish.py": "refused, and nothing changed",
    "relay.py": "it is back: <FollowedTable 'quotes'",
    "notebook_style.py": "rows modified by each",
    "stock_flight_client.py": "stock_keyed 3 {'id': [1, 2, 3], 'text': ['one', 'TWO', 'three']}",
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert PRINTS[name] in done.stdout
    # The relay's log tells that its upstream is away, which is what the example shows.
    lines = [line for line in done.stderr.splitlines() if "trying again: The server is shutting down." not in line]
    assert lines == []
