"""``docs/protocol.md`` suffices to write a client: the one in ``examples`` follows every kind of table."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from minimal_client import Window, encode_row_set, keys_of, read_row_set, read_shifts

import barrage_server as bs
from barrage_server.engine import Table
from barrage_server.rowset import RowSet, RowSetShiftData, decode_row_set, encode_shift_data
from barrage_server.rowset import encode_row_set as encoded
from tests.properties.sources import SOURCES, PartSource, Source

PROGRAM = Path(__file__).parents[2] / "examples" / "minimal_client.py"

SERVED = [kind for kind in dict.fromkeys(SOURCES) if kind is not PartSource]  # a part has no name of its own


def test_it_is_written_with_nothing_but_pyarrow_and_flatbuffers() -> None:
    found = set()
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).split(".")[0])
    assert found - set(sys.stdlib_module_names) == {"pyarrow", "flatbuffers"}


@pytest.fixture
def served() -> Iterator[bs.Server]:
    with bs.Server() as server:
        yield server


def rows_in(table: Table, positions: range) -> list[list[Any]]:
    rows = [list(row.values()) for row in table.to_arrow().to_pylist()]
    return [rows[position] for position in positions if position < len(rows)]


def catch_up(window: Window, table: Table) -> None:
    """Take updates until the window has seen the present version: every change reaches it."""
    step = window.step
    while step < table.version.step:
        step = window.next_update().step


@pytest.mark.parametrize("flattened", [False, True], ids=["key space", "flattened"])
@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_it_sees_what_the_server_has(served: bs.Server, kind: type[Source], seed: int, flattened: bool) -> None:
    """Adds, removes, shifts and modifications, in and out of view, while the window moves."""
    chance = random.Random(seed)
    source = kind(served.graph)
    served.add_table("t", source.table)
    positions, from_end = range(2, 9), False
    with closing(
        Window(served.uri, "t", positions.start, positions.stop, flattened=flattened, interval_ms=1)
    ) as window:
        assert window.next_update().is_snapshot
        for _ in range(40):
            for _ in range(chance.choice([0, 1, 1, 3])):
                source.change(chance)
            if chance.random() < 0.4:
                start = chance.choice([0, 1, 3, 8])
                positions, from_end = range(start, start + chance.choice([0, 1, 4, 20])), chance.random() < 0.4
                window.move(positions.start, positions.stop, reverse=from_end)
                while not window.next_update().is_snapshot:
                    pass
            catch_up(window, source.table)
            size = source.table.size
            wanted = range(max(0, size - positions.stop), max(0, size - positions.start)) if from_end else positions
            assert window.rows() == rows_in(source.table, wanted)
            assert window.table_size == size


@pytest.mark.parametrize("flattened", [False, True], ids=["key space", "flattened"])
def test_it_follows_a_blink_table(served: bs.Server, flattened: bool) -> None:
    table = served.blink_table("t", {"n": "int64"})
    with closing(Window(served.uri, "t", 0, 3, flattened=flattened, interval_ms=1)) as window:
        window.next_update()
        for number in range(5):
            table.append({"n": range(10 * number, 10 * number + number)})
            catch_up(window, table)
            assert window.rows() == rows_in(table, range(3))


def test_it_reads_updates_of_many_batches(served: bs.Server) -> None:
    """Batches are counted by rows: those of the first snapshot are 4,096 rows, then 65,536."""
    table = served.keyed_table("t", {"k": "int64", "v": "int64"}, key="k")
    table.upsert({"k": range(150_000), "v": range(150_000)})
    with closing(Window(served.uri, "t", 0, 150_000, interval_ms=1)) as window:
        window.next_update()
        assert window.rows()[149_999] == [149_999, 149_999]
        table.upsert({"k": range(150_000), "v": range(1, 150_001)})
        catch_up(window, table)
        assert window.rows()[149_999] == [149_999, 150_000]
        assert len(window.rows()) == 150_000


def test_it_shows_its_token_and_hears_why_a_stream_ends() -> None:
    with bs.Server(token="let me in") as server:
        server.append_table("t", {"n": "int64"})
        with closing(Window(server.uri, "t", 0, 3, token="let me in")) as window:
            window.next_update()
            server.drop("t")
            with pytest.raises(RuntimeError, match=r"UnknownTableError.*was dropped"):
                window.next_update()
        with pytest.raises(pa.ArrowException, match=r"\[AuthenticationError\]"):
            Window(server.uri, "t", 0, 3, token="wrong")


def test_it_prints_rows_after_each_update(served: bs.Server) -> None:
    table = served.keyed_table("quotes", {"sym": "string", "price": "float64"}, key="sym")
    table.upsert({"sym": ["A", "B"], "price": [1.5, 2.5]})
    script = (
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__');"
        "assert not [name for name in sys.modules if name.startswith('barrage')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(PROGRAM), served.uri, "quotes", "--updates", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 rows: sym, price" in done.stdout
    assert "A 1.5" in done.stdout


def test_its_encodings_are_those_of_the_server() -> None:
    chance = random.Random(7)
    for _ in range(300):
        keys = sorted(chance.sample(range(chance.choice([20, 1000, 1 << 20, 1 << 40])), chance.randrange(1, 15)))
        rows = RowSet.from_keys(keys) | RowSet.from_range(keys[-1], keys[-1] + chance.choice([0, 3, 200, 70_000]))
        ranges, end = read_row_set(encoded(rows))
        assert end == len(encoded(rows))
        assert keys_of(ranges) == rows.keys().tolist()
        assert decode_row_set(encode_row_set(ranges)) == rows
        shifts = RowSetShiftData.between(rows, RowSet.from_range(5, 4 + rows.size))
        assert read_shifts(encode_shift_data(shifts)) == list(shifts)
