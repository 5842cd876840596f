"""Our client at the endpoint for Deephaven's clients: all works as it does at Flight's."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

import barrage_server as bs

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string()), ("decimal", pa.decimal128(9, 2)), ("day", pa.date32())])


def _rows(*keys: int, text: str | None = None) -> pa.Table:
    cells = [chr(97 + key) if text is None else text for key in keys]
    days = [None if key % 3 else key for key in keys]
    return pa.table({"key": keys, "text": cells, "decimal": [Decimal(key) / 4 for key in keys], "day": days}, SCHEMA)


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(deephaven_port=0, token="secret") as server:
        server.keyed_table("t", SCHEMA, key=["key"]).upsert(_rows(*range(10)))
        yield server


@pytest.fixture
def client(server: bs.Server) -> Iterator[bs.Client]:
    with bs.connect(str(server.deephaven_uri), token="secret") as client:
        yield client


def test_it_is_known_for_what_it_is(server: bs.Server, client: bs.Client) -> None:
    assert client.uri.startswith("dh+plain://")
    assert not client.is_deephaven
    (found,) = client.tables()
    assert (found.name, found.size, found.key_columns) == ("t", 10, ("key",))
    assert found.schema == SCHEMA
    assert client.statistics()
    with bs.connect(str(server.deephaven_uri), user="ann", password="secret") as other:
        assert other.table("t") == found
    with pytest.raises(bs.AuthenticationError, match=r"^The token is missing or wrong"):
        bs.connect(str(server.deephaven_uri), token="wrong")
    with pytest.raises(bs.UnknownTableError, match="Did you mean"):
        client.snapshot("tt")


def test_snapshots_of_parts_have_their_columns(server: bs.Server, client: bs.Client) -> None:
    """Columns that were not asked for are empty at this endpoint."""
    whole = server.table("t").to_arrow()
    assert client.snapshot("t") == whole
    assert client.snapshot("t", ["text"]) == whole.select(["text"])
    assert client.snapshot("t", ["key", "day"], range(2, 4)) == whole.select(["key", "day"]).slice(2, 2)
    assert client.snapshot("t", viewport=range(2), reverse=True) == whole.slice(8)


@pytest.mark.parametrize("dialect", [None, *bs.Dialect])
def test_tables_and_windows_are_followed(server: bs.Server, client: bs.Client, dialect: bs.Dialect | None) -> None:
    with (
        client.subscribe("t", interval_ms=1) as whole,
        client.subscribe("t", ["text", "decimal"], range(3), interval_ms=1, dialect=dialect) as window,
    ):
        client.upsert("t", _rows(20, 1, text="new"))
        whole.wait_until(lambda view: view.to_arrow() == server.table("t").to_arrow() and view.size == 11)
        window.wait_until(lambda view: view.to_arrow()["text"].to_pylist() == ["a", "new", "c"])
        window.set_viewport(range(2), ["key"], reverse=True)
        assert window.to_arrow().to_pydict() == {"key": [9, 20]}


def test_tables_are_published(server: bs.Server, client: bs.Client) -> None:
    assert client.publish("new", {"x": [1, 2]}, key=["x"]) == 2
    with client.subscribe("new") as live, client.publish_live("copy", live) as publication:
        publication.flush()
        assert server.table("copy").size == 2
    client.drop("new")
    assert [info.name for info in client.tables()] == ["copy", "t"]
