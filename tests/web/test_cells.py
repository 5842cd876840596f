"""The page writes numbers and times as Python does."""

from __future__ import annotations

import random
import re
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from tests.web.node import answer

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "UTC",
]
FIRST, LAST = datetime(1972, 1, 1, tzinfo=UTC), datetime(2035, 1, 1, tzinfo=UTC)


def texts(tmp_path: Path, questions: list[tuple[dict[str, str], list[str]]]) -> list[list[str]]:
    asked = [{"column": {"name": "c", **column}, "values": values} for column, values in questions]
    found: list[list[str]] = answer("decode", {"rowSets": [], "metadata": [], "texts": asked}, tmp_path)["texts"]
    return found


def digits(text: str) -> int:
    """The number of significant digits."""
    return len(re.sub(r"e.*|[-.]", "", text).strip("0"))


def test_timestamps_in_zones_through_all_changes_of_their_clocks(tmp_path: Path) -> None:
    chance = random.Random(1)
    span = int((LAST - FIRST).total_seconds())
    start = int(FIRST.timestamp())
    questions: list[tuple[dict[str, str], list[str]]] = []
    expected: list[list[str]] = []
    for name in ZONES:
        zone = ZoneInfo(name)
        moments = [start + chance.randrange(span) for _ in range(500)]
        # Each full hour of the weeks in which clocks change somewhere, and the seconds beside it.
        for day in (
            datetime(2024, 3, 9, tzinfo=UTC),
            datetime(2024, 10, 5, tzinfo=UTC),
            datetime(2011, 12, 29, tzinfo=UTC),
        ):
            begin = int(day.timestamp())
            moments += [begin + 1800 * half + near for half in range(100) for near in (-1, 0, 1)]
        questions.append(
            ({"form": "timestamp", "type": "", "unit": "us", "zone": name}, [str(s * 10**6 + 7) for s in moments])
        )
        expected.append([(datetime.fromtimestamp(s, zone) + timedelta(microseconds=7)).isoformat(" ") for s in moments])
    assert texts(tmp_path, questions) == expected


def test_floats_have_the_digits_that_numpy_gives_them(tmp_path: Path) -> None:
    """As numbers: the two write exponents differently."""
    chance = random.Random(2)
    for name, size, kind, code in (
        ("halffloat", 16, np.float16, "e"),
        ("float", 32, np.float32, "f"),
        ("double", 64, np.float64, "d"),
    ):
        values: list[Any] = []
        while len(values) < 3000:
            (value,) = struct.unpack(f"<{code}", chance.getrandbits(size).to_bytes(size // 8, "little"))
            if np.isfinite(value):
                values.append(value)
        (found,) = texts(tmp_path, [({"form": "float", "type": name}, [repr(value) for value in values])])
        for value, text in zip(values, found, strict=True):
            wanted = np.format_float_scientific(kind(value), unique=True, trim="-")
            assert kind(text) == kind(value), (value, text)
            # Of two that are as short and as near, either will do.
            assert digits(text) == digits(wanted), (name, value, text, wanted)
            assert abs(Decimal(text) - Decimal(value)) <= abs(Decimal(wanted) - Decimal(value)), (name, value, text)
