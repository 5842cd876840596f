"""What a page gets of each type: nothing is lost but the ends of long cells, which are marked."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import types

from barrage_server.wire.browser_types import CUT_CHARACTERS, form_of, whole_text
from barrage_server.wire.families import ClientFamily, FamilyColumns
from tests.wire.arrays import typed_values

NUMBERS = {"bool", "int", "float"}
TIMES = {"timestamp", "date", "time", "duration"}


def sent(array: pa.Array) -> pa.Array:
    view = FamilyColumns.of(pa.schema([("c", array.type)]), ClientFamily.BROWSER)
    assert not view.left_out
    found = view.convert(0, array)
    assert found.type == view.schema.field(0).type
    found.validate(full=True)
    assert len(found) == len(array)
    assert found.is_null().equals(array.is_null()) or types.is_null(array.type) or types.is_union(array.type)
    return found


@settings(max_examples=300)
@given(typed_values(), st.data())
def test_every_type_travels_exactly(typed: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    kind, values = typed
    array = pa.array(data.draw(st.lists(values, max_size=8)), kind)
    array = array[data.draw(st.integers(0, len(array))) :]
    found, form = sent(array), form_of(kind)["form"]
    if form in NUMBERS:
        assert found.type == kind or isinstance(kind, pa.BaseExtensionType)
        return
    if form in TIMES:
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        assert found.equals(array.cast(width))
        return
    assert found.type == pa.string()
    for row, (before, after) in enumerate(zip(array, found, strict=True)):
        if not before.is_valid or after.as_py() is None:
            continue
        text = after.as_py()
        whole = whole_text(array.slice(row, 1), 1 << 20)
        assert whole is not None
        if form == "decimal":
            assert Decimal(text) == before.as_py()
        elif form == "binary":
            assert bytes.fromhex(text) == before.as_py()
        elif form == "text":
            assert text == before.as_py() == whole
        elif form == "nested":
            assert text == whole or whole.startswith(text[:CUT_CHARACTERS])


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 100_000])
@pytest.mark.parametrize("letter", ["a", "é", "€", "😀"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_beyond_512_characters_is_cut_and_marked(length: int, letter: str, kind: pa.DataType) -> None:
    text = letter * length
    array = pa.array(["before", text, None, ""], kind)
    first, cut, missing, empty = sent(array).to_pylist()
    assert (first, missing, empty) == ("before", None, "")
    assert cut == (text if length <= CUT_CHARACTERS else text[:CUT_CHARACTERS] + str(length))
    assert whole_text(array[1:2], 1 << 20) == text
    assert (len(cut) > CUT_CHARACTERS) == (length > CUT_CHARACTERS)


@pytest.mark.parametrize("length", [0, 256, 257, 70_000])
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_binary_is_cut_like_its_digits(length: int, kind: pa.DataType) -> None:
    array = pa.array([b"\x0f", b"\xab" * length, None], kind)
    _, cut, missing = sent(array).to_pylist()
    digits = "ab" * length
    assert missing is None
    assert cut == (digits if len(digits) <= CUT_CHARACTERS else digits[:CUT_CHARACTERS] + str(len(digits)))
    assert whole_text(array[1:2], 1 << 20) == digits


def test_nested_values_read_like_json() -> None:
    kind = pa.struct([("a", pa.list_(pa.int64())), ('q"', pa.string()), ("b", pa.bool_()), ("m", pa.float64())])
    value = {"a": [1, None, -3], 'q"': 'x\n"\u202e', "b": True, "m": 0.5}
    (text,) = sent(pa.array([value], kind)).to_pylist()
    assert json.loads(text) == value


def test_a_map_is_a_list_of_pairs_and_a_time_is_text() -> None:
    kind = pa.map_(pa.string(), pa.timestamp("s"))
    (text,) = sent(pa.array([[("k", 0)]], kind)).to_pylist()
    assert json.loads(text) == [["k", "1970-01-01 00:00:00"]]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([list(range(1_000_000))]),
        pa.array([["x" * 1_000_000]]),
        pa.array([[b"x" * 1_000_000]]),
        pa.array([{"a": [["y" * 600] * 1000]}]),
    ],
)
def test_a_long_nested_value_is_read_as_far_as_it_is_shown(array: pa.Array) -> None:
    (text,) = sent(array).to_pylist()
    assert text[CUT_CHARACTERS:] == "…"
    whole = whole_text(array, 2000)
    assert whole is not None
    assert whole.startswith(text[:CUT_CHARACTERS])


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (pa.timestamp("us", "Europe/Berlin"), {"form": "timestamp", "unit": "us", "zone": "Europe/Berlin"}),
        (pa.timestamp("s"), {"form": "timestamp", "unit": "s"}),
        (pa.time32("ms"), {"form": "time", "unit": "ms"}),
        (pa.duration("ns"), {"form": "duration", "unit": "ns"}),
        (pa.date64(), {"form": "date"}),
        (pa.uuid(), {"form": "binary"}),
        (pa.decimal256(40, 3), {"form": "decimal"}),
        (pa.null(), {"form": "null"}),
        (pa.month_day_nano_interval(), {"form": "nested"}),
    ],
)
def test_the_page_is_told_what_a_column_means(kind: pa.DataType, form: dict[str, str]) -> None:
    assert form_of(kind) == form


def test_whole_cells_are_bounded() -> None:
    assert whole_text(pa.array(["x" * 100]), 10) == "x" * 10 + "…"
    assert whole_text(pa.array([b"x" * 100]), 10) == "78" * 5 + "…"
    assert whole_text(pa.nulls(1, pa.string()), 10) is None
    assert whole_text(pa.array([1.5]), 10) == "1.5"


def test_a_time_that_no_calendar_has_is_a_number_within_nested_values() -> None:
    (text,) = sent(pa.array([[1 << 62]], pa.list_(pa.timestamp("s", "Nowhere/Place")))).to_pylist()
    assert text == f'["{1 << 62}"]'


def test_an_interval_is_said_in_its_parts() -> None:
    array = pa.array([pa.MonthDayNano((1, 2, 3))])
    assert sent(array).to_pylist() == ['"1 months 2 days 3 ns"']
