"""Column types for web pages: numbers that JavaScript reads exactly, and text.

Booleans, integers and floats are sent unchanged, times as their integers with the unit in :func:`form_of`. All other
values are text: decimals in full; text, binary and nested values cut to :data:`CUT_CHARACTERS`, because a page shows
the beginning of a cell and requests the whole of it separately.

A cut text is longer than :data:`CUT_CHARACTERS`: it has that number of characters, then the length of the whole text in
decimal digits, or ``…`` where the length is not known without writing the whole text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from barrage_server.wire.buffers import valid_of
from barrage_server.wire.conversions import Convert, hex_text
from barrage_server.wire.nested_text import nested_text, plain_text
from barrage_server.wire.schema import unwrapped_type
from barrage_server.wire.variable import byte_runs

__all__ = ["CUT_CHARACTERS", "browser_reading", "form_of", "whole_text"]

CUT_CHARACTERS: Final = 512
"""The most characters of a cell in an update."""
_UNCOUNTED: Final = "…"


def form_of(data_type: pa.DataType) -> dict[str, str]:
    """Describe how a page writes the cells of a column.

    Returns:
        ``form``: ``bool``, ``int``, ``float``, ``decimal``, ``text``, ``binary``, ``nested``, ``timestamp``, ``date``,
        ``time``, ``duration`` or ``null``. Times also have ``unit`` (``s``, ``ms``, ``us``, ``ns``), timestamps with a
        time zone also ``zone``.

    """
    plain = unwrapped_type(data_type)
    for is_it, form in _FORMS:
        if is_it(plain):
            found = {"form": form}
            if form in ("timestamp", "time", "duration"):
                found["unit"] = plain.unit
            if form == "timestamp" and plain.tz is not None:
                found["zone"] = plain.tz
            return found
    return {"form": "nested"}


def browser_reading(data_type: pa.DataType) -> tuple[pa.DataType, Convert | None]:
    """Return the type of a column on a page, and the conversion to it, if any.

    Nulls stay null.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        target, convert = browser_reading(data_type.storage_type)
        return target, partial(_of_storage, convert=convert)
    form = form_of(data_type)["form"]
    if form in ("bool", "int", "float"):
        return data_type, None
    if form in ("timestamp", "date", "time", "duration"):
        number = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return number, lambda array: array.view(number)
    texts: dict[str, Convert] = {
        "null": lambda array: pa.nulls(len(array), pa.string()),
        "decimal": lambda array: array.cast(pa.string()),
        "text": _cut_text,
        "binary": _cut_binary,
    }
    return pa.string(), texts.get(form, _cut_nested)


def whole_text(array: pa.Array, most: int) -> str | None:
    """Write the only cell of ``array`` as text of at most ``most`` characters.

    Binary is written as hexadecimal digits, nested values as the page shows them, other values as Arrow writes them. A
    longer text is cut, and ends with ``…``. Returns ``None`` for null.
    """
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    cell = array[0]
    if not cell.is_valid:
        return None
    form = form_of(array.type)["form"]
    if form == "nested":
        return nested_text(cell, most)
    if form == "binary":
        whole = memoryview(cell.as_buffer())
        text = bytes(whole[: most // 2]).hex()
        return text if 2 * len(whole) <= most else text + _UNCOUNTED
    if form == "text":
        held = memoryview(cell.as_buffer())  # a character has at most four bytes
        text = bytes(held[: 4 * most]).decode(errors="replace" if len(held) <= 4 * most else "ignore")
        return text if len(text) <= most and len(held) <= 4 * most else text[:most] + _UNCOUNTED
    text = plain_text(cell)
    return text if len(text) <= most else text[:most] + _UNCOUNTED


def _cut_text(array: pa.Array) -> pa.Array:
    """Convert a column of text of any kind to plain strings, and cut long ones."""
    offsets, _ = byte_runs(array)
    if not len(array) or int(np.diff(offsets).max()) <= CUT_CHARACTERS:
        return array if types.is_string(array.type) else array.cast(pa.string())
    counts = pc.utf8_length(array)
    is_long = pc.greater(counts, CUT_CHARACTERS)
    begun = pc.utf8_slice_codeunits(array, 0, CUT_CHARACTERS).cast(pa.string())
    if not pc.any(is_long).as_py():
        return begun
    return _marked(begun, is_long, counts)


def _cut_binary(array: pa.Array) -> pa.Array:
    """Convert a column of binary to hexadecimal digits, and cut long ones."""
    lengths = pc.binary_length(array)
    is_long = pc.greater(lengths, CUT_CHARACTERS // 2)
    if not pc.any(is_long).as_py():
        return hex_text(array)
    digits = hex_text(pc.binary_slice(array.cast(pa.large_binary()), 0, CUT_CHARACTERS // 2))
    return _marked(digits, is_long, pc.multiply(lengths.cast(pa.int64()), 2))


def _marked(begun: pa.Array, is_long: pa.Array, counts: pa.Array) -> pa.Array:
    """Append the length of the whole text to the beginnings of long texts."""
    marked = pc.binary_join_element_wise(begun, counts.cast(pa.string()), "")
    return pc.if_else(is_long, marked, begun)


def _cut_nested(array: pa.Array) -> pa.Array:
    """Write nested values as text; long ones are read up to the cut only."""
    valid = valid_of(array)
    texts = [
        _cut(nested_text(array[row], CUT_CHARACTERS)) if valid is None or valid[row] else None
        for row in range(len(array))
    ]
    return pa.array(texts, pa.string())


def _cut(text: str) -> str:
    return text if len(text) <= CUT_CHARACTERS else text[:CUT_CHARACTERS] + _UNCOUNTED


def _of_storage(array: Any, convert: Convert | None) -> pa.Array:
    return array.storage if convert is None else convert(array.storage)


def _is_text(data_type: pa.DataType) -> bool:
    return data_type.id in _TEXT


def _is_binary(data_type: pa.DataType) -> bool:
    return data_type.id in _BINARY


_TEXT: Final = frozenset({types.lib.Type_STRING, types.lib.Type_LARGE_STRING, types.lib.Type_STRING_VIEW})
_BINARY: Final = frozenset(
    {
        types.lib.Type_BINARY,
        types.lib.Type_LARGE_BINARY,
        types.lib.Type_FIXED_SIZE_BINARY,
        types.lib.Type_BINARY_VIEW,
    }
)
_FORMS: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (types.is_boolean, "bool"),
    (types.is_integer, "int"),
    (types.is_floating, "float"),
    (types.is_decimal, "decimal"),
    (_is_text, "text"),
    (_is_binary, "binary"),
    (types.is_timestamp, "timestamp"),
    (types.is_date, "date"),
    (types.is_time, "time"),
    (types.is_duration, "duration"),
    (types.is_null, "null"),
)
