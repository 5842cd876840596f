"""What the demo draws fits the terminal: parts are left out and counted, and none is cut to a digit."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from barrage_server.demo.counting import CountedTable, Counts
from barrage_server.demo.screen import LineScreen, Scene, frame, program
from barrage_server.demo.tables import BOARD, CARRIERS, DESTINATIONS, FLIGHTS, TABLES, TOP_DELAYS

ROWS = 12
CONTENT: dict[str, dict[str, list[Any]]] = {
    FLIGHTS.name: {"seq": list(range(ROWS))},
    BOARD.name: {
        "origin": ["JFK"] * ROWS,
        "dest": ["LAX"] * ROWS,
        "carrier": ["UA"] * ROWS,
        "flight": [1000 + row for row in range(ROWS)],
        "state": ["departed 4 min late"] * ROWS,
        "departs": list(range(ROWS)),
    },
    CARRIERS.name: {
        "carrier": ["UA"] * ROWS,
        "flights": [58_665] * ROWS,
        "mean_delay": [12.1] * ROWS,
        "cancellations": [686] * ROWS,
    },
    TOP_DELAYS.name: {
        "carrier": ["HA"] * ROWS,
        "flight": [51] * ROWS,
        "origin": ["JFK"] * ROWS,
        "dest": ["HNL"] * ROWS,
        "dep_delay": [1301] * ROWS,
    },
    DESTINATIONS.name: {
        "dest": ["SJU", *["DCA"] * (ROWS - 1)],
        "airport": [None, *["Ronald Reagan Washington Natl"] * (ROWS - 1)],
        "flights": [9705] * ROWS,
        "mean_delay": [float(ROWS - row) for row in range(ROWS)],
        "worst_delay": [384] * ROWS,
        "total_delay": [82_609] * ROWS,
    },
}


class Stub(CountedTable):
    """A subscription that has received ``CONTENT``."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        content = pa.table(CONTENT[table.name])
        self.live = SimpleNamespace(size=336_776, to_arrow=lambda: content)  # type: ignore[assignment]

    @property
    def counts(self) -> Counts:
        return Counts(12_345, 336_776, 1_234_567, 98_765)


def drawn(width: int, height: int, doing: str = "replaying") -> list[str]:
    scene = Scene(336_776, [Stub(table) for table in TABLES], "grpc://127.0.0.1:40000", doing=doing, until=0)
    scene.replayed, scene.replay_seconds = 123_456, 10.0
    written = io.StringIO()
    Console(width=width, height=height, file=written, force_terminal=False).print(frame(scene, width, height))
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_at_80_by_24_it_is_readable() -> None:
    lines = drawn(80, 24)
    text = "\n".join(lines)
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert "…" not in text.replace(lines[-1], "")
    assert lines[0].startswith("1970-01-01  123,456 of 336,776 flights (37 %)  12,346 rows/s  replaying")
    assert re.search(r"flights +336,776 +336,776 +1,234,567 +98,765 +12,345", text)
    for name in ("board", "destinations"):
        assert f"─ {name} ─" in text
    assert "departed 4 min late" in text
    assert lines[-1].startswith("+2 tables · try: ")


def test_a_large_terminal_gets_everything() -> None:
    text = "\n".join(drawn(160, 50))
    assert "the 100 worst delays so far" in text
    for name in ("board", "destinations", "carriers", "top_delays"):
        assert f"─ {name} ─" in text
    assert re.search(r"^try: .*barrage.* watch grpc://127.0.0.1:40000 board$", text, re.MULTILINE)


def test_a_sorted_table_is_shown_from_its_first_row() -> None:
    shown = [line for line in drawn(160, 50) if "SJU" in line or "DCA" in line]
    assert re.search(r"SJU +∅ +9705 +12\.0 +384", shown[0])
    assert re.search(r"DCA +Ronald Reagan Washington Natl +9705 +11\.0 +384", shown[1])


def test_without_a_terminal_the_first_rows_are_a_line() -> None:
    written = io.StringIO()
    console = Console(width=80, file=written, force_terminal=False)
    LineScreen(console).show(Scene(336_776, [Stub(table) for table in TABLES], "grpc://127.0.0.1:40000", until=0))
    lines = written.getvalue().splitlines()
    assert lines[0].endswith("top_delays 336,776, destinations 336,776")
    assert lines[1].strip() == (
        "destinations: SJU ∅ 12.0; DCA Ronald Reagan Washington Natl 11.0; DCA Ronald Reagan Washington Natl 10.0"
    )


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140])
@pytest.mark.parametrize("height", [8, 16, 24, 40])
@pytest.mark.parametrize("doing", ["replaying", "computing the same tables as a batch job"])
def test_nothing_is_wider_or_higher_than_the_terminal(width: int, height: int, doing: str) -> None:
    lines = drawn(width, height, doing)
    assert max(map(len, lines)) <= width
    assert len(lines) <= max(height, 8)


def test_the_hint_names_a_program_that_exists_where_its_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "barrage-server").write_text("#!/bin/sh\n")
    (bin_ / "barrage-server").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)
    assert program() == ".venv/bin/barrage-server"
    monkeypatch.chdir("/")
    assert program() in {str(bin_ / "barrage-server"), str(bin_ / "barrage-server").lstrip("/")}
    monkeypatch.setenv("PATH", str(bin_))
    assert shutil.which(program()) is not None
    assert program() == "barrage-server"
    (bin_ / "barrage-server").unlink()
    assert program().endswith("python -m barrage_server.cli")
