"""What Deephaven's ticking Python client reads of columns of every type that a table can hold (docs/types.md)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
import pytest

from barrage_server import Server
from tests.engine.samples import SAMPLES, pick

from .peers.arrow_text import from_text
from .python_client import Pydeephaven

pytestmark = pytest.mark.interop

ROWS = 8
LEFT_OUT = {
    "month_day_nano_interval",
    "map<string, int32>",
    "struct<>",
    "struct",
    "list<struct>",
    "struct<struct<null>>",
    "struct of times",
    "struct of leaves",
    "list_view<list_view<string>>",
    "struct<list_view<string>>",
    "dense_union",
    "sparse_union",
    "list<dense_union>",
    "struct<sparse_union>",
    "union<list_view>",
}
INSTANT = pa.timestamp("ns", "UTC")

# Values that the client takes for null, by type: those that Deephaven has for it.
NULLS = {
    "int8": -(2**7),
    "int16": -(2**15),
    "int32": -(2**31),
    "int64": -(2**63),
    "uint16": 2**16 - 1,
}
# Types that the client gets in place of those of the table, and how it shows a value.
CONVERTED: dict[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
    "null": (pa.string(), str),
    "uint8": (pa.int16(), int),
    "uint32": (pa.int64(), int),
    "uint64": (pa.string(), str),
    "half": (pa.float32(), float),
    "date32": (pa.date64(), lambda value: value),
    "time32": (pa.time64("ns"), lambda value: value),
    "time64": (pa.time64("ns"), lambda value: value),
    "timestamp[s]": (INSTANT, lambda value: value.replace(tzinfo=dt.UTC)),
    "timestamp[us, tz]": (INSTANT, lambda value: value.astimezone(dt.UTC)),
    "duration": (pa.int64(), lambda value: value // dt.timedelta(microseconds=1) * 1000),
    "decimal32": (pa.string(), str),
    "decimal64": (pa.string(), str),
    "decimal128": (pa.string(), str),
    "decimal256": (pa.string(), str),
    "large_string": (pa.string(), str),
    "binary": (pa.string(), bytes.hex),
    "large_binary": (pa.string(), bytes.hex),
    **{f"fixed_size_binary[{width}]": (pa.string(), bytes.hex) for width in (0, 3, 8, 12)},
    "uuid": (pa.string(), lambda value: value.hex),
    "json": (pa.string(), str),
}


def _wanted(name: str, column: pa.ChunkedArray) -> tuple[pa.DataType, list[Any]]:
    values = [None if value == NULLS.get(name) else value for value in column.to_pylist()]
    if pat.is_nested(column.type):  # which the client cannot hand out if they are empty, but print
        return pa.string(), [_printed(value) for value in values]
    data_type, shown = CONVERTED.get(name, (column.type, lambda value: value))
    return data_type, [None if value is None else shown(value) for value in values]


def _printed(values: list[Any] | None) -> str:
    return f"[{','.join(map(_element, values or ()))}]"


def _element(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str() | int():
            return str(value)
        case _:
            return str(value.hex)


@pytest.fixture
def rows() -> pa.Table:
    return pa.table({name: pick(sample, range(ROWS)) for name, sample in SAMPLES.items()})


def test_columns_of_all_types(server: Server, client: Pydeephaven, rows: pa.Table) -> None:
    """In the snapshot, and as rows that are added and modified; a column for which there is no type is left out."""
    schema = pa.schema([("key", pa.int64()), *rows.schema])
    table = server.keyed_table("all", schema, key=["key"])
    keys = pa.array(range(ROWS))
    table.upsert(pa.table([keys, *rows.columns], schema=schema))
    client.peer.call("start", name="listener", table="session.open_table('all')")
    _compare(_next(client)["added"]["cells"], rows)

    table.upsert(pa.table([pa.array(range(ROWS, 2 * ROWS)), *rows.columns], schema=schema))
    _compare(_next(client)["added"]["cells"], rows)

    shuffled = rows.take(pa.array([*range(1, ROWS), 0]))
    table.upsert(pa.table([keys, *shuffled.columns], schema=schema))
    update = _next(client)
    assert len(update["modified"]) == len(SAMPLES) + 1 - len(LEFT_OUT)
    assert sum(bool(found["rows"]) for found in update["modified"]) == len(SAMPLES) - len(LEFT_OUT) - 1  # the nulls
    _compare(update["current"], pa.concat_tables([shuffled, rows]))
    client.peer.call("stop", name="listener")


def _next(client: Pydeephaven) -> dict[str, Any]:
    event = client.peer.event("listener")
    assert "update" in event, event
    update: dict[str, Any] = event["update"]
    return update


def _compare(cells: str, rows: pa.Table) -> None:
    shown = from_text(cells).drop(["key"])
    assert shown.schema.names == [name for name in rows.schema.names if name not in LEFT_OUT]
    for name in shown.schema.names:
        data_type, values = _wanted(name, rows[name])
        assert (name, shown[name].type) == (name, data_type)
        assert (name, str(_moments(shown[name]))) == (name, str(values))


def _moments(column: pa.ChunkedArray) -> list[Any]:
    """The values, times as Python's own rather than those of pandas."""
    if column.type == INSTANT:
        column = column.cast(pa.timestamp("us", "UTC"))
    if column.type == pa.time64("ns"):
        column = column.cast(pa.time64("us"))
    values: list[Any] = column.to_pylist()
    return [value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value for value in values]


def test_what_is_opened_says_what_a_listener_gets_and_what_is_read_is_as_it_was_published(
    server: Server, client: Pydeephaven, rows: pa.Table
) -> None:
    server.append_table("all", rows.schema).append(rows)
    client.execute("t = session.open_table('all')")
    assert client.fetch("t.schema").schema.names == [name for name in rows.schema.names if name not in LEFT_OUT]
    assert client.fetch("t.to_arrow()").schema.equals(rows.schema)


LISTS = {
    "list<int8>": pa.array([[1, None], [-5]], pa.list_(pa.int8())),
    "list<char>": pa.array([[65, None], [66]], pa.list_(pa.uint16())),
    "list<int64>": pa.array([[2**62, None], [-1]], pa.list_(pa.int64())),
    "list<float64>": pa.array([[1.5, None], [-0.0]], pa.list_(pa.float64())),
    "list<bool>": pa.array([[True, None], [False]], pa.list_(pa.bool_())),
    "list<string>": pa.array([["ä", None], [""]], pa.list_(pa.string())),
    "list<date64>": pa.array([[dt.date(2020, 1, 2), None], [dt.date(1960, 1, 2)]], pa.list_(pa.date64())),
    "list<timestamp>": pa.array([[1, None], [-1]], pa.list_(pa.int64())).cast(pa.list_(INSTANT)),
}


def test_lists_with_elements_are_handed_out(server: Server, client: Pydeephaven) -> None:
    """Empty lists are not, from any server: the client then raises IndexError."""
    rows = pa.table(LISTS)
    server.append_table("lists", rows.schema).append(rows)
    client.execute(
        "heard = []; errors = []; done = threading.Event()\n"
        "def hear(update):\n"
        "    heard.append(pa.table(update.added())); done.set()\n"
        "handle = listen(session.open_table('lists'), hear, lambda error: (errors.append(error), done.set()))\n"
        "handle.start(); done.wait(20); handle.stop()"
    )
    assert client.evaluate("list(map(str, errors))") == []
    found = client.fetch("heard[0]")
    for name, column in LISTS.items():
        assert pat.is_list(found[name].type)
        assert (name, found[name].type.value_type) == (name, column.type.value_type)
        assert (name, str(found[name].to_pylist())) == (name, str(column.to_pylist()))
