"""The replay releases files at the rate asked for, and never far ahead of the slowest reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from barrage_server.demo.feeder import Feeder, rows_per_file
from barrage_server.demo.flights import FlightFile


@pytest.fixture
def files(tmp_path: Path) -> list[FlightFile]:
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    made = []
    for number in range(10):
        path = waiting / f"{number}.parquet"
        path.touch()
        made.append(FlightFile(path, 100, number))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "input"
    made.mkdir()
    return made


def test_without_a_rate_the_slowest_reader_sets_the_pace(files: list[FlightFile], folder: Path) -> None:
    feeder = Feeder(files, folder, rate=None)
    ahead = feeder.feed(0.0, processed=0)
    assert 1 < ahead < 10
    assert feeder.feed(100.0, processed=0) == 0
    assert feeder.feed(100.0, processed=200) == 2
    assert (feeder.rows, feeder.until) == ((ahead + 2) * 100, ahead + 1)
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.parquet" for number in range(ahead + 2)]


def test_a_rate_holds_files_back(files: list[FlightFile], folder: Path) -> None:
    feeder = Feeder(files, folder, rate=50.0)
    released = [feeder.feed(float(second), processed=feeder.rows) for second in range(6)]
    assert released == [1, 0, 1, 0, 1, 0]


def test_all_files_come_in_the_end(files: list[FlightFile], folder: Path) -> None:
    feeder = Feeder(files, folder, rate=None)
    while not feeder.is_done:
        feeder.feed(0.0, processed=feeder.rows)
    assert feeder.rows == 1000
    assert feeder.feed(0.0, processed=1000) == 0
    assert [feeder.rows_of(files) for files in (0, 3, 10)] == [0, 300, 1000]


@pytest.mark.parametrize(
    ("total", "rate", "rows"),
    [(336_776, None, 13_000), (336_776, 1e9, 13_000), (336_776, 1_000, 1_000), (24_000, None, 2_000), (100, 0.1, 250)],
)
def test_short_and_slow_replays_have_small_files(total: int, rate: float | None, rows: int) -> None:
    assert rows_per_file(total, rate) == rows
