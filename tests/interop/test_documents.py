"""The programs of the documents that are for Deephaven's own clients, run as they stand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from barrage_server import Server
from tests.people.markdown import DOCUMENTS, Code, code, is_for_a_peer
from tests.waiting import until

from .deephaven import DeephavenServer
from .environments import node, python_of

PROGRAMS = [block for document in DOCUMENTS for block in code(document, "python") if is_for_a_peer(block)]
CLIENT_PROGRAMS = [block for block in PROGRAMS if "from pydeephaven" in block.text]
SERVER_PROGRAMS = [block for block in PROGRAMS if block not in CLIENT_PROGRAMS]
# What a user does at the end, where the program leaves it out.
END = "\nlistener.stop()\nsession.close()\n"


@pytest.mark.interop
@pytest.mark.parametrize("program", CLIENT_PROGRAMS, ids=lambda block: block.name)
def test_programs_for_deephavens_client_run(program: Code) -> None:
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    with Server(deephaven_port=0, console="run_script" in program.text) as server:
        server.keyed_table("quotes", schema, key=["sym"]).upsert({"sym": ["A"], "price": [1.0]})
        assert server.deephaven_uri is not None
        port = server.deephaven_uri.rpartition(":")[2]
        assert "10000" in program.text
        text = program.text.replace("10000", port) + ("" if "session.close()" in program.text else END)
        command = [python_of("ticking"), "-c", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert server.statistics().sessions == 0


@pytest.mark.interop
@pytest.mark.parametrize("program", SERVER_PROGRAMS, ids=lambda block: block.name)
def test_programs_for_deephavens_server_run(deephaven: DeephavenServer, server: Server, program: Code) -> None:
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    for name in ("quotes", "trades"):
        server.append_table(name, schema).append({"sym": ["A", "A", "B"], "price": [1.0, 2.0, 3.0]})
    assert server.deephaven_uri is not None
    port = server.deephaven_uri.rpartition(":")[2]
    assert "10000" in program.text
    deephaven.execute(program.text.replace("localhost", "127.0.0.1").replace("10000", port))
    best = [{"sym": "A", "best": 2.0, "n": 2}, {"sym": "B", "best": 3.0, "n": 1}]
    until(lambda: deephaven.content("best").to_pylist() == best)
    assert deephaven.content("trades").num_rows == 3
    assert deephaven.content("as_of_now").num_rows == 3
    deephaven.execute("session.close(); del session, quotes, best, trades, as_of_now")


@pytest.mark.interop
@pytest.mark.parametrize(
    "program", [block for document in DOCUMENTS for block in code(document, "js")], ids=lambda block: block.name
)
def test_programs_for_the_javascript_api_run(deephaven: DeephavenServer, program: Code, tmp_path: Path) -> None:
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    command, environment = node()
    (tmp_path / "node_modules").symlink_to(environment / "node_modules")
    with Server(deephaven_web_port=0) as server:
        server.keyed_table("quotes", schema, key=["sym"]).upsert({"sym": ["A"], "price": [1.5]})
        assert server.deephaven_web_uri is not None
        text = program.text.replace("http://localhost:10000", f"http://127.0.0.1:{deephaven.port}")
        text = text.replace("http://localhost:10001", server.deephaven_web_uri)
        text += "await view.nextEvent(dh.Table.EVENT_UPDATED, 20000);\nclient.disconnect();\nprocess.exit(0);\n"
        (tmp_path / "program.mjs").write_text(text)
        done = subprocess.run(
            [command, "program.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout.strip()) == (0, "[ [ 'A', 1.5 ] ]"), done.stderr
