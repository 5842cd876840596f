"""The page's code reads what a real Deephaven server sent: its metadata, and the rows in view."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.rowset import RowSet, encode_row_set
from barrage_server.wire.arrow_message import BatchHeader, decode_schema_message, encapsulated
from barrage_server.wire.batches import MessageWriter, OutgoingMessage
from barrage_server.wire.families import ClientFamily, FamilyColumns
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest, decode_message
from barrage_server.wire.raw import decode_flight_data, decode_ragged_batch
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.wrapper import unwrap
from tests.conformance.cells import is_single, same_cell
from tests.conformance.rewriting import outgoing_of
from tests.conformance.vectors import CapturedMessage, Scenario, Step, scenario_directories
from tests.web.frames import FURTHER_FRAME, LIMITS, SCHEMA_FRAME, UPDATE_FRAME, columns_of, frame
from tests.web.node import answer

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
SCENARIOS = [Scenario.load(directory) for directory in scenario_directories([GOLDEN])]


def update_messages() -> Iterator[tuple[dict[str, Any], bytes]]:
    """What the manifest says about each update, and its metadata."""
    for scenario in SCENARIOS:
        for message in scenario.messages:
            if not message.outgoing and message.facts.get("update"):
                parts = decode_flight_data(message.data)
                assert parts.app_metadata is not None
                yield message.facts["update"], bytes(unwrap(parts.app_metadata)[1])


def test_metadata_are_read_as_the_manifests_say(tmp_path: Path) -> None:
    """But for those of shifts, and of rows without data, which a page is not sent and refuses."""
    messages = list(update_messages())
    question = {"rowSets": [], "metadata": [base64.b64encode(data).decode() for _, data in messages], "texts": []}
    found = answer("decode", question, tmp_path)["metadata"]
    refused = 0
    for (facts, _), got in zip(messages, found, strict=True):
        if facts["shift_data"] or facts["added_rows_included"] not in (None, facts["added_rows"]):
            assert "error" in got
            refused += 1
            continue
        columns = facts["effective_column_set"]
        bits = None if columns is None else int.from_bytes(bytes.fromhex(columns), "little")
        assert got == {
            "step": facts["last_seq"],
            "isSnapshot": facts["is_snapshot"],
            "viewport": facts["effective_viewport"],
            "reverse": facts["effective_reverse_viewport"],
            "columns": None if bits is None else [number for number in range(bits.bit_length()) if bits >> number & 1],
            "added": facts["added_rows"] or [],
            "removed": facts["removed_rows"] or [],
            "modified": facts["mods"] or [],
            "size": facts["table_size"] or 0,
        }
    assert refused < len(found) // 2 and len(found) > 100


class Page:
    """A scenario as a page would be sent it: metadata as captured, values as lists in the page's types."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.request = SubscriptionRequest(b"")
        self.frames: list[bytes] = []
        self.looks: list[int] = []
        self.checks: list[tuple[Step, SubscriptionRequest]] = []
        self.is_flat = True
        self.schema = pa.schema([])
        self._reader: MessageReader | None = None
        self._metadata = b""
        for number, message in enumerate(scenario.messages):
            self._play(message)
            for step in scenario.steps:
                if step.messages_so_far == number + 1:
                    self._look(step)

    def _play(self, message: CapturedMessage) -> None:
        parts = decode_flight_data(message.data)
        if message.outgoing:
            if parts.app_metadata is not None:
                self._ask(decode_message(parts.app_metadata))
        elif self._reader is None:
            self._begin(decode_schema_message(parts.data_header))
        else:
            header = BatchHeader.decode(parts.data_header)
            columns = decode_ragged_batch(parts.data_header, bytes(parts.data_body or b""), self._on_the_wire)
            self._take(self._reader.feed_columns(columns, header.length, parts.app_metadata), parts.app_metadata)

    def _look(self, step: Step) -> None:
        if step.expected is not None and self.frames:
            self.looks.append(len(self.frames) - 1)
            self.checks.append((step, self.request))

    def _ask(self, request: object) -> None:
        assert isinstance(request, SubscriptionRequest)
        self.request = request

    def _begin(self, schema: pa.Schema) -> None:
        self._on_the_wire = schema
        self._reader = MessageReader(schema, use_deephaven_nulls=self.request.options.use_deephaven_nulls)
        self.schema = self._reader.schema
        self._view = FamilyColumns.of(self.schema, ClientFamily.BROWSER)
        options = SubscriptionOptions(columns_as_list=True, batch_size=-1)
        self._writer = MessageWriter(self._view.schema, options)
        self.frames.append(frame(SCHEMA_FRAME, b"", self._writer.schema.serialize().to_pybytes()))

    def _take(self, update: IncomingMessage | None, app_metadata: bytes | None) -> None:
        if app_metadata is not None:
            self._metadata = bytes(unwrap(app_metadata)[1])
        if update is None:
            return
        facts = update.metadata
        self.is_flat &= not facts.shift_data and (facts.added_rows_included in (None, facts.added_rows))
        if self.request.viewport is None:
            rows = facts.included_rows
            self.is_flat &= not facts.removed_rows and (not rows or rows.last_key + 1 == facts.table_size)
        kind = UPDATE_FRAME
        for header, _, body in self._writer.ipc_messages(self._converted(outgoing_of(update))):
            self.frames.append(frame(kind, self._metadata if kind == UPDATE_FRAME else b"", encapsulated(header, body)))
            kind = FURTHER_FRAME

    def _converted(self, message: OutgoingMessage) -> OutgoingMessage:
        convert = self._view.convert
        return replace(
            message,
            read_adds=lambda start, stop: [
                convert(number, array) for number, array in enumerate(message.read_adds(start, stop))
            ],
            read_mods=lambda column, start, stop: convert(column, message.read_mods(column, start, stop)),
        )

    def case(self) -> dict[str, Any]:
        return {
            "columns": columns_of(self.schema),
            "limits": LIMITS,
            "frames": [base64.b64encode(data).decode() for data in self.frames],
            "looks": self.looks,
        }


def untagged(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kind, _, rest = value.partition(" ")
    if kind == "int":
        return int(rest)
    if kind == "float":
        number = float("nan") if rest == "nan" else struct.unpack(">d", bytes.fromhex(rest))[0]
        return (
            "NaN"
            if number != number
            else "inf"
            if number == float("inf")
            else "-inf"
            if -number == float("inf")
            else number
        )
    return rest


def pages() -> Iterator[Page]:
    for scenario in SCENARIOS:
        kind = str(scenario.manifest.get("rpc", "DoExchange"))
        if (
            not scenario.expects_error
            and kind.startswith("DoExchange")
            and not scenario.name.startswith(("snapshot", "official", "full_then"))
        ):
            page = Page(scenario)
            if page.is_flat and page.checks:
                yield page


def test_the_rows_in_view_are_those_of_the_captured_tables(tmp_path: Path) -> None:
    shown = list(pages())
    assert {"viewport_append", "viewport_modifies", "viewport_reverse", "all_types"} <= {
        page.scenario.name for page in shown
    }
    assert len(shown) >= 8
    for page, seen in zip(shown, answer("replay", [page.case() for page in shown], tmp_path), strict=True):
        for (step, request), look in zip(page.checks, seen, strict=False):
            if request.viewport is not None and request.viewport.range_count > 1:
                assert "gaps" in look["error"]  # a page asks for no such view
                break
            check(page, step, request, look)
        else:
            assert len(seen) == len(page.checks), (page.scenario.name, seen[-1])


def check(page: Page, step: Step, request: SubscriptionRequest, look: dict[str, Any]) -> None:
    assert step.expected is not None
    size = int(step.expected["num_rows"])
    positions = list(range(size))
    if request.viewport is not None:
        inside = request.viewport.restrict(0, size - 1).keys().tolist() if size else []
        positions = sorted(size - 1 - position for position in inside) if request.reverse_viewport else inside
    assert look["size"] == size
    assert positions == list(range(look["first"], look["first"] + len(look["rows"])))
    for place, number in enumerate(look["columns"]):
        field = page.schema.field(number)
        if columns_of(page.schema)[number]["form"] in ("nested", "decimal"):
            continue
        wanted = [step.expected["columns"][field.name][position] for position in positions]
        for row, cell in zip(look["rows"], wanted, strict=True):
            got = untagged(row[place])
            assert same_cell(got, cell, single=is_single(field.type)), (page.scenario.name, step.note, field, got, cell)


@pytest.mark.parametrize("keys", [[0, 1 << 53], [(1 << 63) - 1]])
def test_rows_that_a_double_does_not_hold_are_refused(keys: list[int], tmp_path: Path) -> None:
    data = encode_row_set(RowSet.from_keys(keys))
    question = {"rowSets": [base64.b64encode(data).decode()], "metadata": [], "texts": []}
    assert "error" in answer("decode", question, tmp_path)["rowSets"][0]
