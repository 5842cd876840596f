"""Deephaven's Python client, unmodified: scripts in this server, and the tables that they make."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server import Server
from tests.waiting import until

from .peer import PeerError
from .python_client import Pydeephaven

pytestmark = pytest.mark.interop

LATER = "from deephaven import empty_table\nfound = empty_table(1) if {} else None"


@pytest.fixture
def scripted() -> Iterator[Server]:
    with Server(deephaven_port=0, console=True) as server:
        yield server


@pytest.fixture
def scripting(scripted: Server, pydeephaven: Pydeephaven) -> Iterator[Pydeephaven]:
    pydeephaven.log_in(scripted)
    yield pydeephaven
    pydeephaven.execute("session.close()")
    left = scripted.statistics()
    assert (left.sessions, left.exports, left.uploads, left.downloads) == (0, 0, 0, 0)


def run(client: Pydeephaven, script: str) -> None:
    client.execute(f"session.run_script({script!r})")


def test_tables_of_scripts_are_listed_and_opened(scripted: Server, scripting: Pydeephaven) -> None:
    run(scripting, "from deephaven import empty_table\nt = empty_table(10)\nx = t.update('n = ii')\nword = 'x'")
    assert sorted(scripting.evaluate("list(session.tables)")) == ["t", "x"]
    assert scripting.evaluate("session.open_table('t').size") == 10
    run(scripting, "x = x.tail(2)")
    assert scripting.fetch("session.open_table('x').where('n > 8').to_arrow()").to_pydict() == {"n": [9]}
    run(scripting, "del t, x")
    assert scripting.evaluate("list(session.tables)") == []
    with pytest.raises(PeerError, match="no table"):
        scripting.execute("session.open_table('t')")


def test_what_is_bound_is_a_variable_of_scripts(scripted: Server, scripting: Pydeephaven) -> None:
    scripting.give("rows", pa.table({"a": [1, 2, 3]}))
    scripting.execute("session.bind_table('mine', session.import_table(rows))")
    run(scripting, "squares = mine.update('b = a * a')\nmeta = mine.meta_table")
    assert scripting.fetch("session.open_table('squares').to_arrow()")["b"].to_pylist() == [1, 4, 9]
    assert scripting.fetch("session.open_table('meta').to_arrow()")["Name"].to_pylist() == ["a"]
    run(scripting, "mine = None")
    assert sorted(scripting.evaluate("list(session.tables)")) == ["meta", "squares"]


def test_time_tables_and_blink_tables_are_told_apart(scripted: Server, scripting: Pydeephaven) -> None:
    for blink in (False, True):
        scripting.execute(f"session.bind_table('t', session.time_table(period=100_000, blink_table={blink}))")
        run(scripting, LATER.format("t.is_blink"))
        assert ("found" in scripting.evaluate("list(session.tables)")) is blink
    run(scripting, "ticks = t.await_update(20) and t.blink_to_append_only()")
    until(lambda: scripted.table("ticks").size > 0)


def test_scripts_write_to_input_tables_of_clients(scripted: Server, scripting: Pydeephaven) -> None:
    scripting.execute("schema = pa.schema([('k', pa.int64())])")
    scripting.execute("blink = session.input_table(schema=schema, blink_table=True)")
    scripting.give("rows", pa.table({"k": [1, 2]}))
    scripting.execute("session.bind_table('t', blink); session.bind_table('more', session.import_table(rows))")
    run(scripting, "t.add(more)\nt.await_update()\n" + LATER.format("t.size == 2"))
    assert "found" in scripting.evaluate("list(session.tables)")


def test_clients_write_to_input_tables_of_scripts(scripted: Server, scripting: Pydeephaven) -> None:
    run(
        scripting,
        "from deephaven import dtypes, input_table\n"
        "prices = input_table({'sym': dtypes.string, 'price': dtypes.double}, key_cols='sym')\n"
        "dear = prices.where('price > 1')",
    )
    prices = scripted.table("prices")
    assert isinstance(prices, bs.KeyedTable)
    prices.upsert({"sym": ["A", "B"], "price": [1.0, 2.0]})
    until(
        lambda: scripting.fetch("session.open_table('dear').to_arrow()").to_pydict() == {"sym": ["B"], "price": [2.0]}
    )


def test_errors_are_told_with_their_lines(scripted: Server, scripting: Pydeephaven) -> None:
    with pytest.raises(PeerError, match=r"(?s)could not run script.*line 2, in f.*division by zero"):
        run(scripting, "def f():\n    return 1 / 0\n\nf()")
    with pytest.raises(PeerError, match="There is no column 'y'"):
        run(scripting, "from deephaven import empty_table\nempty_table(1).where('y > 1')")
    run(scripting, "x = 1")


def test_variables_outlive_their_session(scripted: Server, scripting: Pydeephaven) -> None:
    scripting.log_in(scripted, name="other")
    scripting.execute("other.run_script('t = None')")
    scripting.execute("made = other.empty_table(10); other.bind_table('t', made); made.close(); other.close()")
    assert scripting.evaluate("list(session.tables)") == ["t"]
    run(scripting, "assert t.size == 10")
