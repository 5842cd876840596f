"""The demo as a whole, on fewer flights: it agrees, it notices what does not, and it stops when told to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import barrage_server as bs
from barrage_server.demo import DemoOptions, run
from barrage_server.demo.tables import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

_ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_every_table_agrees_with_the_batch_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(DemoOptions(flights=20_000, plain=True)) == 0
    said = capsys.readouterr().out
    for table in TABLES:
        assert f"  {table.name}: all " in said
    assert "flights: all 420,000 cells of 20,000 rows agree" in said
    assert re.search(r"^  destinations: all .* rows agree, and so does their order$", said, re.MULTILINE)
    assert re.search(r"^ +destinations: [A-Z]{3} .* \d+\.\d; ", said, re.MULTILINE), "it is not shown while it ticks"
    assert "Replayed 20,000 flights" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "column", "value", "told"),
    [
        ("carriers", "worst_delay", -999, r"carriers: DIFFERS: 1 cells differ \(worst_delay of carrier=.* is -999, "),
        ("airports", "name", "X", r"destinations: DIFFERS: 1 cells differ \(airport of dest=ATL is 'X', expected 'H"),
    ],
    ids=["published", "computed"],
)
def test_one_wrong_cell_is_found_and_the_exit_code_tells(
    changed: str, column: str, value: object, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(uri: str) -> None:
        with bs.connect(uri) as client:
            rows = client.snapshot(changed)
            row = rows.filter(pc.equal(rows["faa"], "ATL")) if changed == "airports" else rows.slice(0, 1)
            number = row.schema.get_field_index(column)
            wrong = pa.array([value], row.schema.field(number).type)
            client.upsert(changed, row.set_column(number, row.schema.field(number), wrong))

    assert run(DemoOptions(flights=30_000, seconds=0.001, plain=True, before_verdict=spoil)) == 1
    said = capsys.readouterr().out
    assert re.search(told, said)
    assert len(re.findall(r"^  \w+: all .* agree", said, re.MULTILINE)) == len(TABLES) - 1


def test_a_spark_that_fails_is_one_line_that_names_its_log(tmp_path: Path) -> None:
    with pytest.raises(bs.PublishError, match=r"^Spark .*[^.] \(its log: .*spark\.log\)\.$") as told:
        run(DemoOptions(flights=100, plain=True, memory="nonsense"))
    assert "\n" not in str(told.value)
    assert any(tmp_path.glob("barrage-demo-*/spark.log"))


def test_ctrl_c_ends_everything_at_once(tmp_path: Path) -> None:
    program = "import sys; from barrage_server.demo import *; sys.exit(run(DemoOptions(plain=True)))"
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "generated")]),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(tmp_path),
    }
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "replaying" in line:
                break
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=10) == 130
    assert list(tmp_path.iterdir()) == []
