"""The programs of the documents that are for Deephaven's Python client, run as they stand."""

from __future__ import annotations

import subprocess

import pyarrow as pa
import pytest

from barrage_server import Server
from tests.people.markdown import DOCUMENTS, Code, code, is_for_a_peer

from .environments import python_of

PROGRAMS = [block for document in DOCUMENTS for block in code(document, "python") if is_for_a_peer(block)]
# What a person does who has seen enough.
END = "\nlistener.stop()\nsession.close()\n"


@pytest.mark.interop
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda block: block.name)
def test_programs_for_deephavens_client_run(server: Server, program: Code) -> None:
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    server.keyed_table("quotes", schema, key=["sym"]).upsert({"sym": ["A"], "price": [1.0]})
    assert server.deephaven_uri is not None
    port = server.deephaven_uri.rpartition(":")[2]
    assert "10000" in program.text
    text = program.text.replace("10000", port) + (END if "listener" in program.text else "\nsession.close()\n")
    done = subprocess.run([python_of("ticking"), "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert server.statistics().sessions == 0
