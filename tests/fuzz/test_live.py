"""A bounded part of the fuzz, with a fixed seed; ``make fuzz`` runs it for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.run import ENDPOINTS, Fuzz, server_for

CALLS = 3000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_damaged_calls_hurt_neither_the_server_nor_another_client(endpoint: str, tmp_path: Path) -> None:
    with server_for(endpoint, tmp_path) as server:
        summary = Fuzz(server, endpoint, 9, tmp_path, print).run(CALLS)
    print(summary)
    assert summary.calls == CALLS
    assert len(summary.codes) > 4  # answers of many kinds: the calls reach what they are about
