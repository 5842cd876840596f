"""What the benchmark of pages is made of, but for the browser."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import systems
from benchmarks.figures import Figure, Outcome
from benchmarks.names import DEEPHAVEN, OURS
from benchmarks.pages import rows
from benchmarks.pages.counter import Counter
from benchmarks.pages.crowd import page_crowd
from benchmarks.servers.writer import Writer
from tests.waiting import until


def test_a_counter_passes_on_and_counts_what_comes_back() -> None:
    sent = b"x" * 300_000
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(5) == b"hello"
                connection.sendall(sent)

        thread = threading.Thread(target=answer)
        thread.start()
        with Counter(server.getsockname()[1]) as counter:
            with socket.create_connection(("127.0.0.1", counter.port), timeout=20) as client:
                client.sendall(b"hello")
                received = bytearray()
                while piece := client.recv(1 << 16):
                    received += piece
            assert received == sent
            assert counter.received == len(sent)
        thread.join(20)


def test_rows_are_told_by_ids_and_stamps_that_no_other_cell_is_as_large_as() -> None:
    batches = list(rows.still(2_100_000))
    ids = np.concatenate([batch["id"].to_numpy() for batch in batches])
    assert ids.tolist() == list(range(rows.FIRST_ID, rows.FIRST_ID + 2_100_000))
    assert all(batch["quantity"].to_numpy().max() < rows.FIRST_ID for batch in batches)
    [narrow] = rows.still(10, 1)
    assert narrow.schema.names == ["id"]
    changed = rows.stamped(next(rows.changed(36, 29)), 1_800_000_000.5)
    assert (changed.num_rows, set(changed["at"].to_pylist())) == (29, {1_800_000_000_500_000})
    assert changed.schema == rows.CELLS
    assert rows.FIRST_ID + 1_000_000_000 < 1 << 31


def test_points_are_in_order_and_go_on() -> None:
    x = np.concatenate([batch["x"].cast("int64").to_numpy() for batch in rows.points(5, 1_200_000)])
    numbers = (x - rows.FIRST_TIME) // rows.TIME_STEP
    assert numbers.tolist() == list(range(5, 1_200_005))


def test_a_writer_stamps_as_it_is_told() -> None:
    written = list[int]()
    batches = (rows.cells(np.arange(3), seed) for seed in range(1000))
    begin = time.time()
    writer = Writer(lambda batch: written.append(batch["at"][0].as_py()), batches, 0.001, rows.stamped)
    until(lambda: len(written) > 3)
    writer.stop()
    assert written == sorted(written)
    assert begin - 1 < written[0] / 1e6 < time.time()


def test_pages_of_a_crowd_all_get_their_updates() -> None:
    with systems.ours(web_port=0) as system:
        system.make("t", "keyed", 300, rate=100, batch_ms=10, writes="views")
        viewports = [(first, 100) for first in (0, 100, 200)]
        web = system.process.hello["web"]
        seen = page_crowd(system, web, "t", viewports, interval_ms=10, settle=0.0, measure=1.0)
        assert seen.rate > 1
        assert seen.cores > 0
        with pytest.raises(ConnectionError, match="UnknownTable"):
            page_crowd(system, web, "nope", viewports, interval_ms=10, settle=0.0, measure=0.1)


def _figure(work: str, value: float) -> Figure:
    return Figure(work, "p50", OURS, value, "ms")


def test_a_row_that_is_measured_alone_leaves_the_others() -> None:
    notes = [f"{DEEPHAVEN}, jump: it failed", f"{DEEPHAVEN}, first: it failed"]
    before = Outcome([_figure("first", 1.0), _figure("jump", 2.0)], notes=notes, versions={"one": "1"})
    now = Outcome([_figure("jump", 3.0)], notes=[f"{DEEPHAVEN}, jump: it failed again"], versions={"two": "2"})
    found = now.after(before, ["jump"])
    assert [(figure.work, figure.value) for figure in found.figures] == [("first", 1.0), ("jump", 3.0)]
    assert found.notes == [notes[1], f"{DEEPHAVEN}, jump: it failed again"]
    assert found.versions == {"one": "1", "two": "2"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--only", "web", "--row", "nope"], "web has no row called nope"),
        (["--only", "operations", "--row", "jump"], "operations has no row called jump"),
        (["--only", "doget", "--row", "jump"], "only web and operations have rows"),
        (["--only", "web", "--only", "operations", "--row", "jump"], "only web and operations have rows"),
        (["--row", "jump"], "only web and operations have rows"),
    ],
)
def test_rows_are_those_of_one_benchmark(arguments: list[str], text: str, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command.main)
    found = CliRunner().invoke(app, [*arguments, "--tiny", "--results", str(tmp_path / "results.json")])
    assert found.exit_code == 2
    assert text in " ".join(found.output.split())
