"""Nested values and intervals as text, up to a number of characters.

The text is like JSON: ``[1, null, "a"]``, ``{"x": 1}``. Maps are lists of pairs; values without a literal in JSON are
strings. Of a long value only the beginning is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import types

__all__ = ["nested_text", "plain_text"]


def nested_text(cell: pa.Scalar, most: int) -> str:
    """Write a nested value as text, cut a little after ``most`` characters.

    Args:
        cell: a scalar of any type, which may be null.
        most: characters after which nothing more is read.

    """
    written: list[str] = []
    count = 0
    for piece in _pieces(cell, most):
        written.append(piece)
        count += len(piece)
        if count > most:
            break
    return "".join(written)


def plain_text(cell: Any) -> str:
    """Write a number, a time or an interval that is not null as text."""
    if types.is_interval(cell.type):
        months, days, nanoseconds = cell.as_py()
        return f"{months} months {days} days {nanoseconds} ns"
    try:
        text = str(cell.cast(pa.string()).as_py())
    except pa.ArrowException:  # a time in an unknown time zone
        return str(cell.value)
    return str(cell.value) if text.startswith("<") else text  # "<...>": a time outside of the calendar's range


def _pieces(cell: Any, most: int) -> Iterator[str]:
    while isinstance(cell, pa.ExtensionScalar):
        cell = cell.value
    if cell is None or not cell.is_valid:
        yield "null"
        return
    data_type = cell.type
    if types.is_union(data_type):
        yield from _pieces(cell.value, most)
    elif types.is_map(data_type):
        entries = cell.values
        yield from _sequence(_pairs(entries, number, most) for number in range(len(entries)))
    elif isinstance(cell, pa.ListScalar):
        values = cell.values
        yield from _sequence(_pieces(values[number], most) for number in range(len(values)))
    elif types.is_struct(data_type):
        yield from _struct(cell, most)
    else:
        yield from _leaf(cell, data_type, most)


def _sequence(elements: Iterator[Iterator[str]]) -> Iterator[str]:
    yield "["
    for number, element in enumerate(elements):
        if number:
            yield ", "
        yield from element
    yield "]"


def _pairs(entries: pa.StructArray, number: int, most: int) -> Iterator[str]:
    yield "["
    yield from _pieces(entries.field(0)[number], most)
    yield ", "
    yield from _pieces(entries.field(1)[number], most)
    yield "]"


def _struct(cell: pa.StructScalar, most: int) -> Iterator[str]:
    yield "{"
    for number in range(cell.type.num_fields):
        if number:
            yield ", "
        yield json.dumps(cell.type.field(number).name, ensure_ascii=False)
        yield ": "
        yield from _pieces(cell[number], most)
    yield "}"


def _leaf(cell: Any, data_type: pa.DataType, most: int) -> Iterator[str]:
    if types.is_boolean(data_type):
        yield "true" if cell.as_py() else "false"
    elif types.is_integer(data_type) or types.is_decimal(data_type):
        yield str(cell.as_py())
    elif types.is_floating(data_type):
        yield plain_text(cell)
    elif types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type):
        yield json.dumps(
            bytes(memoryview(cell.as_buffer())[: 4 * most + 4]).decode(errors="ignore"), ensure_ascii=False
        )
    elif isinstance(cell, pa.BinaryScalar) or types.is_fixed_size_binary(data_type) or types.is_binary_view(data_type):
        yield f'"{bytes(memoryview(cell.as_buffer())[: most + 1]).hex()}"'
    else:
        yield json.dumps(plain_text(cell))
