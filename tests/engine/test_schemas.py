"""A schema is Arrow's own, or a mapping of names to types, wherever one is taken."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable, UpdateGraph
from barrage_server.engine.schemas import as_schema, inferred_schema
from barrage_server.errors import InvalidRequestError, SchemaMismatchError, UnsupportedTypeError


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("string", pa.string()),
        ("str", pa.string()),
        ("double", pa.float64()),
        ("timestamp[us, tz=UTC]", pa.timestamp("us", "UTC")),
        ("decimal128(18, 4)", pa.decimal128(18, 4)),
        ("list<int64>", pa.list_(pa.int64())),
        (pa.int16(), pa.int16()),
        (int, pa.int64()),
        (float, pa.float64()),
        (str, pa.string()),
        (bool, pa.bool_()),
        (bytes, pa.binary()),
        (datetime.datetime, pa.timestamp("us")),
        (datetime.date, pa.date32()),
        (datetime.time, pa.time64("us")),
        (datetime.timedelta, pa.duration("us")),
        (np.float32, pa.float32()),
        (np.dtype("int8"), pa.int8()),
    ],
)
def test_types_are_named_in_every_usual_way(given: Any, meant: pa.DataType) -> None:
    assert as_schema({"a": given, "b": "int64"}) == pa.schema([("a", meant), ("b", pa.int64())])


def test_an_arrow_schema_is_taken_as_it_is() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)], metadata={"mine": "yes"})
    assert as_schema(schema) is schema
    assert as_schema({"a": schema.field("a")}).field("a") == schema.field("a")


@pytest.mark.parametrize(
    "given", [None, 3, "int64", ["a"], [("a", "int64")], {1: "int64"}, object(), pa.table({"a": [1]}), pa.int64()]
)
def test_anything_else_is_refused_with_the_line_to_write(given: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"\"price\": \"float64\""):
        as_schema(given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("nonsense", "'a'.*nonsense"),
        ("list<" * 5000, "'a'"),
        ("", "'a'"),
        (None, "'a'"),
        (3, "'a'"),
        (list, "'a'"),
        (object, "'a'"),
        (np.dtype("O"), "'a'"),
        (decimal.Decimal, "decimal128"),
    ],
)
def test_a_type_that_is_not_known_is_named_with_its_column(given: Any, text: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=text):
        as_schema({"a": given})


def test_every_kind_of_table_takes_a_mapping() -> None:
    graph, given = UpdateGraph(), {"k": "string", "x": float}
    meant = pa.schema([("k", pa.string()), ("x", pa.float64())])
    made = [
        AppendTable(graph, "a", given),
        RingTable(graph, "r", given, 10),
        BlinkTable(graph, "b", given),
        KeyedTable(graph, "k", given, "k"),
        ReplacedTable(graph, "p", given),
    ]
    assert all(table.schema == meant for table in made)


def test_a_schema_is_inferred_with_plain_types() -> None:
    given = pa.schema([("a", pa.dictionary(pa.int8(), pa.string())), pa.field("b", pa.string_view(), nullable=False)])
    assert inferred_schema(given) == pa.schema([("a", pa.string()), ("b", pa.string())])
    with pytest.raises(SchemaMismatchError, match=r"'b'.*schema="):
        inferred_schema(pa.schema([("a", pa.int64()), ("b", pa.null())]))
