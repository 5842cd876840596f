"""Which way a batch takes follows from what is known before it is computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barrage_server.spark.settings import Ship
from barrage_server.spark.shipping import Receipt, Shipped, choose, expected_size


@pytest.mark.parametrize(
    ("plan", "last", "expected"),
    [
        (None, None, None),  # Kafka's first batch
        (100, None, 100),  # a file source's first batch
        (None, Shipped(None, 70), 70),  # Kafka goes on as it was
        (200, Shipped(100, 300), 600),  # compressed files: three times their size
        (1000, Shipped(500, 5), 10),  # an aggregation: a hundredth
        (100, Shipped(100, 0), 100),  # the last batch was empty: it says nothing
        (100, Shipped(None, 70), 70),
    ],
)
def test_the_expected_size(plan: int | None, last: Shipped | None, expected: int | None) -> None:
    assert expected_size(plan, last) == expected


@pytest.mark.parametrize(
    ("ship", "expected", "way"),
    [
        (Ship.AUTO, 10, Ship.DRIVER),
        (Ship.AUTO, 11, Ship.EXECUTORS),
        (Ship.AUTO, None, Ship.EXECUTORS),
        (Ship.DRIVER, 1000, Ship.DRIVER),
        (Ship.EXECUTORS, 0, Ship.EXECUTORS),
    ],
)
def test_the_way(ship: Ship, expected: int | None, way: Ship) -> None:
    assert choose(ship, 10, expected) is way


def test_receipts(tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    assert Receipt.read(path) is None
    Receipt(3, 40).write(path)
    assert Receipt.read(path) == Receipt(3, 40)
    path.write_text("[]")
    assert Receipt.read(path) is None
