"""Kinds, keys, capacities and modes that are refused before they are sent are those that a server would refuse."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from barrage_server.engine import UpdateGraph
from barrage_server.errors import InvalidRequestError
from barrage_server.publish import Target, publish_rows
from barrage_server.server.catalog import Catalog
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.target import check_target

ROWS = pa.record_batch({"k": ["a", "b"], "v": [1, 2]})
KINDS = (None, *TableKind)
KEYS = (None, (), ("k",), ("k", "k"))
CAPACITIES = (None, 5)
MODES = (None, PublishMode.APPEND, PublishMode.UPSERT, PublishMode.REPLACE)


def is_taken(target: Target) -> bool:
    """Whether a server without tables takes rows for ``target``."""
    try:
        publish_rows(Catalog(UpdateGraph()), target, ROWS.schema, [ROWS])
    except InvalidRequestError:
        return False
    return True


def is_allowed(target: Target, *, is_new: bool) -> bool:
    try:
        check_target(target.kind, target.key, target.capacity, target.mode, is_new=is_new)
    except InvalidRequestError:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_allowed_is_what_a_server_takes(kind: TableKind | None) -> None:
    """Of a new table; but for an upsert without a key, which only the name of a table that is there could explain."""
    for key, capacity, mode in itertools.product(KEYS, CAPACITIES, MODES):
        target = Target("t", mode, key, kind, capacity)
        if not key and mode is PublishMode.UPSERT:
            assert not is_taken(target)
            continue
        assert is_allowed(target, is_new=True) == is_taken(target), target


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_refused_for_any_table_is_refused_for_a_new_one(kind: TableKind | None) -> None:
    for key, capacity, mode in itertools.product(KEYS, CAPACITIES, MODES):
        target = Target("t", mode, key, kind, capacity)
        assert is_allowed(target, is_new=False) or not is_allowed(target, is_new=True), target


def test_a_table_that_is_there_may_know_its_capacity_and_its_key() -> None:
    """Without them, no kind and no mode is refused for a table that exists."""
    check_target(TableKind.RING, None, None, is_new=False)
    check_target(TableKind.KEYED, None, None, PublishMode.DELETE, is_new=False)
    check_target(None, None, None, PublishMode.UPSERT, is_new=False)
