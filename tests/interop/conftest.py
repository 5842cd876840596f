"""The peers. Tests against them have the marker ``interop``, and run one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .deephaven import DeephavenServer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One test process for all of them: a Java machine takes all cores there are, so one serves them all."""
    for item in items:
        if item.get_closest_marker("interop"):
            item.add_marker(pytest.mark.xdist_group("interop"))


@pytest.fixture(scope="session")
def deephaven() -> Iterator[DeephavenServer]:
    """A Deephaven server with anonymous log-in. Tests give their tables names of their own."""
    server = DeephavenServer()
    yield server
    server.close()
