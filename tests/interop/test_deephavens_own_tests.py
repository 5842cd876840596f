"""Deephaven's own tests of its Python clients, unmodified: what passes on a Deephaven server passes here.

They are not in Deephaven's packages, and no part of this project: ``make interop DEEPHAVEN_TESTS=folder`` names the
folder ``py`` of deephaven-core, which has ``client/tests`` and ``client-ticking/tests``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from barrage_server import Server
from barrage_server.subscription import SubscriptionLimits

from .deephaven import DeephavenServer
from .environments import python_of
from .python_client import port_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

Outcomes = dict[str, str]
"""Why each test did not pass, by its name; empty where it did."""

SCRIPT: Final = Path(__file__).parent / "peers" / "own_tests.py"
PASSED_AT_LEAST: Final = {"client": 165, "client-ticking": 3}
"""Tests that must pass on the Deephaven server: with fewer, the copy is not whole, or of another version."""
INTERVAL_MS: Final = 1_000
"""Of a Deephaven server that is started without settings. A ticking test counts the updates of some seconds."""

FIGURES: Final = "a script that plots: the console has no deephaven.plot"
SCRIPTS: Final = "it runs a script"
OTHERS: Final = {
    "test_filters.FiltersIntegrationTestCase.test_ne_filter_case_sensitive_string": (
        "without regard to case, a Deephaven server takes '!=' for '=='"
    ),
    "test_plugin_client.PluginClientTestCase.test_create": FIGURES,
    "test_plugin_client.PluginClientTestCase.test_publish_fetch_table": FIGURES,
}
"""What passes there and not here, and why."""
WITHOUT_CONSOLE: Final = {
    "test_console.ConsoleTestCase.test_bind_table": SCRIPTS,
    "test_multi_session.MultiSessionTestCase.test_persistent_tables": SCRIPTS,
    "test_multi_session.MultiSessionTestCase.test_shared_tables": SCRIPTS,
    "test_session.SessionTestCase.test_blink_input_table": SCRIPTS,
    "test_session.SessionTestCase.test_time_table": SCRIPTS,
}
"""The same without the console, beside those."""


def folder_of(client: str) -> Path:
    """The folder of a client's tests; the test ends when there is none."""
    place = os.environ.get("DEEPHAVEN_TESTS")
    if not place:
        pytest.skip("Deephaven's own tests are not here: make interop DEEPHAVEN_TESTS=folder")
    folder = Path(place) / client / "tests"
    if not folder.is_dir():
        pytest.fail(f"{folder} is missing: DEEPHAVEN_TESTS is the folder py of deephaven-core", pytrace=False)
    return folder


def outcomes(folder: Path, port: int) -> Outcomes:
    """What became of each test of a folder against the server at ``port``."""
    done = subprocess.run(
        [python_of("ticking"), SCRIPT, folder],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        env={**os.environ, "DH_HOST": "127.0.0.1", "DH_PORT": str(port)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return {name.removeprefix("tests."): reason for name, reason in found.items()}


def passed(found: Outcomes) -> set[str]:
    return {name for name, reason in found.items() if not reason}


@pytest.fixture(scope="module")
def on_deephaven() -> Iterator[Callable[[str], Outcomes]]:
    """What becomes of a client's tests on a Deephaven server: run once."""
    found: dict[str, Outcomes] = {}

    def run(client: str) -> Outcomes:
        folder = folder_of(client)
        if client not in found:
            server = DeephavenServer(cycle_ms=INTERVAL_MS, interval_ms=INTERVAL_MS)
            try:
                found[client] = outcomes(folder, server.port)
            finally:
                server.close()
        return found[client]

    yield run


@pytest.mark.parametrize("console", [False, True], ids=["without console", "with console"])
@pytest.mark.parametrize("client", ["client", "client-ticking"])
def test_what_passes_on_a_deephaven_server_passes_here(
    client: str, console: bool, on_deephaven: Callable[[str], Outcomes], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = on_deephaven(client)
    limits = SubscriptionLimits(default_interval_ms=INTERVAL_MS)
    with Server(deephaven_port=0, console=console, subscriptions=limits) as server:
        found = outcomes(folder_of(client), port_of(server))
    with capsys.disabled():
        way = "with" if console else "without"
        print(f"\n{client}: {len(found)} tests, {len(passed(wanted))} pass on a Deephaven server, ", end="")
        print(f"{len(passed(found))} here {way} the console")
        for name in sorted(found.keys() - passed(found)):
            there = "passes there" if name in passed(wanted) else "nor there"
            print(f"  {name} ({there}): {found[name][:300]}")
    assert found.keys() == wanted.keys()
    assert len(passed(wanted)) >= PASSED_AT_LEAST[client], wanted
    named = OTHERS if console else OTHERS | WITHOUT_CONSOLE
    # Those that are named must fail: a name that does not, any more, is taken off the list.
    assert passed(wanted) - passed(found) == {name for name in named if name in passed(wanted)}
