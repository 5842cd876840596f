"""The live view at 80x24: columns are dropped and told, never cut; keys scroll, and only what is seen is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

import barrage_server as bs
from barrage_server.cli.terminal import Terminal
from barrage_server.cli.watch import View, Watch
from barrage_server.cli.watch_screen import Line, Screen
from barrage_server.cli.window import Scroll
from tests.waiting import until

SOON = 30.0
WIDTH, HEIGHT = 80, 24
COLUMNS = 12
SCHEMA = pa.schema([("key", pa.string()), *((f"number_{index}", pa.int64()) for index in range(COLUMNS))])


@pytest.fixture
def numbers(server: bs.Server) -> bs.Server:
    """``numbers``: 100 rows, twelve columns of numbers of nine digits behind a key."""
    rows = {"key": [f"k{row:02}" for row in range(100)]}
    values = {f"number_{index}": [10**8 + row for row in range(100)] for index in range(COLUMNS)}
    server.keyed_table("numbers", SCHEMA, key=["key"]).upsert({**rows, **values})
    return server


def texts(lines: list[Line]) -> list[str]:
    return ["".join(text for _, text in line) for line in lines]


def test_a_wide_table_is_readable_at_80_columns(numbers: bs.Server) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers", viewport=range(21)) as live:
        screen = Screen("numbers", Scroll(), is_whole=False)
        lines = texts(screen.frame(live, WIDTH, HEIGHT))
        assert len(lines) == HEIGHT
        assert max(map(cell_len, lines)) <= WIDTH
        title, header, first, *_, footer = lines
        assert title.startswith("numbers  100 rows  live")
        shown = header.split()
        assert shown == ["key", *(f"number_{index}" for index in range(len(shown) - 1))]
        assert first.split() == ["k00", *["100000000"] * (len(shown) - 1)]
        assert footer.startswith(f"rows 1-21 of 100 · +{COLUMNS + 1 - len(shown)} columns ← →")
        assert footer.endswith("? help · q ends")


def test_columns_scroll_beside_the_key(numbers: bs.Server) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers", viewport=range(21)) as live:
        screen = Screen("numbers", Scroll(), is_whole=False)
        screen.frame(live, WIDTH, HEIGHT)
        for _ in range(2):
            screen.columns_right()
        assert texts(screen.frame(live, WIDTH, HEIGHT))[1].split()[:2] == ["key", "number_2"]
        for _ in range(100):
            screen.columns_right()
        header = texts(screen.frame(live, WIDTH, HEIGHT))[1].split()
        assert header[0] == "key"
        assert header[-1] == f"number_{COLUMNS - 1}"
        assert len(header) > 5, "no further than to the last column"
        assert set(texts(screen.frame(live, 2 * WIDTH, HEIGHT))[1].split()) == {"key", *SCHEMA.names}
        for _ in range(100):
            screen.columns_left()
        assert texts(screen.frame(live, WIDTH, HEIGHT))[1].split()[:2] == ["key", "number_0"]


def test_arrows_hide_no_column_where_all_fit(numbers: bs.Server) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers", viewport=range(21)) as live:
        screen = Screen("numbers", Scroll(), is_whole=False)
        for _ in range(3):
            assert texts(screen.frame(live, 200, HEIGHT))[1].split() == SCHEMA.names
            screen.columns_right()
        assert texts(screen.frame(live, 200, HEIGHT))[1].split() == SCHEMA.names


@pytest.mark.parametrize(("width", "height"), [(80, 24), (20, 5), (3, 1), (1, 2), (300, 80)])
def test_a_frame_fits_any_terminal(numbers: bs.Server, width: int, height: int) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers", viewport=range(50)) as live:
        for is_whole in (False, True):
            screen = Screen("numbers", Scroll(), is_whole=is_whole)
            for help_ in (False, True):
                screen.shows_help = help_
                lines = texts(screen.frame(live, width, height))
                assert len(lines) <= max(2, height)
                assert all(cell_len(line) <= width for line in lines)


def test_wide_characters_count_as_what_they_take(server: bs.Server) -> None:
    table = server.append_table("names", pa.schema([("name", pa.string()), ("n", pa.int64())]))
    table.append({"name": ["東京都", "a\n\x1b[31m", None], "n": [1, 2, 3]})
    with bs.connect(server.uri) as client, client.subscribe("names", viewport=range(9)) as live:
        lines = texts(Screen("names", Scroll(), is_whole=False).frame(live, 30, 6))
    assert lines[1:5] == ["name     n", "東京都   1", "a  [31m  2", "∅        3"]


class _Sized(DummyOutput):
    def get_size(self) -> Size:
        return Size(rows=HEIGHT, columns=WIDTH)


@contextmanager
def shown(live: bs.LiveTable, scroll: Scroll) -> Iterator[tuple[PipeInput, Screen, Terminal]]:
    screen = Screen(live.name, scroll, is_whole=False)
    view = View(screen, live, follows_screen=True)
    with create_pipe_input() as keys:
        terminal = Terminal(view.frame, view.keys(), source=keys, sink=_Sized())
        with terminal.running():
            yield keys, screen, terminal


def column(live: bs.LiveTable) -> list[str]:
    return list(live.to_arrow()["key"].to_pylist())


def test_the_server_is_asked_for_the_rows_on_the_screen_and_no_others(numbers: bs.Server) -> None:
    page = HEIGHT - 3
    every = [f"k{row:02}" for row in range(100)]
    presses: list[tuple[str, list[str]]] = [
        ("\x1b[6~", every[page : 2 * page]),  # page down
        ("\x1b[B", every[page + 1 : 2 * page + 1]),  # down
        ("\x1b[A\x1b[A", every[page - 1 : 2 * page - 1]),  # up, twice
        ("\x1b[F", every[-page:]),  # end
        ("\x1b[5~", every[-2 * page : -page]),  # page up
        ("\x1b[H", every[:page]),  # home
    ]
    with (
        bs.connect(numbers.uri) as client,
        client.subscribe("numbers", viewport=range(page), interval_ms=1) as live,
        shown(live, Scroll()) as (keys, _, _),
    ):
        for press, expected in presses:
            keys.send_text(press)
            live.wait_until(lambda live, expected=expected: column(live) == expected, timeout=SOON)  # type: ignore[misc]
            assert [gauges.viewport_rows for gauges in numbers.statistics().subscriptions] == [page]


def test_help_is_a_key_away(numbers: bs.Server) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers", viewport=range(5)) as live:
        screen = Screen("numbers", Scroll(), is_whole=False)
        keys = View(screen, live, follows_screen=True).keys()
        for name in ("?", "h"):
            keys[name]()
            lines = texts(screen.frame(live, WIDTH, HEIGHT))
            assert any("one screen up, down" in line for line in lines)
            assert any(line.split()[:1] == ["q"] for line in lines)
            keys[name]()
            assert texts(screen.frame(live, WIDTH, HEIGHT))[2].startswith("k00")


@pytest.mark.parametrize(("key", "interrupts"), [("q", False), ("\x1b", False), ("\x03", True)])
def test_keys_that_end_it(numbers: bs.Server, key: str, interrupts: bool) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers", viewport=range(5)) as live:

        def until_ended() -> None:
            with shown(live, Scroll()) as (keys, _, terminal):
                keys.send_text(key)
                until(lambda: terminal.has_ended, SOON)

        if interrupts:
            with pytest.raises(KeyboardInterrupt):
                until_ended()
        else:
            until_ended()


def test_what_drawing_raises_reaches_the_caller() -> None:
    def draw(width: int, height: int) -> list[Line]:
        raise ZeroDivisionError

    with create_pipe_input() as keys:
        terminal = Terminal(draw, {}, source=keys, sink=_Sized())
        with pytest.raises(ZeroDivisionError), terminal.running():
            until(lambda: terminal.has_ended, SOON)


def test_a_whole_table_is_scrolled_without_the_server(numbers: bs.Server) -> None:
    with bs.connect(numbers.uri) as client, client.subscribe("numbers") as live:
        screen = Screen("numbers", Scroll(), is_whole=True)
        view = View(screen, live, follows_screen=False)
        view.frame(WIDTH, HEIGHT)
        view.keys()["pagedown"]()
        assert texts(view.frame(WIDTH, HEIGHT))[2].startswith("k21")
        view.keys()["end"]()
        assert texts(view.frame(WIDTH, HEIGHT))[-2].startswith("k99")
        assert live.viewport is None


def test_once_in_a_terminal_prints_and_is_done(
    numbers: bs.Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from barrage_server.cli.connection import Address

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    Watch(
        Address(numbers.uri), "numbers", viewport=range(3), full=False, reverse=False, columns=None, interval_ms=1,
        limit=0, wait=0, plain=False,
    ).run()  # fmt: skip
    title, header, *rows, rest = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert title.startswith("numbers  100 rows  live")
    assert [row.split()[0] for row in rows] == ["k00", "k01", "k02"]
    assert rest.startswith(f"+{COLUMNS + 1 - len(header.split())} columns, which --columns")
