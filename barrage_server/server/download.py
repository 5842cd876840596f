"""One DoGet stream: the batches of one version, without copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from barrage_server.engine import TableVersion
from barrage_server.errors import BarrageError
from barrage_server.server.hub import Hub
from barrage_server.server.translate import guarded

__all__ = ["Download", "parts"]

_MESSAGE_BYTES = 4 << 20
# Batches that are views of what is stored are made so many at a time: sending one throws what makes the next one out of
# the processor's caches.
_AHEAD = 32


class Download:
    """Batches that Flight fetches one by one from its own thread, after the handler has returned.

    It holds its version, so what is read does not change, and it is watched like every other stream.
    """

    kind = "download"

    def __init__(self, hub: Hub, peer: str, version: TableVersion, schema: pa.Schema) -> None:
        self.peer = peer
        self._hub = hub
        self._version = version.detached()  # a slow reader must not keep later history alive
        self._schema = schema
        self._fetched: float | None = None
        self._ending: BarrageError | None = None

    def reader(self) -> pa.RecordBatchReader:
        """The stream of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, guarded(self._batches(), "reading a table", self.peer))

    def overdue(self, now: float) -> str | None:
        """Why the connection should be ended now."""
        if self._ending is not None:
            return str(self._ending)
        since, limit = self._fetched, self._hub.limits.slow_client_seconds
        if since is not None and now - since >= limit:
            return f"the client did not take a batch for {now - since:.1f} s"
        return None

    def end(self, error: BarrageError) -> None:
        """Have no more batches sent."""
        self._ending = error

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self._hub.streams.admit(self)
        try:
            batches = (self._as_announced(part) for batch in self._version.batches() for part in parts(batch))
            ahead = 1
            while ready := tuple(islice(batches, ahead)):
                ahead = _AHEAD if self._version.is_frozen else 1
                for batch in ready:
                    if self._ending is not None:
                        raise self._ending
                    self._fetched = self._hub.clock()
                    yield batch
        finally:
            self._hub.streams.release(self)

    def _as_announced(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the stream's schema, which calls every column nullable. Nothing is copied."""
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)


def parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of about ``_MESSAGE_BYTES``: many clients take no large messages, and none takes more than 2 GiB."""
    count = min(batch.num_rows, -(-batch.nbytes // _MESSAGE_BYTES))
    if count <= 1:
        yield batch
        return
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
