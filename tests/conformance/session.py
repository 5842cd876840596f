"""One scenario, played through the decoder, two receivers and the encoder."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from barrage_server.client.message_applier import MessageApplier
from barrage_server.engine import UpdateGraph
from barrage_server.errors import BarrageError, WireFormatError
from barrage_server.rowset import RowSet, encode_bit_set
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.arrow_message import RECORD_BATCH, BatchHeader, decode_schema_message, header_type
from barrage_server.wire.metadata import (
    SnapshotRequest,
    SubscriptionOptions,
    SubscriptionRequest,
    UpdateMetadata,
    decode_message,
)
from barrage_server.wire.raw import FlightDataParts, decode_flight_data, decode_ragged_batch
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.schema import is_list_schema, list_schema
from barrage_server.wire.tickets import name_of_ticket
from tests.conformance.cells import cells, is_single, same_cell
from tests.conformance.model import UNKNOWN, Model
from tests.conformance.rewriting import CapturedUpdate, differences
from tests.conformance.vectors import CapturedMessage, Scenario, Step, rows_of

# Manifest names of request options, and ours. An option of another name is not compared.
_OPTIONS = {
    "interval": "min_update_interval_ms",
    "min_update_interval_ms": "min_update_interval_ms",
    "dh_nulls": "use_deephaven_nulls",
    "use_deephaven_nulls": "use_deephaven_nulls",
    "batch_size": "batch_size",
    "max_message_size": "max_message_size",
    "columns_as_list": "columns_as_list",
    "preview_list_length_limit": "preview_list_length_limit",
}
_SNAPSHOT_ONLY_PLAIN = {"interval", "min_update_interval_ms", "columns_as_list"}


class Session:
    """Plays a scenario; whatever does not fit is a text in ``problems``."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.problems: list[str] = []
        self.requests: list[SubscriptionRequest | SnapshotRequest] = []
        self.refused: list[str] = []
        self.exact_requests = 0
        self.updates = 0
        self.batches = 0
        self.checked_steps = 0
        self._schema: pa.Schema | None = None
        self._reader: MessageReader | None = None
        self._model: Model | None = None
        self._applier: MessageApplier | None = None
        self._captured: CapturedUpdate | None = None
        self._options = SubscriptionOptions()

    def summary(self) -> str:
        """What was checked, for people."""
        exact = f"{self.exact_requests} of {len(self.requests)} requests byte-exact"
        text = f"{exact}, {self.updates} updates in {self.batches} batches, {self.checked_steps} steps"
        return f"{text}, refused: {'; '.join(self.refused)}" if self.refused else text

    def run(self) -> None:
        """Go through all messages and steps."""
        for number, message in enumerate(self.scenario.messages):
            try:
                if message.outgoing:
                    self._outgoing(message, number)
                else:
                    self._incoming(message)
            except (BarrageError, ValueError, KeyError, TypeError) as error:
                self._problem(f"{message.name}: {type(error).__name__}: {error}")
                return
            for step in self.scenario.steps:
                if step.messages_so_far == number + 1:
                    self._check_step(step)
        if self._reader is not None and not self._reader.is_complete:
            self._problem("the stream ends within an update")
        self._compare_requests()

    def _problem(self, text: str) -> None:
        self.problems.append(text)

    # Requests.

    def _outgoing(self, message: CapturedMessage, number: int) -> None:
        if self.scenario.is_download:
            if number == 0:
                self._check_ticket(_ticket_of(message.data), message.name)
            return
        parts = decode_flight_data(message.data)
        self._check_fields(message, parts)
        if parts.app_metadata is None:
            return
        try:
            request = decode_message(parts.app_metadata)
        except WireFormatError as error:
            # The captured server must have refused, or ignored, what we refuse: see _incoming.
            self.refused.append(str(error).split(";")[0])
            return
        again = request.encode()
        if decode_message(again) != request:
            self._problem(f"{message.name}: the request does not survive encoding")
        self.exact_requests += again == parts.app_metadata
        if isinstance(request, (SubscriptionRequest, SnapshotRequest)):
            self.requests.append(request)
            self._options = request.options
            self._check_ticket(request.ticket, message.name)
        elif isinstance(request, UpdateMetadata):
            self._problem(f"{message.name}: an update where a request was expected")

    def _check_ticket(self, ticket: bytes, name: str) -> None:
        expected = self.scenario.manifest.get("ticket")
        table = self.scenario.manifest.get("table")
        if not table or not expected:
            return
        if ticket != expected.encode() or (expected.startswith("s/") and name_of_ticket(ticket) != table):
            self._problem(f"{name}: ticket {ticket!r} instead of {expected!r}")

    def _compare_requests(self) -> None:
        """Requests in order against the steps' requests in order; a step without one repeats nothing."""
        wanted = [step.request for step in self.scenario.steps if step.request is not None]
        if len(wanted) != len(self.requests):
            # Scenarios about defaults or errors do not write their requests down.
            return
        for request, facts in zip(self.requests, wanted, strict=True):
            is_snapshot = isinstance(request, SnapshotRequest)
            if is_snapshot != str(facts.get("kind", "sub")).startswith("snap"):
                self._problem(f"a request of kind {facts.get('kind')!r} reads as {type(request).__name__}")
            for name, value in (facts.get("options") or {}).items():
                self._compare_option(request, name, value)

    def _compare_option(self, request: SubscriptionRequest | SnapshotRequest, name: str, value: Any) -> None:
        got: Any
        if name == "columns":
            got, value = request.columns, None if value is None else tuple(sorted(value))
        elif name == "viewport":
            got, value = request.viewport, rows_of(value)
        elif name in ("reverse", "reverse_viewport"):
            got = request.reverse_viewport
        elif name in ("token", "subscription_token") and isinstance(request, SubscriptionRequest):
            token = request.subscription_token
            got = None if token is None else token.decode("latin-1")
        elif name in _OPTIONS and not (isinstance(request, SnapshotRequest) and name in _SNAPSHOT_ONLY_PLAIN):
            got = getattr(request.options, _OPTIONS[name])
        else:
            return
        if got != value:
            self._problem(f"request option {name} reads as {got!r} instead of {value!r}")

    # The server's messages.

    def _incoming(self, message: CapturedMessage) -> None:
        if not self.scenario.has_updates:
            return
        if self.refused and not self.requests:
            self._problem(f"{message.name}: the server answered what we refuse: {self.refused[-1]}")
        parts = decode_flight_data(message.data)
        self._check_fields(message, parts)
        if self._schema is None:
            self._start(decode_schema_message(parts.data_header))
            return
        if header_type(parts.data_header) != RECORD_BATCH:
            self._problem(f"{message.name}: header type {header_type(parts.data_header)} is not a record batch")
            return
        header = BatchHeader.decode(parts.data_header)
        body = bytes(parts.data_body or b"")
        self._check_header(message, header)
        columns = decode_ragged_batch(parts.data_header, body, self._schema)
        self.batches += 1
        if parts.app_metadata is not None:
            self._captured = CapturedUpdate(parts.app_metadata)
            self._check_metadata(message, parts.app_metadata)
        assert self._reader is not None and self._captured is not None
        self._captured.headers.append(header)
        self._captured.bodies.append(body)
        self._captured.arrays.append(columns)
        update = self._reader.feed_columns(columns, header.length, parts.app_metadata)
        if update is not None:
            self._complete(update, message.name)

    def _start(self, schema: pa.Schema) -> None:
        self._schema = schema
        if self.requests and is_list_schema(schema) != self._options.columns_as_list:
            self._problem(f"columns_as_list is {self._options.columns_as_list}, the schema says otherwise")
        self._reader = MessageReader(schema, use_deephaven_nulls=self._options.use_deephaven_nulls)
        plain = self._reader.schema
        if is_list_schema(schema) and not list_schema(plain).equals(schema, check_metadata=True):
            self._problem("our list form of the schema is another")
        self._model = Model(plain)
        window = self._window()
        dialect = Dialect.FLATTENED if self._has_viewport() else Dialect.KEY_SPACE
        self._applier = MessageApplier(plain, window, dialect=dialect, graph=UpdateGraph(), name="replayed")

    def _complete(self, update: IncomingMessage, name: str) -> None:
        assert self._reader is not None and self._captured is not None
        assert self._model is not None and self._applier is not None
        self.updates += 1
        for difference in differences(update, self._captured, self._reader.schema, self._options):
            self._problem(f"{name}: {difference}")
        self._model.apply(update, has_viewport=self._has_viewport())
        self._applier.apply(update)

    def _check_fields(self, message: CapturedMessage, parts: FlightDataParts) -> None:
        """Which protobuf fields are there."""
        expected = message.facts.get("pb_fields")
        present = {1: parts.descriptor, 2: parts.data_header or None, 3: parts.app_metadata, 1000: parts.data_body}
        got = [number for number, value in present.items() if value is not None]
        if expected is not None and got != sorted(expected):
            self._problem(f"{message.name}: FlightData fields {got} instead of {expected}")

    def _check_header(self, message: CapturedMessage, header: BatchHeader) -> None:
        facts = message.facts.get("header") or {}
        nodes = memoryview(bytes(header.nodes)).cast("q").tolist()
        got = {
            "length": header.length,
            "bodyLength": header.body_length,
            "nodes": [nodes[at : at + 2] for at in range(0, len(nodes), 2)],
            "compression": header.compressed,
        }
        for name, value in got.items():
            if name in facts and facts[name] != value:
                self._problem(f"{message.name}: {name} reads as {value} instead of {facts[name]}")

    def _check_metadata(self, message: CapturedMessage, app_metadata: bytes) -> None:
        facts = message.facts.get("update")
        metadata = decode_message(app_metadata)
        if not isinstance(metadata, UpdateMetadata):
            self._problem(f"{message.name}: app_metadata reads as {type(metadata).__name__}")
            return
        if not facts:
            return
        columns = metadata.effective_column_set
        modified = metadata.modified_rows
        shifts = metadata.shift_data
        got = {
            "first_seq": metadata.first_seq,
            "last_seq": metadata.last_seq,
            "is_snapshot": metadata.is_snapshot,
            "effective_viewport": _ranges(metadata.effective_viewport),
            "effective_reverse_viewport": metadata.effective_reverse_viewport,
            "effective_column_set": None if columns is None else encode_bit_set(columns).hex(),
            "added_rows": _ranges(metadata.added_rows),
            "removed_rows": _ranges(metadata.removed_rows),
            "added_rows_included": _ranges(metadata.added_rows_included),
            "shift_data": None if shifts is None else [[a, b, a + delta] for a, b, delta in shifts],
            "mods": None if modified is None else [_ranges(rows) for rows in modified],
        }
        for name, value in got.items():
            if name in facts and facts[name] != value:
                self._problem(f"{message.name}: {name} reads as {value} instead of {facts[name]}")
        if "table_size" in facts and (facts["table_size"] or 0) != metadata.table_size:
            self._problem(f"{message.name}: table_size reads as {metadata.table_size} instead of {facts['table_size']}")

    # Contents.

    def _has_viewport(self) -> bool:
        """Whether this is a subscription with a viewport, whose rows a Deephaven server flattens."""
        request = self.requests[-1] if self.requests else None
        return isinstance(request, SubscriptionRequest) and request.viewport is not None

    def _window(self) -> Window:
        count = len(self._reader.schema) if self._reader is not None else 0
        request = self.requests[-1] if self.requests else None
        if request is None:
            return Window(tuple(range(count)))
        columns = tuple(range(count)) if request.columns is None else request.columns
        return Window(columns, request.viewport, request.reverse_viewport)

    def _check_step(self, step: Step) -> None:
        expected = step.expected
        if expected is None or self._model is None or self._applier is None or self._reader is None:
            return
        self.checked_steps += 1
        size = int(expected["num_rows"])
        window, schema = self._window(), self._reader.schema
        positions = _positions(window, size)
        is_subscription = bool(self.requests) and isinstance(self.requests[-1], SubscriptionRequest)
        if is_subscription and self._model.table_size != size:
            self._problem(f"{step.note!r}: table_size {self._model.table_size} instead of {size}")
        if is_subscription and (self._model.viewport != window.positions or self._model.reverse != window.reverse):
            self._problem(f"{step.note!r}: the viewport in effect is {self._model.viewport}")
        if self._model.columns is not None and self._model.columns != window.columns:
            self._problem(f"{step.note!r}: the columns in effect are {self._model.columns}")
        self._check_types(step, schema)
        seen = self._model.in_view(positions) if is_subscription or window.is_full else self._model.in_order()
        if not is_subscription and not window.is_full:
            # A snapshot names all rows and brings some.
            seen = [row for row in seen if any(row[column] is not UNKNOWN for column in window.columns)]
        table = self._applier.table.version.to_table()
        if len(seen) != len(positions) or table.num_rows != len(positions):
            self._problem(
                f"{step.note!r}: the model has {len(seen)} rows and the replica {table.num_rows}, not {len(positions)}"
            )
            return
        for column in window.columns:
            field = schema.field(column)
            if field.name not in expected["columns"]:
                self._problem(f"{step.note!r}: column {field.name!r} is not expected at all")
                continue
            wanted = [self._shortened(expected["columns"][field.name][position]) for position in positions]
            single = is_single(field.type)
            for what, values in (
                ("model", [row[column] for row in seen]),
                ("replica", cells(table.column(table.schema.get_field_index(field.name)))),
            ):
                for position, got, cell in zip(positions, values, wanted, strict=True):
                    if not same_cell(got, cell, single=single):
                        place = f"row {position}, column {field.name!r}"
                        self._problem(f"{step.note!r}: {place} of the {what} is {got!r} instead of {cell!r}")
                        break

    def _check_types(self, step: Step, schema: pa.Schema) -> None:
        wanted = (step.expected or {}).get("types") or {}
        got = {field.name: str(field.type) for field in schema}
        if wanted and got != wanted:
            self._problem(f"{step.note!r}: types {got} instead of {wanted}")

    def _shortened(self, cell: Any) -> Any:
        limit = self._options.preview_list_length_limit
        if limit == 0 or not isinstance(cell, list):
            return cell
        return cell[:limit] if limit > 0 else cell[limit:]


def _positions(window: Window, size: int) -> list[int]:
    """Positions in a table of ``size`` rows that the window shows, in table order."""
    if window.positions is None:
        return list(range(size))
    inside = [position for position in window.positions.keys().tolist() if position < size] if size else []
    return sorted(size - 1 - position for position in inside) if window.reverse else inside


def _ranges(rows: RowSet | None) -> list[list[int]] | None:
    if rows is None:
        return None
    starts, ends = rows.ranges()
    return [[int(start), int(end)] for start, end in zip(starts, ends, strict=True)]


def _ticket_of(data: bytes) -> bytes:
    """The only field of a Ticket message: tag, length, bytes."""
    size, at, shift = 0, 1, 0
    while True:
        size |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            break
    if data[:1] != b"\x0a" or at + size != len(data):
        raise ValueError("the first message of a download is no Ticket")
    return data[at:]
