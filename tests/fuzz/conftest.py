"""What the tests of fuzzers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.computing import Computing


@pytest.fixture
def computing() -> Iterator[Computing]:
    made = Computing()
    yield made
    made.close()
