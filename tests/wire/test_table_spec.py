"""The kind of a table, and what goes together with it: one rule for everything that makes tables."""

from __future__ import annotations

from itertools import product

import pytest

from barrage_server.errors import InvalidRequestError, KeyMismatchError
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec


@pytest.mark.parametrize(("kind", "key", "capacity"), list(product(TableKind, [(), ("a",)], [None, 5])))
def test_keyed_tables_have_a_key_rings_a_capacity_and_others_neither(
    kind: TableKind, key: tuple[str, ...], capacity: int | None
) -> None:
    fits = bool(key) == (kind is TableKind.KEYED) and (capacity is not None) == (kind is TableKind.RING)
    if fits:
        assert TableSpec.implied(kind, key, capacity) == TableSpec(kind, key, capacity)
        return
    wrong_key = bool(key) != (kind is TableKind.KEYED)
    with pytest.raises(KeyMismatchError if wrong_key else InvalidRequestError, match=f"of kind '{kind}'"):
        TableSpec(kind, key, capacity)


@pytest.mark.parametrize("otherwise", [TableKind.APPEND, TableKind.REPLACED])
def test_a_kind_that_is_not_named_is_implied(otherwise: TableKind) -> None:
    assert TableSpec.implied(otherwise=otherwise).kind is otherwise
    assert TableSpec.implied(key=["a", "b"], otherwise=otherwise) == TableSpec(TableKind.KEYED, ("a", "b"))
    assert TableSpec.implied(capacity=3, otherwise=otherwise) == TableSpec(TableKind.RING, (), 3)
    with pytest.raises(InvalidRequestError):
        TableSpec.implied(key=["a"], capacity=3, otherwise=otherwise)
