"""Widgets show what tables hold, by way of the kernel, and leave nothing behind."""

from __future__ import annotations

import base64
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from ipywidgets.widgets.widget import _instances

import barrage_server as bs
from tests.notebook.browser import Display, installed, looking, opened
from tests.waiting import until

SCHEMA = {"k": "int64", "x": "float64"}


@pytest.fixture(autouse=True)
def comms() -> Iterator[None]:
    with installed():
        yield


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server() as made:
        made.append_table("t", SCHEMA).append(rows(range(100)))
        yield made


@pytest.fixture
def client(server: bs.Server) -> Iterator[bs.Client]:
    with bs.connect(server.uri) as made:
        yield made


def rows(numbers: range) -> dict[str, list[Any]]:
    return {"k": list(numbers), "x": [number / 2 for number in numbers]}


def cells(numbers: range) -> list[tuple[int, float]]:
    return [(number, number / 2) for number in numbers]


def append(table: bs.Table, numbers: range) -> None:
    assert isinstance(table, bs.AppendTable)
    table.append(rows(numbers))


class TestWhatIsShown:
    def test_a_live_table_is_shown_whole_and_ticks(self, server: bs.Server, client: bs.Client) -> None:
        with client.subscribe("t", viewport=range(3)) as live:
            widget = live.widget()
            page = looking(widget)
            view = opened(page, widget, first=95, count=10, interval=1)
            page.settle(view, lambda it: it.updates)
            assert (view.rows(), view.size) == (cells(range(95, 100)), 100)
            append(server.table("t"), range(100, 103))
            page.settle(view, lambda it: it.rows() == cells(range(95, 103)))
            assert widget.comm.state["_target"] == {"table": "t", "title": "t"}
            widget.close()

    def test_a_plan_is_computed_by_the_server_and_ticks(self, server: bs.Server, client: bs.Client) -> None:
        widget = client.table("t").where("k >= 98").sort_descending("k").widget()
        page = looking(widget)
        view = opened(page, widget, interval=1)
        page.settle(view, lambda it: it.updates)
        assert view.rows() == cells(range(98, 100))[::-1]
        append(server.table("t"), range(100, 101))
        page.settle(view, lambda it: it.rows() == cells(range(98, 101))[::-1])
        widget.close()
        until(lambda: not server.statistics().results)

    def test_a_plan_of_any_length_is_shown(self, client: bs.Client) -> None:
        long = client.table("t").where(["k < 3", *(f"k != {number}" + 1_000 * " " for number in range(1000, 1050))])
        widget = long.widget()
        assert len(widget.comm.state["_target"]["ticket"]) < 100
        page = looking(widget)
        view = opened(page, widget)
        page.settle(view, lambda it: it.updates)
        assert view.rows() == cells(range(3))
        widget.close()

    def test_a_table_of_this_process_is_shown_without_a_port(self, server: bs.Server) -> None:
        table = server.table("t")
        widget = bs.show(table)
        page = looking(widget)
        view = opened(page, widget, interval=1, sort=[{"column": "k", "descending": True}], count=2)
        page.settle(view, lambda it: it.updates)
        assert view.rows() == cells(range(98, 100))[::-1]
        append(table, range(100, 101))
        page.settle(view, lambda it: it.rows() == cells(range(99, 101))[::-1])
        assert not server.statistics().streams
        widget.close()

    @pytest.mark.parametrize(
        "data", [pa.table(rows(range(5))), pd.DataFrame(rows(range(5))), pl.DataFrame(rows(range(5))), rows(range(5))]
    )
    def test_rows_are_shown_from_the_kernel(self, data: object) -> None:
        widget = bs.show(data)
        page = looking(widget)
        view = opened(page, widget)
        page.settle(view, lambda it: it.updates)
        assert view.rows() == cells(range(5))
        widget.close()

    def test_several_displays_of_one_widget_are_pages_of_their_own(self, server: bs.Server, client: bs.Client) -> None:
        widget = client.table("t").widget()
        pages = [looking(widget, name) for name in ("one", "other")]
        views = [opened(page, widget, first=10 * number) for number, page in enumerate(pages)]
        for number, (page, view) in enumerate(zip(pages, views, strict=True)):
            page.settle(view, lambda it: it.updates)
            assert view.rows() == cells(range(10 * number, 10 * number + 10))
        assert widget.displays == 2
        assert len(server.statistics().subscriptions) == 2
        widget.close()


class TestWhatIsLeft:
    def test_a_closed_widget_leaves_nothing_on_the_server(self, server: bs.Server, client: bs.Client) -> None:
        widget = client.table("t").widget()
        for name in ("one", "other"):
            page = looking(widget, name)
            page.settle(opened(page, widget), lambda it: it.updates)
        widget.close()
        widget.close()
        until(lambda: not server.statistics().streams)

    def test_a_widget_that_was_closed_is_freed(self, client: bs.Client) -> None:
        widget = client.table("t").widget()
        looking(widget)
        widget.close()
        gone = weakref.ref(widget)
        del widget
        until(lambda: gc.collect() is not None and gone() is None)

    def test_a_widget_that_is_forgotten_leaves_nothing(self, server: bs.Server, client: bs.Client) -> None:
        """The library keeps widgets until they are closed; this is for when it does not."""
        widget = client.table("t").widget()
        page = looking(widget)
        page.settle(opened(page, widget), lambda it: it.updates)
        _instances.pop(widget.model_id)
        widget.comm.on_msg(None)
        del page, widget
        until(lambda: gc.collect() is not None and not server.statistics().streams)

    def test_a_comm_that_the_browser_closes_leaves_nothing(self, server: bs.Server, client: bs.Client) -> None:
        widget = client.table("t").widget()
        page = looking(widget)
        page.settle(opened(page, widget), lambda it: it.updates)
        widget.comm.hang_up()
        until(lambda: not server.statistics().streams)

    def test_a_closed_display_leaves_nothing(self, server: bs.Server, client: bs.Client) -> None:
        widget = client.table("t").widget()
        page = looking(widget)
        page.settle(opened(page, widget), lambda it: it.updates)
        assert isinstance(page.socket, Display)
        page.socket.close()
        until(lambda: not server.statistics().streams)
        assert widget.displays == 0

    def test_a_client_that_is_closed_ends_the_displays(self, server: bs.Server) -> None:
        with bs.connect(server.uri) as client:
            widget = client.table("t").widget()
            page = looking(widget)
            page.settle(opened(page, widget), lambda it: it.updates)
        until(lambda: not widget.displays)
        answer = Display(widget.comm, "later").open()
        assert answer["kind"] == "closed"
        assert "closed" in answer["text"]
        until(lambda: not server.statistics().streams)

    def test_tables_of_this_process_have_no_thread_left(self) -> None:
        before = threading.active_count()
        widgets = [bs.show(rows(range(3))) for _ in range(3)]
        for widget in widgets:
            page = looking(widget)
            page.settle(opened(page, widget), lambda it: it.updates)
            widget.close()
        until(lambda: threading.active_count() <= before, timeout=20)


class TestArguments:
    def test_traits_are_what_was_asked_for(self) -> None:
        plot = {"x": "k", "ys": ["x"], "range": "rows 10"}
        widget = bs.show(rows(range(3)), height=300, theme="dark", plot=plot)
        state = widget.comm.state
        assert (state["height"], state["theme"], state["plot"]) == (300, "dark", plot)
        assert set(state["_target"]) == {"ticket", "title"}
        base64.b64decode(state["_target"]["ticket"], validate=True)

    @pytest.mark.parametrize(
        ("plot", "told"),
        [
            (None, None),
            (True, {}),
            ("x", {"ys": ["x"]}),
            (["x", "k"], {"ys": ["x", "k"]}),
            ({"x": "k", "ys": "x"}, {"x": "k", "ys": ["x"]}),
            *(
                ({"range": text}, {"ys": [], "range": text})
                for text in ("", "rows 10", "last 0.5", "-10 20", "1e3 2.5e3")
            ),
        ],
    )
    def test_a_plot_may_be_said_shortly(self, plot: object, told: object) -> None:
        assert bs.show(rows(range(1)), plot=plot).comm.state["plot"] == told

    @pytest.mark.parametrize(
        "options",
        [
            {"height": 0},
            {"height": 119},
            {"height": "tall"},
            {"theme": "blue"},
            {"plot": 5},
            {"plot": {"y": "x"}},
            {"plot": {"x": 3}},
            {"plot": {"range": "1000"}},
            {"plot": {"range": "last minute"}},
            {"plot": {"range": "10 20 30"}},
            {"plot": ["x"] * 9},
            {"plot": [1]},
        ],
    )
    def test_wrong_options_are_said(self, options: dict[str, Any]) -> None:
        with pytest.raises(bs.InvalidRequestError):
            bs.show(rows(range(1)), **options)

    def test_what_has_no_rows_cannot_be_shown(self) -> None:
        with pytest.raises(bs.SchemaMismatchError):
            bs.show(5)

    def test_without_the_packages_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "barrage_server.notebook.widget", None)
        monkeypatch.setitem(sys.modules, "anywidget", None)
        monkeypatch.delitem(sys.modules, "barrage_server.notebook.widget")
        with pytest.raises(bs.DependencyError, match="anywidget"):
            bs.show(rows(range(1)))
