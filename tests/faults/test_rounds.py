"""Plans come from the seed alone, and a few rounds without Spark; ``make faults`` runs more of them, with it."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import barrage_server as bs
from tests.faults.damage import entries, flip
from tests.faults.rounds import WEIGHTS, Rounds, plan
from tests.faults.source import PLAIN, content, mode, options, sent


def test_a_plan_comes_from_the_seed_and_the_number_alone() -> None:
    plans = [plan(7, number, spark=True) for number in range(300)]
    assert plans == [plan(7, number, spark=True) for number in range(300)]
    assert plans != [plan(8, number, spark=True) for number in range(300)]
    assert {one.kind for made in plans for one in made} == set(WEIGHTS)
    assert not any("driver" in one.kind for number in range(300) for one in plan(7, number, spark=False))


@pytest.mark.parametrize("name", PLAIN)
def test_the_recomputation_agrees_with_a_server_that_nothing_happens_to(name: str) -> None:
    with bs.Server() as server, bs.connect(server.uri) as client:
        for number in range(12):
            client.publish(name, sent(name, number), mode=mode(name, number), **options(name))
            assert client.snapshot(name).sort_by("id").equals(content(name, number))


def test_a_flipped_bit_is_expected_where_the_records_say_it_matters(tmp_path: Path) -> None:
    with bs.Server(data_dir=tmp_path / "data", fsync="os") as server:
        table = server.append_table("t", pa.schema({"v": pa.int64()}))
        for number in range(10):
            table.append({"v": [number]})
    (segment,) = (tmp_path / "data" / "journal").iterdir()
    known = list(entries(segment.read_bytes()))
    assert len(known) == 12
    assert known[-1].end == segment.stat().st_size
    # Nothing was synced while it was written: a changed bit looks like a torn end.
    assert flip(tmp_path / "data", tmp_path / "copy", random.Random(1)).segment is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_or_doubled_whatever_happens(tmp_path: Path) -> None:
    """A failure is repeated by ``make faults SEED=4 FAULTS_ARGS=--no-spark``."""
    Rounds(4, tmp_path, print, spark=False).run(0, 5)
