"""Where the peers are installed, and what happens when they are not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, NoReturn

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".interop"


def python_of(environment: str) -> str:
    """The interpreter of a Python environment, ``deephaven`` or ``ticking``; the test ends when it is missing."""
    python = FOLDER / environment / "bin" / "python"
    if not (FOLDER / environment / ".installed").exists():
        missing(f"the environment '{environment}' is not installed: run make interop")
    if environment == "deephaven":
        java()
    return str(python)


def java() -> str:
    """The command of a Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        missing("the Deephaven server needs Java 17 or newer: install it, or set JAVA_HOME, then run make interop")
    return found


def node() -> tuple[str, Path]:
    """The command of Node, and the folder whose ``node_modules`` has Deephaven's JavaScript API."""
    found = shutil.which("node")
    if found is None:
        missing("Node is missing: install Node 20 or newer, then run make interop")
    if not (FOLDER / "js" / ".installed").exists():
        missing("the environment 'js' is not installed: run make interop")
    return found, FOLDER / "js"


def missing(text: str) -> NoReturn:
    """End the test: as a failure where continuous integration runs, which must test everything; elsewhere as a skip."""
    if os.environ.get("CI"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)
