"""The methods that make tables from tables, for tables, handles and plans."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barrage_server.arguments import flag, integer, names, shown
from barrage_server.errors import InvalidRequestError
from barrage_server.plan import aggregation as agg
from barrage_server.plan import operation as plan
from barrage_server.plan.aggregation import Aggregation, Filter, conditions
from barrage_server.plan.joins import (
    AsOfJoin,
    ExactJoin,
    FullOuterJoin,
    Join,
    LeftOuterJoin,
    NaturalJoin,
    NaturalJoinType,
    RangeJoin,
    ReverseAsOfJoin,
    WhereIn,
    WhereNotIn,
)
from barrage_server.plan.plottable import Plottable, Result
from barrage_server.plan.texts import Renames, Texts, optional_texts, renames, texts
from barrage_server.plan.update_by import UpdateByOperation

__all__ = ["Operable", "merge"]

_ELSEWHERE: Final = {
    "assign": "update",
    "drop": "drop_columns",
    "drop_duplicates": "select_distinct",
    "filter": "where",
    "groupby": "agg_by",
    "query": "where",
    "rename": "rename_columns",
    "sort_values": "sort",
    "unique": "select_distinct",
    "value_counts": "count_by",
    "with_columns": "update",
}
"""Names of other libraries for methods that are here."""


class Operable(Plottable[Result]):
    """A table to apply operations to, with the methods of Deephaven's client.

    Names and arguments are those of Deephaven's Python client.

    Each method raises what the operation finds wrong with its arguments and the columns of the table:
        InvalidRequestError: an argument, or a formula; the text says where and what was found.
        UnknownColumnError: a column that the table lacks.
        LimitError: a formula is too long, or a table would be too large.
    """

    if not TYPE_CHECKING:  # type checkers know the names

        def __getattr__(self, name: str) -> Any:
            """Tell the nearest name of a method that is not there."""
            hint = ""
            if not name.startswith("_"):
                known = [method for method in dir(type(self)) if not method.startswith("_")]
                wanted = _ELSEWHERE.get(name.lower())
                close = [wanted] if wanted in known else difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{hint}")

    def select(self, formulas: Texts | None = None) -> Result:
        """A table of the stored results of formulas, computed when their inputs change.

        Without formulas, the table has all columns.
        """
        return self.operate(plan.Select(() if formulas is None else texts(formulas, "formulas")))

    def view(self, formulas: Texts) -> Result:
        """A table of the results of formulas, evaluated when they are read."""
        return self.operate(plan.View(texts(formulas, "formulas")))

    def update(self, formulas: Texts) -> Result:
        """This table with stored columns of formulas, computed when their inputs change.

        >>> trades.update(["notional = price * size", "large = notional > 1e6"])

        Args:
            formulas: ``"New = formula"`` or a list of them, in the language of ``docs/queries.md``. A formula may use
                the columns of those before it, and replaces a column of its name. Expressions of ``bs.col`` get
                their name by ``.named("New")``.

        """
        return self.operate(plan.Update(texts(formulas, "formulas")))

    def update_view(self, formulas: Texts) -> Result:
        """This table with columns of formulas, evaluated when they are read."""
        return self.operate(plan.UpdateView(texts(formulas, "formulas")))

    def lazy_update(self, formulas: Texts) -> Result:
        """The same as :meth:`update_view`; results for equal inputs are not cached."""
        return self.operate(plan.LazyUpdate(texts(formulas, "formulas")))

    def drop_columns(self, cols: Texts) -> Result:
        """This table without some columns."""
        return self.operate(plan.DropColumns(names(cols, "cols", single=True)))

    def rename_columns(self, cols: Renames) -> Result:
        """This table with other names for some columns.

        >>> trades.rename_columns({"price": "last", "size": "volume"})
        >>> trades.rename_columns(["last = price", "volume = size"])

        Args:
            cols: a mapping of old names to new ones, as pandas and pyarrow take it; or ``"New = Old"``, or a list of
                such texts. All are renamed at once, so that two columns can swap names.

        """
        return self.operate(plan.RenameColumns(renames(cols, "cols")))

    def where(self, filters: Filter | Sequence[Filter]) -> Result:
        """The rows for which all conditions hold.

        >>> trades.where("price > 100 && sym == `A`")
        >>> trades.where(["price > 100", "sym in `A`, `B`"])

        Args:
            filters: a condition or a list of them: formulas of type boolean, in the language of ``docs/queries.md``,
                with ``&&``, ``||``, ``!`` and strings in backticks; expressions of ``bs.col``; or trees of
                ``bs.condition``. A row for which a condition is null is left out.

        """
        return self.operate(plan.Where(conditions(filters, "filters")))

    def head(self, num_rows: int = 5) -> Result:
        """The first rows, at most ``num_rows``."""
        return self.operate(plan.Head(integer(num_rows, "num_rows")))

    def tail(self, num_rows: int = 5) -> Result:
        """The last rows, at most ``num_rows``."""
        return self.operate(plan.Tail(integer(num_rows, "num_rows")))

    def head_pct(self, pct: float) -> Result:
        """The first ``pct`` of the rows, from 0 to 1, rounded up."""
        return self.operate(plan.HeadShare(_share(pct)))

    def tail_pct(self, pct: float) -> Result:
        """The last ``pct`` of the rows, from 0 to 1, rounded up."""
        return self.operate(plan.TailShare(_share(pct)))

    def slice(self, start: int, stop: int) -> Result:
        """The rows from position ``start`` to ``stop``, without ``stop``.

        Negative positions count from the end.
        """
        return self.operate(plan.Slice(start, stop))

    def flatten(self) -> Result:
        """The same rows, under row keys that are their positions."""
        return self.operate(plan.Flatten())

    def reverse(self) -> Result:
        """The rows in reverse order."""
        return self.operate(plan.Reverse())

    def sort(self, order_by: Texts, order: Any = None) -> Result:
        """The rows in the order of columns, the first column most significant.

        Ties keep the order of this table.

        Args:
            order_by: names of columns; ``"abs(name)"`` for the order of absolute values.
            order: ``"ascending"`` or ``"descending"``, or one for each column; ascending without.

        """
        columns = names(order_by, "order_by", single=True)
        directions = (order,) * len(columns)
        if isinstance(order, Sequence) and not isinstance(order, str):
            directions = tuple(order)
        if len(directions) != len(columns):
            raise InvalidRequestError(f"The list order has {len(directions)} entries, and order_by {len(columns)}.")
        return self.operate(plan.Sort(tuple(map(_sort_column, columns, directions))))

    def sort_descending(self, order_by: Texts) -> Result:
        """The rows in the descending order of columns."""
        return self.sort(order_by, "descending")

    def where_in(self, filter_table: Result, cols: Texts) -> Result:
        """The rows of this table whose key ``filter_table`` has.

        >>> trades.where_in(watched, "sym = symbol")

        Args:
            filter_table: the table with the keys, each in any number of rows.
            cols: the columns that are compared: ``"sym"``, or ``"sym = symbol"`` for other names in ``filter_table``.

        """
        return self.operate(WhereIn(texts(cols, "cols")), filter_table)

    def where_not_in(self, filter_table: Result, cols: Texts) -> Result:
        """The rows whose key ``filter_table`` does not have; see :meth:`where_in`."""
        return self.operate(WhereNotIn(texts(cols, "cols")), filter_table)

    def natural_join(
        self,
        table: Result,
        on: Texts,
        joins: Texts | None = None,
        type: str = "error_on_duplicate",  # noqa: A002  (as Deephaven's client has it)
    ) -> Result:
        """This table with columns of the row of ``table`` that has the same key.

        The columns are null for rows without a match.

        >>> trades.natural_join(quotes, on="sym", joins=["bid", "ask"])

        Args:
            table: the right table.
            on: the columns that are compared: ``"sym"``, or ``"sym = symbol"`` for other names on the right.
            joins: the columns of ``table``: ``"price"`` or ``"last = price"``; all others without.
            type: which row of ``table`` is taken, if it has several with one key: ``"error_on_duplicate"``, with which
                the join fails then, ``"first_match"`` or ``"last_match"``.

        """
        return self.operate(NaturalJoin(texts(on, "on"), optional_texts(joins, "joins"), _match(type)), table)

    def exact_join(self, table: Result, on: Texts, joins: Texts | None = None) -> Result:
        """A :meth:`natural_join` that fails when a row has no match in ``table``."""
        return self.operate(ExactJoin(texts(on, "on"), optional_texts(joins, "joins")), table)

    def aj(self, table: Result, on: Texts, joins: Texts | None = None) -> Result:
        """This table with columns of the last row of ``table`` at or before each row.

        The columns are null for rows without a match.

        >>> trades.aj(quotes, on=["sym", "time >= quoted"], joins=["bid", "ask"])

        Args:
            table: the right table, in any order. Of rows with equal stamps the last one is taken.
            on: the columns that are equal, as ``"sym"`` or ``"sym = symbol"``, and last the stamps: ``"time"``,
                ``"time >= quoted"`` or ``"time > quoted"``.
            joins: the columns of ``table``: ``"price"`` or ``"last = price"``; without it all that are not compared,
                and the stamps of ``table`` if this table has no column of that name.

        """
        return self.operate(AsOfJoin(texts(on, "on"), optional_texts(joins, "joins")), table)

    def raj(self, table: Result, on: Texts, joins: Texts | None = None) -> Result:
        """This table with columns of the first row of ``table`` at or after each row.

        The columns are null for rows without a match.

        >>> trades.raj(quotes, on=["sym", "time <= quoted"], joins=["bid", "ask"])

        Of rows of ``table`` with equal stamps the first one is taken. The arguments are those of :meth:`aj`; the last
        entry of ``on`` is ``"time"``, ``"time <= quoted"`` or ``"time < quoted"``.
        """
        return self.operate(ReverseAsOfJoin(texts(on, "on"), optional_texts(joins, "joins")), table)

    def range_join(self, table: Result, on: Texts, aggs: Aggregation | Sequence[Aggregation]) -> Result:
        """This table with lists of the values of ``table`` within each row's range.

        >>> orders.range_join(trades, ["sym", "opened <= time <= closed"], bs.agg.group("prices = price"))

        Args:
            table: the right table, in any order; lists are in the order of the values that the range is of.
            on: the columns that are equal, as ``"sym"`` or ``"sym = symbol"``, and last the range, with a column of
                ``table`` in the middle and ``<`` or ``<=``. ``"<- opened <= time <= closed ->"`` takes the row before
                the range if none is at its start, and that behind it if none is at its end.
            aggs: ``bs.agg.group``, which names columns of ``table``.

        """
        listed = _aggregations(aggs, "bs.agg.group('price')")
        return self.operate(RangeJoin(texts(on, "on"), listed), table)

    def join(
        self, table: Result, on: Texts | None = None, joins: Texts | None = None, reserve_bits: int = 10
    ) -> Result:
        """A row for each pair of rows of both tables that have the same key.

        >>> trades.join(quotes, on="sym", joins=["bid", "quoted = time"])

        Args:
            table: the right table, with any number of rows for each key.
            on: the columns that are compared: ``"sym"``, or ``"sym = symbol"`` for other names on the right; without
                it all pairs of rows are in the result.
            joins: the columns of ``table``: ``"price"`` or ``"last = price"``; all that are not compared without.
            reserve_bits: the bits of row keys for the rows of ``table`` with one key. Where more are needed, all rows
                get other row keys.

        """
        bits = integer(reserve_bits, "reserve_bits")
        return self.operate(Join(optional_texts(on, "on"), optional_texts(joins, "joins"), bits), table)

    def left_outer_join(self, table: Result, on: Texts, joins: Texts | None = None) -> Result:
        """The pairs of :meth:`join`, and the rows of this table without a pair.

        Rows without a pair have nulls in the columns of ``table``. Without ``joins``, the columns of ``table`` are
        added whose names this table does not have.
        """
        return self.operate(LeftOuterJoin(texts(on, "on"), optional_texts(joins, "joins")), table)

    def full_outer_join(self, table: Result, on: Texts, joins: Texts | None = None) -> Result:
        """A :meth:`left_outer_join`, followed by the rows of ``table`` without a pair.

        These have nulls in this table's columns. Rename key columns to see their keys: ``joins=["right_sym = sym",
        "bid"]``.
        """
        return self.operate(FullOuterJoin(texts(on, "on"), optional_texts(joins, "joins")), table)

    def select_distinct(self, cols: Texts | None = None) -> Result:
        """A row for each combination of values in ``cols``, in order of appearance.

        Without ``cols``, all columns are taken.
        """
        return self.operate(plan.SelectDistinct(optional_texts(cols, "cols")))

    def agg_by(self, aggs: Aggregation | Sequence[Aggregation], by: Texts | None = None) -> Result:
        """A row of aggregates for each group of rows that are equal in ``by``.

        Without ``by``, all rows are one group.

        >>> trades.agg_by([bs.agg.sum_("volume = size"), bs.agg.count_("trades")], by="sym")
        """
        return self.operate(plan.AggregateBy(_aggregations(aggs), optional_texts(by, "by")))

    def agg_all_by(self, agg: Aggregation, by: Texts | None = None) -> Result:
        """One aggregation, such as ``bs.agg.avg()``, of all suitable columns by group."""
        if not isinstance(agg, Aggregation):
            raise InvalidRequestError(f"agg must be an aggregation such as bs.agg.avg(), not {shown(agg)}.")
        return self.operate(plan.AggregateAllBy(agg, optional_texts(by, "by")))

    def count_by(self, col: str, by: Texts | None = None) -> Result:
        """The number of rows of each group, as the column ``col``."""
        return self.agg_by(agg.count_(col), by)

    def sum_by(self, by: Texts | None = None) -> Result:
        """The sums of all other numeric columns, for each group."""
        return self.agg_all_by(agg.sum_(), by)

    def abs_sum_by(self, by: Texts | None = None) -> Result:
        """The sums of absolute values of all other numeric columns, for each group."""
        return self.agg_all_by(agg.abs_sum(), by)

    def avg_by(self, by: Texts | None = None) -> Result:
        """The means of all other numeric columns, for each group."""
        return self.agg_all_by(agg.avg(), by)

    def std_by(self, by: Texts | None = None) -> Result:
        """The standard deviations of all other numeric columns, for each group."""
        return self.agg_all_by(agg.std(), by)

    def var_by(self, by: Texts | None = None) -> Result:
        """The variances of all other numeric columns, for each group."""
        return self.agg_all_by(agg.var(), by)

    def min_by(self, by: Texts | None = None) -> Result:
        """The smallest values of all other ordered columns, for each group."""
        return self.agg_all_by(agg.min_(), by)

    def max_by(self, by: Texts | None = None) -> Result:
        """The largest values of all other ordered columns, for each group."""
        return self.agg_all_by(agg.max_(), by)

    def median_by(self, by: Texts | None = None) -> Result:
        """The medians of all other ordered columns, for each group."""
        return self.agg_all_by(agg.median(), by)

    def first_by(self, by: Texts | None = None) -> Result:
        """The first row of each group."""
        return self.agg_all_by(agg.first(), by)

    def last_by(self, by: Texts | None = None) -> Result:
        """The last row of each group."""
        return self.agg_all_by(agg.last(), by)

    def group_by(self, by: Texts | None = None) -> Result:
        """The values of all other columns as lists, one row for each group.

        Values are in the order of the rows.
        """
        return self.agg_all_by(agg.group(), by)

    def head_by(self, num_rows: int, by: Texts | None = None) -> Result:
        """The first ``num_rows`` rows of each group, group by group.

        Groups are in order of appearance. The columns ``by`` come first in the result.
        """
        return self.operate(plan.HeadBy(integer(num_rows, "num_rows"), optional_texts(by, "by")))

    def tail_by(self, num_rows: int, by: Texts | None = None) -> Result:
        """The last ``num_rows`` rows of each group, as :meth:`head_by` does."""
        return self.operate(plan.TailBy(integer(num_rows, "num_rows"), optional_texts(by, "by")))

    def ungroup(self, cols: Texts | None = None, null_fill: bool = True) -> Result:
        """A row for each item of the lists in ``cols``, with the other columns.

        Args:
            cols: columns of lists; all that there are without.
            null_fill: whether the shorter lists of a row end with nulls. Otherwise all must be of one length.

        """
        columns = () if cols is None else names(cols, "cols", single=True)
        return self.operate(plan.Ungroup(columns, flag(null_fill, "null_fill")))

    def update_by(self, ops: UpdateByOperation | Sequence[UpdateByOperation], by: Texts | None = None) -> Result:
        """This table with cumulative, moving and rolling functions of each group.

        >>> trades.update_by([bs.updateby.ema_tick(20, ["smooth = price"]), bs.updateby.cum_sum("size")], by="sym")

        Args:
            ops: one of ``bs.updateby``, or a list of them. A result replaces a column of its name.
            by: the columns that tell groups apart; all rows are one group without.

        """
        given: Any = ops
        listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not listed:
            raise InvalidRequestError("ops must not be empty: there is nothing to compute.")
        for entry in listed:
            if not isinstance(entry, UpdateByOperation):
                raise InvalidRequestError(f"ops must be such as bs.updateby.cum_sum('price'), not {shown(entry)}.")
        return self.operate(plan.UpdateBy(listed, optional_texts(by, "by")))

    def snapshot(self) -> Result:
        """This table as it is now; the result does not change any more."""
        return self.operate(plan.Snapshot())

    @property
    def meta_table(self) -> Result:
        """The columns of this table, a row for each: name and type."""
        return self.operate(plan.MetaTable())


def merge(tables: Sequence[Operable[Result]], order_by: str | None = None) -> Result:
    """The rows of ``tables``, table by table or in the order of a column.

    All tables have the same columns.

    Raises:
        InvalidRequestError: there are no tables, or their columns differ.

    """
    if not isinstance(tables, Sequence):
        raise InvalidRequestError(f"merge takes a list of tables, not {shown(tables)}.")
    if not tables:
        raise InvalidRequestError("merge takes a list of tables, one at least.")
    for table in tables:
        if not isinstance(table, Operable):
            raise InvalidRequestError(f"merge takes a list of tables, and one entry is {shown(table)}.")
    if order_by is not None and not isinstance(order_by, str):
        raise InvalidRequestError(f"order_by is the name of one column, not {shown(order_by)}.")
    first, *others = tables
    return first.operate(plan.Merge(order_by), *others)  # type: ignore[arg-type]  # each is what its methods return


def _aggregations(value: Any, example: str = "bs.agg.sum_('price')") -> tuple[Aggregation, ...]:
    listed = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    for entry in listed:
        if not isinstance(entry, Aggregation):
            raise InvalidRequestError(f"aggs must be such as {example}, not {shown(entry)}.")
    return listed


def _match(value: str) -> NaturalJoinType:
    if not isinstance(value, str) or value.lower() not in list(NaturalJoinType):
        known = ", ".join(map(repr, map(str, NaturalJoinType)))
        raise InvalidRequestError(f"type must be one of {known}, not {shown(value)}.")
    return NaturalJoinType(value.lower())


def _share(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidRequestError(f"pct is a number from 0 to 1, not {shown(value)}.")
    return float(value)


def _sort_column(name: str, direction: Any) -> plan.SortColumn:
    known = {None: False, "ascending": False, "asc": False, "descending": True, "desc": True}
    if not isinstance(direction, str | None) or direction not in known:
        raise InvalidRequestError(f'order is "ascending" or "descending", not {shown(direction)}.')
    absolute = name.startswith("abs(") and name.endswith(")")
    return plan.SortColumn(name[4:-1].strip() if absolute else name, known[direction], absolute)
