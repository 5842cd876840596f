"""Deephaven's JavaScript API, unmodified: scripts in this server, as Deephaven's pages run them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barrage_server import Server
from tests.waiting import until

from .javascript import JavaScript, Page, nothing_left

pytestmark = pytest.mark.interop


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_web_port=0, console=True, token="secret") as server:
        yield server
        until(lambda: nothing_left(server))


@pytest.fixture
def page(javascript: JavaScript, server: Server) -> Iterator[Page]:
    assert server.deephaven_web_uri is not None
    login = {"type": "password", "user": "anyone", "token": "secret"}
    with javascript.connect(server.deephaven_web_uri, login) as page:
        yield page


def run(page: Page, code: str) -> dict[str, Any]:
    found: dict[str, Any] = page.peer.call("script", connection=page.number, code=code)
    return found


def test_a_page_runs_scripts_and_shows_their_tables(page: Page) -> None:
    assert page.peer.call("languages", connection=page.number) == ["python"]
    made = run(page, "from deephaven import empty_table\nt = empty_table(3).update('n = ii')\nprint('made', t.size)")
    assert made == {"error": "", "created": ["t"], "updated": [], "removed": []}
    assert page.event("printed")["text"] == "made 3"
    table = page.open("t")
    assert table.size == 3
    table.close()
    assert run(page, "t = t.tail(1)")["updated"] == ["t"]
    assert "ZeroDivisionError" in run(page, "1 / 0")["error"]
    assert run(page, "del t")["removed"] == ["t"]
