"""The example of a Spark stream does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_publishes_and_follows(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "generated")]), "TMPDIR": str(tmp_path)}
    program = [sys.executable, str(_ROOT / "examples" / "spark_stream.py")]
    ran = subprocess.run(program, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = ran.stdout.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("4 added, 0 modified")
    assert lines[-1].startswith("trades has ")
