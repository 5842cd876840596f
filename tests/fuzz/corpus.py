"""Valid calls that the fuzz begins with: captured ones, and one of every kind that the server answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from barrage_proto import console_pb2, flight_pb2, partitionedtable_pb2, table_pb2
from barrage_proto import deephaven_pb2 as deephaven

from barrage_server.deephaven.operations import CALLS
from barrage_server.rowset import RowSet
from barrage_server.wire.commit_messages import (
    AbortRequest,
    CommitPart,
    CommitRequest,
    KeepRequest,
    LastBatchRequest,
    StageEnd,
    StageRequest,
)
from barrage_server.wire.metadata import (
    PublicationRequest,
    SnapshotRequest,
    SubscriptionOptions,
    SubscriptionRequest,
    UpdateMetadata,
)
from barrage_server.wire.plan_messages import (
    BIND_ACTION,
    FUNCTIONS_ACTION,
    OPERATE_ACTION,
    RELEASE_ACTION,
    BindRequest,
    ReleaseRequest,
)
from barrage_server.wire.protocol import (
    ABORT_ACTION,
    COMMIT_ACTION,
    CREATE_ACTION,
    DROP_ACTION,
    KEEP_ACTION,
    LAST_BATCH_ACTION,
    STAGE_COMMAND,
    STATISTICS_ACTION,
    CreateRequest,
    DropRequest,
    PublishMode,
    PutOptions,
    TableKind,
)
from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.engine.samples import SAMPLES
from tests.fuzz.plans import plans_about
from tests.fuzz.protobuf import field

GOLDEN = Path(__file__).parent.parent / "golden"
FLIGHT = "/arrow.flight.protocol.FlightService/"
DEEPHAVEN = "/io.deephaven.proto.backplane.grpc."
CONSOLE = "/io.deephaven.proto.backplane.script.grpc.ConsoleService/"
SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64())])
TARGET = "target"
"""The table that is put to by calls that name one."""
STAGE_ROWS = "stage"
READ_BACK = "read"
EXPORTED = 5
"""The export that Deephaven's calls are about."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its method, and the serialized messages that its client sends before it half-closes.

    Attributes:
        method: full name.
        messages: serialized.
        waits: whether a sound server may keep it open without a word.
        then: what is done after it: ``stage`` or ``read``, and a table: commit what was staged, read the table back.
        session: whether the credentials of a session are shown.
    """

    method: str
    messages: tuple[bytes, ...]
    waits: bool = False
    then: str | None = None
    session: bool = False

    @property
    def is_deephaven(self) -> bool:
        return not self.method.startswith(FLIGHT)


def valid_calls() -> list[Call]:
    """All of them; those that only Deephaven's endpoints know are marked by :attr:`Call.is_deephaven`."""
    calls = [*_captured(), *_puts(), *_stagings(), *_publications(), *_exchanges(), *_reads(), *_planned(), *_actions()]
    services = list(_services())
    return [*calls, *services, *(replace(call, session=True) for call in services)]


def golden_tables() -> list[str]:
    """The tables that the captured calls are about."""
    manifests = [json.loads(path.read_text()) for path in GOLDEN.glob("*/manifest.json")]
    return sorted({(content.get("ticket") or "").removeprefix("s/") for content in manifests} - {""})


def path_descriptor(name: str) -> bytes:
    return b"\x08\x01" + field(3, name.encode())


def _captured() -> Iterator[Call]:
    for path in sorted(GOLDEN.glob("*/manifest.json")):
        content = json.loads(path.read_text())
        sent = [path.parent / message["file"] for message in content["messages"] if message["dir"] == "out"]
        messages = tuple(name.read_bytes() for name in sent)
        if messages:
            yield Call(FLIGHT + str(content["rpc"]).partition("(")[0].split()[0], messages)
    # what the server sent, sent back: updates as a client would publish them
    for path in sorted(GOLDEN.glob("*/manifest.json")):
        content = json.loads(path.read_text())
        came = [path.parent / message["file"] for message in content["messages"] if message["dir"] != "out"][:4]
        first, *rest = [name.read_bytes() for name in came] or [b""]
        if rest and sum(map(len, rest)) < 1 << 16:
            request = field(3, PublicationRequest(scope_ticket(TARGET)).encode())
            begin = field(1, path_descriptor(TARGET)) + first
            yield Call(FLIGHT + "DoPut", (begin, request, *rest), then=f"{READ_BACK} {TARGET}")


def messages_of(data: pa.Table | pa.RecordBatch, options: pa.ipc.IpcWriteOptions | None = None) -> list[bytes]:
    """Serialized FlightData of an IPC stream, without descriptor and metadata."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema, options=options) as writer:
        writer.write(data)
    found: list[bytes] = []
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return found
        body = b"" if message.body is None else field(1000, message.body.to_pybytes())
        found.append(field(2, message.metadata.to_pybytes()) + (body or field(1000, b"")))


def _encoded() -> Iterator[pa.Table]:
    """Tables in all encodings that Arrow has."""
    texts = ["a", "b", None, "longer than twelve bytes", "", "a"]
    items = [[1, 2], [], None, [3, None], [4], []]
    yield pa.table({"d": pa.array(texts).dictionary_encode(), "n": pa.array(range(6))})
    nested = pa.StructArray.from_arrays([pa.array(texts).dictionary_encode(), pa.array(items)], ["d", "l"])
    yield pa.table({"s": nested})
    ends = pa.array([2, 3, 6], pa.int32())
    yield pa.table({"r": pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x", None, "y"]))})
    yield pa.table({"r": pa.RunEndEncodedArray.from_arrays(pa.array([1, 6], pa.int16()), pa.array([1.5, None]))})
    yield pa.table({"v": pa.array(texts, pa.string_view()), "b": pa.array([b"x" * 20, None] * 3, pa.binary_view())})
    yield pa.table({"v": pa.array(items, pa.list_view(pa.int64()))})
    yield pa.table({"v": pa.array(items, pa.large_list_view(pa.int8()))})
    yield pa.table({"f": pa.array([[[1, 2]], [[3, 4]], None], pa.list_(pa.list_(pa.int32(), 2), 1))})
    yield pa.table({"m": pa.array([[("k", [1])], None, []], pa.map_(pa.string(), pa.list_(pa.int8())))})
    types, offsets = pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32())
    yield pa.table({"u": pa.UnionArray.from_dense(types, offsets, [pa.array([1, 2]), pa.array(["z"])])})
    yield pa.table({"u": pa.UnionArray.from_sparse(types, [pa.array([1, 2, 3]), pa.array(["x", "y", "z"])])})
    deltas = [pa.array(part).dictionary_encode() for part in (["a", "b"], ["c", "d"])]
    yield pa.table({"d": pa.chunked_array(deltas)})
    yield pa.table({"l": pa.array([list("ab"), [], None], pa.list_(pa.dictionary(pa.int8(), pa.string())))})


def _tables() -> Iterator[pa.Table]:
    for name, array in SAMPLES.items():
        yield pa.table({name: array})
    flat = [array.take(pa.array([0, 1, 2, 1])) for array in SAMPLES.values() if len(array) > 2]
    for start in range(0, len(flat), 6):
        part = flat[start : start + 6]
        yield pa.table(part, names=[f"c{number}" for number in range(len(part))])
    yield from _encoded()
    yield pa.table({"sym": ["A", "B"], "price": [1.0, 2.0]}, schema=SCHEMA)
    yield pa.table({"sym": pa.array([], pa.string())})


def _compressions() -> Iterator[pa.ipc.IpcWriteOptions]:
    for codec in ("lz4", "zstd"):
        yield pa.ipc.IpcWriteOptions(compression=codec)
    yield pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    yield pa.ipc.IpcWriteOptions(use_legacy_format=True)


def _puts() -> Iterator[Call]:
    numbers = count()

    def put(messages: list[bytes], metadata: bytes = b"", name: str | None = None) -> Call:
        # each a table of its own, so that none is refused for the schema of another
        name = name or f"{TARGET}-{next(numbers)}"
        first = field(1, path_descriptor(name)) + messages[0]
        options = [field(3, metadata)] if metadata else []
        return Call(FLIGHT + "DoPut", (first, *options, *messages[1:]), then=f"{READ_BACK} {name}")

    for table in _tables():
        yield put(messages_of(table))
    for options in _compressions():
        for table in [*_encoded(), pa.table({"s": ["abc"] * 300, "n": list(range(300)), "l": [[1, 2]] * 300})]:
            yield put(messages_of(table, options))
    rows = messages_of(pa.table({"sym": ["A", "B"], "price": [1.0, 2.0]}, schema=SCHEMA))
    for put_options in (
        PutOptions(key=("sym",)),
        PutOptions(mode=PublishMode.DELETE, key=("sym",)),
        PutOptions(mode=PublishMode.REPLACE, kind=TableKind.REPLACED),
        PutOptions(kind=TableKind.RING, capacity=5),
        PutOptions(kind=TableKind.BLINK),
    ):
        yield put(rows, put_options.to_json(), f"{TARGET}-{put_options.kind or put_options.mode or 'keyed'}")
    yield Call(FLIGHT + "DoPut", (field(1, b"\x08\x01" + field(3, b"export") + field(3, b"7")) + rows[0], *rows[1:]))


def _stagings() -> Iterator[Call]:
    descriptor = field(1, b"\x08\x02" + field(2, STAGE_COMMAND))
    for number, table in enumerate(_tables()):
        schema, *rest = messages_of(table)
        batch, table_name = number, f"staged-{number}"
        request = field(3, StageRequest("fuzz", table_name, batch, "attempt").to_json())
        end = field(3, StageEnd(len(table)).to_json())
        yield Call(FLIGHT + "DoPut", (descriptor + schema, request, *rest, end), then=f"{STAGE_ROWS} {table_name}")


def _publications() -> Iterator[Call]:
    table = pa.table({"n": [1, 2, 3], "s": ["a", None, "c"]})
    schema, rows = messages_of(table)
    request = field(3, PublicationRequest(scope_ticket(TARGET)).encode())
    begin = field(1, path_descriptor(TARGET)) + schema
    every = RowSet.from_range(0, 2)
    first = UpdateMetadata(is_snapshot=True, added_rows=every, added_rows_included=every)
    change = UpdateMetadata(
        first_seq=1, last_seq=1, removed_rows=RowSet.empty(), added_rows=RowSet.empty(), modified_rows=(every, every)
    )
    yield Call(
        FLIGHT + "DoPut",
        (begin, request, field(3, first.encode()) + rows, field(3, change.encode()) + rows),
        then=f"{READ_BACK} {TARGET}",
    )
    gone = UpdateMetadata(first_seq=2, last_seq=2, removed_rows=RowSet.from_range(0, 1), added_rows=RowSet.empty())
    yield Call(FLIGHT + "DoPut", (begin, request, field(3, first.encode()) + rows, field(3, gone.encode())))


def _exchanges() -> Iterator[Call]:
    options = SubscriptionOptions(min_update_interval_ms=1)
    head = field(1, b"\x08\x02" + field(2, b"dphn"))

    def exchange(*requests: Any) -> Call:
        first, *rest = [field(3, request.encode()) for request in requests]
        return Call(FLIGHT + "DoExchange", (head + first, *rest))

    for name in ("everything", "steady", TARGET):
        ticket = scope_ticket(name)
        for like in (options, SubscriptionOptions(columns_as_list=True), SubscriptionOptions(use_deephaven_nulls=True)):
            yield exchange(SubscriptionRequest(ticket, options=like))
        windows = [RowSet.from_range(0, 5), RowSet.empty(), RowSet.from_range(3, 1 << 40)]
        for window in windows:
            for reverse in (False, True):
                request = SubscriptionRequest(ticket, viewport=window, reverse_viewport=reverse, options=options)
                yield exchange(request)
                yield exchange(SubscriptionRequest(ticket, columns=(0,), options=options), request)
        for window_a, window_b in pairwise(windows):
            yield exchange(
                *(SubscriptionRequest(ticket, viewport=rows, options=options) for rows in (window_a, window_b))
            )
        yield exchange(SnapshotRequest(ticket))
        yield exchange(SnapshotRequest(ticket, viewport=RowSet.from_range(0, 3), columns=(0,)))


def _planned() -> Iterator[Call]:
    """Plans as tickets and as commands."""
    for plan in plans_about(TARGET):
        yield Call(FLIGHT + "DoGet", (flight_pb2.Ticket(ticket=plan).SerializeToString(),))
        command = flight_pb2.FlightDescriptor(type="CMD", cmd=plan).SerializeToString()
        for method in ("GetFlightInfo", "GetSchema"):
            yield Call(FLIGHT + method, (command,))


def _reads() -> Iterator[Call]:
    for name in ("everything", "steady", TARGET):
        for ticket in (scope_ticket(name), name.encode()):
            yield Call(FLIGHT + "DoGet", (flight_pb2.Ticket(ticket=ticket).SerializeToString(),))
        for method in ("GetFlightInfo", "GetSchema"):
            yield Call(FLIGHT + method, (path_descriptor(name),))
    yield Call(FLIGHT + "ListFlights", (b"",))
    yield Call(FLIGHT + "ListFlights", (flight_pb2.Criteria(expression=b"s").SerializeToString(),))
    yield Call(FLIGHT + "ListActions", (b"",))
    basic = flight_pb2.BasicAuth(username="user", password="password").SerializeToString()
    yield Call(FLIGHT + "Handshake", (flight_pb2.HandshakeRequest(payload=basic).SerializeToString(),))


def _actions() -> Iterator[Call]:
    bodies = {
        COMMIT_ACTION: [
            CommitRequest("fuzz", TARGET, 0, tokens=("x",), key=("sym",), schema=SCHEMA).to_json(),
            CommitRequest("fuzz", "committed", 1, order_by="price", schema=SCHEMA, allow_gap=True).to_json(),
            CommitRequest("fuzz", "ring", 0, schema=SCHEMA, kind=TableKind.RING, capacity=9).to_json(),
            CommitRequest(
                "several",
                batch=0,
                tables=(CommitPart("committed", schema=SCHEMA), CommitPart("other", schema=SCHEMA)),
                epoch="one",
                takeover=True,
            ).to_json(),
        ],
        CREATE_ACTION: [
            CreateRequest("made", SCHEMA).to_json(),
            CreateRequest("keyed", SCHEMA, TableKind.KEYED, ("sym",)).to_json(),
        ],
        ABORT_ACTION: [AbortRequest(("a", "b")).to_json(), AbortRequest((), "fuzz", TARGET, 3).to_json()],
        KEEP_ACTION: [KeepRequest(("a", "b")).to_json(), KeepRequest((), "fuzz", TARGET, 3).to_json()],
        LAST_BATCH_ACTION: [
            LastBatchRequest("fuzz", TARGET).to_json(),
            LastBatchRequest("several", "committed", "one", takeover=True).to_json(),
        ],
        DROP_ACTION: [DropRequest("made").to_json(), DropRequest("nothing here").to_json()],
        STATISTICS_ACTION: [b"{}"],
        "barrage.health": [b"{}"],
        OPERATE_ACTION: list(plans_about(TARGET)),
        RELEASE_ACTION: [ReleaseRequest(("r/" + 32 * "x", "nonsense")).to_json()],
        BIND_ACTION: [BindRequest("r/" + 32 * "x", "bound").to_json()],
        FUNCTIONS_ACTION: [b"{}"],
    }
    for name, texts in bodies.items():
        for body in texts:
            yield Call(FLIGHT + "DoAction", (flight_pb2.Action(type=name, body=body).SerializeToString(),))


def _operations(table: Any, other: Any, result: Any) -> Iterator[tuple[str, str, Any]]:
    """The calls that compute: the name of each, its name in a batch, and a request."""
    columns = {"column_specs": ["a = ii % 3", "b = (int)a + 1", "c = `x` + a"]}
    literal = table_pb2.Value(literal=table_pb2.Literal(string_value="a"))
    compare = table_pb2.CompareCondition(
        operation="EQUALS", lhs=table_pb2.Value(reference=table_pb2.Reference(column_name="sym")), rhs=literal
    )
    condition = table_pb2.Condition(compare=compare)
    parts: dict[str, Any] = {"or": table_pb2.OrCondition(filters=[condition, condition])}
    either = table_pb2.Condition(**parts)
    columns_of = table_pb2.Aggregation.AggregationColumns
    total = table_pb2.AggSpec(sum=table_pb2.AggSpec.AggSpecSum())
    middle = table_pb2.AggSpec(median=table_pb2.AggSpec.AggSpecMedian(average_evenly_divided=True))
    given: dict[str, dict[str, Any]] = {
        "EmptyTable": {"size": 10},
        "DropColumns": {"column_names": ["sym"]},
        "SelectDistinct": {"column_names": ["sym"]},
        "Filter": {"filters": [either]},
        "UnstructuredFilter": {"filters": ["sym in `a`, `b`", "!isNull(sym) && sym.startsWith(`a`)"]},
        "Sort": {"sorts": [table_pb2.SortDescriptor(column_name="sym", direction="DESCENDING")]},
        "Head": {"num_rows": 3},
        "Tail": {"num_rows": 3},
        "NaturalJoinTables": {"columns_to_match": ["sym"], "join_type": "LAST_MATCH"},
        "ExactJoinTables": {"columns_to_match": ["sym"]},
        "WhereIn": {"columns_to_match": ["sym"]},
        "AggregateAll": {"spec": total, "group_by_columns": ["sym"]},
        "Aggregate": {
            "aggregations": [
                table_pb2.Aggregation(columns=columns_of(spec=middle, match_pairs=["m = price"])),
                table_pb2.Aggregation(count=table_pb2.Aggregation.AggregationCount(column_name="rows")),
            ],
            "group_by_columns": ["sym"],
        },
        "ComboAggregate": {
            "aggregates": [table_pb2.ComboAggregateRequest.Aggregate(type="MAX", match_pairs=["price"])]
        },
        "UpdateBy": {"operations": list(_moving()), "group_by_columns": ["sym"]},
        "Slice": {"first_position_inclusive": 1, "last_position_exclusive": -1},
    }
    for method, (kind, request) in CALLS.items():
        fields = request.DESCRIPTOR.fields_by_name
        inputs = {"source_id": table, "left_id": table, "right_id": other, "source_ids": [table, other]}
        named = {name: value for name, value in inputs.items() if name in fields}
        specs = columns if "column_specs" in fields else {}
        yield method, kind, request(result_id=result, **named, **specs, **given.get(method, {}))


def batches_about(name: str, other: str) -> Iterator[bytes]:
    """Batches of operations on two tables: each alone, and three that follow each other."""
    first, second = (
        deephaven.TableReference(ticket=deephaven.Ticket(ticket=scope_ticket(each))) for each in (name, other)
    )
    operation = table_pb2.BatchTableRequest.Operation
    offset = deephaven.TableReference(batch_offset=0)
    for _, kind, made in _operations(first, second, deephaven.Ticket()):
        then = table_pb2.HeadOrTailRequest(source_id=offset, num_rows=3)
        ops = [operation(**{kind: made}), operation(head=then)]
        yield table_pb2.BatchTableRequest(ops=ops).SerializeToString()


def _moving() -> Iterator[table_pb2.UpdateByRequest.UpdateByOperation]:
    """Functions along the rows of groups, with windows of rows and of time."""
    rows = {"reverse_window_scale": {"ticks": {"ticks": 3}}, "forward_window_scale": {"ticks": {"ticks": -1}}}
    time = {"time": {"column": "time", "duration_string": "PT1M"}}
    specs: list[tuple[list[str], dict[str, Any]]] = [
        (["s = price"], {"sum": {}}),
        (["d = price"], {"delta": {"options": {"null_behavior": "VALUE_DOMINATES"}}}),
        (["e = price"], {"ema": {"window_scale": time, "options": {"on_null_value": "RESET"}}}),
        (["r = price"], {"rolling_wavg": {**rows, "weight_column": "price"}}),
        (["f = price"], {"rolling_formula": {**rows, "formula": "max(each)", "param_token": "each"}}),
        ([], {"rolling_count_where": {"reverse_window_scale": time, "result_column": "n", "filters": ["price > 1"]}}),
    ]
    for pairs, spec in specs:
        yield table_pb2.UpdateByRequest.UpdateByOperation(column={"spec": spec, "match_pairs": pairs})


def _services() -> Iterator[Call]:
    ticket, result = (
        deephaven.Ticket(ticket=scope_ticket("everything")),
        deephaven.Ticket(ticket=export_ticket(EXPORTED)),
    )
    reference, back = deephaven.TableReference(ticket=ticket), deephaven.TableReference(ticket=result)
    schema = SCHEMA.serialize().to_pybytes()
    kinds = deephaven.CreateInputTableRequest.InputTableKind
    create = deephaven.CreateInputTableRequest(
        result_id=result, schema=schema, kind=kinds(in_memory_key_backed=kinds.InMemoryKeyBacked(key_columns=["sym"]))
    )
    blink_kind = kinds(blink=kinds.Blink())
    blink = deephaven.CreateInputTableRequest(result_id=result, source_table_id=reference, kind=blink_kind)
    fetch = deephaven.FetchTableRequest(source_id=reference, result_id=result)
    preview = deephaven.ApplyPreviewColumnsRequest(source_id=reference, result_id=result, convert_arrays=True)
    operation = table_pb2.BatchTableRequest.Operation
    batch = table_pb2.BatchTableRequest(
        ops=[
            operation(fetch_table=fetch),
            operation(apply_preview_columns=preview),
            operation(create_input_table=create),
        ]
    )
    shared = deephaven.Ticket(ticket=b"hfuzz")
    computing = list(_operations(reference, back, result))
    batches = [batch, table_pb2.BatchTableRequest(ops=[operation(**{kind: made}) for _, kind, made in computing])]
    requests: dict[str, Iterable[Any]] = {
        DEEPHAVEN + "ConfigService/GetAuthenticationConstants": [deephaven.AuthenticationConstantsRequest()],
        DEEPHAVEN + "ConfigService/GetConfigurationConstants": [deephaven.ConfigurationConstantsRequest()],
        DEEPHAVEN + "SessionService/NewSession": [deephaven.HandshakeRequest(auth_protocol=1, payload=b"x")],
        DEEPHAVEN + "SessionService/RefreshSessionToken": [deephaven.HandshakeRequest()],
        DEEPHAVEN + "SessionService/CloseSession": [deephaven.HandshakeRequest()],
        DEEPHAVEN + "SessionService/Release": [deephaven.ReleaseRequest(id=result)],
        DEEPHAVEN + "SessionService/ExportFromTicket": [deephaven.ExportRequest(source_id=ticket, result_id=result)],
        DEEPHAVEN + "SessionService/PublishFromTicket": [deephaven.PublishRequest(source_id=ticket, result_id=shared)],
        DEEPHAVEN + "SessionService/TerminationNotification": [deephaven.TerminationNotificationRequest()],
        DEEPHAVEN + "ApplicationService/ListFields": [deephaven.ListFieldsRequest()],
        DEEPHAVEN + "TableService/GetExportedTableCreationResponse": [ticket, result],
        DEEPHAVEN + "TableService/FetchTable": [fetch, deephaven.FetchTableRequest(source_id=back, result_id=ticket)],
        DEEPHAVEN + "TableService/ApplyPreviewColumns": [preview],
        DEEPHAVEN + "TableService/CreateInputTable": [create, blink],
        DEEPHAVEN + "TableService/Batch": batches,
        DEEPHAVEN + "TableService/ExportedTableUpdates": [deephaven.ExportedTableUpdatesRequest()],
        DEEPHAVEN + "PartitionedTableService/PartitionBy": [
            partitionedtable_pb2.PartitionByRequest(table_id=ticket, result_id=result, key_column_names=["sym"])
        ],
        DEEPHAVEN + "PartitionedTableService/Merge": [
            partitionedtable_pb2.MergeRequest(partitioned_table=result, result_id=result)
        ],
        DEEPHAVEN + "PartitionedTableService/GetTable": [
            partitionedtable_pb2.GetTableRequest(partitioned_table=ticket, key_table_ticket=ticket, result_id=result)
        ],
        DEEPHAVEN + "InputTableService/AddTableToInputTable": [
            deephaven.AddTableRequest(input_table=result, table_to_add=ticket)
        ],
        DEEPHAVEN + "InputTableService/DeleteTableFromInputTable": [
            deephaven.DeleteTableRequest(input_table=result, table_to_remove=ticket)
        ],
        CONSOLE + "GetConsoleTypes": [console_pb2.GetConsoleTypesRequest()],
        CONSOLE + "StartConsole": [console_pb2.StartConsoleRequest(result_id=ticket, session_type="python")],
        CONSOLE + "ExecuteCommand": [console_pb2.ExecuteCommandRequest(console_id=ticket, code="x = 1")],
        CONSOLE + "CancelCommand": [console_pb2.CancelCommandRequest(console_id=ticket)],
        CONSOLE + "SubscribeToLogs": [console_pb2.LogSubscriptionRequest()],
        CONSOLE + "BindTableToVariable": [
            console_pb2.BindTableToVariableRequest(variable_name="bound", table_id=ticket)
        ],
        "/grpc.health.v1.Health/Check": [deephaven.Ticket()],
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": [deephaven.Ticket(ticket=b"x")],
        "/no.such.Service/Call": [ticket],
    }
    for method, _, made in computing:
        requests[DEEPHAVEN + f"TableService/{method}"] = [made]
    waiting = ("TerminationNotification", "ExportedTableUpdates", "ListFields")
    for method, kinds_of_requests in requests.items():
        for request in kinds_of_requests:
            yield Call(method, (request.SerializeToString(),), waits=method.endswith(waiting))
