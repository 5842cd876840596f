"""Decoding the metadata of a stream of updates, with a cache of layouts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from barrage_server.rowset import decode_bit_set, decode_row_set, decode_shift_data
from barrage_server.wire.flat import FlatTable
from barrage_server.wire.metadata import BarrageMessage, UpdateMetadata, decode_message
from barrage_server.wire.update_metadata import MODIFIED_SLOT, NUMBERS, NUMBERS_POSITION
from barrage_server.wire.wrapper import PAYLOAD_SLOT

__all__ = ["MetadataReader"]

_MOST_BYTES: Final = 1 << 12
"""The most bytes of a message whose layout is kept; longer ones are always decoded in full."""
_MOST_FRAMES: Final = 32
"""The most layouts that are kept."""
_MOST_UNUSED: Final = 64
"""No layout is kept once the kept layouts outnumber the messages read by them by this number: the layouts of the
sender do not recur."""

_FIELDS: Final[tuple[tuple[str, int, Callable[[bytes], Any]], ...]] = (
    ("effective_viewport", 3, decode_row_set),
    ("effective_column_set", 5, decode_bit_set),
    ("added_rows", 6, decode_row_set),
    ("removed_rows", 7, decode_row_set),
    ("shift_data", 8, decode_shift_data),
    ("added_rows_included", 9, decode_row_set),
)
"""The fields that are vectors of bytes, but for the modified rows: name, slot and decoder."""


class MetadataReader:
    """Decodes the app_metadata of one stream.

    A message with the layout of an earlier one differs from it in the bytes of numbers and row sets only. Only these
    are decoded, and row sets with equal bytes are the same objects.
    """

    __slots__ = ("_count", "_frames", "_unused")

    def __init__(self) -> None:
        self._frames: dict[int, list[_Frame]] = {}  # by the length of the message
        self._count = 0
        self._unused = 0

    def read(self, data: bytes) -> BarrageMessage:
        """Decode app_metadata. Raises what :func:`decode_message` does."""
        for frame in self._frames.get(len(data), ()):
            metadata = frame.read(data) if frame.is_around(data) else None
            if metadata is not None:
                self._unused = max(0, self._unused - 1)
                return metadata
        message = decode_message(data)
        if isinstance(message, UpdateMetadata) and len(data) <= _MOST_BYTES and self._unused < _MOST_UNUSED:
            self._keep(data, message)
        return message

    def _keep(self, data: bytes, metadata: UpdateMetadata) -> None:
        # Only the layout of this project's encoder is known to have vectors that do not overlap.
        self._unused += 1
        if metadata.encode() == data:
            if self._count >= _MOST_FRAMES:
                self._frames, self._count = {}, 0
            self._frames.setdefault(len(data), []).append(_Frame(data, metadata))
            self._count += 1


class _Frame:
    """The layout of a message, and the values of the last message read with it.

    Args:
        data: app_metadata as :meth:`UpdateMetadata.encode` lays it out.
        metadata: the decoded message.

    """

    __slots__ = ("_fields", "_modified", "_nodes", "_numbers", "_still", "_values")

    def __init__(self, data: bytes, metadata: UpdateMetadata) -> None:
        start, end = FlatTable.root(data).bytes_span(PAYLOAD_SLOT) or (0, 0)
        table = FlatTable.root(data[start:end])
        self._numbers = start + NUMBERS_POSITION
        self._fields: list[tuple[str, slice, Callable[[bytes], Any]]] = []
        spans = {(self._numbers, self._numbers + NUMBERS.size)}
        for name, slot, decode in _FIELDS:
            span = table.bytes_span(slot)
            if span is not None:
                place = slice(start + span[0], start + span[1])
                self._fields.append((name, place, decode))
                spans.add((place.start, place.stop))
        # Columns with equal modified rows share one vector: the place of each vector, and the vector of each column.
        nodes = [node.bytes_span(0) or (0, 0) for node in table.tables(MODIFIED_SLOT) or ()]
        self._nodes = [slice(start + first, start + stop) for first, stop in dict.fromkeys(nodes)]
        numbers = {span: number for number, span in enumerate(dict.fromkeys(nodes))}
        self._modified = [numbers[span] for span in nodes]
        spans.update((place.start, place.stop) for place in self._nodes)
        edges = [(0, 0), *sorted(spans), (len(data), len(data))]
        gaps = [slice(before[1], after[0]) for before, after in pairwise(edges)]
        self._still = [(gap, data[gap]) for gap in gaps if gap.start < gap.stop]
        # Bytes and value of each vector, and all fields.
        known: dict[Any, tuple[bytes, Any]] = {
            name: (data[place], getattr(metadata, name)) for name, place, _ in self._fields
        }
        for number, place in enumerate(self._nodes):
            known[number] = (data[place], (metadata.modified_rows or ())[self._modified.index(number)])
        self._values = (metadata, known)

    def is_around(self, data: bytes) -> bool:
        """Whether ``data``, of the same length, differs in numbers and vectors only."""
        return all(data[place] == still for place, still in self._still)

    def read(self, data: bytes) -> UpdateMetadata | None:
        """Decode a message of this layout; None where it is damaged.

        Raises:
            WireFormatError: a vector is damaged.

        """
        first_seq, last_seq, table_size = NUMBERS.unpack_from(data, self._numbers)
        if table_size < 0:
            return None
        metadata, known = self._values
        found: dict[Any, tuple[bytes, Any]] = {}
        for name, place, decode in self._fields:
            found[name] = _value(known[name], data[place], decode)
        for number, place in enumerate(self._nodes):
            found[number] = _value(known[number], data[place], decode_row_set)
        fields = {name: found[name][1] for name, _, _ in self._fields}
        modified = metadata.modified_rows
        if any(found[number] is not known[number] for number in range(len(self._nodes))):
            modified = tuple([found[number][1] for number in self._modified])
        read = UpdateMetadata(
            first_seq=first_seq,
            last_seq=last_seq,
            is_snapshot=metadata.is_snapshot,
            effective_reverse_viewport=metadata.effective_reverse_viewport,
            modified_rows=modified,
            table_size=table_size,
            num_add_batches=metadata.num_add_batches,
            num_mod_batches=metadata.num_mod_batches,
            **fields,
        )
        self._values = (read, found)
        return read


def _value(known: tuple[bytes, Any], data: bytes, decode: Callable[[bytes], Any]) -> tuple[bytes, Any]:
    """Return the bytes and the value of a vector, decoded if the bytes are new."""
    return known if known[0] == data else (data, decode(data))
