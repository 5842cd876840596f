"""Arrow types by name: what Arrow prints is read back as the same type."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import UnsupportedTypeError
from barrage_server.type_names import parse_type

SIMPLE = [
    pa.bool_(),
    pa.int8(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(16),
    pa.date32(),
    pa.date64(),
    pa.time32("ms"),
    pa.time64("ns"),
    pa.timestamp("us"),
    pa.timestamp("ns", tz="UTC"),
    pa.timestamp("s", tz="America/Argentina/Buenos_Aires"),
    pa.timestamp("ms", tz="+02:00"),
    pa.duration("ms"),
    pa.decimal128(10, 2),
    pa.decimal256(50, -3),
    pa.null(),
]
TYPES = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(lambda kind: pa.list_(pa.field("x", kind, nullable=kind == pa.null())), inner),
        st.builds(lambda kind: pa.list_(kind, 3), inner),
        st.builds(lambda kind: pa.map_(pa.string(), kind), inner),
        st.builds(lambda a, b: pa.struct([("a", a), pa.field("b c", b, nullable=b == pa.null())]), inner, inner),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_what_arrow_prints_is_read_back(kind: pa.DataType) -> None:
    assert parse_type(str(kind)) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("list<int64>", pa.list_(pa.int64())),
        ("map<string,double>", pa.map_(pa.string(), pa.float64())),
        ("timestamp[us, UTC]", pa.timestamp("us", tz="UTC")),
        (" int64 ", pa.int64()),
        ("str", pa.string()),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("struct<a:int64,b:list<string>>", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
    ],
)
def test_shorter_spellings_are_understood(text: str, kind: pa.DataType) -> None:
    assert parse_type(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int65",
        "list<",
        "list<int64",
        "list<int64>x",
        "struct<>",
        "int64;",
        "timestamp[parsecs]",
        "decimal128(99, 2)",
        "decimal128(99999999999999999999, 2)",
        "fixed_size_binary[999999999999]",
        "fixed_size_binary[-1]",
        "fixed_size_list<int8>[999999999999]",
        "fixed_size_list<int8>[-1]",
        "[]",
    ],
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"is not an Arrow type that is known here; examples: int64"):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("flaot64", "float64"),
        ("utin8", "uint8"),
        ("INT", "int64"),
        ("long", "int64"),
        ("map<string, strng>", "string"),
        ("datetime", "timestamp[us, tz=UTC]"),
        ("decimal", "decimal128(18, 4)"),
    ],
)
def test_a_name_that_is_not_known_is_told_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        parse_type(text)
    assert str(caught.value).endswith(f"Did you mean {nearest!r}?")
    parse_type(nearest)
    with pytest.raises(UnsupportedTypeError, match=r"b: string>\.$"):
        parse_type("nonsense")
