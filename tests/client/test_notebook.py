"""What a user of a notebook sees: one traceback per error, and views that are safe and bounded."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import polars as pl
import pytest

import barrage_server as bs

HOSTILE = "<img src=x onerror=alert(1)>&\"'"


def words(html: str) -> str:
    """The text of a fragment, which must be well formed: hostile text that is not escaped would not be."""
    return " ".join(ElementTree.fromstring(html).itertext())


def test_live_tables_clients_servers_and_lists_show_themselves(server: bs.Server, client: bs.Client) -> None:
    table = server.add_table(HOSTILE, bs.table({HOSTILE: [HOSTILE] * 20, "n": range(20)}, key="n"))
    with client.subscribe(HOSTILE, viewport=range(15)) as live:
        shown = {
            "live": live._repr_html_(),
            "table": table._repr_html_(),
            "client": client._repr_html_(),
            "server": server._repr_html_(),
            "server's tables": server.tables()._repr_html_(),
            "client's tables": client.tables()._repr_html_(),
            "info": client.table(HOSTILE)._repr_html_(),
        }
        for name, html in shown.items():
            assert "<img" not in html, name
            assert HOSTILE in words(html), name
            assert len(html) < 20_000
        text = words(shown["live"])
        assert "15 rows × 2 columns" in text
        assert "of 20 rows in the table" in text
        assert "the first 10 rows are shown" in text
        assert "1 table" in words(shown["server's tables"])
    assert "closed" in words(live._repr_html_())
    client.close()
    assert "closed" in words(client._repr_html_())
    server.close()
    assert "closed" in words(server._repr_html_())


def test_what_is_not_there_yet_or_has_failed_is_shown_too(server: bs.Server, client: bs.Client) -> None:
    server.append_table("t", {"n": "int64"})
    with client.subscribe("t") as live:
        server.drop("t")
        with pytest.raises(bs.UnknownTableError):
            live.wait_until(lambda _: False)
        text = words(live._repr_html_())
        assert "failed" in text
        assert "was dropped" in text


def test_showing_a_client_asks_no_server(server: bs.Server, client: bs.Client) -> None:
    server.close()
    assert "open" in words(client._repr_html_())


def test_many_tables_are_shown_in_part(server: bs.Server) -> None:
    for number in range(150):
        server.append_table(f"t{number:03}", {"n": "int64"})
    text = words(server._repr_html_())
    assert "150 tables, the first 100 are shown" in text
    assert "t149" not in text


def _closed(client: bs.Client) -> bs.Client:
    client.close()
    return client


ERRORS: dict[str, Callable[[bs.Server, bs.Client], Any]] = {
    "no answer": lambda _server, _client: bs.connect("grpc://127.0.0.1:1", timeout=5),
    "no such table": lambda _server, client: client.snapshot("nope"),
    "no such table to follow": lambda _server, client: client.subscribe("nope"),
    "no such column": lambda _server, client: client.subscribe("t", columns=["nope"]),
    "rows that do not fit": lambda server, _client: server.table("t").append({"n": ["x"]}),  # type: ignore[attr-defined]
    "a frame that does not fit": lambda server, _client: server.table("t").append(pd.DataFrame({"n": ["x"]})),  # type: ignore[attr-defined]
    "rows sent that do not fit": lambda _server, client: client.append("t", {"n": ["x"]}),
    "values of no type": lambda _server, client: client.append("t", {"n": [object()]}),
    "keys that are missing": lambda server, _client: server.table("k").delete({"x": [1]}),  # type: ignore[attr-defined]
    "another table of that name": lambda _server, client: client.create_table("t", {"other": "string"}),
    "a port in use": lambda server, _client: bs.Server(port=server.port),
    "a wrong type": lambda server, _client: server.append_table("z", {"a": "nope"}),
    "no content in time": lambda _server, client: client.subscribe("t").wait_until(lambda _: False, timeout=0),
    "a closed client": lambda _server, client: _closed(client).tables(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_one_traceback(server: bs.Server, client: bs.Client, name: str) -> None:
    server.append_table("t", {"n": "int64"})
    server.keyed_table("k", {"n": "int64"}, key="n")
    try:
        ERRORS[name](server, client)
    except bs.BarrageError:
        assert traceback.format_exc().count("Traceback (most recent call last)") == 1
    else:
        pytest.fail("nothing was raised")


def test_a_subscription_that_failed_raises_one_traceback_each_time(server: bs.Server, client: bs.Client) -> None:
    server.append_table("t", {"n": "int64"})
    with client.subscribe("t") as live:
        server.drop("t")
        for _ in range(3):
            with pytest.raises(bs.UnknownTableError) as caught:
                list(live.updates(20))
            text = "".join(traceback.format_exception(caught.value))
            assert text.count("Traceback (most recent call last)") == 1


def test_what_arrow_said_is_in_the_log(client: bs.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "barrage_server.client"), pytest.raises(bs.UnknownTableError):
        client.snapshot("nope")
    assert any(record.exc_info for record in caplog.records)


def test_a_live_table_reads_like_a_table(server: bs.Server, client: bs.Client) -> None:
    table = server.append_table("t", {"sym": "string", "price": "float64"})
    table.append(pl.DataFrame({"sym": ["a", "b", "c"], "price": [1.0, 2.0, 3.0]}))
    with client.subscribe("t") as live:
        assert live.columns == ("sym", "price")
        assert len(live) == 3
        assert live["price"].to_pylist() == [1.0, 2.0, 3.0]
        assert live[["price"]].to_pydict() == {"price": [1.0, 2.0, 3.0]}
        assert live.head(2).to_pydict() == {"sym": ["a", "b"], "price": [1.0, 2.0]}
        assert live.tail(1).to_pydict() == {"sym": ["c"], "price": [3.0]}
        assert live.head(0).num_rows == 0
        assert live.tail(10).num_rows == 3
        assert "sym" in live
        assert "nope" not in live
        live.set_viewport(range(0))
        assert len(live) == 0 and live, "a table without rows is a table"
        live.set_viewport(None)
        assert pl.DataFrame(live).shape == (3, 2)
        for take in (list, pd.DataFrame, iter):
            with pytest.raises(bs.InvalidRequestError, match=r"live\.updates\(\)"):
                take(live)
        for wrong in (0, None, slice(3), 1.5, b"sym"):
            with pytest.raises(bs.InvalidRequestError, match=r"live\['price'\]"):
                live[wrong]  # type: ignore[index]
        for missing in ("nope", ["sym", "nope"]):
            with pytest.raises(bs.UnknownColumnError, match="sym, price"):
                live[missing]


@pytest.mark.parametrize("viewport", [range(2, 5), slice(2, 5), [2, 3, 4], bs.RowSet.from_range(2, 4)], ids=repr)
def test_a_viewport_means_the_same_everywhere(server: bs.Server, client: bs.Client, viewport: Any) -> None:
    server.append_table("t", {"n": "int64"}).append({"n": range(10)})
    wanted = {"n": [2, 3, 4]}
    assert client.snapshot("t", viewport=viewport).to_pydict() == wanted
    with client.subscribe("t", viewport=viewport) as live:
        assert live.to_arrow().to_pydict() == wanted
        live.set_viewport(0, 1)
        assert len(live) == 1
        live.set_viewport(viewport)
        assert live.to_arrow().to_pydict() == wanted
        live.set_viewport(2, 5, columns=["n"], reverse=True)
        assert live.to_arrow().to_pydict() == {"n": [5, 6, 7]}
        live.set_viewport(slice(None))
        assert len(live) == 10
        for pair in ((2, 5), [2, 5]):
            for take in (client.snapshot, client.subscribe):
                with pytest.raises(bs.InvalidRequestError, match=r"write range\(2, 5\)"):
                    take("t", viewport=pair)
            with pytest.raises(bs.InvalidRequestError, match=r"write range\(2, 5\)"):
                live.set_viewport(pair)


def test_a_frame_becomes_a_served_table_in_one_line(server: bs.Server, client: bs.Client) -> None:
    frame = pd.DataFrame({"sym": ["a", "b"], "price": [1.0, 2.0]})
    quotes = server.add_table("quotes", bs.table(frame, key="sym"))
    with client.subscribe("quotes", interval_ms=1) as live:
        assert live.key_columns == ("sym",)
        quotes.upsert(pl.DataFrame({"sym": ["b"], "price": [9.0]}))
        quotes.upsert(frame.iloc[:1].assign(price=5.0))
        live.wait_until(lambda view: view["price"].to_pylist() == [5.0, 9.0])
    client.upsert("quotes", pl.DataFrame({"sym": ["c"], "price": [7.0]}))
    client.upsert("quotes", frame.assign(price=0.0))
    assert sorted(client.snapshot("quotes")["price"].to_pylist()) == [0.0, 0.0, 7.0]
    local = bs.table(frame)
    with client.publish_live("ticking", local) as publication:
        local.append(frame)
        publication.flush()
    assert client.snapshot("ticking").num_rows == 4
