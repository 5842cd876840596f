"""CSV and JSON lines: what is written is read back, bit by bit, with the types of the table that it is for."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.cli.json_values import array_of_json, json_of_array
from barrage_server.cli.text_tables import read_csv, read_json_lines, write_csv, write_json_lines
from barrage_server.errors import SchemaMismatchError
from tests.wire.arrays import typed_values

ZONED = pa.timestamp("us", "Europe/Berlin")
CENTURIES = st.integers(-(10**16), 10**16)
MORE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (ZONED, st.none() | CENTURIES),
    (pa.timestamp("s", "+02:00"), st.none() | st.integers(-(10**10), 10**10)),
    (pa.string_view(), st.none() | st.text(max_size=3)),
    (pa.binary_view(), st.none() | st.binary(max_size=3)),
    (pa.list_view(pa.int8()), st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3)),
    (pa.dictionary(pa.int8(), pa.string()), st.none() | st.text(max_size=2)),
    (pa.float64(), st.sampled_from([None, float("inf"), -0.0, 1e300])),
    (pa.struct([]), st.none() | st.just({})),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """One column of any type, and one that says how many rows there are; often in two chunks, one of them a slice."""
    kind, values = draw(typed_values() | st.sampled_from(MORE))
    array = pa.array(draw(st.lists(values, max_size=12)), kind)
    cut = draw(st.integers(0, len(array)))
    column = pa.chunked_array([array[:cut], array[cut:]], kind)
    return pa.table({"x": column, "number": pa.array(range(len(array)), pa.int64())})


@pytest.mark.parametrize("kind", [pa.list_(pa.null()), pa.large_list(pa.null()), pa.list_(pa.field("e", pa.int8()))])
def test_lists_of_nulls_keep_their_lengths(kind: pa.DataType) -> None:
    array = pa.array([[None, None], None, [], [None]], kind)
    found = array_of_json(json_of_array(array), kind)
    found.validate(full=True)
    assert found.equals(array)


@settings(max_examples=60)
@given(tables())
def test_json_lines_are_read_back(table: pa.Table) -> None:
    written = io.BytesIO()
    write_json_lines(table, written)
    assert written.getvalue().count(b"\n") == table.num_rows
    written.seek(0)
    if table.num_rows:  # without a line there are no names
        found = read_json_lines(written, table.schema)
        assert found.schema == table.schema
        assert json_of_array(_one(found["x"])) == json_of_array(_one(table["x"]))


@settings(max_examples=60)
@given(tables())
def test_csv_is_read_back(table: pa.Table) -> None:
    if any(isinstance(value, int) for value in _beyond_text(table)):
        return  # years that no text of CSV has
    written = io.BytesIO()
    write_csv(table, written)
    written.seek(0)
    found = read_csv(written, table.schema).read_all()
    assert found.schema == table.schema
    assert json_of_array(_one(found["x"])) == json_of_array(_one(table["x"]))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _beyond_text(table: pa.Table) -> list[Any]:
    kind = table.schema.field("x").type
    temporal = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    return json_of_array(_one(table["x"])) if temporal else []


@settings(max_examples=60)
@given(typed_values() | st.sampled_from(MORE), st.data())
def test_values_are_json_and_come_back(chosen: tuple[pa.DataType, Any], data: st.DataObject) -> None:
    kind, values = chosen
    array = pa.array(data.draw(st.lists(values, max_size=8)), kind)
    array = array[data.draw(st.integers(0, len(array))) :]
    text = json.dumps(json_of_array(array), allow_nan=False)
    found = array_of_json(json.loads(text), kind)
    found.validate(full=True)
    assert found.type == kind
    if pa.types.is_dictionary(kind):  # what a dictionary has beside what is used does not count
        found, array = found.dictionary_decode(), array.dictionary_decode()
    assert found.equals(array) or str(found) == str(array)


def test_not_a_number_travels_as_text() -> None:
    written = io.BytesIO()
    write_json_lines(pa.table({"x": [float("nan"), float("-inf"), 0.5, None]}), written)
    assert written.getvalue() == b'{"x": "NaN"}\n{"x": "-Infinity"}\n{"x": 0.5}\n{"x": null}\n'
    written.seek(0)
    assert str(read_json_lines(written, pa.schema([("x", pa.float64())]))["x"].to_pylist()) == "[nan, -inf, 0.5, None]"


def test_the_tables_types_decide_and_not_the_looks_of_the_values() -> None:
    """A column of codes that look like numbers is text where the table says so; "NA" is a text like any other."""
    schema = pa.schema([("code", pa.string()), ("at", pa.timestamp("us", "UTC")), ("size", pa.int64())])
    rows = [{"code": "007", "at": "2024-01-31 09:30:00.000000Z", "size": None}, {"code": "NA", "at": None, "size": 5}]
    found = read_csv(io.BytesIO(b"code,size,at\n007,,2024-01-31 09:30:00Z\nNA,5,\n"), schema).read_all()
    assert found.schema == pa.schema([schema.field(name) for name in ("code", "size", "at")])
    assert found.select(["code", "size"]).to_pylist() == [{"code": "007", "size": None}, {"code": "NA", "size": 5}]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    assert read_json_lines(io.BytesIO(lines), schema).select(["size", "at", "code"]) == found.select(
        ["size", "at", "code"]
    )


def test_an_empty_cell_is_null_and_an_empty_text_is_not() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int8())])
    found = read_csv(io.BytesIO(b'a,b\n"",1\n,2\n'), schema).read_all()
    assert found["a"].to_pylist() == ["", None]


def test_columns_that_are_not_named_are_left_out() -> None:
    """A batch of keys for a delete has no other columns."""
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    assert read_json_lines(io.BytesIO(b'{"sym": "A"}\n'), schema).column_names == ["sym"]
    assert read_csv(io.BytesIO(b"sym\nA\n"), schema).read_all().column_names == ["sym"]


@pytest.mark.parametrize(
    ("kind", "line", "text"),
    [
        (pa.int8(), '{"x": 300}', "Column 'x': a value is not of type int8: .*300"),
        (pa.int64(), '{"x": 1.5}', "Column 'x': a value is not of type int64: '1.5' is not a whole number"),
        (pa.float64(), '{"x": "much"}', "Column 'x': a value is not of type double: 'much' is not a number"),
        (pa.string(), '{"x": 5}', "Column 'x': a value is not of type string: '5' is not text"),
        (pa.date32(), '{"x": "soon"}', "Column 'x': a value is not of type date32.*soon"),
        (pa.binary(), '{"x": "%"}', "Column 'x': a value is not of type binary"),
        (pa.bool_(), '{"x": 1}', "is not true or false"),
        (pa.map_(pa.string(), pa.int8()), '{"x": [1]}', "1 is not a pair"),
        (pa.struct([("a", pa.int8())]), '{"x": {"b": 1}}', "unknown field 'b'"),
        (pa.list_(pa.int8(), 2), '{"x": [1]}', "does not have 2 values"),
        (pa.list_(pa.date32()), '{"x": "soon"}', "'soon' is not an array"),
        (pa.decimal128(4, 2), '{"x": "abc"}', "Column 'x': a value is not of type decimal128"),
        (pa.date32(), '{"x": 1, "y": 2}', "Line 1 has a field 'y', which the table lacks"),
        (pa.date32(), "{", "Line 1 is not JSON"),
        (pa.date32(), "[1]", "Line 1 is not a JSON object"),
    ],
)
def test_a_value_that_does_not_fit_is_named(kind: pa.DataType, line: str, text: str) -> None:
    with pytest.raises((SchemaMismatchError, pa.ArrowInvalid), match=text):
        read_json_lines(io.BytesIO(f'{line}\n{{"x": null}}\n'.encode()), pa.schema([("x", kind)]))
