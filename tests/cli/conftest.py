"""A server in this process, and the program as a person starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.cli.boundary import run
from barrage_server.engine import KeyedTable

Program = Callable[..., subprocess.Popen[str]]
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("BARRAGE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server() as server:
        yield server


@pytest.fixture
def quotes(server: bs.Server) -> KeyedTable:
    """Three rows, keyed by ``sym``."""
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64())])
    table = server.keyed_table("quotes", schema, key=["sym"])
    table.upsert({"sym": ["A", "B", "C"], "price": [1.0, 2.0, 3.0], "size": [10, 20, 30]})
    return table


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run one command in this process: exit code, stdout, stderr."""

    def call(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Start the program in a process of its own; what still runs at the end of the test is killed. Servers are open."""
    started: list[subprocess.Popen[str]] = []

    def start(
        *args: object, stdin: Any = subprocess.DEVNULL, stdout: Any = subprocess.PIPE, **settings: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", "from barrage_server.cli import main; main()", *map(str, args)],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "BARRAGE_ALLOW_ANONYMOUS": "true",
                **settings,
            },
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)
