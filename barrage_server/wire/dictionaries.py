"""Decoding streams of batches that refer to dictionaries, by pyarrow."""

from __future__ import annotations

import io
from collections import deque

import pyarrow as pa
from pyarrow import types

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.wire.arrow_message import BatchHeader, encapsulated
from barrage_server.wire.raw import check_decompressed_size

__all__ = ["DictionaryDecoder", "has_dictionaries", "survives_streams"]


def survives_streams(data_type: pa.DataType) -> bool:
    """Whether pyarrow writes streams of this type whose batches can all be read.

    pyarrow misses some changes of a dictionary in a dictionary. It reads a dictionary of an extension type as an
    extension type stored as a dictionary, which most extension types do not allow.
    """
    return _survives(data_type, within=False)


def _survives(data_type: pa.DataType, *, within: bool) -> bool:
    if isinstance(data_type, pa.BaseExtensionType):
        return _survives(data_type.storage_type, within=within)
    if types.is_dictionary(data_type):
        values = data_type.value_type
        return not within and not isinstance(values, pa.BaseExtensionType) and _survives(values, within=True)
    if types.is_run_end_encoded(data_type):
        return _survives(data_type.value_type, within=within)
    return all(_survives(data_type.field(number).type, within=within) for number in range(data_type.num_fields))


def has_dictionaries(data_type: pa.DataType) -> bool:
    """Whether a type has a dictionary type at any depth."""
    if isinstance(data_type, pa.BaseExtensionType):
        return has_dictionaries(data_type.storage_type)
    if types.is_run_end_encoded(data_type):
        return has_dictionaries(data_type.value_type)
    fields = (data_type.field(number).type for number in range(data_type.num_fields))
    return bool(types.is_dictionary(data_type)) or any(map(has_dictionaries, fields))


class DictionaryDecoder:
    """Decodes the dictionaries and record batches of one stream.

    Args:
        schema_header: header of the stream's first message, with the sender's ids of dictionaries.
        limit: most bytes of a decompressed batch, and of all dictionaries together.
        setting: the name of that limit, for errors.

    """

    def __init__(self, schema_header: bytes, limit: int, setting: str = "put_bytes") -> None:
        self._limit = limit
        self._setting = setting
        self._sizes: dict[int, int] = {}  # bytes, by id of the dictionary
        self._messages = _Messages()
        self._messages.put(encapsulated(schema_header))
        self._reader: pa.RecordBatchStreamReader | None = None

    def add(self, header: bytes | memoryview, body: bytes | memoryview) -> None:
        """Add a dictionary batch.

        Raises:
            WireFormatError: the batch is damaged.
            LimitError: the dictionaries together are too large.

        """
        number, is_continued, values = BatchHeader.of_dictionary(header)
        body, size = self._check_body(values, body)
        self._sizes[number] = size + (self._sizes.get(number, 0) if is_continued else 0)
        # pyarrow reads dictionaries with the next record batch, so waiting bytes count as well.
        if max(sum(self._sizes.values()), self._messages.nbytes + size) > self._limit:
            raise LimitError(
                f"The dictionaries of one stream may have {self._limit:,} bytes ({self._setting}), and these have more."
            )
        self._messages.put(encapsulated(header, (body,)))

    def batch(self, header: bytes | memoryview, body: bytes | memoryview) -> pa.RecordBatch:
        """Decode a record batch, without checking its values.

        Raises:
            WireFormatError: the batch is damaged, or a dictionary is missing.
            LimitError: the batch is too large after decompression.

        """
        body, _ = self._check_body(BatchHeader.decode(header), body)
        self._messages.put(encapsulated(header, (body,)))
        try:
            if self._reader is None:
                self._reader = pa.ipc.open_stream(pa.PythonFile(self._messages, mode="r"))
            return self._reader.read_next_batch()
        except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
            raise WireFormatError("damaged record batch: it does not fit its schema or its dictionaries") from error

    def _check_body(self, batch: BatchHeader, body: bytes | memoryview) -> tuple[bytes | memoryview, int]:
        """Return the body without trailing bytes, and its decompressed size in bytes."""
        if batch.body_length > len(body):
            raise WireFormatError(
                f"damaged record batch: {len(body)} bytes of body where {batch.body_length} are announced"
            )
        body = body[: batch.body_length]
        return body, check_decompressed_size(batch, body, self._limit, self._setting) if batch.compressed else len(body)


class _Messages(io.RawIOBase):
    """A file of the messages that were added and not read yet."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[memoryview] = deque()
        self.nbytes = 0

    def put(self, message: bytes) -> None:
        self._waiting.append(memoryview(message))
        self.nbytes += len(message)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        done = 0
        while self._waiting and done < len(target):
            piece = self._waiting[0]
            part = piece[: len(target) - done]
            target[done : done + len(part)] = part
            done += len(part)
            if len(part) == len(piece):
                self._waiting.popleft()
            else:
                self._waiting[0] = piece[len(part) :]
        self.nbytes -= done
        return done
