"""Errors as a user of the client reads them: sentences with one full stop, without content, with one traceback."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import barrage_server as bs

SECRET = "s3cret"
FRAMES = {
    "pandas": pd.DataFrame({"a": [SECRET]}),
    "series": pd.Series([SECRET]),
    "polars": pl.DataFrame({"a": [SECRET]}),
    "arrow": pa.table({"a": [SECRET]}),
    "array": pa.array([SECRET]),
}


@pytest.mark.parametrize("form", FRAMES)
def test_a_frame_in_the_wrong_place_is_told_by_its_class(client: bs.Client, server: bs.Server, form: str) -> None:
    frame = FRAMES[form]
    calls: list[Callable[[], object]] = [
        lambda: server.add_table("q", frame),
        lambda: client.snapshot(frame),
        lambda: client.subscribe(frame),
        lambda: client.drop(frame),
        lambda: server.append_table("q", frame),
    ]
    for call in calls:
        with pytest.raises(bs.InvalidRequestError) as caught:
            call()
        assert SECRET not in str(caught.value)
        assert type(frame).__name__ in str(caught.value)


def test_an_empty_name_is_told_as_the_server_tells_it(client: bs.Client, server: bs.Server) -> None:
    calls: list[Callable[[], object]] = [
        lambda: client.create_table("", {"a": "int8"}),
        lambda: client.append(" ", {"a": [1]}),
        lambda: client.subscribe(""),
        lambda: server.create_table("", {"a": "int8"}),
        lambda: server.add_table("", bs.table({"a": [1]})),
    ]
    for call in calls:
        with pytest.raises(bs.InvalidRequestError, match=r"^A table's name must not be empty\.$"):
            call()


def test_what_the_server_says_of_a_dropped_table_is_no_lost_connection(client: bs.Client) -> None:
    table = bs.table({"k": [1]}, key="k")
    publication = client.publish_live("dst", table)
    client.drop("dst")
    table.upsert({"k": [2]})
    with pytest.raises(bs.BarrageError) as caught:
        publication.flush(30)
    assert str(caught.value).startswith("Table 'dst' was dropped")
    with pytest.raises(bs.BarrageError):
        publication.close()


@pytest.mark.parametrize("uri", ["grpc://a b:c:d", "grpc://here:port", "ftp://here", "", "dh://[::1"])
def test_a_wrong_address_ends_with_one_full_stop(uri: str) -> None:
    with pytest.raises(bs.InvalidRequestError) as caught:
        bs.connect(uri)
    assert str(caught.value).endswith(".")
    assert ".." not in str(caught.value)


def test_a_wrong_protocol_is_one_exception(server: bs.Server) -> None:
    with pytest.raises(bs.InvalidRequestError, match="does not use TLS") as caught:
        bs.connect(f"dh://127.0.0.1:{server.port}")
    assert (
        "exception"
        not in "".join(traceback.format_exception(caught.value)).replace("Exception", "").split("Error:")[-1]
    )
    assert caught.value.__suppress_context__


def test_waiting_in_vain_is_told_in_a_sentence(client: bs.Client) -> None:
    client.create_table("t", {"a": "int8"})
    with client.subscribe("t") as live:
        with pytest.raises(bs.DeadlineError, match=r"^The condition on 't' did not come true in 0\.01 s\.$"):
            live.wait_until(lambda _: False, timeout=0.01)
        with pytest.raises(bs.DeadlineError, match=r"^There was no update of 't' in 0\.01 s\.$"):
            live.wait_for_update(timeout=0.01)


def test_what_a_library_says_in_parts_is_no_tuple() -> None:
    with pytest.raises(bs.SchemaMismatchError) as caught:
        bs.table(pd.DataFrame({"a": [1, "x"]}))
    assert str(caught.value).startswith("Cannot take rows from a DataFrame: ")
    assert "('" not in str(caught.value)
    assert "column a" in str(caught.value)


def test_a_column_that_an_update_has_not_is_an_unknown_one(client: bs.Client) -> None:
    client.append("t", {"a": [1]})
    with client.subscribe("t") as live:
        client.append("t", {"a": [2]})
        update = next(live.updates(timeout=30))
    assert not update.modified["a"]
    with pytest.raises(bs.UnknownColumnError, match="There is no column 'nix' in view; there are: a"):
        update.modified["nix"]
