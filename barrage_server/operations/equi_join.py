"""Joins that pair rows with equal keys: ``join`` and both outer joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import pyarrow as pa

from barrage_server.arguments import integer
from barrage_server.engine import Table, TableUpdate
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.storage import from_storage, storage_type
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.fixed_limits import JOIN_ROWS
from barrage_server.operations.build import merge
from barrage_server.operations.checks import pair
from barrage_server.operations.cross_join import CrossJoin
from barrage_server.operations.join_columns import AddedColumns, JoinKeys, added_columns, join_keys
from barrage_server.operations.result import make, name_for, owning
from barrage_server.operations.traits import route_of
from barrage_server.operations.where_in import WhereIn
from barrage_server.rowset import MAX_KEY, RowSet

__all__ = ["cross_join", "full_outer_join", "left_outer_join"]

MOST_BITS: Final = 31


class NullView(ColumnView):
    """A column of nulls."""

    __slots__ = ("depth", "is_frozen", "type")

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self.is_frozen = False
        self.depth = 0

    def read(self, plan: ReadPlan) -> pa.Array:
        """Nulls."""
        return from_storage(pa.nulls(plan.size, storage_type(self.type)), self.type)

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space: nothing is stored."""
        return MAX_KEY

    def compact(self) -> None:
        """Do nothing: there are no overwritten values."""


class RightAlone(Operator):
    """The right rows whose key no left row has, with nulls in the left columns.

    The inputs are the right table and the left table. A cycle costs what ``where_not_in`` does.

    Args:
        left, right: the columns of both.
        keys: the columns that are compared.
        added: the right columns of the result.
        follows_left: whether the left table ticks.

    """

    name: ClassVar[str] = "full_outer_join"

    def __init__(
        self, left: pa.Schema, right: pa.Schema, keys: JoinKeys, added: AddedColumns, *, follows_left: bool
    ) -> None:
        self.schema = pa.schema([*left, *added.fields])
        self._nulls = [NullView(field.type) for field in left]
        self._columns = added.numbers
        swapped = JoinKeys(keys.schema, keys.right, keys.left)
        self._rows = WhereIn(right, swapped, inverted=True, follows_right=follows_left)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of the order of the rows."""
        return self._rows.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Look for the keys of all rows."""
        return self._with_nulls(self._rows.start(inputs))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Look for changed keys on either side."""
        return self._with_nulls(self._rows.follow(changes, inputs))

    def _with_nulls(self, outcome: Outcome) -> Outcome:
        rows, views, update, _ = outcome
        nothing = [RowSet.empty()] * len(self._nulls)
        modified = (*nothing, *(update.modified[number] for number in self._columns))
        own = TableUpdate(update.added, update.removed, update.shifted, modified)
        return Outcome(rows, [*self._nulls, *(views[number] for number in self._columns)], own)


def cross_join(
    parents: Sequence[Table],
    on: Sequence[str],
    joins: Sequence[str],
    reserve_bits: int = 10,
    *,
    most_rows: int | None = None,
    name: str | None = None,
) -> Table:
    """A row for each pair of rows of both tables that have the same key.

    The pairs are in the order of the left rows, those of one left row in the order of the right ones.

    Args:
        parents: the left and the right table.
        on: the columns that are compared, as ``"sym"`` or ``"sym = symbol"``; none: all pairs.
        joins: the columns of the right table, as ``"price"`` or ``"last = price"``; none: all that are not compared.
        reserve_bits: the bits of row keys for the right rows of one left row. There are more when they are needed,
            which moves all row keys.
        most_rows: the largest number of rows; ``None``: 2**31.
        name: its name in messages and logs.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: columns to compare are of different types, or a result column is there already.
        UnsupportedTypeError: columns of a type cannot be keys.
        LimitError: there would be too many rows.

    """
    left, right = parents
    bits = integer(reserve_bits, "reserve_bits", most=MOST_BITS)
    pairs = [pair(entry) for entry in on]
    keys = join_keys(left, right, pairs)
    compared = {theirs for _, theirs in pairs}
    added = added_columns(left, right, joins, [each for each in right.schema.names if each not in compared])
    operator = CrossJoin(
        left.schema,
        keys,
        added,
        bits=bits,
        is_outer=False,
        follows_right=right.is_refreshing,
        most_rows=_most(most_rows),
    )
    return make([left, right], "join", operator, _traits(left, right), name=name)


def left_outer_join(
    parents: Sequence[Table],
    on: Sequence[str],
    joins: Sequence[str],
    *,
    most_rows: int | None = None,
    name: str | None = None,
) -> Table:
    """The pairs of rows with equal keys, and the left rows without a right one.

    The right columns of the latter are null. Without ``joins``, the right columns are added whose names the left table
    does not have. Further arguments and errors are those of :func:`cross_join`; there must be columns that are
    compared.
    """
    left, right = parents
    keys, added = _outer_columns(left, right, on, joins)
    return _left_outer(left, right, keys, added, most_rows, name)


def full_outer_join(
    parents: Sequence[Table],
    on: Sequence[str],
    joins: Sequence[str],
    *,
    most_rows: int | None = None,
    name: str | None = None,
) -> Table:
    """A left outer join, followed by the right rows without a left one.

    The left columns of the latter are null.

    Takes and raises what :func:`left_outer_join` does.
    """
    left, right = parents
    keys, added = _outer_columns(left, right, on, joins)
    called = name_for(left, "full_outer_join", name)
    matched = _left_outer(left, right, keys, added, most_rows, None)
    operator = RightAlone(left.schema, right.schema, keys, added, follows_left=left.is_refreshing)
    traits = TableTraits(stated=route_of(left.traits, right.traits))
    alone = make([right, left], "full_outer_join", operator, traits, name=called)
    return owning(merge([matched, alone], name=called), [matched, alone])


def _left_outer(
    left: Table, right: Table, keys: JoinKeys, added: AddedColumns, most_rows: int | None, name: str | None
) -> Table:
    operator = CrossJoin(
        left.schema,
        keys,
        added,
        bits=1,
        is_outer=True,
        follows_right=right.is_refreshing,
        most_rows=_most(most_rows),
    )
    return make([left, right], "left_outer_join", operator, _traits(left, right), name=name)


def _outer_columns(left: Table, right: Table, on: Sequence[str], joins: Sequence[str]) -> tuple[JoinKeys, AddedColumns]:
    pairs = [pair(entry) for entry in on]
    if not pairs:
        raise InvalidRequestError("An outer join needs columns that are compared: on=['sym'].")
    there = set(left.schema.names)
    others = [each for each in right.schema.names if each not in there]
    return join_keys(left, right, pairs), added_columns(left, right, joins, others)


def _traits(left: Table, right: Table) -> TableTraits:
    grows = left.traits.append_only and not right.is_refreshing
    return TableTraits(append_only=grows, add_only=grows, stated=route_of(left.traits, right.traits))


def _most(rows: int | None) -> int:
    return JOIN_ROWS.most if rows is None else integer(rows, "most_rows", most=JOIN_ROWS.most)
