"""What is computed for a page is freed with its stream, at once: a result that stays follows its table and counts.

The garbage collector is off here: a server with nothing to do may never call it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.engine import Table
from barrage_server.server.results import Results
from barrage_server.server.web import page_streams
from barrage_server.server.web.service import PageService
from tests.server.web.page_client import greeted
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(web_port=0) as made:
        table = made.keyed_table("t", {"k": "int64", "x": "float64"}, key="k")
        table.upsert({"k": list(range(100)), "x": [number / 7 for number in range(100)]})
        gc.collect()
        gc.disable()
        try:
            yield made
        finally:
            gc.enable()


def let_go(server: bs.Server) -> None:
    """Wait until nothing is computed for pages any more."""
    until(lambda: not server.statistics().results, 10, "the end of what was computed")


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"where": ["k > 10"]}, id="nothing fails"),
        pytest.param({"where": ["k > 10"], "sort": [{"column": "no"}]}, id="the second operation"),
        pytest.param({"where": ["k > 10"], "columns": [7]}, id="the columns"),
        pytest.param({"where": ["k > 10"], "count": 1 << 40}, id="the number of rows"),
    ],
)
def test_whatever_of_a_stream_fails(server: bs.Server, asked: dict[str, Any]) -> None:
    with greeted(server) as client:
        view = client.open(1, "t", **asked)
        client.settle(view, lambda it: it.updates)
        client.send(type="close", stream=1)
        client.settle(view, lambda it: it.ended)
        let_go(server)


def test_when_the_page_leaves_while_it_is_computed(server: bs.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on, is_told = threading.Event(), threading.Event(), threading.Event()
    whole = Results.compute

    def held(*args: Any) -> Table:
        result = whole(*args)
        begun.set()
        may_go_on.wait(20)
        until(args[-1], 20, "the word that the page has left")
        is_told.set()
        return result

    monkeypatch.setattr(Results, "compute", held)
    with greeted(server) as client:
        client.open(1, "t", where=["k > 10"], sort=[{"column": "x"}])
        assert begun.wait(20)
    may_go_on.set()
    assert is_told.wait(20)
    let_go(server)


def test_when_the_page_leaves_while_it_is_told(server: bs.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    whole = page_streams._opened

    def held(*args: Any) -> dict[str, Any]:
        begun.set()
        may_go_on.wait(20)
        return whole(*args)

    monkeypatch.setattr(page_streams, "_opened", held)
    monkeypatch.setattr(PageService, "is_light", lambda *_: False)
    with greeted(server) as client:
        client.open(1, "t", where=["k > 10"])
        assert begun.wait(20)
        assert server.statistics().results
    until(lambda: not server.statistics().streams)
    may_go_on.set()
    let_go(server)
