"""Deephaven's own tests of its Python client, unmodified, against a server of ours: how many pass.

They are not in Deephaven's packages, and no part of this project: ``make interop DEEPHAVEN_TESTS=folder`` names a
folder that has them, ``py/client/tests`` of deephaven-core.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from barrage_server import Server

from .environments import python_of
from .python_client import port_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

SCRIPT: Final = Path(__file__).parent / "peers" / "own_tests.py"
MOST_OTHERS: Final = {False: 15, True: 9}
"""Tests that may not pass, of 183, without and with the console: scripts, plots, Flight SQL, and those skipped."""


def outcomes(folder: str, server: Server) -> dict[str, str]:
    """Why each test did not pass; empty where it did."""
    environment = {**os.environ, "DH_HOST": "127.0.0.1", "DH_PORT": str(port_of(server))}
    done = subprocess.run(
        [python_of("ticking"), SCRIPT, folder],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("console", [False, True], ids=["without console", "with console"])
def test_deephavens_own_tests_pass(console: bool, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.environ.get("DEEPHAVEN_TESTS")
    if not folder:
        pytest.skip("Deephaven's own tests are not here: make interop DEEPHAVEN_TESTS=folder")
    with Server(deephaven_port=0, console=console) as server:
        found = outcomes(folder, server)
    assert found, f"{folder} has no tests"
    others = {name: reason for name, reason in found.items() if reason}
    with capsys.disabled():
        way = "with" if console else "without"
        print(f"\n{len(found) - len(others)} of {len(found)} tests in {folder} pass {way} the console")
        for name, reason in others.items():
            print(f"  {name}: {reason[:500]}")
    assert len(others) <= MOST_OTHERS[console]
