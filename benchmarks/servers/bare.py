"""The limit: a Flight server that only sends record batches from memory."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as flight

from benchmarks import data
from benchmarks.loop import Loop

ROWS_PER_BATCH = 1 << 16
_METADATA = bytes(300)
"""As long as what is said of a viewport's rows."""


class BareServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Sends the same batches to every caller."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        super().__init__("grpc://127.0.0.1:0")

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        """All of them."""
        reader = pa.RecordBatchReader.from_batches(data.SCHEMA, iter(self.batches))
        return flight.RecordBatchStream(reader)

    def do_exchange(
        self,
        _context: flight.ServerCallContext,
        _descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """Answer each message with the first batch.

        Each column is one list, as in the rows of a viewport.
        """
        columns = [
            pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column)
            for column in self.batches[0].columns
        ]
        answer = pa.RecordBatch.from_arrays(columns, names=data.SCHEMA.names)
        writer.begin(answer.schema)
        while True:
            try:
                reader.read_chunk()
            except StopIteration:
                return
            writer.write_with_metadata(answer, _METADATA)


def _own(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, in memory of its own.

    A table of ten million rows does not fit into the processor's caches.
    """
    return pa.RecordBatch.from_arrays([pa.concat_arrays([column]) for column in batch.columns], schema=batch.schema)


def main() -> None:
    """Serve until standard input ends."""
    loop = Loop()
    server = BareServer()

    @loop.function
    def make(name: str, kind: str, rows: int) -> None:  # the functions of all servers look alike
        del name, kind
        server.batches = [_own(batch) for batch in data.batches(rows, ROWS_PER_BATCH)]

    loop.run(port=server.port)
    server.shutdown()


if __name__ == "__main__":
    main()
