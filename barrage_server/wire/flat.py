"""Reading flatbuffers that may be damaged.

The flatbuffers runtime for Python does not verify: a wrong offset raises an arbitrary exception or reads other bytes,
and a wrong vector length can allocate gigabytes. This reader checks every offset against the buffer, and raises
WireFormatError only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from barrage_server.errors import WireFormatError

__all__ = ["FlatTable"]

_UINT16: Final = struct.Struct("<H")
_UINT32: Final = struct.Struct("<I")
_INT32: Final = struct.Struct("<i")


class FlatTable:
    """One table of a flatbuffer, whose fields are read by slot number.

    Slots count the fields in the order of the schema, from 0. An absent field reads as its default. Nothing is copied:
    vectors are views of the buffer. All methods raise WireFormatError where the bytes contradict themselves.

    Args:
        data: the whole message.
        position: position of the table within the message, in bytes.
    """

    __slots__ = ("_data", "_position", "_size", "_slots", "_vtable")

    def __init__(self, data: memoryview, position: int) -> None:
        if not 0 <= position <= len(data) - 4:
            raise WireFormatError("damaged flatbuffer: a table lies outside the message")
        vtable = position - _INT32.unpack_from(data, position)[0]
        if not 0 <= vtable <= len(data) - 4:
            raise WireFormatError("damaged flatbuffer: a table's field list lies outside the message")
        vtable_size = _UINT16.unpack_from(data, vtable)[0]
        size = _UINT16.unpack_from(data, vtable + 2)[0]
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > len(data) or position + size > len(data):
            raise WireFormatError("damaged flatbuffer: a table is larger than the message")
        self._data = data
        self._position = position
        self._vtable = vtable
        self._slots = vtable_size // 2 - 2
        self._size = size

    @classmethod
    def root(cls, data: bytes | memoryview) -> FlatTable:
        """Return the root table of a finished flatbuffer.

        Raises:
            WireFormatError: the bytes are no flatbuffer.
        """
        view = memoryview(data)
        if len(view) < 8:
            raise WireFormatError(f"damaged flatbuffer: {len(view)} bytes are too few")
        return cls(view, _UINT32.unpack_from(view, 0)[0])

    def _field(self, slot: int, width: int) -> int:
        """Return the position of a field of ``width`` bytes; 0 when it is absent."""
        if slot >= self._slots:
            return 0
        offset: int = _UINT16.unpack_from(self._data, self._vtable + 4 + 2 * slot)[0]
        if offset == 0:
            return 0
        if offset < 4 or offset + width > self._size:
            raise WireFormatError("damaged flatbuffer: a field lies outside its table")
        return self._position + offset

    def has(self, slot: int) -> bool:
        """Whether the field is present."""
        return self._field(slot, 1) != 0

    def _integer(self, slot: int, width: int, signed: bool, default: int) -> int:
        at = self._field(slot, width)
        return int.from_bytes(self._data[at : at + width], "little", signed=signed) if at else default

    def boolean(self, slot: int) -> bool:
        """Read a bool; False when absent."""
        return self._integer(slot, 1, False, 0) != 0

    def int8(self, slot: int) -> int:
        """Read an int8; 0 when absent."""
        return self._integer(slot, 1, True, 0)

    def int16(self, slot: int) -> int:
        """Read an int16; 0 when absent."""
        return self._integer(slot, 2, True, 0)

    def int32(self, slot: int) -> int:
        """Read an int32; 0 when absent."""
        return self._integer(slot, 4, True, 0)

    def uint32(self, slot: int) -> int:
        """Read a uint32; 0 when absent."""
        return self._integer(slot, 4, False, 0)

    def int64(self, slot: int) -> int:
        """Read an int64; 0 when absent."""
        return self._integer(slot, 8, True, 0)

    def _target(self, at: int) -> int:
        """Return the target of the offset stored at ``at``, checked to have four bytes."""
        target: int = at + _UINT32.unpack_from(self._data, at)[0]
        if target > len(self._data) - 4:
            raise WireFormatError("damaged flatbuffer: an offset points outside the message")
        return target

    def _vector(self, slot: int, width: int) -> tuple[int, int] | None:
        """Return the position of the first element and the count; None when absent."""
        at = self._field(slot, 4)
        if not at:
            return None
        start = self._target(at)
        count: int = _UINT32.unpack_from(self._data, start)[0]
        start += 4
        if count * width > len(self._data) - start:
            raise WireFormatError("damaged flatbuffer: a vector is longer than the message")
        return start, count

    def bytes_vector(self, slot: int) -> memoryview | None:
        """Read a vector of bytes; None when absent."""
        found = self._vector(slot, 1)
        return None if found is None else self._data[found[0] : found[0] + found[1]]

    def bytes_span(self, slot: int) -> tuple[int, int] | None:
        """Return the start and stop of a vector of bytes within the message."""
        found = self._vector(slot, 1)
        return None if found is None else (found[0], found[0] + found[1])

    def structs(self, slot: int, width: int) -> memoryview | None:
        """Read the bytes of a vector of structs of ``width`` bytes; None when absent."""
        found = self._vector(slot, width)
        return None if found is None else self._data[found[0] : found[0] + found[1] * width]

    def table(self, slot: int) -> FlatTable | None:
        """Read a table; None when absent."""
        at = self._field(slot, 4)
        return FlatTable(self._data, self._target(at)) if at else None

    def tables(self, slot: int) -> Iterator[FlatTable] | None:
        """Iterate over a vector of tables, each checked when reached; None when absent."""
        found = self._vector(slot, 4)
        if found is None:
            return None
        start, count = found
        return (FlatTable(self._data, self._target(at)) for at in range(start, start + 4 * count, 4))
