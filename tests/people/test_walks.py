"""The walks through the code, in the page on the architecture.

Each names modules that exist, none twice, and in the order in which they are entered.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.server.flight_endpoint import FlightEndpoint
from barrage_server.spark.publisher import Publisher, ServerAccess
from barrage_server.wire.commit_messages import CommitRequest, StageRequest

from .markdown import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = ROOT / "barrage_server"
NAMED = re.compile(r"\]\(\.\./barrage_server/([\w/]+\.py)\)|`([\w/]+\.py)`(?!\])")
NO_WALKS = {"Words", "The rooms", "What always holds", "Kinds of tables", "Two dialects of a viewport"}
WALKS = {
    title: text
    for title, _, text in (section.partition("\n") for section in PAGE.split("\n## ")[1:])
    if title not in NO_WALKS
}


def modules(text: str) -> list[str]:
    """The modules that a walk names, by their paths in the package, in its order."""
    named = NAMED.findall(text)
    linked = [path for path, _ in named if path]
    return [path or _meant(name, linked) for path, name in named]


def _meant(name: str, linked: list[str]) -> str:
    """The module of a name without a link: its path, or the end of one that the walk links, or one of the server."""
    if "/" in name:
        return name
    return next((path for path in linked if path.endswith(f"/{name}")), f"server/{name}")


def test_there_are_walks() -> None:
    assert len(WALKS) >= 6
    assert sum(len(modules(text)) for text in WALKS.values()) > 60


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_enters_modules_that_exist_and_none_twice(title: str) -> None:
    found = modules(WALKS[title])
    assert [path for path in found if not (PACKAGE / path).is_file()] == []
    assert [path for path, times in Counter(found).items() if times > 1] == []


SCHEMA = pa.schema([("id", pa.int64()), ("size", pa.int64())])
CALLS = ("do_put", "do_exchange", "do_action", "do_get")
ASIDE = {
    "An upload at either endpoint": {
        "wire/intake.py": "takes the schema, before a batch comes",
        "wire/soundness.py": "checks the schema, too",
        "wire/plain_size.py": "measures what the publisher sends, too",
    },
    "From a Spark micro-batch to a pandas frame": {
        "server/catalog.py": "is asked for the table by the ledger, too",
    },
    "A viewport moves": {
        "client/subscription_worker.py": "is asked about its state, before it sends anything",
        "server/exchange.py": "is in a call since its stream began, and awaits what comes",
        "subscription/window.py": "counts the rows of a client's window, too",
        "subscription/message.py": "says which columns an update modifies, before any message is made",
    },
    "A client has a table computed": {},
}
"""Modules that are entered before a walk has got to them, and why."""


def _rows(first: int, count: int = 10, size: int = 0) -> pa.Table:
    return pa.table([range(first, first + count), [size] * count], SCHEMA)


def _has_rows(wanted: int, live: bs.LiveTable) -> bool:
    return live.size == wanted


class Entries:
    """The modules of the package, in the order in which threads enter them first."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note the module of a call. The watchdog's calls belong to no walk."""
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{PACKAGE}/") and threading.current_thread().name != "barrage-watchdog":
            self.paths.setdefault(path.removeprefix(f"{PACKAGE}/"))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the calls of this thread in the ``with`` body, and of threads that began since the fixture."""
        self.paths.clear()
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[Entries]:
    found = Entries()

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            sys.setprofile(found.note)  # Flight made the thread, and not Python
            return call(*arguments)

        return run

    for name in CALLS:
        monkeypatch.setattr(FlightEndpoint, name, watched(getattr(FlightEndpoint, name)))
    threading.setprofile(found.note)
    try:
        yield found
    finally:
        threading.setprofile(None)


def in_order(title: str, entered: Entries, begin: str = "") -> tuple[list[str], list[str]]:
    """The modules of a walk that were entered, in the order of their first calls, and in that of the walk."""
    text = WALKS[title]
    named = [path for path in modules(text[text.index(begin) :]) if path not in ASIDE[title]]
    return [path for path in entered.paths if path in named], [path for path in named if path in entered.paths]


def test_a_batch_that_is_staged_and_committed_goes_the_way_of_the_walks(entries: Entries) -> None:
    """One of some batches does: threads of the server that wake up by themselves may disturb others."""
    with bs.Server() as server, bs.connect(server.uri) as client:
        server.append_table("t", SCHEMA)
        publisher = Publisher(ServerAccess(server.uri))
        with client.subscribe("t", interval_ms=1) as live:
            for batch in range(20):
                with entries.noted():
                    rows = _rows(10 * batch)
                    staged = publisher.stage(StageRequest("p", "t", batch, "a"), SCHEMA, rows.to_batches())
                    assert staged is not None
                    publisher.commit(CommitRequest("p", "t", batch, tokens=(staged.token,)))
                    live.wait_until(partial(_has_rows, 10 * batch + 10), 20)
                    live.to_pandas()
                found, named = in_order("From a Spark micro-batch to a pandas frame", entries, "In the server:")
                if found == named:
                    break
        publisher.close()
    assert found == named
    assert {"server/actions.py", "publish/delta.py", "subscription/quiet_update.py", "engine/frames.py"} <= {*found}
    found, named = in_order("An upload at either endpoint", entries)
    assert found == named
    assert {"publish/commit.py", "publish/ledger.py", "publish/staging.py", "server/checks.py"} <= {*found}


def test_a_viewport_that_moves_goes_the_way_of_its_walk(entries: Entries) -> None:
    with bs.Server() as server, bs.connect(server.uri) as client:
        table = server.keyed_table("t", SCHEMA, key="id")
        table.upsert(_rows(0, 1000))
        with client.subscribe("t", viewport=range(5), interval_ms=60_000) as live:
            for first in range(1, 20):  # earlier answers are what a later one patches
                table.upsert(_rows(900, 1, size=first))
                with entries.noted():
                    live.set_viewport(range(first, first + 5), timeout=20)
                found, named = in_order("A viewport moves", entries)
                if found == named and "subscription/moved_viewport.py" in found:
                    break
    assert found == named
    assert {"subscription/quiet_update.py", "subscription/moved_viewport.py", "client/content.py"} <= {*found}


def test_a_table_that_is_computed_goes_the_way_of_its_walk(entries: Entries) -> None:
    with bs.Server() as server, bs.connect(server.uri) as client:
        server.append_table("t", SCHEMA).append(_rows(0))
        with entries.noted():
            assert client.table("t").where("id > -1").to_arrow().num_rows == 10
    found, named = in_order("A client has a table computed", entries)
    assert found == named
    assert {"client/held_result.py", "client/plan_calls.py", "server/plans.py", "server/leases.py"} <= {*found}
