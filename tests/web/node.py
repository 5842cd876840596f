"""Node for tests of ``web/``, with the packages that it needs."""

from __future__ import annotations

import fcntl
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
PLACE = ROOT / ".web"
NODE = PLACE / "node" / "bin" / "node"


@cache
def node() -> str:
    """Path of Node, made first where it is missing. One test process makes it, others wait for it."""
    PLACE.mkdir(exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("scripts/make-web-env", ".web")
    return str(NODE)


def run(*command: str, timeout: float = 300) -> str:
    """What a command writes; AssertionError, with all of it, when it fails."""
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout}{result.stderr}"
    return result.stdout


def answer(program: str, question: Any, folder: Path) -> Any:
    """What a program of ``web/tests/programs`` answers to a JSON value."""
    path = folder / f"{program}.json"
    path.write_text(json.dumps(question), encoding="utf-8")
    return json.loads(run(node(), f"web/tests/programs/{program}.ts", str(path)))
