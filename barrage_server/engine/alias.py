"""A table under another name."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.static import StaticTable
from barrage_server.engine.table import Table
from barrage_server.engine.update import TableUpdate

__all__ = ["alias", "own"]


def alias(table: Table, name: str) -> Table:
    """``table`` under another name, without a copy of its rows."""
    traits = replace(table.traits, is_input=False)
    if not table.is_refreshing:
        version = table.version
        return StaticTable(
            table.graph,
            name,
            table.schema,
            version.row_set,
            version.views,
            nbytes=table.nbytes,
            state_bytes=0,
            key_columns=table.key_columns,
            traits=traits,
        )
    made = DerivedTable([table], name, Same(table.schema), key_columns=table.key_columns, traits=traits)
    table.graph.attach(made)
    return made


def own(source: Table) -> DerivedTable:
    """A derived table with the rows of ``source``, which clients can only read.

    It holds the only reference to ``source``.
    """
    made = DerivedTable([source], source.name, Same(source.schema), traits=source.traits)
    made.owned = (source,)
    source.graph.attach(made)
    return made


class Same(Operator):
    """Passes its input on."""

    name: ClassVar[str] = "alias"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def start(self, inputs: Inputs) -> Outcome:
        """All rows."""
        (version,) = inputs
        update = TableUpdate.of_added(version.row_set, len(self.schema))
        return Outcome(version.row_set, version.views, update, version.readable)

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """The same update."""
        (change,), (version,) = changes, inputs
        update = TableUpdate.empty(len(self.schema)) if change is None else change.update
        return Outcome(version.row_set, version.views, update, version.readable)
