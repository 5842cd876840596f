"""A commit over several tables: all of them change in one cycle, or none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from barrage_server.errors import (
    BarrageError,
    FencedError,
    KeyMismatchError,
    LostBatchesError,
    PublishError,
    SchemaMismatchError,
    WireFormatError,
)
from barrage_server.wire.commit_messages import CommitPart, CommitRequest
from barrage_server.wire.protocol import PublishMode
from tests.publish.test_commit import SCHEMA, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def made(desk: Desk, *names: str) -> None:
    """Tables without rows."""
    for name in names:
        desk.committer.commit(CommitRequest("maker", name, 0, schema=SCHEMA))


def part(desk: Desk, table: str, batch: int, *values: int, **options: Any) -> CommitPart:
    token = desk.stage(batch, {"k": [str(value) for value in values], "v": list(values)}, table=table)
    return CommitPart(table, tokens=(token,), **options)


def commit(desk: Desk, batch: int, *parts: CommitPart, **options: Any) -> Any:
    return desk.committer.commit(CommitRequest("query", batch=batch, tables=parts, **options))


def values(desk: Desk, table: str) -> list[int]:
    found: list[int] = desk.catalog.get(table).to_arrow()["v"].to_pylist()
    return found


def test_all_tables_change_in_one_cycle(desk: Desk) -> None:
    made(desk, "t", "u")
    steps: list[int] = []
    for name in "tu":
        desk.catalog.get(name).add_listener(lambda update, before, after: steps.append(after.step))
    result = commit(desk, 0, part(desk, "t", 0, 1, 2), part(desk, "u", 0, 3))
    assert (result.committed, result.duplicate, result.rows, result.last_batch) == (True, False, 3, 0)
    assert steps == [result.step, result.step]
    assert (values(desk, "t"), values(desk, "u")) == ([1, 2], [3])
    assert desk.ledger.entries() == {("maker", "t"): 0, ("maker", "u"): 0, ("query", "t"): 0, ("query", "u"): 0}
    again = commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 3))
    assert (again.duplicate, again.rows) == (True, 0)
    assert desk.staging.statistics().entries == 0


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"key": ("k",)}, KeyMismatchError), ({"order_by": "w"}, BarrageError), ({"schema": pa.schema([])}, BarrageError)],
)
def test_one_table_that_refuses_its_rows_changes_none(
    desk: Desk, options: dict[str, Any], kind: type[BarrageError]
) -> None:
    made(desk, "t", "u")
    for order in (1, -1):
        parts = [part(desk, "t", 0, 1), part(desk, "u", 0, 2, **options)][::order]
        with pytest.raises(kind):
            commit(desk, 0, *parts)
        assert (values(desk, "t"), values(desk, "u")) == ([], [])
        assert desk.ledger.last("query", "t") is None
    assert commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 2)).committed


def test_rows_that_do_not_fit_one_table_change_none(desk: Desk) -> None:
    made(desk, "t", "u")
    other = pa.schema([("k", pa.int8())])
    wrong = CommitPart("u", tokens=(desk.stage(0, {"k": [1]}, table="u", schema=other),))
    with pytest.raises(SchemaMismatchError):
        commit(desk, 0, part(desk, "t", 0, 1), wrong)
    assert values(desk, "t") == []


def test_a_table_that_has_the_batch_is_left_out(desk: Desk) -> None:
    """One was dropped and made anew: it gets the batch, and the other has it once."""
    made(desk, "t", "u")
    commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 2))
    dropped = desk.catalog.get("u")
    desk.catalog.drop("u")
    desk.ledger.forget_table("u", dropped)
    made(desk, "u")
    result = commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 2))
    assert (result.committed, result.rows) == (True, 1)
    assert (values(desk, "t"), values(desk, "u")) == ([1], [2])


def test_a_gap_in_one_table_refuses_the_commit(desk: Desk) -> None:
    made(desk, "t", "u")
    commit(desk, 0, part(desk, "t", 0, 1))
    with pytest.raises(LostBatchesError, match="in table 'u': batch 0 is missing"):
        commit(desk, 1, part(desk, "t", 1, 2), part(desk, "u", 1, 3))
    assert commit(desk, 1, part(desk, "t", 1, 2), part(desk, "u", 1, 3), allow_gap=True).rows == 2


def test_an_epoch_is_fenced_off_for_all_tables(desk: Desk) -> None:
    made(desk, "t", "u")
    commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 2))
    token = desk.stage(0, {"k": ["a"], "v": [3]}, epoch="b")
    desk.commit(0, token, epoch="b", takeover=True)
    with pytest.raises(FencedError):
        commit(desk, 1, part(desk, "u", 1, 4))


def test_a_token_counts_for_its_own_table_only(desk: Desk) -> None:
    made(desk, "t", "u")
    one, two = part(desk, "t", 0, 1), part(desk, "u", 0, 2)
    with pytest.raises(PublishError, match="staged for batch 0 of table"):
        commit(desk, 0, CommitPart("t", tokens=two.tokens), CommitPart("u", tokens=one.tokens))


def test_each_table_has_its_mode(desk: Desk) -> None:
    for batch, rows in enumerate([(1, 2), (3,)]):
        if not batch:
            desk.committer.commit(CommitRequest("maker", "k", 0, PublishMode.UPSERT, key=("k",), schema=SCHEMA))
            made(desk, "t")
        keyed = part(desk, "k", batch, *rows, mode=PublishMode.UPSERT, key=("k",), order_by="v")
        commit(desk, batch, part(desk, "t", batch, *rows), keyed)
    assert (values(desk, "t"), values(desk, "k")) == ([1, 2, 3], [1, 2, 3])


# On the wire.


def test_a_commit_over_several_tables_is_json() -> None:
    parts = (CommitPart("t", tokens=("x",), schema=SCHEMA), CommitPart("u", PublishMode.UPSERT, key=("k",)))
    request = CommitRequest("q", batch=3, tables=parts, epoch="e", takeover=True)
    assert CommitRequest.from_json(request.to_json()) == request
    single = CommitRequest.over(parts[:1], publisher="q", batch=3)
    assert single == CommitRequest("q", "t", 3, tokens=("x",), schema=SCHEMA)
    assert single.parts == parts[:1]
    assert CommitRequest.from_json(single.to_json()) == single
    assert CommitRequest.over(parts, publisher="q", batch=3).parts == parts


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ('"tables":[]', "1 to 1000 tables"),
        ('"tables":[{"table":"t","tokens":[]},{"table":"t","tokens":[]}]', "each once"),
        ('"tables":[{"table":"t"}]', r"tables\[0\]\.tokens is missing"),
        ('"tables":[{"table":"t","tokens":[],"kye":["a"]}]', "Did you mean 'key'"),
        ('"tables":[3]', r"tables\[0\] must be an object, not 3"),
        ('"tables":{}', "tables must be a list or null, not {}"),
        ('"tables":[{"table":"t","tokens":[]}],"table":"u"', "'table' belongs into 'tables'"),
        ('"tables":[{"table":"t","tokens":[]}],"key":["a"]', "'key' belongs into 'tables'"),
        ('"tables":[{"table":"t","tokens":[]}],"mode":"upsert"', "'mode' belongs into 'tables'"),
        ('"epoch":"e"', "table is missing"),
    ],
)
def test_a_commit_that_contradicts_itself_is_refused(fields: str, text: str) -> None:
    body = f'{{"publisher":"q","batch":0,"tokens":[],{fields}}}'
    with pytest.raises(WireFormatError, match=text):
        CommitRequest.from_json(body.encode())


def test_new_tables_appear_together_or_not_at_all(desk: Desk) -> None:
    with pytest.raises(KeyMismatchError):
        commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 2, mode=PublishMode.UPSERT))
    assert desk.catalog.tables() == ()
    assert desk.ledger.entries() == {}
    result = commit(desk, 0, part(desk, "t", 0, 1), part(desk, "u", 0, 2, mode=PublishMode.UPSERT, key=("k",)))
    assert [table.version.step for table in desk.catalog.tables()] == [result.step, result.step]
    assert (values(desk, "t"), values(desk, "u")) == ([1], [2])
