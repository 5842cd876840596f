"""A subscriber made of plain pyarrow.flight and the wire room, for tests of the server alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.errors import BarrageError
from barrage_server.flight.errors import decode_end, from_flight
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.tickets import scope_ticket

QUICK = SubscriptionOptions(min_update_interval_ms=1)
DPHN = fl.FlightDescriptor.for_command(b"dphn")


class Follower:
    """Follows a whole table, or what has that ticket, on a thread of its own, keeping its rows by key.

    ``error`` is why the stream ended: what the server has said, or ``None`` after an end without a word.
    """

    def __init__(
        self,
        client: fl.FlightClient,
        name: str,
        options: SubscriptionOptions = QUICK,
        headers: list[tuple[bytes, bytes]] | None = None,
        *,
        ticket: bytes | None = None,
    ) -> None:
        self.messages: list[IncomingMessage] = []
        self.rows: dict[int, list[Any]] = {}
        self.error: BarrageError | None = None
        self.ended = False
        self._changed = threading.Condition()
        self._options = options
        self._writer, self._reader = client.do_exchange(DPHN, fl.FlightCallOptions(headers=headers or []))
        self.send(SubscriptionRequest(ticket or scope_ticket(name), options=options))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def send(self, request: SubscriptionRequest) -> None:
        self._writer.write_metadata(request.encode())

    def half_close(self) -> None:
        self._writer.done_writing()

    def content(self) -> list[list[Any]]:
        """The rows, by key."""
        with self._changed:
            return [self.rows[key] for key in sorted(self.rows)]

    def wait(self, condition: Callable[[Self], Any], timeout: float = 20.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), timeout), "it did not come in time"

    def wait_ended(self, timeout: float = 20.0) -> BarrageError | None:
        self.wait(lambda follower: follower.ended, timeout)
        return self.error

    def cancel(self) -> None:
        self._reader.cancel()

    def close(self) -> None:
        self.cancel()
        self._thread.join(10)
        assert not self._thread.is_alive()
        try:
            self._writer.close()
        except (pa.ArrowException, OSError):
            return  # it repeats how the stream has ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        error: BarrageError | None = None
        try:
            self._follow()
        except StopIteration:
            pass
        except BarrageError as reason:
            error = reason
        except (pa.ArrowException, OSError) as reason:
            error = from_flight(reason)
        with self._changed:
            self.error, self.ended = error, True
            self._changed.notify_all()

    def _follow(self) -> None:
        decoder: MessageReader | None = None
        while True:
            chunk = self._reader.read_chunk()
            metadata = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
            if chunk.data is None:
                reason = decode_end(metadata) if metadata is not None else None
                if reason is not None:
                    self._reader.cancel()
                    raise reason
                continue
            if decoder is None:
                decoder = MessageReader(self._reader.schema, use_deephaven_nulls=self._options.use_deephaven_nulls)
            message = decoder.feed(chunk.data, metadata)
            if message is not None:
                with self._changed:
                    self._apply(message)
                    self.messages.append(message)
                    self._changed.notify_all()

    def _apply(self, message: IncomingMessage) -> None:
        metadata = message.metadata
        for key in metadata.removed_rows.keys().tolist() if metadata.removed_rows else ():
            del self.rows[key]
        shifts = metadata.shift_data
        if shifts is not None and shifts.size:
            moved = shifts.apply_keys(pa.array(sorted(self.rows), pa.int64()).to_numpy()).tolist()
            self.rows = dict(zip(moved, [self.rows[key] for key in sorted(self.rows)], strict=True))
        columns = [column.to_pylist() for column in message.add_columns]
        included = metadata.included_rows.keys().tolist()
        for position, key in enumerate(included):
            self.rows[key] = [values[position] if values else None for values in columns]
        for number, rows in enumerate(metadata.modified_rows or ()):
            for key, value in zip(rows.keys().tolist(), message.mod_columns[number].to_pylist(), strict=True):
                self.rows[key][number] = value
