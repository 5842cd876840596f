"""Every captured scenario replays: decoding, both receivers, and encoding."""

from __future__ import annotations

from pathlib import Path

import pytest

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
