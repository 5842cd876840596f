"""Bodies of IPC messages: Arrow arrays to field nodes and buffers, and back.

Barrage sends modified rows in record batches whose columns differ in length. pyarrow refuses them, so they are written
and read here. Deephaven's readers rely on three properties: buffers are padded to 8 bytes, and the header has the
padded length; an array without elements has empty buffers only; an array without nulls has no validity bitmap.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.errors import UnsupportedTypeError, WireFormatError
from barrage_server.wire.buffers import bitmap_of, bits_of, offsets_of
from barrage_server.wire.empty import empty_array
from barrage_server.wire.schema import unwrapped_type
from barrage_server.wire.soundness import MAX_DEPTH, check_sound
from barrage_server.wire.variable import view_runs

__all__ = ["Parts", "assemble", "take_apart"]

_LIST_BOUNDS: Final = struct.Struct("<ii")
_INT32: Final = np.dtype(np.int32)
_INT64: Final = np.dtype(np.int64)
_FIXED_WIDTH: Final = (types.is_primitive, types.is_decimal, types.is_fixed_size_binary, types.is_interval)
# The most elements of an array that all implementations of Arrow allow. Nulls take no bytes, so no other check bounds
# their number in a damaged header.
_MOST: Final = (1 << 31) - 1


@dataclass(slots=True)
class Parts:
    """Field nodes and buffers as flat lists, and the body in pieces.

    Attributes:
        nodes: length and null count of each field node.
        spans: offset and padded length of each buffer.
        body: the buffers and their padding.
        size: bytes of the body.

    """

    nodes: list[int] = field(default_factory=list)
    spans: list[int] = field(default_factory=list)
    body: list[Any] = field(default_factory=list)
    size: int = 0

    def node(self, length: int, null_count: int) -> None:
        """Add a field node."""
        self.nodes += (length, null_count)

    def buffer(self, data: Any, size: int) -> None:
        """Add a buffer of ``size`` bytes and its padding."""
        padded = (size + 7) & ~7
        self.spans += (self.size, padded)
        if size:
            self.body.append(data)
            self.size += padded
            if padded != size:
                self.body.append(bytes(padded - size))

    def empty_buffers(self, count: int) -> None:
        """Add ``count`` buffers without bytes."""
        for _ in range(count):
            self.spans += (self.size, 0)


def take_apart(arrays: list[pa.Array], *, as_lists: bool = False) -> Parts:
    """Take columns apart, which may differ in length; contiguous data is not copied.

    Args:
        arrays: the columns.
        as_lists: whether each array is written as a column of one list with its values.

    """
    parts = Parts()
    for array in arrays:
        if as_lists:
            parts.node(1, 0)
            parts.empty_buffers(1)
            parts.buffer(_LIST_BOUNDS.pack(0, len(array)), _LIST_BOUNDS.size)
        _take_apart(array, parts)
    return parts


def _take_apart(array: pa.Array, parts: Parts) -> None:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage  # only the schema has the extension type
    data_type = array.type
    length, null_count = len(array), array.null_count
    parts.node(length, null_count)
    kind = data_type.id
    if kind == types.lib.Type_NA:
        return
    if length == 0:
        _take_apart_empty(data_type, parts)
        return
    buffers = array.buffers()
    if kind not in _WITHOUT_VALIDITY:
        if null_count:
            _bits(buffers[0], array.offset, length, parts)
        else:
            parts.empty_buffers(1)
    _TAKERS.get(kind, _take_values)(array, buffers, parts)


def _take_values(array: pa.Array, buffers: list[pa.Buffer], parts: Parts) -> None:
    width = _width(array.type)
    parts.buffer(buffers[1].slice(array.offset * width, len(array) * width), len(array) * width)


def _take_bits(array: pa.Array, buffers: list[pa.Buffer], parts: Parts) -> None:
    _bits(buffers[1], array.offset, len(array), parts)


def _take_bytes(array: pa.Array, buffers: list[pa.Buffer], parts: Parts) -> None:
    first, last = _offsets(array, buffers[1], parts)
    parts.buffer(None if last == first else buffers[2].slice(first, last - first), last - first)


def _take_list(array: pa.Array, buffers: list[pa.Buffer], parts: Parts) -> None:
    first, last = _offsets(array, buffers[1], parts)
    _take_apart(array.values.slice(first, last - first), parts)


def _take_view(array: pa.Array, _buffers: list[pa.Buffer], parts: Parts) -> None:
    offsets, items = view_runs(array)
    dtype = _INT64 if types.is_large_list_view(array.type) else _INT32
    for numbers in (offsets[:-1], np.diff(offsets)):
        parts.buffer(numbers.astype(dtype).data, len(array) * dtype.itemsize)
    _take_apart(items, parts)


def _take_fixed_list(array: pa.Array, _buffers: list[pa.Buffer], parts: Parts) -> None:
    width = array.type.list_size
    _take_apart(array.values.slice(array.offset * width, len(array) * width), parts)


def _take_struct(array: pa.Array, _buffers: list[pa.Buffer], parts: Parts) -> None:
    for number in range(array.type.num_fields):
        _take_apart(array.field(number), parts)


def _take_sparse_union(array: pa.Array, buffers: list[pa.Buffer], parts: Parts) -> None:
    """Add the type codes, and the part of each member that the slice covers."""
    parts.buffer(buffers[1].slice(array.offset, len(array)), len(array))
    _take_struct(array, buffers, parts)


def _take_dense_union(array: pa.Array, buffers: list[pa.Buffer], parts: Parts) -> None:
    """Add the type codes, the offsets, and the part of each member that they cover."""
    data_type, length = array.type, len(array)
    codes = buffers[1].slice(array.offset, length)
    parts.buffer(codes, length)
    members = []
    offsets = np.frombuffer(buffers[2], np.int32, length, array.offset * _INT32.itemsize).copy()
    for number, code in enumerate(data_type.type_codes):
        chosen = np.frombuffer(codes, np.int8) == code
        used = offsets[chosen]
        first, last = (int(used.min()), int(used.max()) + 1) if len(used) else (0, 0)
        offsets[chosen] -= first
        members.append(array.field(number).slice(first, last - first))
    parts.buffer(offsets.data, length * _INT32.itemsize)
    for member in members:
        _take_apart(member, parts)


_WITHOUT_VALIDITY: Final = frozenset({types.lib.Type_SPARSE_UNION, types.lib.Type_DENSE_UNION})
_TAKERS: Final[dict[int, Callable[[pa.Array, list[pa.Buffer], Parts], None]]] = {
    types.lib.Type_BOOL: _take_bits,
    types.lib.Type_STRING: _take_bytes,
    types.lib.Type_BINARY: _take_bytes,
    types.lib.Type_LARGE_STRING: _take_bytes,
    types.lib.Type_LARGE_BINARY: _take_bytes,
    types.lib.Type_LIST: _take_list,
    types.lib.Type_LARGE_LIST: _take_list,
    types.lib.Type_MAP: _take_list,
    types.lib.Type_LIST_VIEW: _take_view,
    types.lib.Type_LARGE_LIST_VIEW: _take_view,
    types.lib.Type_FIXED_SIZE_LIST: _take_fixed_list,
    types.lib.Type_STRUCT: _take_struct,
    types.lib.Type_SPARSE_UNION: _take_sparse_union,
    types.lib.Type_DENSE_UNION: _take_dense_union,
}
"""The functions that add the buffers after the validity, by type; other types have values of fixed width."""


def _take_apart_empty(data_type: pa.DataType, parts: Parts) -> None:
    """Add the buffers and child nodes of an array without elements."""
    data_type = unwrapped_type(data_type)
    parts.empty_buffers(_own_buffers(data_type))
    for child in _children(data_type):
        parts.node(0, 0)
        if not types.is_null(unwrapped_type(child)):
            _take_apart_empty(child, parts)


def _bits(buffer: pa.Buffer, offset: int, length: int, parts: Parts) -> None:
    """Add a bitmap that starts at bit 0."""
    size = (length + 7) // 8
    parts.buffer(
        buffer.slice(offset // 8, size) if offset % 8 == 0 else bitmap_of(bits_of(buffer, offset, length)), size
    )


def _offsets(array: pa.Array, buffer: pa.Buffer, parts: Parts) -> tuple[int, int]:
    """Add offsets that start at 0; return the range of child or data that they cover."""
    offsets = offsets_of(array)
    first, last = int(offsets[0]), int(offsets[-1])
    start = array.offset * offsets.itemsize
    parts.buffer(buffer.slice(start, offsets.nbytes) if first == 0 else (offsets - first).data, offsets.nbytes)
    return first, last


def assemble(
    data_types: list[pa.DataType], nodes: memoryview, spans: memoryview, body: pa.Buffer, *, check: bool = True
) -> list[pa.Array]:
    """Assemble columns from field nodes, buffers and the body, without copying data.

    Args:
        data_types: the types of the columns.
        nodes: the field nodes, 16 bytes each.
        spans: offset and length of the buffers, 16 bytes each.
        body: the body.
        check: whether offsets and texts are checked; otherwise the caller must.

    Raises:
        WireFormatError: nodes or buffers are missing or surplus, or contradict the body.
        UnsupportedTypeError: a type is nested too deep.

    """
    source = _Source(
        np.frombuffer(nodes, np.int64).reshape(-1, 2).tolist(),
        np.frombuffer(spans, np.int64).reshape(-1, 2).tolist(),
        body,
    )
    arrays = []
    for data_type in data_types:
        try:
            array = _assemble(data_type, source, 0)
        except (pa.ArrowException, OverflowError, IndexError, ValueError) as error:
            raise WireFormatError(
                f"damaged record batch: a column of type {data_type} does not fit its data"
            ) from error
        if check:
            check_sound(array)
        arrays.append(array)
    source.finish()
    return arrays


class _Source:
    """The field nodes and buffers of a message, read in order."""

    __slots__ = ("_body", "_nodes", "_spans")

    def __init__(self, nodes: list[list[int]], spans: list[list[int]], body: pa.Buffer) -> None:
        self._nodes: Iterator[list[int]] = iter(nodes)
        self._spans: Iterator[list[int]] = iter(spans)
        self._body = body

    def node(self) -> tuple[int, int]:
        """Read the length and null count of the next node."""
        length, null_count = next(self._nodes, (-1, -1))
        if not 0 <= null_count <= length <= _MOST:
            raise WireFormatError("damaged record batch: a field node is missing or impossible")
        return length, null_count

    def buffer(self, least: int) -> pa.Buffer:
        """Read the next buffer, of at least ``least`` bytes."""
        offset, size = next(self._spans, (-1, -1))
        if offset < 0 or size < 0 or offset + size > self._body.size:
            raise WireFormatError("damaged record batch: a buffer is missing or lies outside the body")
        if size < least:
            raise WireFormatError(f"damaged record batch: a buffer has {size} bytes where {least} are needed")
        return self._body.slice(offset, size)

    def finish(self) -> None:
        """Raise unless all nodes and buffers were used."""
        if next(self._nodes, None) is not None or next(self._spans, None) is not None:
            raise WireFormatError(
                "damaged record batch: it has more field nodes or buffers than its schema has columns for"
            )


def _assemble(data_type: pa.DataType, source: _Source, depth: int) -> pa.Array:
    if depth > MAX_DEPTH:
        raise UnsupportedTypeError(f"types nested deeper than {MAX_DEPTH} levels are not supported")
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, _assemble(data_type.storage_type, source, depth + 1))
    length, null_count = source.node()
    if types.is_null(data_type):
        return pa.Array.from_buffers(data_type, length, [None])  # pa.nulls would allocate memory per element
    if length == 0:
        for _ in range(_own_buffers(data_type)):
            source.buffer(0)
        for child in _children(data_type):
            _assemble(child, source, depth + 1)
        return empty_array(data_type)
    if types.is_union(data_type):
        buffers = [None, source.buffer(length)]
        if data_type.mode == "dense":
            buffers.append(source.buffer(_INT32.itemsize * length))
        arrays = [_assemble(child, source, depth + 1) for child in _children(data_type)]
        return pa.Array.from_buffers(data_type, length, buffers, children=arrays)
    bitmap = source.buffer((length + 7) // 8 if null_count else 0)
    validity = bitmap if null_count else None
    if types.is_boolean(data_type):
        return pa.Array.from_buffers(data_type, length, [validity, source.buffer((length + 7) // 8)])
    children = _children(data_type)
    if not children and not types.is_struct(data_type):
        if not _is_variable(data_type):
            return pa.Array.from_buffers(data_type, length, [validity, source.buffer(length * _width(data_type))])
        width = 8 if _is_large(data_type) else 4
        buffers = [validity, source.buffer(width * (length + 1)), source.buffer(0)]
        return pa.Array.from_buffers(data_type, length, buffers)
    buffers = [validity]
    if _is_view(data_type):
        size = (_INT64 if types.is_large_list_view(data_type) else _INT32).itemsize * length
        buffers += (source.buffer(size), source.buffer(size))
    elif not types.is_struct(data_type) and not types.is_fixed_size_list(data_type):
        buffers.append(source.buffer((8 if types.is_large_list(data_type) else 4) * (length + 1)))
    arrays = [_assemble(child, source, depth + 1) for child in children]
    if types.is_map(data_type) and (arrays[0].null_count or arrays[0].field(0).null_count):
        raise WireFormatError(
            "damaged record batch: a key or an entry of a map is null"
        )  # pyarrow would crash the process
    return pa.Array.from_buffers(data_type, length, buffers, children=arrays)


def _children(data_type: pa.DataType) -> list[pa.DataType]:
    """Return the child types, in the order of their nodes."""
    if types.is_map(data_type):
        return [pa.struct([data_type.key_field, data_type.item_field])]
    return [data_type.field(number).type for number in range(data_type.num_fields)]


def _own_buffers(data_type: pa.DataType) -> int:
    """Return the number of buffers of a type, without its children."""
    if types.is_union(data_type):
        return 2 if data_type.mode == "dense" else 1
    if types.is_struct(data_type) or types.is_fixed_size_list(data_type):
        return 1
    if _is_view(data_type):
        return 3
    if types.is_nested(data_type) or not _is_variable(data_type):
        return 2
    return 3


def _is_view(data_type: pa.DataType) -> bool:
    return bool(types.is_list_view(data_type) or types.is_large_list_view(data_type))


def _is_large(data_type: pa.DataType) -> bool:
    return bool(types.is_large_string(data_type) or types.is_large_binary(data_type))


def _is_variable(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_binary(data_type) or _is_large(data_type))


def _width(data_type: pa.DataType) -> int:
    """Return the bytes of one value of a fixed-width type."""
    if not any(is_fixed(data_type) for is_fixed in _FIXED_WIDTH):
        raise UnsupportedTypeError(f"columns of type {data_type} cannot be sent; cast them to a plain type")
    return int(data_type.bit_width) // 8
