"""Drops beside commits, in every order: a batch is remembered while the table that has its rows is there, no longer."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import CycleNote, Table, UpdateGraph
from barrage_server.errors import BarrageError
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.server.catalog import Catalog
from barrage_server.wire.commit_messages import CommitPart, CommitRequest, StageRequest
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.table_spec import TableSpec

SCHEMA = pa.schema([("v", pa.int64())])

Step = tuple[str, str] | None
"""What another thread does between two steps of a commit, and to which table."""

STEPS = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(["drop", "drop and clean up later", "make", "clean up"]), st.sampled_from("tu")),
)


class Interleaved:
    """A catalog whose calls from a commit are each preceded by a step of another thread."""

    def __init__(self, steps: list[Step]) -> None:
        self.ledger = Ledger()
        self.catalog = Catalog(UpdateGraph(), self._dropped, self.ledger.pass_on)
        self.graph = self.catalog.graph
        self._late: list[Table] = []
        self._cleans_later = False
        self._steps: Iterator[Step] = iter(steps)
        self._runs = False
        self._in_making = False
        self._run = self.graph._run
        self.graph._run = self._run_after_step  # type: ignore[method-assign, assignment]

    def _run_after_step(self, *arguments: Any) -> None:
        """Run a cycle; a step comes between the end of what stages its operations and itself."""
        if threading.current_thread() is threading.main_thread():
            self.step()
        self._run(*arguments)

    def find(self, name: str) -> Table | None:
        self.step()
        return self.catalog.find(name)

    def keeps(self, table: Table) -> bool:
        self.step()
        return self.catalog.keeps(table)

    def make(self, name: str, schema: pa.Schema, spec: TableSpec) -> Table:
        self.step()
        return self._watched(self.catalog.make(name, schema, spec))

    @contextmanager
    def making(self, names: Collection[str]) -> Iterator[None]:
        self.step()
        with self.catalog.making(names):
            self._in_making = True
            try:
                yield
            finally:
                self._in_making = False

    def serve(self, table: Table, spec: TableSpec) -> CycleNote:
        self.step()
        return self.catalog.serve(table, spec)

    def discard(self, table: Table) -> None:
        self.catalog.discard(table)

    def exchange(self, before: Table, after: Table, spec: TableSpec) -> CycleNote:
        self.step()
        return self.catalog.exchange(before, after, spec)

    def step(self) -> None:
        """Let another thread do the next step."""
        if not self._runs:
            thread = threading.Thread(target=self._next)
            thread.start()
            thread.join()

    def end_steps(self) -> None:
        """Do no further step."""
        self._steps = iter(())

    def _next(self) -> None:
        if self._runs:
            return
        self._runs = True
        try:
            step = next(self._steps, None)
            if step is not None:
                with suppress(BarrageError):
                    self._do(*step)
        finally:
            self._runs = False

    def _do(self, what: str, table: str) -> None:
        if what == "make":
            if not self._in_making:  # it would wait for the commit
                self._watched(self.catalog.ensure(table, SCHEMA, TableSpec(TableKind.APPEND))[0])
        elif what == "clean up":
            while self._late:
                self.ledger.forget_table(self._late[0].name, self._late.pop(0))
        else:
            self._cleans_later = what != "drop"
            self.catalog.drop(table)

    def _watched(self, table: Table) -> Table:
        """A table with a listener that does a step: after the cycle of a commit, and before its answer."""
        table.add_listener(lambda *_: self._next())
        return table

    def _dropped(self, table: Table) -> None:
        if self._cleans_later:
            self._late.append(table)
        else:
            self.ledger.forget_table(table.name, table)


@given(
    st.lists(STEPS, max_size=40),
    st.lists(st.tuples(st.sampled_from(["t", "tu"]), st.sampled_from(["append", "replace"])), min_size=1, max_size=8),
)
def test_a_batch_is_remembered_as_long_as_the_table_with_its_rows(
    steps: list[Step], commits: list[tuple[str, str]]
) -> None:
    store = Interleaved(steps)
    staging = StagingArea()
    committer = Committer(store, staging, store.ledger)
    store.ledger.watch(store.catalog.find)

    def commit(batch: int, tables: str, mode: str) -> None:
        parts = []
        for table in tables:
            token = staging.open(StageRequest("query", table, batch, "attempt"), SCHEMA, 0.0)
            staging.add(token, pa.record_batch({"v": [batch]}, schema=SCHEMA), 0.0)
            staging.seal(token, 1, 0.0)
            parts.append(CommitPart(table, PublishMode(mode), (token,)))
        with suppress(BarrageError):  # such as a table that was dropped while it was overwritten
            result = committer.commit(CommitRequest.over(parts, publisher="query", batch=batch, allow_gap=True))
            assert result.committed, "a new batch was taken for a repetition"

    def check() -> None:
        for table in store.catalog.tables():
            rows = table.to_arrow()["v"].to_pylist()
            assert store.ledger.last("query", table.name) == max(rows, default=None)

    for batch, (tables, mode) in enumerate(commits):
        commit(batch, tables, mode)
        check()
    store.end_steps()
    for table in store.catalog.tables():
        store.catalog.drop(table.name)
    commit(0, "t", "append")  # the successor of a name gets every batch
    check()


def test_a_drop_beside_an_overwriting_takes_the_table_away_that_is_there_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had found the one before, and its note comes after that of the exchange."""
    ledger = Ledger()
    catalog = Catalog(UpdateGraph(), lambda table: ledger.forget_table(table.name, table), ledger.pass_on)
    spec = TableSpec(TableKind.APPEND)
    before, _ = catalog.ensure("t", SCHEMA, spec)
    note_now, waiting = catalog.graph.note_now, ["the exchange"]

    def after_the_exchange(note: CycleNote) -> None:
        if waiting:
            waiting.pop()
            with catalog.making(["t"]):
                note_now(catalog.exchange(before, catalog.make("t", SCHEMA, spec), spec))
        note_now(note)

    monkeypatch.setattr(catalog.graph, "note_now", after_the_exchange)
    catalog.drop("t")
    assert not waiting
    assert catalog.count == 0
