"""The points of plots in plain Python, and the picture that is painted of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

Row = tuple[Any, ...]
"""x, then the values of the series."""


def exponent(low: float, high: float, pixels: int) -> int:
    """Of the widest parts of a power of two of which there are ``pixels`` at least."""
    if isinstance(low, int):
        found = 0
        while (2 << found) * pixels <= high - low:
            found += 1
        return found
    finest = math.frexp(math.ulp(max(abs(low), abs(high))))[1] - 1
    if high == low:
        return finest
    found = finest
    while 2.0 ** (found + 1) <= high / pixels - low / pixels:
        found += 1
    return found


def part(x: float, power: int) -> int:
    if isinstance(x, int):
        return x >> power
    return max(-(1 << 62), min(math.floor(x / 2.0**power), 1 << 62))  # what is farther away is one part


def points(
    rows: Sequence[Row],
    first: float | None = None,
    last: float | None = None,
    tail_rows: int | None = None,
    tail_x: float | None = None,
    pixels: int = 1000,
    *,
    sorts: bool = False,
) -> list[Row]:
    """The result for rows of which each has an x."""
    if sorts and tail_rows is not None:
        rows = rows[-tail_rows:]
    numbers = {id(row): number for number, row in enumerate(rows)}
    rows = sorted(rows, key=lambda row: row[0]) if sorts else list(rows)
    if not rows:
        return []
    low, high = rows[0][0], rows[-1][0]
    if tail_x is not None:
        first = high - tail_x
    if tail_rows is not None and not sorts:
        low = rows[-tail_rows:][0][0]
    begin = low if first is None else first
    power = exponent(begin, max(begin, high if last is None else last), pixels)
    parts = [(number, list(some)) for number, some in groupby(rows, key=lambda row: part(row[0], power))]
    if tail_rows is not None and not sorts:
        parts = [one for one in parts if one[0] >= part(low, power)]
    if first is not None:
        inside = [place for place, one in enumerate(parts) if one[0] >= part(first, power)]
        parts = parts[max(0, (inside[0] if inside else len(parts)) - 1) :]
    if last is not None:
        inside = [place for place, one in enumerate(parts) if one[0] <= part(last, power)]
        parts = parts[: (inside[-1] if inside else -1) + 2]
    return [marks(some, sorted(some, key=lambda row: numbers[id(row)])) for _, some in parts]


def marks(rows: list[Row], as_stored: list[Row]) -> Row:
    """Of rows along x; of equal values the first one as they are stored counts."""
    found: list[Any] = [rows[0][0], rows[-1][0]]
    for series in range(1, len(rows[0])):
        there = [row for row in as_stored if row[series] is not None and math.isfinite(row[series])]
        least = min(there, key=lambda row: row[series], default=None)
        greatest = max(there, key=lambda row: row[series], default=None)
        found += [rows[0][series]]
        found += [None, None] if least is None else [least[series], least[0]]
        found += [None, None] if greatest is None else [greatest[series], greatest[0]]
        found += [rows[-1][series]]
    return tuple(found)


def line_of_rows(rows: Sequence[Row], series: int) -> list[tuple[float, float] | None]:
    """The points of a line through all rows; None: a gap."""
    return [(row[0], row[series]) if _is_number(row[series]) else None for row in rows]


def line_of_points(rows: Sequence[Row], series: int) -> list[tuple[float, float] | None]:
    """The points of a line through those of the result, as the page draws it."""
    line: list[tuple[float, float] | None] = []
    for row in rows:
        first, least, least_x, greatest, greatest_x, last = row[2 + 6 * (series - 1) : 8 + 6 * (series - 1)]
        line.append((row[0], first) if _is_number(first) else None)
        if least_x is not None:
            line += sorted([(least_x, least), (greatest_x, greatest)])
        line.append((row[1], last) if _is_number(last) else None)
    return line


def _is_number(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def painted(
    line: Sequence[tuple[float, float] | None], low: float, high: float, pixels: int
) -> list[list[float] | None]:
    """The least and greatest height of a line in each column of pixels; None: nothing is painted there."""
    columns: list[list[float] | None] = [None] * pixels
    width = (high - low) / pixels

    def paint(column: int, y: float) -> None:
        if 0 <= column < pixels:
            found = columns[column]
            columns[column] = [y, y] if found is None else [min(found[0], y), max(found[1], y)]

    for before, after in zip(line, [*line[1:], None], strict=True):
        if before is None:
            continue
        paint(math.floor((before[0] - low) / width), before[1])
        if after is None or before[0] == after[0]:
            continue
        first, last = ((min(max(x, low), high) - low) / width for x in (before[0], after[0]))
        for border in range(math.ceil(first), math.floor(last) + 1):
            share = (low + border * width - before[0]) / (after[0] - before[0])
            for column in (border - 1, border):
                paint(column, before[1] + (after[1] - before[1]) * share)
    return columns
