"""Creation of tables of each kind, and recognition of kinds."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from barrage_server.engine.append import AppendTable, BlinkTable, RingTable
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.keyed import KeyedTable, ReplacedTable
from barrage_server.engine.replica import ReplicaTable
from barrage_server.engine.table import Table
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec

__all__ = ["KIND_NAMES", "kind_name", "make_table", "spec_of"]

_KINDS: Final[dict[type[Table], TableKind]] = {
    AppendTable: TableKind.APPEND,
    RingTable: TableKind.RING,
    BlinkTable: TableKind.BLINK,
    KeyedTable: TableKind.KEYED,
    ReplacedTable: TableKind.REPLACED,
}
_REPLICA: Final = "replica"
_DERIVED: Final = "derived"
KIND_NAMES: Final = (*map(str, TableKind), _REPLICA, _DERIVED)
"""All that :func:`kind_name` returns."""


def make_table(graph: UpdateGraph, name: str, schema: pa.Schema, spec: TableSpec) -> Table:
    """A new, empty table of a graph.

    Raises:
        InvalidRequestError: a subclass of it, for a wrong schema or key.
    """
    if spec.kind is TableKind.KEYED:
        return KeyedTable(graph, name, schema, spec.key)
    if spec.capacity is not None:
        return RingTable(graph, name, schema, spec.capacity)
    if spec.kind is TableKind.BLINK:
        return BlinkTable(graph, name, schema)
    if spec.kind is TableKind.REPLACED:
        return ReplacedTable(graph, name, schema)
    return AppendTable(graph, name, schema)


def kind_name(table: Table) -> str:
    """The kind of a table in one word; ``replica`` or ``derived`` without a kind."""
    for base in type(table).__mro__:
        if base in _KINDS:
            return str(_KINDS[base])
    return _REPLICA if isinstance(table, ReplicaTable) else _DERIVED


def spec_of(table: Table) -> TableSpec | None:
    """The spec from which :func:`make_table` makes such a table, if there is one."""
    kind = _KINDS.get(type(table))
    if kind is None:
        return None
    return TableSpec(kind, tuple(table.key_columns), table.capacity if isinstance(table, RingTable) else None)
