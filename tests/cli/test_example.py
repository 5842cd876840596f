"""The tables of ``serve --example``: three of them, which change together, for as long as the server serves."""

from __future__ import annotations

import signal
import subprocess
import threading

import pyarrow.compute as pc
import pytest

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_SUCCESS
from barrage_server.cli.example import EXAMPLE_TABLES, example_tables

from .conftest import Program

SOON = 30.0


def test_the_three_tables_agree_in_every_version(server: bs.Server) -> None:
    """Totals are the sums of the trades, whenever they are looked at."""
    with example_tables(server, seconds=0.001), bs.connect(server.uri) as client:
        assert tuple(info.name for info in client.tables()) == tuple(sorted(EXAMPLE_TABLES))
        with client.subscribe("totals", interval_ms=1) as live:
            live.wait_until(lambda live: live.size > 20, timeout=SOON)
        versions = server.graph.versions([server.table(name) for name in EXAMPLE_TABLES])  # of one step
        prices, traded, summed = (version.to_table() for version in versions)
    assert len(set(prices["sym"].to_pylist())) == prices.num_rows
    sums = traded.group_by("sym").aggregate([("size", "sum"), ("sym", "count")]).sort_by("sym")
    expected = summed.sort_by("sym")
    assert sums["size_sum"].to_pylist() == expected["volume"].to_pylist()
    assert sums["sym_count"].to_pylist() == expected["trades"].to_pylist()
    assert pc.min(prices["price"]).as_py() > 0


def test_the_ticking_ends_with_its_block_and_with_a_dropped_table(
    server: bs.Server, caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()
    with example_tables(server, seconds=0.001):
        server.drop("totals")
    assert threading.active_count() <= before
    assert not [record for record in caplog.records if record.exc_info]


def test_the_program_serves_them(program: Program) -> None:
    process: subprocess.Popen[str] = program("serve", "--port", 0, "--example")
    assert process.stdout is not None
    with bs.connect(process.stdout.readline().strip()) as client, client.subscribe("trades", interval_ms=1) as live:
        step = live.step
        live.wait_until(lambda live: live.step > step + 2, timeout=SOON)
        assert live.schema.names == ["at", "sym", "price", "size"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == EXIT_SUCCESS
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
