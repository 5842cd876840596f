"""A bounded part of the soak; ``make soak`` runs it for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.process import Figures, ServerProcess
from tests.soak.run import LIMITS, Soak, grown

MIB = 1 << 20


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (Figures(102 * MIB, 22, 32), []),
        (Figures(103 * MIB, 20, 30), ["memory"]),
        (Figures(100 * MIB, 23, 30), ["threads"]),
        (Figures(100 * MIB, 20, 33), ["descriptors"]),
        (Figures(50 * MIB, 1, 1), []),
    ],
)
def test_flat_means_within_two_percent(after: Figures, what: list[str]) -> None:
    assert [text.split()[0] for text in grown(Figures(100 * MIB, 20, 30), after)] == what


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_updates_and_sessions_leave_nothing(tmp_path: Path) -> None:
    """After 200 sessions and 20,000 updates, as many again. What one session may leave is 2 % of the memory / 200."""
    with ServerProcess(tmp_path, limits=LIMITS, data_dir=tmp_path / "data") as server:
        print(Soak(server, 3, print).run(40_000, 400, 2, slack=SLACK))


SLACK = 12 * MIB
"""What allocators still take after so short a warm-up; a long run has none of it."""
