"""What tests of several parts of the engine need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.column_model import SMALL_NUMBERS


@pytest.fixture(scope="module")
def small_numbers() -> Iterator[None]:
    """Let columns do with a few rows what they otherwise do with many."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in SMALL_NUMBERS:
            patch.setattr(module, name, value)
        yield
