"""Pages of tables of this process: they end whatever those who read them do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

import barrage_server as bs
from barrage_server.engine import Table
from barrage_server.errors import UnavailableError
from barrage_server.notebook.local import LocalLink, LocalSource
from tests.waiting import until

HELLO = json.dumps({"type": "hello", "version": 1})


@pytest.fixture
def table() -> Table:
    return bs.table({"id": [1, 2, 3]})


def greeted(table: Table) -> LocalLink:
    link = LocalSource(table).open()
    link.send(HELLO)
    return link


def test_a_link_closes_although_nobody_has_read(table: Table) -> None:
    before = threading.active_count()
    link = greeted(table)
    link.cancel()
    link.close()
    link.close()
    with pytest.raises(UnavailableError):
        link.send(HELLO)
    until(lambda: threading.active_count() <= before, timeout=20)


def test_a_link_closes_although_who_reads_has_stopped_amid_a_message(table: Table) -> None:
    link = greeted(table)
    frames = link.frames()
    assert json.loads(next(frames))["type"] == "welcome"
    link.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_was_forked_has_pages_of_its_own() -> None:
    code = """
import os, signal, sys
import barrage_server as bs
from barrage_server.notebook.local import LocalSource
table = bs.table({"id": [1, 2, 3]})
link = LocalSource(table).open()
child = os.fork()
if not child:
    signal.alarm(20)
    LocalSource(table).open()
    os._exit(0)
_, status = os.waitpid(child, 0)
link.close()
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
