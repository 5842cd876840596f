"""The intake of foreign Arrow data: batches are checked, measured and made plain.

No later code can fail because of the layout or the encoding of values.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.wire.empty import batch_of
from barrage_server.wire.one_list import OneListReader
from barrage_server.wire.plain_form import to_plain
from barrage_server.wire.plain_size import held_size, plain_size
from barrage_server.wire.plain_type import plain_type
from barrage_server.wire.schema import is_list_schema
from barrage_server.wire.soundness import check_batch, check_readable, check_schema

__all__ = ["MOST_BATCH_BYTES", "Intake"]

MOST_BATCH_BYTES: Final = 1 << 31
"""Most bytes of one batch in plain form: the capacity of one message without encodings."""


class Intake:
    """Checks and converts the batches of one stream.

    Args:
        schema: the schema of the stream.
        limit: most bytes of all batches together, until :meth:`reset`; None bounds each batch only.
        refusal: text of the error beyond ``limit``.
        left_out: numbers of columns to ignore.

    Attributes:
        schema: the schema of the plain batches.
        nbytes: bytes taken since the start, or since :meth:`reset`.

    Raises:
        WireFormatError: the schema is damaged.
        UnsupportedTypeError: tables cannot hold one of its types.

    """

    def __init__(
        self, schema: pa.Schema, limit: int | None = None, refusal: str = "", left_out: Collection[int] = ()
    ) -> None:
        check_schema(schema)
        for number, field in enumerate(schema):
            if number not in left_out:
                check_readable(field.type)
        self.nbytes = 0
        self._one_list: OneListReader | None = None
        if limit is None and not left_out and is_list_schema(schema):
            self._one_list = OneListReader(schema)
        self._limit = limit
        self._refusal = refusal
        self._left_out = frozenset(left_out)
        self.schema: pa.Schema = pa.schema(
            [
                field if number in self._left_out else field.with_type(plain_type(field.type))
                for number, field in enumerate(schema)
            ],
            metadata=schema.metadata,
        )

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert ``batch`` to plain form.

        Raises:
            WireFormatError: the batch is damaged.
            LimitError: a limit is exceeded.

        """
        return batch_of(self.take_columns(batch), batch.num_rows, self.schema)

    def take_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Convert ``batch`` to columns in plain form. Raises what :meth:`take` does."""
        given = check_batch(batch, self._left_out)
        if len(given) != len(self.schema):
            raise WireFormatError(f"a record batch of {len(given)} columns; the schema has {len(self.schema)}")
        seen = [column for number, column in enumerate(given) if number not in self._left_out]
        size = sum(map(plain_size, seen))
        if size > MOST_BATCH_BYTES:
            raise LimitError(
                f"A batch of {size:,} bytes when decoded is more than the {MOST_BATCH_BYTES:,} "
                f"that one message may carry. Send smaller batches."
            )
        self._count(size)
        try:
            columns = [
                column if number in self._left_out else to_plain(column, field.type)
                for number, (column, field) in enumerate(zip(given, self.schema, strict=True))
            ]
        except pa.ArrowException as error:
            raise WireFormatError("A record batch cannot be brought to plain form.") from error
        if self._limit is not None:
            self._count(max(0, held_size(columns) - size))
        return columns

    def take_values(self, batch: pa.RecordBatch) -> list[pa.Array] | None:
        """Return the values of each column of a batch with one list per column.

        This is the fast path for most updates. ``None`` for another batch, or where there is a limit: use
        :meth:`take_columns`.
        """
        found = None if self._one_list is None else self._one_list.read(batch)
        if found is None or found[1] > MOST_BATCH_BYTES:
            return None
        self._count(found[1])
        return found[0]

    def reset(self) -> None:
        """Restart the count at zero, after the caller has stored the batches."""
        self.nbytes = 0

    def _count(self, nbytes: int) -> None:
        if self._limit is not None and self.nbytes + nbytes > self._limit:
            raise LimitError(self._refusal)
        self.nbytes += nbytes
