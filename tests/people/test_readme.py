"""The README followed to the letter: every snippet, as pasted, in order, in two terminals.

The first terminal serves the example tables; the second one is a shell, and a Python that is typed into. Only the
port is another one: several tests may run at a time. What needs Deephaven's client is pasted by tests/interop.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import barrage_server as bs
from tests.waiting import until

from .markdown import ROOT, Code, code, is_for_a_peer

README = ROOT / "README.md"
SERVE = "barrage-server serve --example"
PORT = "localhost:8815"
SOON = 250.0
BIN = Path(sys.executable).parent
BLOCKS = [block for block in code(README) if block.language in {"sh", "python"} and not is_for_a_peer(block)]
PYTHON = [block for block in BLOCKS if block.language == "python"]
SHELL = [block for block in BLOCKS if block.language == "sh"]


def is_spark(block: Code) -> bool:
    return "spark" in block.text


def environment() -> dict[str, str]:
    """That of a user: the program on the path, as after the activation, and none of the settings of this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BARRAGE_")}
    return {**kept, "PATH": os.pathsep.join([str(BIN), kept.get("PATH", os.defpath)])}


def pasted(block: Code, port: int) -> str:
    """The text of a block, for this test's port. The environment is active already."""
    text = block.text.replace(PORT, f"localhost:{port}").replace(SERVE, f"{SERVE} --port {port}")
    return text.replace(". .venv/bin/activate\n", "")


@pytest.fixture
def first_terminal(tmp_path: Path) -> Iterator[int]:
    """The block that serves, in a shell; gives the port."""
    [block] = [block for block in SHELL if SERVE in block.text]
    folder = tmp_path / "first"
    folder.mkdir()
    with subprocess.Popen(
        ["bash", "-c", f"exec {pasted(block, 0).strip()}"],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            uri = server.stdout.readline().strip()
            assert uri.startswith("grpc://"), server.stderr.read() if server.stderr else uri
            yield int(uri.rpartition(":")[2])
        finally:
            server.terminate()
            server.communicate(timeout=60)


def type_into_python(block: Code, port: int, folder: Path, timeout: float = SOON) -> str:
    """What Python prints when the block is pasted at its prompt, where an empty line ends a statement."""
    done = subprocess.run(
        [sys.executable, "-i", "-q", "-u"],
        input=pasted(block, port) + "\n\n",
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, (block.name, done.stderr)
    assert not re.search(r"^\w*(Error|Exception|Warning)\b|Traceback", done.stderr, re.MULTILINE), (
        block.name,
        done.stderr,
    )
    return done.stdout


def paste_into_shell(block: Code, port: int, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", pasted(block, port)],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == 0, (block.name, done.stderr)
    return done.stdout


def test_the_first_terminal_is_the_first_block() -> None:
    """Everything after it needs the server, and speaks of it by the default port."""
    assert SERVE in BLOCKS[0].text
    assert all(PORT in block.text or "port=0" in block.text for block in BLOCKS[1:])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_snippet_works_as_pasted_in_order(first_terminal: int, tmp_path: Path) -> None:
    said = {}
    for block in BLOCKS[1:]:
        if block.language == "sh":
            said[block.name] = paste_into_shell(block, first_terminal, tmp_path)
        elif not is_spark(block):
            said[block.name] = type_into_python(block, first_terminal, tmp_path)
    assert all(said.values()), "every snippet shows something"
    whole = "\n".join(said.values())
    for expected in ("totals", "step ", "serving 2 rows at grpc://", "n: [[1,2,3]]"):
        assert expected in whole
    assert (tmp_path / "quotes.parquet").is_file()
    with bs.connect(f"grpc://localhost:{first_terminal}") as client:
        tables = {info.name: info for info in client.tables()}
        assert {"quotes", "trades", "totals", "copy", "numbers"} <= tables.keys()
        assert tables["copy"].key_columns == ("sym",)
        assert tables["copy"].size == tables["quotes"].size


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_spark_snippet_is_complete_as_pasted(first_terminal: int, tmp_path: Path) -> None:
    [block] = [block for block in PYTHON if is_spark(block)]
    said = tmp_path / "said"
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-i", "-q"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=tmp_path,
            env=environment(),
            text=True,
        ) as python,
        bs.connect(f"grpc://localhost:{first_terminal}") as client,
    ):
        assert python.stdin is not None
        try:
            python.stdin.write(pasted(block, first_terminal) + "\n\n")
            python.stdin.flush()
            with _when_it_is_there(client, "digits") as live:
                live.wait_until(lambda live: live.size == 10, timeout=SOON)
                assert sorted(live.to_arrow()["digit"].to_pylist()) == list(range(10))
                assert live.key_columns == ("digit",)
            python.stdin.write("query.stop()\nspark.stop()\n")
            python.stdin.close()
            assert python.wait(SOON) == 0, said.read_text()
        finally:
            python.kill()
    assert "Traceback" not in said.read_text()


def _when_it_is_there(client: bs.Client, table: str) -> bs.LiveTable:
    until(lambda: table in {info.name for info in client.tables()}, SOON)
    return client.subscribe(table)


def test_the_program_is_called_where_make_leaves_it() -> None:
    """Which is not on the path of a user, unless the environment is active."""
    text = README.read_text()
    assert "`.venv/bin/barrage-server`" in text
    assert "VENV ?= .venv" in (ROOT / "Makefile").read_text()
    first = {block.text.splitlines()[0] for block in SHELL}
    assert first == {". .venv/bin/activate"}
