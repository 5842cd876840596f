"""Names of columns for Deephaven servers: legal, distinct, and the same where nothing is wrong with them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.wire.families import ClientFamily, FamilyColumns
from barrage_server.wire.java_names import java_names

names = st.lists(
    st.text(max_size=5) | st.sampled_from(["k", "column_k", "a", "a b", "a-b", "a2", "_", "new"]), unique=True
)


@given(names)
def test_names_are_legal_and_distinct(given_names: list[str]) -> None:
    made = java_names(given_names)
    assert len(set(made)) == len(made) == len(given_names)
    assert java_names(made) == made
    for name in made:
        assert name.isascii()
        assert name.replace("$", "_").isidentifier()


def test_names_that_are_legal_stay() -> None:
    legal = ["Sym", "price_2", "$x", "_a", "K", "column_k", "columns", "In"]
    assert java_names(legal) == legal


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("k", "column_k"),
        ("in", "column_in"),
        ("class", "column_class"),
        ("_", "column__"),
        ("-", "column__"),
        ("2nd", "column_2nd"),
        ("trade price", "trade_price"),
        ("bid-ask", "bid_ask"),
        ("a.b[0]", "ab0"),
        ("größe", "gre"),
        ("价格", "column_"),
        ("", "column_"),
        ("ïn", "n"),
        ("īk", "column_k"),
    ],
)
def test_what_a_name_becomes(name: str, made: str) -> None:
    assert java_names([name]) == [made]


def test_names_that_become_one_get_numbers() -> None:
    assert java_names(["a b", "a-b", "a_b", "a_b3"]) == ["a_b2", "a_b4", "a_b", "a_b3"]


def test_only_java_gets_other_names() -> None:
    schema = pa.schema([("k", pa.int64()), ("a b", pa.uint8()), ("x", pa.string())])
    view = FamilyColumns.of(schema, ClientFamily.JAVA)
    assert view.schema.names == ["column_k", "a_b", "x"]
    assert not view.is_plain
    assert view.convert(0, pa.array([1])).equals(pa.array([1]))
    for family in (ClientFamily.ARROW, ClientFamily.TICKING, ClientFamily.JAVASCRIPT):
        assert FamilyColumns.of(schema, family).schema.names == schema.names
