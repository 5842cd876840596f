"""``docs/protocol.md`` says what the code does: its bytes, fields, actions and errors are compared one by one."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from barrage_proto import flight_pb2
from markdown_it import MarkdownIt

import barrage_server as bs
from barrage_server import errors
from barrage_server.flight.errors import to_flight
from barrage_server.rowset import (
    RowSet,
    RowSetShiftData,
    decode_bit_set,
    decode_row_set,
    decode_shift_data,
    encode_bit_set,
    encode_row_set,
    encode_shift_data,
)
from barrage_server.server.actions import list_actions
from barrage_server.server.statistics import ServerStatistics, SubscriptionGauges, TableStatistics
from barrage_server.wire import commit_messages, protocol
from barrage_server.wire.json_message import schema_to_base64
from barrage_server.wire.metadata import MAGIC, SubscriptionOptions, SubscriptionRequest, UpdateMetadata, decode_message
from barrage_server.wire.nulls import has_deephaven_null, to_deephaven_nulls
from barrage_server.wire.schema import list_schema
from tests.people.markdown import ROOT, code

PAGE = ROOT / "docs" / "protocol.md"
SCHEMA = (ROOT / "schema" / "barrage.fbs").read_text()
Line = tuple[str, ...]


def tables() -> dict[str, list[list[Line]]]:
    """The tables below each heading: their lines, the first of which is the head; without marks such as backticks."""
    found: dict[str, list[list[Line]]] = {}
    heading, row, is_heading = "", [""], False
    for token in MarkdownIt("commonmark").enable("table").parse(PAGE.read_text()):
        match token.type:
            case "heading_open" | "heading_close":
                is_heading = token.type == "heading_open"
            case "table_open":
                found.setdefault(heading, []).append([])
            case "tr_open":
                row = []
            case "tr_close":
                found[heading][-1].append(tuple(row))
            case "inline" if is_heading:
                heading = token.content
            case "inline":
                row.append(token.content.replace("`", ""))
    return found


TABLES = tables()
MESSAGES = re.findall(r"^table (\w+) \{(.*?)^\}", SCHEMA, re.DOTALL | re.MULTILINE)


def body(heading: str, number: int = 0) -> list[Line]:
    return TABLES[heading][number][1:]


# Fields.


@pytest.mark.parametrize(("name", "fields"), MESSAGES, ids=[name for name, _ in MESSAGES])
def test_every_field_has_its_slot_and_type(name: str, fields: str) -> None:
    declared = re.findall(r"^  (\w+): (\S+?)( \(deprecated\))?;", fields, re.MULTILINE)
    enumerations = set(re.findall(r"^enum (\w+) : byte", SCHEMA, re.MULTILINE))
    declared = [(field, "byte" if kind in enumerations else kind, mark) for field, kind, mark in declared]
    wanted = [(str(slot), field, kind) for slot, (field, kind, _) in enumerate(declared)]
    assert [line[:3] for line in body(name)] == wanted


def test_every_message_type_is_there() -> None:
    declared = dict(re.findall(r"^  (\w+) = (\d+),", SCHEMA, re.MULTILINE))
    listed = {name: number for number, name, _ in body("The envelope")}
    assert listed == {name: number for name, number in declared.items() if name in dict(MESSAGES)}
    assert body("BarrageMessageWrapper")[0][3] == f"0x{MAGIC:X}"


# Encodings.


def ranges_of(text: str) -> RowSet:
    """``{1,5-9}``."""
    parts = [part.split("-") for part in text.strip("{}").split(",") if part]
    return RowSet.from_ranges([int(part[0]) for part in parts], [int(part[-1]) for part in parts])


@pytest.mark.parametrize("line", body("Row sets", 2), ids=lambda line: line[0])
def test_row_sets_are_written_as_the_page_shows(line: Line) -> None:
    rows, data = ranges_of(line[0]), bytes.fromhex(line[2])
    assert encode_row_set(rows) == data
    assert decode_row_set(data) == rows


def test_the_values_of_row_sets_lead_to_their_keys() -> None:
    """The middle column is what the text describes: steps of a running key, negative ones to the end of a range."""
    checked = 0
    for text, values, _ in body("Row sets", 2):
        if not re.fullmatch(r"[\d, −]+", values):
            continue  # none, or written with powers
        steps = [int(step) for step in values.replace("−", "-").split(", ")]
        key = 0
        starts: list[int] = []
        ends: list[int] = []
        for step in steps:
            key += abs(step)
            if step < 0:
                ends[-1] = key
            else:
                starts.append(key)
                ends.append(key)
        assert RowSet.from_ranges(starts, ends) == ranges_of(text)
        checked += 1
    assert checked >= 6


def test_the_commands_and_types_are_the_codecs() -> None:
    from barrage_server.rowset import _writer

    commands = {name: int(number.split(" ")[0], 16) for name, number, _ in body("Row sets", 0)}
    wanted = {name: getattr(_writer, name) for name in ("OFFSET", "SHORT_ARRAY", "BYTE_ARRAY", "END")}
    assert commands == wanted
    (_, *codes), (_, *kinds) = TABLES["Row sets"][1]
    widths = {int(code): np.dtype(kind).itemsize for code, kind in zip(codes, kinds, strict=True)}
    assert widths == _writer.WIDTHS


@pytest.mark.parametrize("line", body("Shift data"), ids=lambda line: line[0])
def test_shift_data_is_written_as_the_page_shows(line: Line) -> None:
    found = re.findall(r"(\d+)-(\d+) by ([+−]\d+)", line[0])
    starts, ends, deltas = ([int(part[number].replace("−", "-")) for part in found] for number in range(3))
    shifts = RowSetShiftData.from_arrays(starts, ends, deltas)
    assert encode_shift_data(shifts) == bytes.fromhex(line[1])
    assert decode_shift_data(bytes.fromhex(line[1])) == shifts


@pytest.mark.parametrize("line", body("Column sets"), ids=lambda line: line[0])
def test_column_sets_are_written_as_the_page_shows(line: Line) -> None:
    columns = tuple(int(number) for number in re.findall(r"\d+", line[0]))
    assert encode_bit_set(columns) == bytes.fromhex(line[1])
    assert decode_bit_set(bytes.fromhex(line[1])) == columns


# Worked messages.


def dumps() -> Iterator[bytes]:
    """The bytes of the blocks that show some, whose places must be right."""
    for block in code(PAGE):
        lines = re.findall(r"^([0-9a-f]{3}): ([0-9a-f]{2}(?: [0-9a-f]{2})*)", block.text, re.MULTILINE)
        if lines:
            data = b""
            for place, part in lines:
                assert int(place, 16) == len(data)
                data += bytes.fromhex(part)
            yield data


def test_the_worked_messages_are_what_the_code_writes_and_reads() -> None:
    request = SubscriptionRequest(
        b"s/quotes",
        None,
        RowSet.flat(10),
        SubscriptionOptions(min_update_interval_ms=50, columns_as_list=True),
    )
    update = UpdateMetadata(
        first_seq=7,
        last_seq=9,
        added_rows=ranges_of("{12}"),
        removed_rows=ranges_of("{0-1}"),
        shift_data=RowSetShiftData.from_arrays([2], [5], [-2]),
        added_rows_included=ranges_of("{2-3}"),
        modified_rows=(RowSet.empty(), ranges_of("{1}")),
        table_size=5,
        num_add_batches=1,
        num_mod_batches=1,
    )
    shown = list(dumps())
    assert shown == [request.encode(), update.encode()]
    assert [decode_message(data) for data in shown] == [request, update]


def test_the_places_named_in_the_worked_messages_are_right() -> None:
    """Each ``name: at 0x..`` is the place of the line that begins with that name."""
    checked = 0
    for block in code(PAGE):
        lines = re.findall(r"^([0-9a-f]{3}): [0-9a-f]{2}(?: [0-9a-f]{2})* +(.*)", block.text, re.MULTILINE)
        for _, words in lines:
            found = re.search(r"(?:slot \d+, )?([a-z_]+(?: \d)?): .*?(?:at|table is at) 0x([0-9a-f]+)$", words)
            if found is None or found[1] in ("wrapper", "table", "modified_rows", "payload") or "field list" in words:
                continue
            target = next(text for place, text in lines if int(place, 16) == int(found[2], 16))
            assert target.startswith(found[1].removesuffix("s")[:6]) or found[1] in ("request", "update"), words
            checked += 1
    assert checked >= 10


def test_columns_as_lists_look_as_described() -> None:
    inner = pa.field("x", pa.int64())
    assert list_schema(pa.schema([inner])) == pa.schema([pa.field("x", pa.list_(inner), nullable=False)])


def test_nulls_as_values_are_these() -> None:
    listed = {name: null for kinds, null in body("Nulls as values") for name in kinds.split(", ")}
    units = {"time32": "[s]", "time64": "[us]", "timestamp": "[us]", "duration": "[us]"}
    from barrage_server.type_names import parse_type

    for name, null in listed.items():
        data_type = parse_type(name + units.get(name, ""))
        assert has_deephaven_null(data_type)
        found = to_deephaven_nulls(pa.nulls(1, data_type))
        width = data_type.bit_width // 8
        kind = name if name.startswith(("float", "uint")) else f"int{8 * width}"
        value = np.frombuffer(found.buffers()[1], kind, 1)[0]
        assert value == np.dtype(kind).type(float(null) if "e" in null else int(null)), name
    others = [
        pa.bool_(),
        pa.string(),
        pa.uint8(),
        pa.uint32(),
        pa.uint64(),
        pa.float16(),
        pa.decimal128(3),
        pa.binary(),
    ]
    assert not any(map(has_deephaven_null, others))


# Publishing and actions.

REQUESTS: dict[str, Any] = {
    protocol.COMMIT_ACTION: commit_messages.CommitRequest,
    protocol.ABORT_ACTION: commit_messages.AbortRequest,
    protocol.KEEP_ACTION: commit_messages.KeepRequest,
    protocol.LAST_BATCH_ACTION: commit_messages.LastBatchRequest,
    protocol.CREATE_ACTION: protocol.CreateRequest,
    protocol.DROP_ACTION: protocol.DropRequest,
}
ANSWERS: dict[str, type] = {
    protocol.COMMIT_ACTION: commit_messages.CommitResult,
    protocol.ABORT_ACTION: commit_messages.AbortResult,
    protocol.KEEP_ACTION: commit_messages.KeepResult,
    protocol.LAST_BATCH_ACTION: commit_messages.LastBatchResult,
    protocol.STATISTICS_ACTION: ServerStatistics,
}


def fields_of(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def listed(heading: str, head: str) -> dict[str, Line]:
    """The lines below the head ``head`` of a table under a heading, by their first cell."""
    found = [table for table in TABLES.get(heading, []) if table[0][0] == head]
    return {line[0]: line for line in found[0][1:]} if found else {}


def test_every_action_has_a_section() -> None:
    headings = set(re.findall(r"^### (barrage\.\w+)", PAGE.read_text(), re.MULTILINE))
    assert headings == {name for name, _ in list_actions()}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_have_these_fields_and_want_the_required_ones(name: str) -> None:
    lines = listed(name, "request")
    assert set(lines) == fields_of(REQUESTS[name])
    required = {field for field, line in lines.items() if "required" in line[2]}
    schema = schema_to_base64(pa.schema([("a", pa.int64())]))
    samples = {"string": "x", "integer": 1, "list of strings": ["x"]}
    good = {field: schema if field == "schema" else samples[lines[field][1]] for field in required}
    REQUESTS[name].from_json(json.dumps(good).encode())
    for field in required:
        with pytest.raises(errors.WireFormatError, match=field):
            REQUESTS[name].from_json(json.dumps({**good, field: None}).encode())
    with pytest.raises(errors.WireFormatError, match="unknown"):
        REQUESTS[name].from_json(json.dumps({**good, "nonsense": 1}).encode())


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_have_these_fields(name: str) -> None:
    assert set(listed(name, "answer")) == fields_of(ANSWERS[name])


def test_figures_are_listed_to_the_last() -> None:
    lines = listed(protocol.STATISTICS_ACTION, "answer")
    for field, kind in (("tables", TableStatistics), ("subscriptions", SubscriptionGauges)):
        assert set(lines[field][2].split(", ")) == fields_of(kind)


def test_options_of_a_put_are_these() -> None:
    lines = listed("Options of a put", "field")
    assert set(lines) == fields_of(protocol.PutOptions)
    assert all(mode in lines["mode"][2] for mode in protocol.PublishMode)
    assert all(kind in lines["kind"][2] for kind in protocol.TableKind)


def test_actions_answer_as_the_page_says() -> None:
    with bs.Server() as server, flight.FlightClient(server.uri) as client:

        def act(name: str, fields: dict[str, object] | None = None) -> dict[str, object]:
            request = b"" if fields is None else json.dumps(fields).encode()
            (result,) = client.do_action(flight.Action(name, request))
            answer: dict[str, object] = json.loads(result.body.to_pybytes())
            return answer

        schema = schema_to_base64(pa.schema([("a", pa.int64())]))
        assert act("barrage.create", {"table": "t", "schema": schema, "kind": "keyed", "key": ["a"]}) == {}
        for name in ("barrage.health", "barrage.statistics"):
            assert set(act(name)) == set(listed(name, "answer"))
        assert act("barrage.last_batch", {"publisher": "p", "table": "t"}) == {"takes_gaps": False}
        batch = {"publisher": "p", "table": "t", "batch": 0}
        committed = act("barrage.commit", {**batch, "tokens": [], "schema": schema})
        assert set(committed) == set(listed("barrage.commit", "answer"))
        assert act("barrage.last_batch", {"publisher": "p", "table": "t"}) == {"last_batch": 0, "takes_gaps": False}
        assert set(act("barrage.keep", {"tokens": ["unknown"]})) == set(listed("barrage.keep", "answer"))
        assert act("barrage.abort", {"tokens": ["unknown"]}) == {"dropped": 0}
        infos = [
            flight.FlightInfo.deserialize(result.body.to_pybytes()) for result in client.do_action("barrage.tables")
        ]
        assert [info.descriptor.path[-1] for info in infos] == [b"t"]
        assert act("barrage.drop", {"table": "t"}) == {}


# Errors.

STATUS_OF: dict[str, type[Exception]] = {
    "INVALID_ARGUMENT": pa.ArrowInvalid,
    "NOT_FOUND": pa.ArrowKeyError,
    "UNAUTHENTICATED": flight.FlightUnauthenticatedError,
    "PERMISSION_DENIED": flight.FlightUnauthorizedError,
    "UNAVAILABLE": flight.FlightUnavailableError,
    "DEADLINE_EXCEEDED": flight.FlightTimedOutError,
    "INTERNAL": flight.FlightInternalError,
}


def statuses() -> dict[str, tuple[str, str]]:
    """The status of each class at the front pyarrow, and at ports that gRPC serves."""
    lines = body("Errors")
    return {name: (arrow, other) for names, arrow, other in lines for name in re.findall(r"\w+Error", names)}


def test_every_error_has_its_status_and_its_name_in_the_text() -> None:
    found = statuses()
    assert set(found) == set(errors.__all__)
    for name, (status, other) in found.items():
        made = getattr(errors, name)("What is wrong.")
        sent = to_flight(made)
        assert isinstance(sent, STATUS_OF[status]), name
        assert str(sent) == f"What is wrong. [{name}]"
        assert made.code == other, name


class _Raises(bs.Server):
    """Raises the error whose class a client names as the table to drop."""

    def drop(self, name: str) -> None:
        raise getattr(errors, name)("What is wrong.")


@pytest.mark.parametrize(("front", "column"), [("pyarrow", 0), ("grpc", 1)])
def test_every_error_has_its_status_at_every_port(front: str, column: int) -> None:
    """As a client of gRPC sees it, at the port for Flight and at that for Deephaven's clients."""
    with _Raises(front=front, deephaven_port=0) as server:
        for uri, at in ((server.uri, column), (str(server.deephaven_uri), 1)):
            with grpc.insecure_channel(uri.partition("://")[2]) as channel:
                call: Any = channel.unary_stream("/arrow.flight.protocol.FlightService/DoAction")
                for name, codes in statuses().items():
                    request = json.dumps({"table": name}).encode()
                    action = flight_pb2.Action(type="barrage.drop", body=request).SerializeToString()
                    with pytest.raises(grpc.RpcError) as caught:
                        list(call(action))
                    assert caught.value.code().name == codes[at], f"{name} at {uri}"
                    if not issubclass(getattr(errors, name), errors.InternalError):  # which get a text with an id
                        assert f"What is wrong. [{name}]" in str(caught.value.details())
