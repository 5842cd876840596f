"""generated/ is what the compiler makes of schema/."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "generate"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_generated_code_is_up_to_date() -> None:
    result = generate(ROOT, "--check")
    assert result.returncode == 0, result.stderr


def test_stale_code_is_found_and_rebuilt(tmp_path: Path) -> None:
    for name in ("scripts", "schema", "generated"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "generated" / "barrage_flatbuf" / "BarrageUpdateMetadata.py"
    original = changed.read_text()
    changed.write_text(original + "# changed\n")
    (changed.parent / "Leftover.py").write_text("")
    result = generate(tmp_path, "--check")
    assert result.returncode == 1
    assert "barrage_flatbuf/BarrageUpdateMetadata.py, barrage_flatbuf/Leftover.py" in result.stderr
    assert generate(tmp_path).returncode == 0
    assert changed.read_text() == original
    assert generate(tmp_path, "--check").returncode == 0
