"""Tables in notebooks: every text is escaped, and what is shown is bounded."""

from __future__ import annotations

import datetime
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, KeyedTable, UpdateGraph
from barrage_server.engine.html import grid_html

HOSTILE = "<script>alert('x')</script>&\"\x00\n"


def parsed(html: str) -> ElementTree.Element:
    """The elements of a fragment, which must be well formed: text that is not escaped would not be."""
    return ElementTree.fromstring(html)


def cells(html: str) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in parsed(html).findall("./tbody/tr")]


def table_of(columns: dict[str, Any]) -> AppendTable:
    rows = pa.table(columns)
    table = AppendTable(UpdateGraph(), "t", rows.schema)
    table.append(rows)
    return table


def test_the_first_rows_and_the_shape_in_words() -> None:
    html = table_of({"a": range(1234), "b": ["x"] * 1234})._repr_html_()
    caption = parsed(html).findtext("caption")
    assert caption == "AppendTable t: 1,234 rows × 2 columns, the first 10 rows are shown"
    assert cells(html) == [[str(number), "x"] for number in range(10)]
    assert [head.text for head in parsed(html).findall("./thead/tr/th")] == ["a", "b"]


def test_names_and_cells_are_escaped() -> None:
    table = KeyedTable(UpdateGraph(), HOSTILE.strip(), {HOSTILE: "string", "v": "list<string>"}, HOSTILE)
    table.upsert({HOSTILE: [HOSTILE], "v": [[HOSTILE]]})
    html = table._repr_html_()
    assert "<script" not in html
    assert "\x00" not in html
    assert cells(html)[0][0].startswith("<script>alert(")


def test_what_is_shown_is_bounded() -> None:
    wide = table_of({f"c{number}": ["x" * 1_000_000] * 3 for number in range(30)})
    html = wide._repr_html_()
    assert len(html) < 10_000
    assert "the first 20 columns are shown" in html
    nested = table_of(
        {"l": [[["y" * 1000] * 1000] * 1000], "s": [{"a": {"b": {"c": {"d": 1}}}}], "b": [b"z" * 100_000]}
    )
    assert len(nested._repr_html_()) < 5_000


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (pa.array([None, 1]), "∅"),
        (pa.nulls(1), "∅"),
        (pa.array([1 << 62], pa.timestamp("s")), ""),
        (pa.array([datetime.datetime(2024, 1, 2, 3)], pa.timestamp("ns")), "2024-01-02"),
        (pa.array([1], pa.timestamp("us", "Europe/Zurich")), ""),
        (pa.array([b"\xff\x00"]), "ff00"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "k"),
        (pa.array([[1, None]]), "[1, ∅]"),
        (pa.array([True]), "true"),
        (pa.array([1.5], pa.float16()), "1.5"),
        (pa.array([{"a": 1, "b": "x"}]), "{a: 1, b: x}"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), ""),
        (pa.array([b"0123456789abcdef"], pa.uuid().storage_type), "3031"),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\xff" * 16], pa.binary(16))), "ffff"),
    ],
)
def test_values_of_every_type_are_shown(values: pa.Array, text: str) -> None:
    assert text in cells(table_of({"a": values})._repr_html_())[0][0]


@given(st.lists(st.tuples(st.text(), st.text()), max_size=150), st.text(max_size=500))
def test_any_texts_make_a_well_formed_grid_of_at_most_a_hundred_rows(rows: list[tuple[str, str]], caption: str) -> None:
    html = grid_html(caption, [("a", ""), (caption, caption)], rows)
    assert len(cells(html)) == min(100, len(rows))
