"""What a Deephaven server makes of columns of every type that a table can hold, and of their names (docs/types.md)."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from barrage_server import Server
from barrage_server.subscription import SubscriptionLimits
from tests.engine.samples import SAMPLES, pick
from tests.waiting import until

from .deephaven import DeephavenServer
from .remote import PATIENCE, Remote

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

ROWS = 8
LEFT_OUT = {
    "month_day_nano_interval",
    "struct<>",
    "struct",
    "list<struct>",
    "struct<struct<null>>",
    "struct of times",
    "struct of leaves",
    "struct<list_view<string>>",
    "dense_union",
    "sparse_union",
    "list<dense_union>",
    "struct<sparse_union>",
    "union<list_view>",
}
NULLS = {"int8": -(2**7), "int16": -(2**15), "int32": -(2**31), "int64": -(2**63), "uint16": 2**16 - 1}
"""Values that are null there, by type: those that Deephaven has for it."""


def _big_integer(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _big_decimal(data: bytes) -> Decimal:
    return Decimal(_big_integer(data[4:])).scaleb(-int.from_bytes(data[:4], "little", signed=True)).normalize()


def _same(value: Any) -> Any:
    return value


def _storage(value: Any) -> Any:
    """A UUID is a byte[] there, in lists, too."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    return [_storage(element) for element in value] if isinstance(value, list) else value


def _as_java_prints(value: list[tuple[str, int | None]]) -> str:
    return "{" + ", ".join(f"{key}={'null' if item is None else item}" for key, item in value) + "}"


# The class of each column there.
CLASSES = {
    "null": "java.lang.String",
    "bool": "java.lang.Boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "short",
    "uint16": "char",
    "uint32": "long",
    "uint64": "java.math.BigInteger",
    "half": "float",
    "float": "float",
    "double": "double",
    "date32": "java.time.LocalDate",
    "date64": "java.time.LocalDate",
    "time32": "java.time.LocalTime",
    "time64": "java.time.LocalTime",
    "timestamp[s]": "java.time.Instant",
    "timestamp[us, tz]": "java.time.ZonedDateTime",
    "duration": "java.time.Duration",
    **{f"decimal{width}": "java.math.BigDecimal" for width in (32, 64, 128, 256)},
    **{f"fixed_size_binary[{width}]": "[B" for width in (0, 3, 8, 12)},
    "string": "java.lang.String",
    "large_string": "java.lang.String",
    "binary": "[B",
    "large_binary": "[B",
    "uuid": "[B",
    "json": "java.lang.String",
    "list<uuid>": "[[B",
    "list<int64>": "[J",
    "large_list<int16>": "[S",
    "list<string>": "[Ljava.lang.String;",
    "list_view<string>": "[Ljava.lang.String;",
    "large_list_view<int16>": "[S",
    "list_view<list_view<string>>": "[[Ljava.lang.String;",
    "list<bool>": "[Ljava.lang.Boolean;",
    "fixed_size_list<int32>[2]": "[I",
    "fixed_size_list<int32>[0]": "[I",
    "map<string, int32>": "java.util.Map",
}
# How values that come back, as Deephaven turns them into Arrow, are to be read.
READ: dict[str, Callable[[Any], Any]] = {
    "uint64": _big_integer,
    **{f"decimal{width}": _big_decimal for width in (32, 64, 128, 256)},
    "timestamp[s]": lambda value: value.to_pydatetime().replace(tzinfo=None),
    "timestamp[us, tz]": lambda value: value.to_pydatetime().astimezone(dt.UTC),
    "duration": lambda value: value.to_pytimedelta(),
}
# What values that went in are to be compared as.
SENT: dict[str, Callable[[Any], Any]] = {
    **{f"decimal{width}": Decimal.normalize for width in (32, 64, 128, 256)},
    "timestamp[us, tz]": lambda value: value.astimezone(dt.UTC),
    "uuid": _storage,
    "list<uuid>": _storage,
    "map<string, int32>": _as_java_prints,
}


@pytest.fixture
def server() -> Iterator[Server]:
    limits = SubscriptionLimits(default_interval_ms=1)
    with Server(deephaven_port=0, limits=PATIENCE, subscriptions=limits) as server:
        yield server


@pytest.fixture
def remote(deephaven: DeephavenServer, server: Server) -> Iterator[Remote]:
    remote = Remote(deephaven, server)
    yield remote
    remote.close()
    until(lambda: not server.statistics().subscriptions)


def test_columns_of_all_types(server: Server, remote: Remote) -> None:
    """In the snapshot, and as rows that are added and modified; a column for which there is no type is left out."""
    rows = pa.table({name: pick(sample, range(ROWS)) for name, sample in SAMPLES.items()})
    # as plain words, which are the same there
    words = [f"c{number}" for number in range(rows.num_columns)]
    schema = pa.schema(
        [("id", pa.int64()), *(field.with_name(word) for word, field in zip(words, rows.schema, strict=True))]
    )
    table = server.keyed_table("all", schema, key=["id"])
    table.upsert(pa.table([pa.array(range(ROWS)), *rows.columns], schema=schema))
    name = remote.subscribe("all")
    seen = {word: kind for word, kind in zip(words, SAMPLES, strict=True) if kind not in LEFT_OUT}
    classes = remote.deephaven.evaluate(
        f"[[column.name, str(column.data_type)] for column in {name}.definition.values()]"
    )
    assert classes == [["id", "long"], *([word, CLASSES[kind]] for word, kind in seen.items())]
    map_word = next(word for word, kind in seen.items() if kind.startswith("map"))
    shown = remote.make(f"{name}.update_view('{map_word} = isNull({map_word}) ? null : {map_word}.toString()')")
    _wait_for(remote, shown, seen, rows)
    validator = remote.validated(name)
    zoned = next(word for word, kind in seen.items() if kind == "timestamp[us, tz]")
    zones = remote.content(f"{name}.view('zone = isNull({zoned}) ? null : {zoned}.getZone().toString()')")["zone"]
    assert set(zones.to_pylist()) == {None, "America/New_York"}

    table.upsert(pa.table([pa.array(range(ROWS, 2 * ROWS)), *rows.columns], schema=schema))
    _wait_for(remote, shown, seen, pa.concat_tables([rows, rows]))

    shuffled = rows.take(pa.array([*range(1, ROWS), 0]))
    table.upsert(pa.table([pa.array(range(ROWS)), *shuffled.columns], schema=schema))
    _wait_for(remote, shown, seen, pa.concat_tables([shuffled, rows]))
    assert not remote.deephaven.evaluate(f"{validator}.hasFailed()")


def _wait_for(remote: Remote, name: str, seen: dict[str, str], rows: pa.Table) -> None:
    """Wait until a table has these rows there."""
    wanted = {
        kind: str([None if value in (None, NULLS.get(kind)) else SENT.get(kind, _same)(value) for value in values])
        for kind, values in ((kind, rows[kind].to_pylist()) for kind in seen.values())
    }
    found: dict[str, str] = {}

    def has_come() -> bool:
        content = remote.content(name)
        for word, kind in seen.items():
            read = READ.get(kind, _same)
            found[kind] = str([None if value is None else read(value) for value in content[word].to_pylist()])
        return found == wanted

    try:
        until(has_come)
    except AssertionError:
        assert found == wanted
        raise


def test_names_that_it_does_not_accept(server: Server, remote: Remote) -> None:
    names = [
        "k",
        "in",
        "class",
        "2nd",
        "trade price",
        "trade-price",
        "größe",
        "价格",
        "",
        "fine",
        "Fine",
        "$_1",
        "a" * 300,
    ]
    table = server.keyed_table("names", pa.schema([(name, pa.int64()) for name in names]), key=["k"])
    table.upsert({name: [number] for number, name in enumerate(names)})
    found = remote.subscribe("names")
    made = ["column_k", "column_in", "column_class", "column_2nd", "trade_price", "trade_price2", "gre", "column_"]
    made += ["column_2", "fine", "Fine", "$_1", "a" * 300]
    remote.wait_for(found, [dict(zip(made, range(len(names)), strict=True))])
    table.upsert({name: [number + (number > 0)] for number, name in enumerate(names)})
    remote.wait_for(
        f"{found}.update_view('total = column_k + trade_price')",
        [dict(zip(made, [0, *range(2, len(names) + 1)], strict=True)) | {"total": 5}],
    )
