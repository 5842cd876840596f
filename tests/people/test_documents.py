"""What the documents say holds: links lead somewhere, programs run, commands work."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.cli.boundary import run
from barrage_server.cli.settings import load_settings
from barrage_server.server import CredentialFile, Credentials

from .markdown import DOCUMENTS, EXAMPLE_DEEPHAVEN_URI, EXAMPLE_URI, ROOT, Code, anchors, code, is_for_a_peer, links

# The README is pasted as it stands, into a Python and a shell: test_readme.py
PYTHON_DOCUMENTS = [document for document in DOCUMENTS if code(document, "python") and document != ROOT / "README.md"]
COMMANDS = [block for document in DOCUMENTS for block in code(document, "console")]


def is_spark(block: Code) -> bool:
    return bool(re.search(r"barrage_server\.spark|register\(spark\)", block.text))


@pytest.fixture
def server() -> Iterator[bs.Server]:
    """A server with the tables that the examples speak of."""
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    with bs.Server(deephaven_port=0) as server:
        rows = {"sym": ["A", "B", "C"], "price": [1.0, 2.0, 3.0]}
        server.keyed_table("quotes", schema, key=["sym"]).upsert(rows)
        server.append_table("trades", schema).append(rows)
        yield server


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{link} in {document.name}"
        assert target.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(target), f"{link} in {document.name}"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert set(DOCUMENTS) - {index} <= reached


def test_every_picture_is_in_a_document() -> None:
    shown = {(document.parent / link).resolve() for document in DOCUMENTS for link in links(document)}
    pictures = set((ROOT / "docs" / "images").iterdir())
    assert pictures
    assert pictures <= shown


def test_every_example_is_listed() -> None:
    listed = {link for link in links(ROOT / "examples" / "README.md") if "/" not in link}
    assert {path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".ipynb")} == listed


@pytest.mark.parametrize("document", PYTHON_DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_programs_run(document: Path, server: bs.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program of a page runs without an error, one after the other as a reader pastes them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in code(document, "python"):
        if not is_spark(block) and not is_for_a_peer(block):
            if "flight.connect" in block.text:  # a stock client makes its own table of that name
                server.drop("trades")
            text = block.text.replace(EXAMPLE_URI, server.uri).replace("timeout=5", "timeout=0.2")
            text = text.replace(EXAMPLE_DEEPHAVEN_URI, str(server.deephaven_uri))
            exec(compile(text, block.name, "exec"), names)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_programs_run(server: bs.Server, tmp_path: Path) -> None:
    programs = [block for document in PYTHON_DOCUMENTS for block in code(document, "python") if is_spark(block)]
    script = tmp_path / "programs.py"
    script.write_text("\n".join([SPARK_SETTING, *(_with_its_check(block, server.uri) for block in programs)]))
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "generated")])},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {"carriers", "flights", "history"} <= {table.name for table in server.tables()}
    assert server.table("flights").size == 3
    assert server.table("history").size == 3
    assert sorted(server.table("carriers").to_arrow().to_pydict()["count"]) == [1, 2]


SPARK_SETTING = """
import sys
from pathlib import Path
from barrage_server.spark import spark_session
here = Path(sys.argv[1])
(here / "in").mkdir()
(here / "in" / "flights.csv").write_text("UA\\nAA\\nUA\\n")
spark = spark_session("documents", master="local[1]", **{"spark.sql.shuffle.partitions": "1"})
flights = spark.readStream.schema("carrier string").csv(str(here / "in"))
batch = spark.read.schema("carrier string").csv(str(here / "in"))
per_carrier = flights.groupBy("carrier").count()
"""


def _with_its_check(block: Code, uri: str) -> str:
    folder = f"folder, query = str(here / {block.name.replace('/', '-')!r}), None"
    finish = "if query is not None:\n    query.processAllAvailable()\n    query.stop()"
    return f"{folder}\n{block.text.replace(EXAMPLE_URI, uri)}\n{finish}"


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.name)
def test_commands_work(
    block: Code, server: bs.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BARRAGE_TOKEN", raising=False)
    for line in block.text.splitlines():
        assert line.startswith("$ barrage-server "), line
        if "|" in line:
            _run_in_a_shell(line.removeprefix("$ ").replace(EXAMPLE_URI, server.uri), tmp_path)
            continue
        words = shlex.split(line.removeprefix("$ barrage-server ").replace(EXAMPLE_URI, server.uri))
        if words[0] in {"serve", "demo"}:  # these have tests of their own; here their options must be known
            words = [words[0], "--help"]
        code_ = run(words)
        assert code_ == 0, (line, capsys.readouterr().err)


def _run_in_a_shell(line: str, folder: Path) -> None:
    bin_ = Path(sys.executable).parent
    env = {**os.environ, "PATH": os.pathsep.join([str(bin_), os.environ.get("PATH", "")])}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (line, done.stderr)


def test_make_verbs_exist() -> None:
    verbs = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for verb in re.findall(r"\bmake ([a-z-]+)\b(?=[ `\n])", _shell_and_code_of(document)):
            assert verb in verbs, f"make {verb} in {document.name}"


def _shell_and_code_of(document: Path) -> str:
    spans = re.findall(r"`([^`\n]+)`", document.read_text())
    return "\n".join([*(block.text for block in code(document, "")), *(f"{span} " for span in spans)])


def test_configuration_examples_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARRAGE_TOKEN", raising=False)
    blocks = [block for document in DOCUMENTS for block in code(document, "toml")]
    assert blocks
    for block in blocks:
        config = tmp_path / "barrage.toml"
        config.write_text(block.text)
        if block.text.startswith("[[tokens]]"):
            assert CredentialFile(config)(Credentials("bearer", "", "test")).name == "desk-7"
            continue
        settings = load_settings(config, {})
        assert len(settings.tables) == len(tomllib.loads(block.text).get("tables", ()))
        assert len(settings.access_roles()) == len(settings.roles)
        for table in settings.tables:
            assert table.arrow_schema()


def test_code_blocks_are_of_kinds_that_are_tried() -> None:
    for document in DOCUMENTS:
        for block in code(document):
            assert block.language in {"", "python", "console", "sh", "toml", "json", "js"}, block.name
