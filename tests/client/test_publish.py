"""Publishing: rows in every form, all or nothing, and tables that tick."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.flight
import pytest

import barrage_server as bs
from barrage_server.client import publication as publication_module
from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.spark.publisher import Publisher, ServerAccess
from barrage_server.subscription import Poll, Subscription
from barrage_server.wire.commit_messages import CommitRequest, StageRequest
from barrage_server.wire.protocol import PUT_OPTIONS_KEY, PublishMode, PutOptions

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


def _rows(*keys: int, text: str = "x") -> pa.Table:
    return pa.table({"key": list(keys), "text": [text] * len(keys)}, schema=SCHEMA)


FORMS = {
    "table": _rows(1, 2),
    "batch": _rows(1, 2).to_batches()[0],
    "reader": _rows(1, 2).to_reader(),
    "mapping": {"key": [1, 2], "text": ["x", "x"]},
    "pandas": pd.DataFrame({"key": [1, 2], "text": ["x", "x"]}),
    "polars": pl.DataFrame({"key": [1, 2], "text": ["x", "x"]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_every_form(client: bs.Client, form: str) -> None:
    assert client.publish("mine", FORMS[form]) == 2
    found = client.snapshot("mine")
    assert found["key"].to_pylist() == [1, 2]
    assert found["text"].to_pylist() == ["x", "x"]


def test_what_a_new_table_is(client: bs.Client) -> None:
    client.publish("appended", _rows(1))
    client.publish("keyed", _rows(1), key=["key"])
    client.publish("ring", _rows(1, 2, 3), capacity=2)
    client.publish("empty", _rows())
    for _ in range(2):
        client.publish("appended", _rows(1))
        client.publish("keyed", _rows(1, text="later"))
    assert client.snapshot("appended").num_rows == 3
    assert client.snapshot("keyed").to_pylist() == [{"key": 1, "text": "later"}]
    assert client.snapshot("ring")["key"].to_pylist() == [2, 3]
    assert client.snapshot("empty").schema.equals(SCHEMA)


def test_small_verbs(client: bs.Client) -> None:
    client.create_table("t", SCHEMA, key=["key"])
    client.create_table("t", SCHEMA, key=["key"])
    assert client.append("t", _rows(1, 2, 3)) == 3
    assert client.upsert("t", _rows(2, text="new")) == 1
    assert client.delete("t", {"key": [1]}) == 1
    assert sorted(client.snapshot("t").to_pydict()["text"]) == ["new", "x"]
    assert client.replace("t", _rows(9)) == 1
    assert client.snapshot("t")["key"].to_pylist() == [9]
    client.drop("t")
    assert client.tables() == []


def test_the_last_of_a_key_wins_and_null_is_a_key(client: bs.Client) -> None:
    client.publish("t", {"key": [1, None, 1, None], "text": ["a", "b", "c", "d"]}, key=["key"])
    assert sorted(client.snapshot("t")["text"].to_pylist()) == ["c", "d"]


def test_all_of_it_in_one_cycle(server: bs.Server, client: bs.Client) -> None:
    table = server.append_table("t", pa.schema([("a", pa.int64())]))
    updates: list[int] = []
    table.add_listener(lambda update, before, after: updates.append(update.added.size))
    client.publish("t", {"a": np.arange(3_000_000)})
    assert updates == [3_000_000]


def test_rows_that_break_off_change_nothing(server: bs.Server, client: bs.Client) -> None:
    table = server.append_table("t", SCHEMA)

    def broken() -> Iterator[pa.RecordBatch]:
        yield _rows(1).to_batches()[0]
        raise RuntimeError("the source's own fault")

    with pytest.raises(RuntimeError, match="own fault"):
        client.publish("t", pa.RecordBatchReader.from_batches(SCHEMA, broken()))
    client.publish("t", _rows(2))
    assert table.to_arrow()["key"].to_pylist() == [2]


def test_what_does_not_fit_is_refused_and_changes_nothing(server: bs.Server, client: bs.Client) -> None:
    keyed = server.keyed_table("keyed", SCHEMA, key=["key"])
    keyed.upsert(_rows(1))
    with pytest.raises(bs.KeyMismatchError):
        client.publish("keyed", _rows(1), key=["text"])
    with pytest.raises(bs.SchemaMismatchError, match="nonsense"):
        client.publish("keyed", {"nonsense": [1]})
    with pytest.raises(bs.SchemaMismatchError):
        client.publish("keyed", {"key": ["text"], "text": [1]})
    with pytest.raises(bs.SchemaMismatchError, match="int"):
        client.publish("keyed", 7)
    with pytest.raises(bs.InvalidRequestError, match="append, upsert"):
        client.publish("keyed", _rows(1), mode="improve")
    with pytest.raises(bs.InvalidRequestError, match="ring"):
        client.publish("new", _rows(1), kind="heap")
    with pytest.raises(bs.UnknownTableError):
        client.delete("new", _rows(1))
    with pytest.raises(bs.AlreadyExistsError):
        client.create_table("keyed", pa.schema([("other", pa.int8())]))
    assert keyed.to_arrow().to_pylist() == _rows(1).to_pylist()
    assert [table.name for table in client.tables()] == ["keyed"]


def test_many_threads_publish_and_every_row_arrives_once(server: bs.Server, client: bs.Client) -> None:
    server.append_table("t", SCHEMA)
    threads = [
        threading.Thread(target=lambda first=number * 10: [client.append("t", _rows(first + i)) for i in range(10)])
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(client.snapshot("t")["key"].to_pylist()) == list(range(60))


def test_a_table_of_the_engine_ticks_on_the_server(client: bs.Client) -> None:
    table = KeyedTable(UpdateGraph(), "local", SCHEMA, ["key"])
    table.upsert(_rows(1, 2))
    with client.publish_live("mine", table, interval_ms=1) as publication:
        assert client.snapshot("mine").equals(table.to_arrow())
        with client.subscribe("mine", interval_ms=1) as live:
            for round_ in range(10):
                table.upsert(_rows(round_, round_ + 1, text=f"round {round_}"))
                table.delete({"key": [round_ - 1]})
            live.wait_until(lambda view: view.to_arrow().equals(table.to_arrow()))
        publication.flush()
        assert "open" in repr(publication)
        table.upsert(_rows(77))
    assert not publication.is_open
    assert publication.error is None
    assert "closed" in repr(publication)
    assert 77 in client.snapshot("mine")["key"].to_pylist()


def test_a_flush_returns_when_readers_of_the_server_see_the_content(client: bs.Client) -> None:
    """Neither the interval nor what the server has yet to apply makes a reader see less."""
    table = KeyedTable(UpdateGraph(), "local", SCHEMA, ["key"])
    with client.publish_live("mine", table, interval_ms=600_000) as publication:
        for number in range(100):
            table.upsert(_rows(number, number + 1))
            publication.flush()
            assert client.snapshot("mine").equals(table.to_arrow())
        publication.flush()  # nothing is outstanding
    publication.flush()  # closed with everything applied
    table.upsert(_rows(500))
    with pytest.raises(bs.UnavailableError, match="closed"):
        publication.flush()


def test_a_change_right_after_a_look_at_the_table_is_published(
    client: bs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the sender does not wait for changes yet, and may be the last one for long."""
    table = KeyedTable(UpdateGraph(), "local", SCHEMA, ["key"])
    late: list[pa.Table] = []

    class Late(Subscription):
        def poll(self, now: float, *, at_once: bool = False, waited: bool = False) -> Poll:
            found = super().poll(now, at_once=at_once, waited=waited)
            if late and not found.messages and found.wake_at is None:
                table.upsert(late.pop())
            return found

    monkeypatch.setattr(publication_module, "Subscription", Late)
    with client.publish_live("mine", table, interval_ms=1) as publication:
        publication.flush()
        late += [_rows(1), _rows(2)]
        table.upsert(_rows(3))
        with client.subscribe("mine", interval_ms=1) as live:
            live.wait_until(lambda view: sorted(view["key"].to_pylist()) == [1, 2, 3], timeout=20)


def test_dictionaries_that_do_not_survive_streams_are_published(client: bs.Client) -> None:
    """As their values: pyarrow would send them so that the server cannot read them."""
    words = pa.array([["a", "b"], ["b"]], pa.list_(pa.string()))
    inner = pa.ListArray.from_arrays(words.offsets, words.values.dictionary_encode())
    nested = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), inner)
    numbers = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16)))
    uuids = pa.DictionaryArray.from_arrays(pa.array([0, None, 0]), numbers)
    assert client.publish("mine", pa.table({"words": nested, "id": uuids})) == 3
    found = client.snapshot("mine")
    assert found.schema.types == [words.type, pa.uuid()]
    assert found["words"].to_pylist() == [["b"], ["a", "b"], None]
    assert found["id"].to_pylist() == uuids.dictionary_decode().to_pylist()


def test_a_live_table_is_relayed_from_another_server(server: bs.Server, client: bs.Client) -> None:
    with bs.Server(host="127.0.0.1", port=0) as upstream, bs.connect(upstream.uri) as source:
        quotes = upstream.keyed_table("quotes", SCHEMA, key=["key"])
        quotes.upsert(_rows(*range(100)))
        with (
            source.subscribe("quotes", viewport=range(5), reverse=True, interval_ms=1) as window,
            source.subscribe("quotes", interval_ms=1) as whole,
            client.publish_live("relayed window", window, interval_ms=1),
            client.publish_live("relayed", whole, interval_ms=1),
            client.subscribe("relayed window", interval_ms=1) as tail,
            client.subscribe("relayed", interval_ms=1) as copy,
        ):
            quotes.upsert(_rows(200, 201))
            quotes.delete({"key": [3]})
            tail.wait_until(lambda view: view.to_arrow()["key"].to_pylist() == [97, 98, 99, 200, 201])
            copy.wait_until(lambda view: view.to_arrow().equals(quotes.to_arrow()))


def test_a_publication_that_the_server_refuses_says_why(server: bs.Server, client: bs.Client) -> None:
    server.append_table("taken", SCHEMA)
    table = KeyedTable(UpdateGraph(), "local", SCHEMA, ["key"])
    with pytest.raises(bs.AlreadyExistsError, match="taken"):
        client.publish_live("taken", table)
    with pytest.raises(bs.InvalidRequestError, match=r"publish_live\(name, table\)"):
        client.publish("mine", table)
    with pytest.raises(bs.InvalidRequestError, match=r"publish\(name, rows\)"):
        client.publish_live("mine", _rows(1))
    with client.publish_live("mine", table), pytest.raises(bs.AlreadyExistsError, match="mine"):
        client.publish_live("mine", table)


def test_a_publication_ends_with_its_server(client: bs.Client, server: bs.Server) -> None:
    table = KeyedTable(UpdateGraph(), "local", SCHEMA, ["key"])
    publication = client.publish_live("mine", table, interval_ms=1)
    server.close()
    table.upsert(_rows(1))
    with pytest.raises(bs.BarrageError):
        publication.flush(timeout=20)
    with pytest.raises(bs.BarrageError):
        publication.close()
    assert publication.error is not None
    publication.close()


def test_closing_the_client_sends_what_is_outstanding(server: bs.Server) -> None:
    table = KeyedTable(UpdateGraph(), "local", SCHEMA, ["key"])
    with bs.connect(server.uri) as client:
        publication = client.publish_live("mine", table, interval_ms=60_000)
        table.upsert(_rows(*range(1000)))
    assert not publication.is_open
    assert server.table("mine").size == 1000


WINDOW = pa.struct([("start", pa.timestamp("us", "UTC")), ("end", pa.timestamp("us", "UTC"))])
WINDOWED = pa.schema([("window", WINDOW), ("name", pa.string()), ("count", pa.int64())])


def _windowed(*rows: tuple[tuple[int | None, int | None] | None, str | None, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "window": None if window is None else dict(zip(("start", "end"), window, strict=True)),
                "name": name,
                "count": count,
            }
            for window, name, count in rows
        ],
        schema=WINDOWED,
    )


@pytest.mark.parametrize("way", ["embedded", "publish", "put", "commit"])
def test_a_struct_is_a_key_through_every_way_in(server: bs.Server, client: bs.Client, way: str) -> None:
    """As the window of an aggregation is; a null struct differs from one of nulls."""
    key = ["window", "name"]
    flight_client = pa.flight.FlightClient(server.uri)

    def send(rows: pa.Table, mode: str) -> None:
        if way == "embedded":
            table = server.table("t") if server.tables() else server.keyed_table("t", WINDOWED, key=key)
            assert isinstance(table, KeyedTable)
            (table.upsert if mode == "upsert" else table.delete)(rows)
        elif way == "publish":
            client.publish("t", rows, key=key, mode=mode)
        elif way == "put":
            options = PutOptions(mode=PublishMode(mode), key=tuple(key)).to_schema_metadata()
            marked = rows.replace_schema_metadata({PUT_OPTIONS_KEY: options})
            writer, _ = flight_client.do_put(pa.flight.FlightDescriptor.for_path("scope", "t"), marked.schema)
            with writer:
                writer.write_table(marked)
        else:
            publisher = Publisher(ServerAccess(server.uri))
            last = publisher.last_batch("p", "t")
            batch = 0 if last is None else last + 1
            staged = publisher.stage(StageRequest("p", "t", batch, "a"), rows.schema, rows.to_batches())
            assert staged is not None
            publisher.commit(CommitRequest("p", "t", batch, PublishMode(mode), (staged.token,), tuple(key)))
            publisher.close()

    send(_windowed(((1, 2), "a", 1), (None, "a", 2), ((None, None), "a", 3), ((1, 2), None, 4)), "upsert")
    with client.subscribe("t", interval_ms=0) as live:
        send(_windowed(((1, 2), "a", 10), (None, "a", 20), ((1, None), "a", 5)), "upsert")
        live.wait_until(lambda table: table.size == 5, timeout=10)
        send(_windowed(((None, None), "a", 0), ((7, 7), "a", 0)), "delete")
        live.wait_until(lambda table: table.size == 4, timeout=10)
        expected = _windowed(((1, 2), "a", 10), (None, "a", 20), ((1, 2), None, 4), ((1, None), "a", 5))
        for found in (live.to_arrow(), client.snapshot("t")):
            assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
        assert live.key_columns == tuple(key)
    flight_client.close()
