"""Commits: all or nothing, once per batch number."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import Table, UpdateGraph
from barrage_server.engine.cycle_log import CycleLog, CycleNote
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    KeyMismatchError,
    PublishError,
    SchemaMismatchError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.server.catalog import Catalog
from barrage_server.wire.commit_messages import CommitRequest, StageRequest
from barrage_server.wire.protocol import PublishMode

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


class Desk:
    """A committer with what it works on."""

    def __init__(self) -> None:
        self.catalog = Catalog(UpdateGraph())
        self.staging = StagingArea()
        self.ledger = Ledger()
        self.committer = Committer(self.catalog, self.staging, self.ledger)

    def stage(
        self,
        batch: int,
        *parts: dict[str, list[Any]],
        publisher: str = "query",
        schema: pa.Schema = SCHEMA,
        table: str = "t",
        epoch: str | None = None,
        principal: str = "",
    ) -> str:
        request = StageRequest(publisher, table, batch, "attempt", epoch)
        token = self.staging.open(request, schema, 0.0, principal)
        rows = 0
        for part in parts:
            piece = pa.RecordBatch.from_pydict(part, schema=schema)
            self.staging.add(token, piece, 0.0)
            rows += piece.num_rows
        self.staging.seal(token, rows, 0.0)
        return token

    def commit(
        self,
        batch: int,
        *tokens: str,
        publisher: str = "query",
        principal: str = "",
        allow_gap: bool = True,
        **options: Any,
    ) -> Any:
        request = CommitRequest(publisher, "t", batch, tokens=tokens, allow_gap=allow_gap, **options)
        return self.committer.commit(request, principal)

    def rows(self) -> dict[str, list[Any]]:
        content: dict[str, list[Any]] = self.catalog.get("t").to_arrow().to_pydict()
        return content


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_parts_of_several_tasks_become_one_update(desk: Desk) -> None:
    updates: list[Any] = []
    desk.commit(0, schema=SCHEMA)
    desk.catalog.get("t").add_listener(lambda update, before, after: updates.append(update))
    first = desk.stage(1, {"k": ["a"], "v": [1]}, {"k": ["b"], "v": [2]})
    second = desk.stage(1, {"k": ["c"], "v": [3]})
    result = desk.commit(1, second, first)
    assert (result.committed, result.duplicate, result.rows, result.last_batch) == (True, False, 3, 1)
    assert result.step == desk.catalog.graph.step
    assert desk.rows() == {"k": ["c", "a", "b"], "v": [3, 1, 2]}
    assert len(updates) == 1


def test_a_replayed_batch_changes_nothing_and_its_rows_are_let_go(desk: Desk) -> None:
    desk.commit(7, desk.stage(7, {"k": ["a"], "v": [1]}))
    again = desk.stage(7, {"k": ["a"], "v": [1]})
    result = desk.commit(7, again)
    assert (result.committed, result.duplicate, result.rows, result.last_batch) == (False, True, 0, 7)
    assert desk.rows() == {"k": ["a"], "v": [1]}
    assert desk.staging.statistics().entries == 0
    older = desk.commit(3, desk.stage(3, {"k": ["z"], "v": [1]}))
    assert older.duplicate
    assert older.last_batch == 7


def test_a_commit_that_is_repeated_with_the_same_tokens_is_a_duplicate_and_no_error(desk: Desk) -> None:
    token = desk.stage(0, {"k": ["a"], "v": [1]})
    desk.commit(0, token)
    assert desk.commit(0, token).duplicate


def test_two_publishers_have_batches_of_their_own(desk: Desk) -> None:
    desk.commit(5, desk.stage(5, {"k": ["a"], "v": [1]}))
    other = desk.commit(0, desk.stage(0, {"k": ["b"], "v": [2]}, publisher="other"), publisher="other")
    assert other.committed
    assert desk.rows() == {"k": ["a", "b"], "v": [1, 2]}


def test_a_lost_part_commits_nothing(desk: Desk) -> None:
    token = desk.stage(0, {"k": ["a"], "v": [1]})
    with pytest.raises(PublishError):
        desk.commit(0, token, "expired")
    assert desk.catalog.tables() == ()
    assert desk.ledger.last("query", "t") is None
    assert desk.commit(0, token).committed


def test_a_delta_that_does_not_fit_is_not_in_the_ledger(desk: Desk) -> None:
    desk.commit(0, desk.stage(0, {"k": ["a"], "v": [1]}), mode=PublishMode.UPSERT, key=("k",))
    with pytest.raises(KeyMismatchError):
        desk.commit(1, desk.stage(1, {"k": ["b"], "v": [1]}), mode=PublishMode.UPSERT, key=("v",))
    assert desk.ledger.last("query", "t") == 0
    assert desk.rows() == {"k": ["a"], "v": [1]}


def test_parts_of_different_schemas_are_refused(desk: Desk) -> None:
    other = pa.schema([("k", pa.string())])
    with pytest.raises(SchemaMismatchError, match="different schemas"):
        desk.commit(0, desk.stage(0, {"k": ["a"], "v": [1]}), desk.stage(0, {"k": ["b"]}, schema=other))
    assert desk.catalog.tables() == ()


def test_an_empty_batch_makes_the_table_of_the_schema_that_comes_with_it(desk: Desk) -> None:
    assert desk.commit(0, schema=SCHEMA, key=("k",), mode=PublishMode.UPSERT).rows == 0
    assert desk.catalog.get("t").key_columns == ("k",)
    with pytest.raises(InvalidRequestError, match="send the schema"):
        desk.commit(1)


def test_an_empty_batch_replaces_everything_by_nothing(desk: Desk) -> None:
    desk.commit(0, desk.stage(0, {"k": ["a"], "v": [1]}), mode=PublishMode.REPLACE)
    desk.commit(1, schema=SCHEMA, mode=PublishMode.REPLACE)
    assert desk.rows() == {"k": [], "v": []}


def test_rows_are_ordered_by_a_column_and_equal_ones_stay_as_they_came(desk: Desk) -> None:
    first = desk.stage(0, {"k": ["late", "x"], "v": [9, 5]})
    second = desk.stage(0, {"k": ["y", "early"], "v": [5, 1]})
    desk.commit(0, first, second, order_by="v")
    assert desk.rows() == {"k": ["early", "x", "y", "late"], "v": [1, 5, 5, 9]}


def test_ordering_decides_which_row_of_a_key_is_last(desk: Desk) -> None:
    token = desk.stage(0, {"k": ["a", "a", "a"], "v": [2, 3, 1]})
    desk.commit(0, token, mode=PublishMode.UPSERT, key=("k",), order_by="v")
    assert desk.rows() == {"k": ["a"], "v": [3]}


def test_an_order_that_cannot_be_is_refused(desk: Desk) -> None:
    with pytest.raises(UnknownColumnError, match="there are: k, v"):
        desk.commit(0, desk.stage(0, {"k": ["a"], "v": [1]}), order_by="w")
    nested = pa.schema([("s", pa.list_(pa.int8()))])
    with pytest.raises(UnsupportedTypeError):
        desk.commit(0, desk.stage(0, {"s": [[1]]}, schema=nested), order_by="s")
    assert desk.catalog.tables() == ()


def test_the_same_commit_from_many_threads_is_done_once(desk: Desk) -> None:
    token = desk.stage(0, {"k": ["a"], "v": [1]})
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: desk.commit(0, token), range(32)))
    assert sum(result.committed for result in results) == 1
    assert desk.rows() == {"k": ["a"], "v": [1]}


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=30))
def test_however_batches_are_replayed_each_row_is_there_once(attempts: list[tuple[int, bool]]) -> None:
    """Batches come in order, each perhaps several times, each perhaps staged by an attempt that is given up."""
    desk = Desk()
    desk.commit(0, schema=SCHEMA)
    done: list[int] = []
    for offset, given_up in attempts:
        batch = max(1, (done[-1] if done else 0) + 1 - offset)
        token = desk.stage(batch, {"k": [str(batch)], "v": [batch]})
        if given_up:
            desk.staging.drop([token])
            continue
        if desk.commit(batch, token).committed:
            done.append(batch)
    assert desk.rows()["v"] == sorted(set(done)) == done


def test_a_table_dropped_beside_a_commit_takes_its_batches_with_it(desk: Desk) -> None:
    """The successor of that name gets every batch, those that the dropped table had too."""
    for batch in range(3):
        desk.commit(batch, desk.stage(batch, {"k": ["a"], "v": [batch]}))
    desk.catalog.get("t").add_listener(lambda *_: desk.catalog.drop("t"))
    assert desk.commit(3, desk.stage(3, {"k": ["a"], "v": [3]})).committed
    assert desk.catalog.tables() == ()
    assert desk.ledger.entries() == {}
    for batch in range(3):
        assert desk.commit(batch, desk.stage(batch, {"k": ["b"], "v": [batch]})).committed
    assert desk.rows() == {"k": ["b"] * 3, "v": [0, 1, 2]}


def test_a_late_drop_does_not_forget_the_batches_of_the_successor() -> None:
    """The name is free as soon as the table is dropped; its clean-up may run later."""
    desk = Desk()
    dropped: list[Table] = []
    desk.catalog = Catalog(desk.catalog.graph, dropped.append)
    desk.committer = Committer(desk.catalog, desk.staging, desk.ledger)
    desk.commit(0, desk.stage(0, {"k": ["a"], "v": [0]}))
    desk.catalog.drop("t")
    assert desk.commit(1, desk.stage(1, {"k": ["a"], "v": [1]})).committed
    desk.ledger.forget_table("t", dropped[0])
    assert desk.commit(1, desk.stage(1, {"k": ["a"], "v": [1]})).duplicate
    assert desk.rows() == {"k": ["a"], "v": [1]}


def test_a_commit_drops_what_other_attempts_have_staged(desk: Desk) -> None:
    """Those of a driver that was killed, and the slower ones of two, also one that is still coming in."""
    left_behind = desk.stage(3, {"k": ["a"], "v": [1]})
    loser, winner = desk.stage(4, {"k": ["a"], "v": [1]}), desk.stage(4, {"k": ["a"], "v": [1]})
    request = StageRequest("query", "t", 4, "late")
    late = desk.staging.open(request, SCHEMA, 0.0)
    following = desk.stage(5, {"k": ["b"], "v": [2]})
    other = desk.stage(4, {"k": ["c"], "v": [3]}, publisher="other")
    assert desk.commit(4, winner).rows == 1
    assert desk.staging.drop([left_behind, loser]) == 0
    for message in (
        lambda: desk.staging.add(late, pa.RecordBatch.from_pydict({"k": ["a"], "v": [1]}, schema=SCHEMA), 0.0),
        lambda: desk.staging.seal(late, 0, 0.0),
    ):
        with pytest.raises(PublishError, match="another attempt at its batch was committed"):
            message()
    assert desk.staging.statistics().entries == 2
    later = desk.staging.open(request, SCHEMA, 0.0)  # one that begins after the commit
    desk.staging.seal(later, 0, 0.0)
    desk.committer.staged(request, later)
    assert desk.staging.statistics().entries == 2
    desk.committer.staged(StageRequest("query", "t", 5, "next"), following)
    assert desk.commit(5, following).committed
    assert desk.commit(4, other, publisher="other").committed


def test_drops_beside_commits_never_part_a_batch_from_its_rows(desk: Desk) -> None:
    """Whichever wins: a batch is remembered as long as the table that has its rows is there, and no longer."""
    stop = threading.Event()
    wrong: list[str] = []

    def drop() -> None:
        while not stop.is_set():
            with contextlib.suppress(BarrageError):
                desk.catalog.drop("t")

    dropping = threading.Thread(target=drop)
    dropping.start()
    for batch in range(400):
        if not desk.commit(batch, schema=SCHEMA).committed:
            wrong.append(f"{batch} was taken for a repetition")
        before, last = desk.catalog.find("t"), desk.ledger.last("query", "t")
        if before is not None and before is desk.catalog.find("t") and last != batch:
            wrong.append(f"{last} instead of {batch} is remembered of a table that is there")
    stop.set()
    dropping.join()
    assert wrong == []


class MeetingLog(CycleLog):
    """A log whose records become durable once two commits wait for theirs."""

    def __init__(self) -> None:
        self._waiting = threading.Barrier(2)
        self._written = 0

    def check(self, table: Table) -> None:
        pass

    def concerns(self, tables: Collection[Table], notes: Sequence[CycleNote]) -> bool:
        return True

    def write(self, step: int, staged: Mapping[Table, Sequence[Any]], notes: Sequence[CycleNote]) -> int:
        self._written += 1
        return self._written

    def ran(self) -> None:
        pass

    def take_back(self) -> None:
        pass

    def void(self, position: int, tables: Collection[Table], notes: Collection[CycleNote]) -> int:
        return position

    def wait_for_all(self) -> None:
        pass

    def wait(self, position: int) -> None:
        self._waiting.wait(timeout=30)


def test_commits_of_different_publishers_wait_for_the_disk_together(desk: Desk) -> None:
    """One sync is enough for both: neither waits for the other's to end before its own is written."""
    desk.commit(0, desk.stage(0, {"k": ["first"], "v": [0]}))
    publishers = ["a", "b"]
    tokens = [desk.stage(0, {"k": [name], "v": [1]}, publisher=name) for name in publishers]
    desk.catalog.graph.keep_log(MeetingLog(), desk.catalog.graph.step)
    with ThreadPoolExecutor(2) as pool:
        commits = [
            pool.submit(desk.commit, 0, token, publisher=name) for name, token in zip(publishers, tokens, strict=True)
        ]
        results = [commit.result(timeout=60) for commit in commits]
    assert all(result.committed for result in results)
    assert sorted(desk.rows()["k"]) == ["a", "b", "first"]
