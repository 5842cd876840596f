"""The raw client: a DoExchange stream whose messages are only counted.

It is the same for this project's server and for Deephaven's, so that the client is not what is measured.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.rowset import RowSet
from barrage_server.wire.metadata import UpdateMetadata, decode_message
from barrage_server.wire.requests import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.resume import RESUME_HEADER, ResumePoint, lineage_of
from benchmarks import data

__all__ = ["Exchange", "Receiver", "connect", "options_for"]

_ANONYMOUS: Final = (b"authorization", b"Anonymous")
DPHN: Final = b"dphn"


def connect(port: int) -> flight.FlightClient:
    """A connection of its own."""
    return flight.FlightClient(f"grpc://127.0.0.1:{port}", generic_options=[("grpc.use_local_subchannel_pool", 1)])


def options_for(*, deephaven: bool) -> flight.FlightCallOptions:
    """Options of a call: Deephaven requires a header for an anonymous log-in."""
    return flight.FlightCallOptions(headers=[_ANONYMOUS] if deephaven else [])


class Exchange:
    """One subscription.

    Args:
        client: a connection.
        table: the name of the table.
        interval_ms: the least time between two updates.
        deephaven: whether the server is Deephaven's. It is asked for the nulls that its own clients ask for.
        viewport: first row and number of rows; None: the whole table.
        resume: the header that says from where the client goes on, or asks; None: no header.
    """

    def __init__(
        self,
        client: flight.FlightClient,
        table: str,
        interval_ms: int,
        *,
        deephaven: bool,
        viewport: tuple[int, int] | None = None,
        resume: str | None = None,
    ) -> None:
        self._last: flight.FlightStreamChunk | None = None
        self._ticket = f"s/{table}".encode()
        self._options = SubscriptionOptions(
            use_deephaven_nulls=deephaven, columns_as_list=True, min_update_interval_ms=interval_ms
        )
        descriptor = flight.FlightDescriptor.for_command(DPHN)
        options = options_for(deephaven=deephaven)
        if resume is not None:
            options = flight.FlightCallOptions(headers=[(RESUME_HEADER.encode(), resume.encode())])
        self._writer, self._reader = client.do_exchange(descriptor, options)
        self.show(viewport)

    def show(self, viewport: tuple[int, int] | None) -> None:
        """Ask for other rows."""
        self._writer.write_metadata(self.request(viewport)[0])

    def request(self, viewport: tuple[int, int] | None) -> tuple[bytes, RowSet | None]:
        """The message that asks for rows, and the positions that it asks for."""
        rows = None if viewport is None else RowSet.from_range(viewport[0], viewport[0] + viewport[1] - 1)
        return SubscriptionRequest(self._ticket, viewport=rows, options=self._options).encode(), rows

    def move(self, request: tuple[bytes, RowSet | None]) -> float:
        """Request another window, and return the seconds until its rows arrive.

        Whatever else arrives meanwhile is read as well, such as changes of what was in view before.
        """
        message, wanted = request
        begin = time.perf_counter()
        self._writer.write_metadata(message)
        while True:
            chunk = self._reader.read_chunk()
            arrived = time.perf_counter()
            metadata = _metadata(chunk)
            if metadata is not None and metadata.is_snapshot and metadata.effective_viewport == wanted:
                missing = metadata.included_rows.size - _rows(chunk)
                while missing > 0:
                    missing -= _rows(self._reader.read_chunk())
                    arrived = time.perf_counter()
                return arrived - begin

    def first_content(self, rows: int) -> int:
        """Read until a number of rows have come; returns their bytes."""
        seen = received = 0
        while seen < rows:
            chunk = self._reader.read_chunk()
            if chunk.app_metadata is not None:
                self._last = chunk  # decoded later: it takes long for many scattered rows
            seen += _rows(chunk)
            received += _nbytes(chunk)
        return received

    @property
    def last(self) -> UpdateMetadata:
        """The metadata of the last message that :meth:`first_content` has read."""
        metadata = None if self._last is None else _metadata(self._last)
        assert metadata is not None
        return metadata

    @property
    def point(self) -> str:
        """The header of a client that goes on from what :meth:`first_content` has read."""
        return ResumePoint(lineage_of(self._reader.schema), self.last.last_seq).encode()

    def read(self) -> flight.FlightStreamChunk:
        """The next message; waits for it."""
        return self._reader.read_chunk()

    def cancel(self) -> None:
        """End the stream, from any thread."""
        self._reader.cancel()

    def close(self) -> None:
        """End the stream, and return when the server has ended it."""
        self.cancel()
        with suppress(flight.FlightError, pa.ArrowException):
            self._writer.close()


@dataclass(slots=True)
class Received:
    """The received messages.

    Of each: its time (seconds since 1970), rows, oldest and youngest write, and bytes.
    """

    at: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    oldest: list[float] = field(default_factory=list)
    youngest: list[float] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    updates: list[bool] = field(default_factory=list)


class Receiver:
    """Receives a subscription on a thread of its own, and keeps what arrives when.

    Args:
        exchange: the subscription.
        stamps: whether to look at the times at which rows were written.
    """

    def __init__(self, exchange: Exchange, *, stamps: bool = True) -> None:
        self._exchange, self._stamps = exchange, stamps
        self.received = Received()
        self.error: BaseException | None = None
        self._seen = self._counted = 0
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Receive no more."""
        self._exchange.cancel()
        self._thread.join(10)

    def has_caught_up(self, rows: int, fresh: float) -> bool:
        """Whether ``rows`` rows have arrived, and the last message is recent.

        It is no older than ``fresh`` seconds.
        """
        received = self.received
        count = len(received.updates)
        if self.error is not None or not count:
            return self.error is not None
        self._seen += sum(received.rows[self._counted : count])
        self._counted = count
        return self._seen >= rows and received.at[count - 1] - received.youngest[count - 1] < fresh

    def between(self, begin: float, end: float) -> Window:
        """What has arrived from ``begin`` to ``end``."""
        received = self.received
        count = len(received.updates)  # the list that is appended to last
        at = np.array(received.at[:count])
        chosen = (at >= begin) & (at < end)
        return Window(
            at=at[chosen],
            rows=np.array(received.rows[:count])[chosen],
            oldest=np.array(received.oldest[:count])[chosen],
            youngest=np.array(received.youngest[:count])[chosen],
            nbytes=np.array(received.nbytes[:count])[chosen],
            updates=np.array(received.updates[:count], bool)[chosen],
        )

    def _run(self) -> None:
        received = self.received
        try:
            while True:
                chunk = self._exchange.read()
                now = time.time()
                if chunk.data is None:
                    continue
                received.at.append(now)
                received.rows.append(_rows(chunk))
                oldest, youngest = _stamps(chunk) if self._stamps else (now, now)
                received.oldest.append(oldest)
                received.youngest.append(youngest)
                received.nbytes.append(_nbytes(chunk))
                received.updates.append(chunk.app_metadata is not None)
        except StopIteration:
            return
        except (flight.FlightError, pa.ArrowException) as error:
            self.error = error


@dataclass(frozen=True, slots=True)
class Window:
    """What a receiver got within some time; see :class:`Received`."""

    at: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    oldest: npt.NDArray[np.float64]
    youngest: npt.NDArray[np.float64]
    nbytes: npt.NDArray[np.int64]
    updates: npt.NDArray[np.bool_]

    @property
    def ages(self) -> npt.NDArray[np.float64]:
        """How old the youngest row of each message with rows was on arrival, in seconds."""
        return (self.at - self.youngest)[self.rows > 0]

    @property
    def update_times(self) -> npt.NDArray[np.float64]:
        """When the first message of each update came."""
        return self.at[self.updates]


def _metadata(chunk: flight.FlightStreamChunk) -> UpdateMetadata | None:
    if chunk.app_metadata is None:
        return None
    decoded = decode_message(chunk.app_metadata.to_pybytes())
    return decoded if isinstance(decoded, UpdateMetadata) else None


def _column(chunk: flight.FlightStreamChunk, number: int) -> Any:
    """The cells of a column that came as a list."""
    return chunk.data.column(number).values


def _rows(chunk: flight.FlightStreamChunk) -> int:
    """The cells of the price, which each row that is sent has."""
    return 0 if chunk.data is None or not chunk.data.num_rows else len(_column(chunk, data.PRICE))


def _nbytes(chunk: flight.FlightStreamChunk) -> int:
    """Bytes of metadata and cells.

    Their framing, some hundred bytes per message, is left out.
    """
    metadata = 0 if chunk.app_metadata is None else chunk.app_metadata.size
    return metadata + (0 if chunk.data is None else chunk.data.get_total_buffer_size())


def _stamps(chunk: flight.FlightStreamChunk) -> tuple[float, float]:
    """The oldest and the youngest time at which a row was written."""
    if not _rows(chunk):
        return (np.inf, -np.inf)
    price = _column(chunk, data.PRICE).to_numpy(zero_copy_only=False)
    return float(price.min()), float(price.max())
