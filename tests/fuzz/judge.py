"""What may never happen, whatever was sent: the rules, and how they are watched on a live server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Self

import pyarrow as pa
import pyarrow.flight as fl

import barrage_server as bs
from barrage_server.wire.protocol import DROP_ACTION, DropRequest
from tests.engine.samples import SAMPLES
from tests.fuzz.corpus import SCHEMA, golden_tables
from tests.fuzz.senders import HANGS_AFTER, Outcome
from tests.live.figures import growth
from tests.live.process import ROOT, Figures, ServerProcess
from tests.waiting import until

STEADY = "steady"
"""The table of the good client; no call of the corpus writes to it."""
_FOLDERS = [ROOT, ROOT / "barrage_server", "site-packages", "dist-packages", "/lib/python3"]
_LEAKS = re.compile(
    rb"Traceback|File \"|\.py\b.{0,12}line \d|" + b"|".join(re.escape(str(folder).encode()) for folder in _FOLDERS)
)
_MANY_ROWS = 500
_BYTES_PER_CALL = 2 << 10


def complaint(outcome: Outcome) -> str | None:
    """What is wrong with an answer."""
    if outcome.hung:
        return f"no answer within {HANGS_AFTER:g} s"
    for part in (outcome.text.encode(), *outcome.messages):
        found = _LEAKS.search(part)
        if found:
            return f"the answer says what a client must not see: {part[max(0, found.start() - 80) :][:400]!r}"
    if "[InternalError]" in outcome.text:
        return f"a fault of the server: {outcome.text}"
    return None


class GoodClient:
    """A client that does nothing wrong beside those that do: it must never notice them.

    It follows a table on both endpoints, writes to it, reads it, and clears away the tables that the others made.
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._count = 0
        self._clients = [bs.connect(uri, timeout=HANGS_AFTER) for uri in (server.flight, server.deephaven)]
        self._main = self._clients[0]
        self._main.publish(STEADY, pa.table({"n": [0], "text": ["0"]}), key=["n"])
        self._kept = {STEADY, "everything", *golden_tables()}
        self._make_others()
        self._live = [client.subscribe(STEADY, interval_ms=1) for client in self._clients]

    def _make_others(self) -> None:
        """The tables that calls are about, where they are not there."""
        there = {entry["name"] for entry in self._main.statistics()["tables"]}
        rows = pa.table({"sym": [str(row) for row in range(50)], "price": [1.0] * 50}, schema=SCHEMA)
        for name in golden_tables():
            if name not in there:
                self._main.publish(name, rows)
        if "everything" not in there:
            self._main.publish("everything", _everything())

    def check(self) -> None:
        """Write, and see it come at every subscriber; read on both endpoints; clear away."""
        self._count += 1
        text = str(self._count)
        self._main.upsert(STEADY, {"n": [0], "text": [text]})
        for client, live in zip(self._clients, self._live, strict=True):
            live.wait_until(lambda live: live.to_arrow().column("text").to_pylist() == [text], HANGS_AFTER)
            assert client.snapshot(STEADY).to_pylist() == [{"n": 0, "text": text}]
        for name in self._others():  # among them those that others have made large
            with fl.connect(self._server.flight) as client:
                try:
                    list(client.do_action((DROP_ACTION, DropRequest(name).to_json())))
                except fl.FlightError as error:
                    assert "no table" in str(error).lower(), error  # another call dropped it
        self._make_others()

    def wait_for_rest(self) -> None:
        """Until no stream of the others is left."""

        def left() -> str:
            figures = self._main.statistics()
            streams = [(entry["table"], entry["peer"]) for entry in figures["subscriptions"]]
            entries = figures["staging"]["entries"]
            if len(streams) == len(self._live) and not (figures["uploads"] or figures["downloads"] or entries):
                return ""
            uploads, downloads = figures["uploads"], figures["downloads"]
            return f"{uploads} uploads, {downloads} downloads, {entries} staged entries, subscriptions {streams}"

        try:
            until(lambda: not left())
        except AssertionError:
            raise AssertionError(f"clients have gone, and these are left: {left()}") from None

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _others(self) -> Iterable[str]:
        # by the figures: the list of tables would be decoded here
        tables = self._main.statistics()["tables"]
        return [entry["name"] for entry in tables if entry["name"] not in self._kept or entry["rows"] > _MANY_ROWS]


def settled(server: ServerProcess, before: Figures, calls: int) -> tuple[Figures, list[str]]:
    """The figures once they are back where they were, or after a while those that did not."""
    figures, found = before, list[str]()

    def is_back() -> bool:
        nonlocal figures, found
        figures = server.settled()
        found = growth(before, figures, memory=calls * _BYTES_PER_CALL)
        return not found

    with suppress(AssertionError):
        until(is_back, 30, pause=1)
    return figures, found


def _everything() -> pa.Table:
    rows = 4
    columns = {name: array.take(pa.array([row % len(array) for row in range(rows)])) for name, array in SAMPLES.items()}
    return pa.table(columns)
