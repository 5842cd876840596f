"""Sources whose rows have every value that is treated in a way of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operations.oracle import make_row
from tests.properties import sources


@pytest.fixture(scope="module", autouse=True)
def _special_values() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "make_row", make_row)
        yield
