"""One DoGet stream: the batches of one version, without copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.server.open_stream import OpenStream
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import Awaited, StallWatch
from barrage_server.server.translate import guarded
from barrage_server.wire.empty import batch_of

__all__ = ["Download", "DownloadStream", "parts"]

_MESSAGE_BYTES = 1 << 20
# Zero-copy batches made at a time: sending a batch evicts the interpreter's data from the processor's caches.
_AHEAD = 32


class DownloadStream(OpenStream):
    """A DoGet stream at any endpoint.

    It holds one version of its table, so its content does not change.

    Args:
        server_state: the server's state.
        principal: the caller.
        peer: the client's address.
        table: the table whose present version is sent.
        schema: the schema of the stream.
        stall: the watch over the client's progress.

    """

    kind = "download"

    def __init__(
        self,
        server_state: ServerState,
        principal: Principal,
        peer: str,
        table: Table,
        schema: pa.Schema,
        stall: StallWatch,
    ) -> None:
        super().__init__(server_state, principal, peer, stall)
        self._needs = server_state.private.needs(table)
        self.version = table.version.detached()  # a slow reader must not keep later history alive
        self.schema = schema
        self._ending: BarrageError | None = None

    def needs(self) -> Sequence[Need]:
        """The rights to read the tables that the table shows."""
        return self._needs

    def end(self, error: BarrageError) -> None:
        """Stop sending batches."""
        self._ending = error

    def cut(self) -> bool:
        """False: neither Flight nor gRPC can end a call whose client reads nothing."""
        return False

    def check(self) -> None:
        """Raise the error passed to :meth:`end`, if there is one."""
        if self._ending is not None:
            raise self._ending


class Download(DownloadStream):
    """A DoGet stream of Flight, which fetches batches on its own thread.

    Flight fetches them one by one, after the handler has returned.
    """

    def __init__(
        self, server_state: ServerState, principal: Principal, peer: str, table: Table, schema: pa.Schema
    ) -> None:
        super().__init__(server_state, principal, peer, table, schema, StallWatch(server_state.clock))

    def reader(self) -> pa.RecordBatchReader:
        """The stream of batches."""
        return pa.RecordBatchReader.from_batches(
            self.schema, guarded(self._batches(), "reading a table", self.peer, self.facts)
        )

    def overdue(self, now: float) -> str | None:
        """The reason to end the connection now; ``None`` without one.

        A stream that the server ends is overdue at once: its client may not be reading.
        """
        return super().overdue(now) if self._ending is None else str(self._ending)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self.server_state.streams.admit(self)
        try:
            batches = (self._as_announced(part) for batch in self.version.batches() for part in parts(batch))
            ahead = 1
            while ready := tuple(islice(batches, ahead)):
                ahead = _AHEAD if self.version.is_frozen else 1
                for batch in ready:
                    self.check()
                    self.stall.expect(Awaited.TAKE, self.server_state.limits.slow_client_seconds)
                    self.count(1, batch.nbytes)
                    yield batch
        finally:
            self.server_state.streams.release(self)

    def _as_announced(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the stream's schema, in which every column is nullable."""
        return batch_of(batch.columns, batch.num_rows, self.schema)


def parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of about ``_MESSAGE_BYTES``.

    Many clients refuse large messages, and all refuse messages of more than 2 GiB.
    """
    count = min(batch.num_rows, -(-batch.nbytes // _MESSAGE_BYTES))
    if count <= 1:
        yield batch
        return
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
