"""Texts of whole columns are read and written as one by one: the plainest way to say what they are is the model."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs

BLANKS = "".join(map(chr, range(33)))
WORDS = (
    "",
    "0",
    "-0",
    "+7",
    "++7",
    "0x10",
    "1_000",
    " 12 ",
    "12\n",
    "007",
    "NaN",
    "-Infinity",
    "inf",
    "1.",
    ".5",
    "-.5e3",
    "1e",
    "1e400",
)
PARTS = ("a", "ab", "é", "\U0001f600", "b", "", "z")


def computed(formula: str, values: pa.Array) -> list[Any]:
    with bs.Server(port=0) as server:
        table = server.append_table("t", pa.schema([("x", values.type)]))
        table.append(pa.table({"x": values}))
        found: list[Any] = table.view(f"made = {formula}").to_arrow()["made"].to_pylist()
        return found


def some_numbers(chance: random.Random) -> list[str | None]:
    def one() -> str | None:
        match chance.randrange(8):
            case 0:
                return None
            case 1:
                return chance.choice(WORDS)
            case 2:
                return repr(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-320, 308))
            case 3:
                return str(chance.choice([2**7, 2**15, 2**31, 2**63]) * chance.choice([1, -1]) + chance.choice([-1, 0]))
            case 4:
                return "".join(chance.choices("0123456789", k=chance.randrange(1, 35)))
            case 5:
                return f"{chance.randrange(10**25)}.{chance.randrange(10**25)}e{chance.randrange(-30, 30)}"
            case _:
                return str(chance.randrange(-(10**6), 10**6))

    return [one() for _ in range(400)]


def integer(text: str | None, bits: int) -> int | None:
    if text is None or not re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return None
    return int(text) if -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1) else None


def double(text: str | None) -> float | None:
    word = "" if text is None else text.strip(BLANKS)
    known = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(NaN|Infinity)", word)
    return float(word) if known else None


@pytest.mark.parametrize("seed", range(4))
class TestNumbers:
    """Of any form, at the ends of their ranges, and what is none."""

    @pytest.mark.parametrize(
        ("name", "bits"), [("parseByte", 8), ("parseShort", 16), ("parseInt", 32), ("parseLong", 64)]
    )
    def test_integers_are_read_as_one_by_one(self, seed: int, name: str, bits: int) -> None:
        texts = some_numbers(random.Random(seed))
        wanted = [integer(text, bits) for text in texts]
        assert computed(f"{name}(x)", pa.array(texts)) == wanted

    def test_doubles_are_read_as_one_by_one(self, seed: int) -> None:
        texts = some_numbers(random.Random(seed))
        assert list(map(repr, computed("parseDouble(x)", pa.array(texts)))) == [repr(double(text)) for text in texts]

    def test_places_are_found_as_one_by_one(self, seed: int) -> None:
        chance = random.Random(seed)
        texts = [
            None if chance.random() < 0.1 else "".join(chance.choices(PARTS, k=chance.randrange(6))) for _ in range(300)
        ]
        for part in ("a", "ab", "bb", "é", "\U0001f600", ""):
            places = [None if text is None else text.find(part) for text in texts]
            assert computed(f"x.indexOf(`{part}`)", pa.array(texts)) == places
            places = [None if text is None else text.rfind(part) for text in texts]
            assert computed(f"x.lastIndexOf(`{part}`)", pa.array(texts)) == places

    def test_moments_are_written_in_the_coarsest_unit_that_loses_nothing(self, seed: int) -> None:
        chance = random.Random(seed)
        sizes = [chance.choice([1, 10**3, 10**6, 10**9, 60 * 10**9]) for _ in range(300)]
        times = [chance.randrange(-(2**62), 2**62) // size * size for size in sizes]
        nulls = [None if chance.random() < 0.1 else time for time in times]
        written = computed("x.toString()", pa.array(nulls, pa.timestamp("ns", "UTC")))
        assert written == [None if time is None else instant(time) for time in nulls]
        formatted = computed("formatDateTime(x, 'UTC')", pa.array(nulls, pa.timestamp("ns", "UTC")))
        assert formatted == [None if time is None else f"{nine(time)} UTC" for time in nulls]
        days = computed("formatDate(x, 'UTC')", pa.array(nulls, pa.timestamp("ns", "UTC")))
        assert days == [None if time is None else nine(time)[:10] for time in nulls]

    def test_times_of_the_day_are_written_as_java_does(self, seed: int) -> None:
        chance = random.Random(seed)
        sizes = [chance.choice([1, 10**3, 10**6, 10**9, 60 * 10**9]) for _ in range(300)]
        times = [None if chance.random() < 0.1 else chance.randrange(86_400 * 10**9) // size * size for size in sizes]
        written = computed("x.toString()", pa.array(times, pa.time64("ns")))
        assert written == [None if time is None else time_of_day(time) for time in times]


def nine(nanoseconds: int) -> str:
    seconds, part = divmod(nanoseconds, 10**9)
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{part:09d}"


def instant(nanoseconds: int) -> str:
    return shortest(nine(nanoseconds)) + "Z"


def time_of_day(nanoseconds: int) -> str:
    text = shortest(nine(nanoseconds)[11:])
    return text[:5] if text[5:] == ":00" else text


def shortest(text: str) -> str:
    whole, _, part = text.partition(".")
    while part.endswith("000"):
        part = part[:-3]
    return f"{whole}.{part}" if part else whole
