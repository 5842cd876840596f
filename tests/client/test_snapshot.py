"""Tables read once, whole or in part, and the list of tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs

SCHEMA = pa.schema(
    [pa.field("a", pa.int64(), metadata={"unit": "m"}), pa.field("b", pa.string())], metadata={"origin": "here"}
)


def _rows(count: int) -> pa.Table:
    return pa.table({"a": np.arange(count), "b": [f"row {number}" for number in range(count)]})


@pytest.fixture
def table(server: bs.Server) -> pa.Table:
    rows = _rows(70_000)
    server.append_table("t", SCHEMA).append(rows)
    return rows


def test_a_whole_table(client: bs.Client, table: pa.Table) -> None:
    found = client.snapshot("t")
    assert found.equals(table)
    assert found.schema.equals(SCHEMA, check_metadata=True)


@pytest.mark.parametrize(
    ("columns", "viewport", "reverse", "positions"),
    [
        (["b"], None, False, range(70_000)),
        (None, range(10, 20), False, range(10, 20)),
        (["a"], range(10), True, range(69_990, 70_000)),
        (["b", "a"], [5, 3, 1], False, [1, 3, 5]),
        (None, range(69_999, 80_000), False, [69_999]),
        (None, range(90_000, 90_010), True, []),
        (None, range(0), False, []),
    ],
)
def test_a_part_of_it(
    client: bs.Client,
    table: pa.Table,
    columns: list[str] | None,
    viewport: range | list[int] | None,
    reverse: bool,
    positions: range | list[int],
) -> None:
    found = client.snapshot("t", columns, viewport, reverse=reverse)
    expected = table.take(pa.array(positions, pa.int64()))
    assert found.to_pydict() == expected.select(sorted(columns) if columns else ["a", "b"]).to_pydict()


def test_an_empty_table(server: bs.Server, client: bs.Client) -> None:
    server.append_table("empty", SCHEMA)
    for found in (
        client.snapshot("empty"),
        client.snapshot("empty", ["a", "b"]),
        client.snapshot("empty", viewport=range(5)),
    ):
        assert found.num_rows == 0
        assert found.schema.equals(SCHEMA)


def test_what_is_not_there(server: bs.Server, client: bs.Client) -> None:
    server.append_table("t", SCHEMA)
    with pytest.raises(bs.UnknownTableError, match="nope"):
        client.snapshot("nope")
    with pytest.raises(bs.UnknownTableError, match="nope"):
        client.snapshot("nope", viewport=range(3))
    with pytest.raises(bs.UnknownColumnError, match="a, b"):
        client.snapshot("t", ["c"])
    with pytest.raises(bs.InvalidRequestError, match="reverse=True"):
        client.snapshot("t", viewport=range(-5, 0))
    with pytest.raises(bs.InvalidRequestError):
        client.snapshot("")


def test_tables_are_listed_with_what_is_known_about_them(server: bs.Server, client: bs.Client) -> None:
    assert client.tables() == []
    server.keyed_table("keyed", SCHEMA, key=["a"]).upsert(_rows(3))
    server.append_table("appended", SCHEMA)
    appended, keyed = client.tables()
    assert (appended.name, appended.size, appended.key_columns) == ("appended", 0, ())
    assert appended.schema.equals(SCHEMA, check_metadata=True)
    assert appended.attributes["AppendOnly"] is True
    assert (keyed.name, keyed.size, keyed.key_columns) == ("keyed", 3, ("a",))
    assert repr(keyed) == "<TableInfo 'keyed' rows=3 key=['a'] (a: int64, b: string)>"
    assert client.table("keyed") == keyed
    with pytest.raises(bs.UnknownTableError):
        client.table("nope")


def test_data_frames(client: bs.Client, table: pa.Table) -> None:
    with client.subscribe("t", viewport=range(3)) as live:
        assert live.to_pandas()["b"].tolist() == ["row 0", "row 1", "row 2"]
        assert live.to_polars()["a"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(
    client: bs.Client, table: pa.Table, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barrage_server.engine.frames.find_spec", lambda name: None)
    with (
        client.subscribe("t", viewport=range(3)) as live,
        pytest.raises(bs.DependencyError, match=f"pip install {package}"),
    ):
        getattr(live, f"to_{package}")()
