"""Every captured scenario replays: decoding, both receivers, and encoding."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.wire.metadata import SubscriptionOptions
from tests.conformance.recorder import record
from tests.conformance.replay import main, replay
from tests.conformance.vectors import scenario_directories

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
SCENARIOS = list(scenario_directories([GOLDEN]))


@pytest.mark.parametrize("directory", SCENARIOS, ids=lambda path: path.name)
def test_scenario_replays(directory: Path) -> None:
    session = replay(directory)
    assert session.problems == []
    assert session.refused or session.updates or session.scenario.expects_error


def test_vectors_are_all_there() -> None:
    assert len(SCENARIOS) >= 39


def test_errors_are_recognised() -> None:
    assert replay(GOLDEN / "error_bad_magic").refused[0].startswith("not a Barrage message")
    assert replay(GOLDEN / "error_bad_type").refused[0].startswith("Barrage message type 42")


def test_command_line_reports_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed expectation, and a damaged message, are mismatches."""
    assert main([str(GOLDEN / "static_table")]) == 0
    assert "static_table: ok" in capsys.readouterr().out
    good = GOLDEN / "static_table"
    for name, change in (("wrong_cell", b'"num_rows": 5'), ("damaged", None)):
        copy = tmp_path / name
        copy.mkdir()
        for path in good.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        if change is None:
            (copy / "002.bin").write_bytes((copy / "002.bin").read_bytes()[:-9])
        else:
            text = (copy / "manifest.json").read_bytes()
            assert change in text
            (copy / "manifest.json").write_bytes(text.replace(change, b'"num_rows": 4'))
    assert main([str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert "wrong_cell: MISMATCH" in output
    assert "damaged: MISMATCH" in output
    assert main([str(tmp_path / "nothing")]) == 2


@pytest.mark.parametrize("viewport", [None, RowSet.from_range(10, 1500)])
@pytest.mark.parametrize(("most_bytes", "most_rows"), [(4096, 0), (0, 100), (1, 0)])
def test_updates_in_several_batches_replay(
    tmp_path: Path, most_bytes: int, most_rows: int, viewport: RowSet | None
) -> None:
    """Added and modified rows that messages are too small for, of columns of every width and with nulls."""
    schema = pa.schema([("n", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("items", pa.list_(pa.int16()))])
    table = KeyedTable(UpdateGraph(), "t", schema, ["n"])

    def rows(start: int, stop: int, mark: int) -> pa.Table:
        numbers = range(start, stop)
        columns = {
            "n": list(numbers),
            "s": [None if n % 7 == 0 else f"{mark}-{n}" for n in numbers],
            "x": [float("nan") if n % 5 == 0 else n / 2 + mark for n in numbers],
            "items": [None if n % 3 == 0 else [n % 100] * (n % 4) for n in numbers],
        }
        return pa.table(columns, schema=schema)

    count = 300 if most_bytes == 1 else 800
    table.upsert(rows(0, count, 0))
    changes = [
        lambda: table.upsert(rows(count // 2, 2 * count, 1)),
        lambda: table.upsert(rows(0, count, 2)),
        lambda: table.delete({"n": list(range(20, count, 3))}),
    ]
    options = SubscriptionOptions(min_update_interval_ms=1, max_message_size=most_bytes, batch_size=most_rows)
    written = record(tmp_path / "recorded", table, options, changes, viewport=viewport)
    session = replay(tmp_path / "recorded")
    assert session.problems == []
    assert session.checked_steps == 4
    assert session.batches == written - 2
    assert session.batches > 3 * session.updates, "updates came in several batches"
