"""Deephaven's JavaScript API, unmodified: a page sorts, filters and adds columns, and what it sees ticks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from barrage_server import Server
from barrage_server.engine import AppendTable
from tests.waiting import until

from .javascript import JavaScript, Page, nothing_left
from .test_javascript_ends import url_of, web

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("n", pa.int32()), ("sym", pa.string())])


@pytest.fixture
def server() -> Iterator[Server]:
    with web() as server:
        yield server
        until(lambda: nothing_left(server))
        until(lambda: not server.statistics().results)


@pytest.fixture
def rows(server: Server) -> AppendTable:
    table = server.append_table("t", SCHEMA)
    table.append({"n": [2, 3, 1], "sym": ["b", "a", "b"]})
    return table


@pytest.fixture
def page(javascript: JavaScript, server: Server) -> Iterator[Page]:
    with javascript.connect(url_of(server)) as page:
        yield page


def test_a_page_sorts(rows: AppendTable, page: Page) -> None:
    table = page.open("t")
    page.peer.call("sort", table=table.number, column="n", descending=True)
    view = table.look(0, 9)
    view.until({"n": [3, 2, 1], "sym": ["a", "b", "b"]}, size=3)
    rows.append({"n": [4, 0], "sym": ["c", "c"]})
    view.until({"n": [4, 3, 2, 1, 0], "sym": ["c", "a", "b", "b", "c"]}, size=5)


def test_a_page_filters(rows: AppendTable, page: Page) -> None:
    table = page.open("t")
    page.peer.call("filter", table=table.number, column="sym", text="b")
    view = table.look(0, 9)
    view.until({"n": [2, 1], "sym": ["b", "b"]}, size=2)
    rows.append({"n": [5, 6], "sym": ["b", "c"]})
    view.until({"n": [2, 1, 5], "sym": ["b", "b", "b"]}, size=3)


def test_a_page_filters_and_sorts_what_it_has_added(rows: AppendTable, page: Page) -> None:
    table = page.open("t")
    page.peer.call("columns", table=table.number, added=["m = n * 10"])
    page.peer.call("filter", table=table.number, column="n", atLeast=2)
    page.peer.call("sort", table=table.number, column="n")
    view = table.look(0, 9, ["n", "m"])
    view.until({"n": [2, 3], "m": [20, 30]}, size=2)
    rows.append({"n": [7, 0], "sym": ["b", "c"]})
    view.until({"n": [2, 3, 7], "m": [20, 30, 70]}, size=3)
