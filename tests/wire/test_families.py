"""Which columns each client family sees, and as what: the table in docs/types.md, and the values behind it."""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import types

from barrage_server.wire.families import ClientFamily, FamilyColumns, attributes_for
from barrage_server.wire.nulls import has_deephaven_null
from barrage_server.wire.schema import barrage_schema, java_type
from tests.wire.arrays import arrays, typed_values

DOCUMENT = Path(__file__).parents[2] / "docs" / "types.md"
STOCK = [ClientFamily.TICKING, ClientFamily.JAVA, ClientFamily.JAVASCRIPT]
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

# Names in the document that are not those of pyarrow.
NAMED: dict[str, pa.DataType] = {
    "decimal32": pa.decimal32(9, 2),
    "decimal64": pa.decimal64(18, 4),
    "decimal128": pa.decimal128(38, 0),
    "decimal256": pa.decimal256(76, -3),
    "fixed_size_binary": pa.binary(7),
    "struct": pa.struct([("a", pa.int64())]),
    "dense_union": pa.dense_union([pa.field("a", pa.int64())]),
    "sparse_union": pa.sparse_union([pa.field("a", pa.int64())]),
    "interval": pa.month_day_nano_interval(),
    **{
        f"time{bits}[{unit}]": maker(unit)
        for bits, unit, maker in [
            (32, "s", pa.time32),
            (32, "ms", pa.time32),
            (64, "us", pa.time64),
            (64, "ns", pa.time64),
        ]
    },
}


def named(name: str) -> pa.DataType:
    """The type that a name in the document stands for."""
    if name in NAMED:
        return NAMED[name]
    if match := re.fullmatch(r"timestamp\[(\w+)(?:, ([\w/]+))?\]", name):
        return pa.timestamp(*match.groups())
    return pa.type_for_alias(name)


def documented() -> list[tuple[str, list[str]]]:
    """Rows of the document's table that are about types by name: the name, and what each family sees."""
    found = []
    for line in DOCUMENT.read_text().split("# What Deephaven's clients see")[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 4:
            about = cells[0].replace("`map` of others, ", "")
            if re.fullmatch(r"(`[^`]+`(, )?)+", about):
                found += [(name, cells[1:]) for name in re.findall(r"`([^`]+)`", about)]
    return found


def seen(data_type: pa.DataType, family: ClientFamily, tag: str | None = None) -> pa.Field | None:
    """The field that ``family`` gets for a column of ``data_type``, with what goes beside it on the wire."""
    metadata = None if tag is None else {"deephaven:type": tag}
    view = FamilyColumns.of(pa.schema([pa.field("c", data_type, metadata=metadata)]), family)
    assert len(view.sources) + len(view.left_out) == 1
    return barrage_schema(view.schema).field(0) if view.sources else None


def tag_of(field: pa.Field | None) -> str | None:
    assert field is not None
    return dict(field.metadata).get(b"deephaven:type", b"").decode() or None


def test_the_document_has_all_kinds_of_types() -> None:
    """So that the next test does not pass by reading nothing."""
    names = {name for name, _ in documented()}
    assert len(names) == 48
    assert {"uint8", "uint64", "decimal256", "duration[us]", "timestamp[ns, CET]", "binary", "null", "struct"} <= names


@pytest.mark.parametrize(("name", "cells"), documented(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_family_sees_what_the_document_says(name: str, cells: list[str]) -> None:
    """As it is, as another type, or not at all."""
    data_type = named(name)
    for family, cell in zip(STOCK, cells, strict=True):
        field = seen(data_type, family)
        if cell == "left out":
            assert field is None
            continue
        assert field is not None
        says, _, remark = cell.partition(":")
        expected = data_type if says == "as it is" else named(says.strip("`"))
        assert field.type == expected, (family, cell)
        if remark.startswith((" a Big", " a byte", " a char", " a Zoned")):
            assert str(tag_of(field)).endswith(remark.removeprefix(" a "))
        # and so do lists of it
        if not types.is_nested(data_type):
            number = str(tag_of(field)).startswith("java.math")
            element, tag = expected, tag_of(field)
            if family is ClientFamily.JAVASCRIPT and (expected == pa.int8() or number):
                element = pa.string() if number else pa.int16()
                tag = java_type(element)
            for kind in (
                pa.list_(data_type),
                pa.large_list(data_type),
                pa.list_(data_type, 2),
                pa.list_view(data_type),
                pa.large_list_view(data_type),
            ):
                of_lists = seen(kind, family)
                assert of_lists is not None
                assert of_lists.type == pa.list_(element)
                assert tag_of(of_lists) == f"{tag}[]"


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (pa.list_(pa.list_(pa.int64())), pa.list_(pa.list_(pa.int64()))),
        (pa.large_list(pa.list_(pa.uint8(), 2)), pa.list_(pa.list_(pa.int16()))),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int64())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int16())),
        (pa.map_(pa.string(), pa.decimal128(5)), None),
        (pa.map_(pa.uint64(), pa.string()), None),
        (pa.map_(pa.string(), pa.list_(pa.string())), None),
        (pa.list_(pa.map_(pa.string(), pa.string())), None),
        (pa.list_(pa.struct([("x", pa.int8())])), None),
        (pa.list_(pa.month_day_nano_interval()), None),
    ],
    ids=str,
)
def test_deeper_types_are_seen_by_java_alone(data_type: pa.DataType, expected: pa.DataType | None) -> None:
    """Lists of lists, and maps whose keys and items Java tells by their Arrow types."""
    field = seen(data_type, ClientFamily.JAVA)
    assert (None if field is None else field.type) == expected
    assert seen(data_type, ClientFamily.TICKING) is None
    assert seen(data_type, ClientFamily.JAVASCRIPT) is None


def is_readable(data_type: pa.DataType, family: ClientFamily, tag: str | None) -> bool:
    """Deephaven's readers (deephaven-clients 9.2, 9.4, 10), written down a second time."""
    if types.is_list(data_type):
        element = data_type.value_type
        component = None if tag is None else tag.removesuffix("[]")
        if family is ClientFamily.JAVASCRIPT and element in (pa.int8(), pa.binary()):
            return False
        nested = types.is_nested(element)
        return (family is ClientFamily.JAVA or not nested) and is_readable(element, family, component)
    if types.is_map(data_type):
        inner = [data_type.key_type, data_type.item_type]
        return family is ClientFamily.JAVA and all(is_readable(part, family, java_type(part)) for part in inner)
    exact = [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.float32(), pa.float64(), pa.bool_()),
        *(pa.string(), pa.timestamp("ns", "UTC"), pa.date64(), pa.time64("ns")),
    ]
    if data_type in exact:
        return True
    number = tag in ("java.math.BigDecimal", "java.math.BigInteger")
    if family is ClientFamily.TICKING:
        return False
    if data_type == pa.binary():
        return number or (family is ClientFamily.JAVA and tag == "byte[]")
    if types.is_date(data_type) or types.is_time(data_type):
        return True
    return family is ClientFamily.JAVA and (
        data_type == pa.duration("ns") or (types.is_timestamp(data_type) and data_type.unit == "ns")
    )


@given(data=st.data(), family=st.sampled_from(STOCK))
def test_whatever_is_sent_can_be_read(data: st.DataObject, family: ClientFamily) -> None:
    """Any type a table can hold: left out, or of a type that the family reads; values keep their places."""
    data_type = data.draw(typed_values())
    field = seen(data_type[0], family)
    if field is None:
        assert types.is_nested(data_type[0])
        return
    assert is_readable(field.type, family, tag_of(field)), (data_type[0], field.type)
    view = FamilyColumns.of(pa.schema([("c", data_type[0])]), family)
    array = data.draw(arrays(data_type))
    got = view.convert(0, array)
    got.validate(full=True)
    assert (len(got), got.type) == (len(array), field.type)
    assert array.is_null().to_pylist() == got.is_null().to_pylist() or types.is_temporal(data_type[0])


def shown(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    """What a converted value must be, said in Python. Times: as integers of the target's unit."""
    if value is None:
        return None
    if types.is_decimal(source):
        return str(value) if target == pa.string() else value
    if types.is_uint64(source):
        return str(value) if target == pa.string() else value
    if target == pa.string() and isinstance(value, bytes):
        return value.hex()
    if types.is_temporal(source) and source != target:
        return temporal(value, source, target)
    return value


def temporal(value: int, source: pa.DataType, target: pa.DataType) -> int | None:
    factor = 86_400_000 if types.is_date(source) else NANOSECONDS[source.unit]
    return value * factor if abs(value * factor) < 1 << 63 else None


def integers(array: pa.Array) -> list[Any]:
    """Values, and of times the integers behind them."""
    if types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def read(array: pa.Array, source: pa.DataType) -> list[Any]:
    """Sent values as their reader has them."""
    values = integers(array)
    if array.type != pa.binary() or not (types.is_decimal(source) or types.is_uint64(source)):
        return values
    if types.is_uint64(source):
        return [None if value is None else int.from_bytes(value, "big", signed=True) for value in values]
    return [None if value is None else big_decimal(value) for value in values]


def big_decimal(data: bytes) -> Decimal:
    (scale,) = struct.unpack_from("<i", data)
    sign, digits, _ = Decimal(int.from_bytes(data[4:], "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))


@settings(max_examples=200)
@given(data=st.data(), family=st.sampled_from(STOCK))
def test_values_are_what_they_were(data: st.DataObject, family: ClientFamily) -> None:
    """Every scalar type, in slices, with nulls and extremes, and in lists."""
    data_type = data.draw(typed_values(depth=0))
    source = data_type[0]
    array = data.draw(arrays(data_type))
    view = FamilyColumns.of(pa.schema([("c", source), ("l", pa.list_(source))]), family)
    got = view.convert(0, array)
    assert read(got, source) == [shown(value, source, got.type) for value in integers(array)]

    lists = pa.ListArray.from_arrays(pa.array([0, 0, len(array) // 2, len(array)]), array).slice(1)
    listed = view.convert(1, lists)
    listed.validate(full=True)
    elements = listed.flatten()
    assert read(elements, source) == [shown(value, source, elements.type) for value in integers(array)]
    assert listed.value_lengths() == lists.value_lengths()


def test_what_needs_no_conversion_is_not_touched() -> None:
    """Plain Arrow clients get the very schema and arrays, whatever the types; others where nothing is to be done."""
    schema = pa.schema([("a", pa.uint64()), ("b", pa.struct([("c", pa.int8())]))], metadata={"k": "v"})
    view = FamilyColumns.of(schema, ClientFamily.ARROW)
    assert view.schema is schema
    assert (view.sources, view.left_out, view.is_plain) == ((0, 1), (), True)
    array = pa.array([1, 2], pa.uint64())
    assert view.convert(0, array) is array
    simple = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string())), ("c", pa.timestamp("ns", "UTC"))])
    for family in STOCK:
        assert FamilyColumns.of(simple, family).is_plain
        assert FamilyColumns.of(simple, family).schema is simple


def test_columns_are_numbered_without_those_left_out() -> None:
    """One in the middle: those after it move up, and keep their metadata."""
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), metadata={"mine": "1"}),
            pa.field("b", pa.struct([("x", pa.int8())])),
            pa.field("c", pa.uint8(), nullable=False, metadata={"mine": "2", "deephaven:type": "java.lang.Short"}),
        ],
        metadata={"table": "t"},
    )
    view = FamilyColumns.of(schema, ClientFamily.JAVA)
    assert (view.schema.names, view.sources, view.left_out) == (["a", "c"], (0, 2), ("b",))
    assert view.schema.metadata == {b"table": b"t"}
    assert view.schema.field("a") == schema.field("a")
    assert view.schema.field("c").type == pa.int16()
    assert view.schema.field("c").metadata == {b"mine": b"2"}
    assert view.convert(0, pa.array([1])).type == pa.int64()
    assert view.convert(1, pa.array([200], pa.uint8())).to_pylist() == [200]


def test_a_table_of_which_nothing_can_be_shown() -> None:
    view = FamilyColumns.of(pa.schema([("a", pa.struct([]))]), ClientFamily.TICKING)
    assert (len(view.schema), view.sources, view.left_out) == (0, (), ("a",))


BIG_DECIMAL, BIG_INTEGER, ZONED = "java.math.BigDecimal", "java.math.BigInteger", "java.time.ZonedDateTime"


@pytest.mark.parametrize("family", STOCK, ids=str)
@pytest.mark.parametrize(
    ("data_type", "given_tag", "expected"),
    [
        (pa.int64(), "com.example.Unknown", "long"),
        (pa.int64(), "long", "long"),
        (pa.uint16(), "char", "char"),
        (pa.string(), "java.math.BigDecimal", "java.lang.String"),
        (pa.uint8(), "byte", "short"),
        (pa.timestamp("ns", "UTC"), ZONED, ZONED),
        (pa.timestamp("us", "UTC"), ZONED, ZONED),
        (pa.timestamp("us", "UTC"), "java.util.Date", "java.time.Instant"),
        (pa.list_(pa.int64()), "io.deephaven.vector.LongVector", "long[]"),
        (pa.list_(pa.timestamp("ns", "UTC")), f"{ZONED}[]", f"{ZONED}[]"),
    ],
)
def test_tags_that_readers_do_not_expect_are_not_sent(
    family: ClientFamily, data_type: pa.DataType, given_tag: str, expected: str
) -> None:
    """Java and JavaScript would refuse the table (deephaven-clients 5.2)."""
    assert tag_of(seen(data_type, family, given_tag)) == expected


@pytest.mark.parametrize("tag", [BIG_DECIMAL, BIG_INTEGER])
@pytest.mark.parametrize("data_type", [pa.binary(), pa.large_binary(), pa.binary(6)], ids=str)
def test_numbers_in_binary_columns_stay_numbers(tag: str, data_type: pa.DataType) -> None:
    """As a Deephaven server sends them (relayed, for instance): 2.58 as a BigDecimal, or an integer; or their text."""
    data = struct.pack("<i", 2) + b"\x01\x02"
    array = pa.array([data, None], data_type)
    text = "2.58" if tag == BIG_DECIMAL else str(int.from_bytes(data, "big"))
    for family, expected in zip(STOCK, [text, data, data], strict=True):
        field = seen(data_type, family, tag)
        view = FamilyColumns.of(pa.schema([pa.field("c", data_type, metadata={"deephaven:type": tag})]), family)
        assert view.convert(0, array).to_pylist() == [expected, None]
        assert tag_of(field) == ("java.lang.String" if family is ClientFamily.TICKING else tag)


@pytest.mark.parametrize("tag", [BIG_DECIMAL, BIG_INTEGER])
def test_lists_of_numbers_in_binary_are_numbers_to_java_only(tag: str) -> None:
    """The JavaScript API of 42.7 does not read them."""
    data = struct.pack("<i", 2) + b"\x01\x02"
    array = pa.array([[data, None]], pa.list_(pa.binary()))
    text = "2.58" if tag == BIG_DECIMAL else str(int.from_bytes(data, "big"))
    metadata = {"deephaven:type": f"{tag}[]"}
    for family, expected in zip(STOCK, [text, data, text], strict=True):
        view = FamilyColumns.of(pa.schema([pa.field("c", array.type, metadata=metadata)]), family)
        assert view.convert(0, array).to_pylist() == [[expected, None]]
        sent = barrage_schema(view.schema).field(0)
        component = tag if family is ClientFamily.JAVA else "java.lang.String"
        assert tag_of(sent) == f"{component}[]"
        assert sent.metadata[b"deephaven:componentType"] == component.encode()


class Celsius(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """An extension type of the tests."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


@pytest.mark.parametrize("family", STOCK, ids=str)
def test_extension_types_are_seen_as_their_storage(family: ClientFamily) -> None:
    """Converted, too, where the storage is; also in lists."""
    for storage in (pa.int32(), pa.uint8()):
        kind = Celsius(storage)
        stored = pa.array([1, None, 3], storage)
        array = pa.ExtensionArray.from_storage(kind, stored)
        view = FamilyColumns.of(pa.schema([("c", kind), ("l", pa.list_(kind))]), family)
        expected = FamilyColumns.of(pa.schema([("c", storage)]), family).convert(0, stored)
        assert view.convert(0, array.slice(1)).equals(expected.slice(1))
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), array)
        assert view.convert(1, lists.slice(1)).flatten().equals(expected.slice(2))
        assert view.schema.types == [expected.type, pa.list_(expected.type)]
    assert seen(Celsius(pa.struct([("x", pa.int8())])), family) is None
    if family is not ClientFamily.JAVA:
        assert seen(pa.list_(Celsius(pa.list_(pa.int8()))), family) is None


@pytest.mark.parametrize("family", STOCK, ids=str)
def test_extension_types_that_the_server_does_not_know_are_seen_as_their_storage(family: ClientFamily) -> None:
    """A client that knows the type would not find the storage that it has, where that is converted."""
    for kind in (pa.int32(), pa.uint8()):
        metadata = {"ARROW:extension:name": "test.celsius", "ARROW:extension:metadata": "", "own": "kept"}
        field = pa.field("c", kind, metadata=metadata)
        view = FamilyColumns.of(pa.schema([field, pa.field("l", pa.list_(field))]), family)
        for sent in (view.schema.field(0), view.schema.field(1).type.value_field):
            assert sent.metadata[b"own"] == b"kept"
            assert b"ARROW:extension:name" not in sent.metadata


@pytest.mark.parametrize("zone", ["+02:00", "-11:30", "America/Argentina/Buenos_Aires", "Etc/UTC"])
def test_zones_that_java_knows_are_kept(zone: str) -> None:
    field = seen(pa.timestamp("us", zone), ClientFamily.JAVA)
    assert field is not None
    assert (field.type, tag_of(field)) == (pa.timestamp("ns", zone), ZONED)


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "+25:00", "posix/Europe/Paris", "EST", "../etc/passwd", "/etc/hosts", ""]
)
def test_zones_that_java_may_not_know_become_utc(zone: str) -> None:
    """Whatever a publisher wrote, Java would refuse the table for a zone that it does not know."""
    field = seen(pa.timestamp("us", zone), ClientFamily.JAVA)
    assert field is not None
    if zone:
        assert (field.type, tag_of(field)) == (pa.timestamp("ns", "UTC"), "java.time.Instant")
    else:
        assert field.type == pa.timestamp("ns")


@given(st.lists(st.none() | st.integers(0, 255)))
def test_widened_numbers_are_free_of_deephavens_nulls(values: list[int | None]) -> None:
    """128 is the null byte of Java, but no null short."""
    for family in STOCK:
        got = FamilyColumns.of(pa.schema([("c", pa.uint8())]), family).convert(0, pa.array(values, pa.uint8()))
        assert has_deephaven_null(got.type)
        assert got.to_pylist() == values


@pytest.mark.parametrize("family", ClientFamily)
def test_javascript_is_not_told_that_a_table_is_a_blink_table(family: ClientFamily) -> None:
    """It would look for its rows at the wrong keys."""
    told = attributes_for({"BlinkTable": True, "AddOnly": True}, family)
    assert told == ({"AddOnly": True} if family is ClientFamily.JAVASCRIPT else {"BlinkTable": True, "AddOnly": True})
