"""A bounded part of the stress suite, with a few seeds; ``make stress`` runs it for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stress.scene import Scene


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(4))
def test_every_replica_equals_its_table_whatever_happens(seed: int, tmp_path: Path) -> None:
    """A failure is repeated by ``make stress SEED=``, with the seed in the name of the test."""
    Scene(seed, tmp_path, print).run(seconds=12)
