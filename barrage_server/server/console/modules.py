"""The package ``deephaven`` of scripts: a part of Deephaven's server-side API.

It exists only for scripts, so that an installed package of that name is not touched.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import pyarrow as pa

from barrage_server.arguments import Duration, Moment, duration_nanoseconds, moment_nanoseconds, shown
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, SourceTable
from barrage_server.engine.schemas import as_schema
from barrage_server.engine.standalone import table as table_of_rows
from barrage_server.errors import BarrageError, InvalidRequestError
from barrage_server.plan import agg, updateby
from barrage_server.plan.multi_join import MultiJoinInput, multi_join
from barrage_server.plan.operable import merge
from barrage_server.plan.operation import EmptyTable, TimeTable
from barrage_server.server.console.context import ScriptContext
from barrage_server.server.console.output import STDERR, STDOUT, Output
from barrage_server.server.console.script_partitions import ScriptPartitionedTable
from barrage_server.server.console.script_table import ScriptTable, SortDirection

__all__ = ["script_builtins"]

_ROOT: Final = "deephaven"
_REFUSED: Final[Mapping[str, str]] = {
    "input": "scripts cannot ask for input",
    "breakpoint": "scripts cannot ask for input",
    "help": "its text would be shown in the server's terminal",
}
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "bool_": pa.bool_(),
    "byte": pa.int8(),
    "int8": pa.int8(),
    "short": pa.int16(),
    "int16": pa.int16(),
    "char": pa.uint16(),
    "int32": pa.int32(),
    "int_": pa.int64(),
    "long": pa.int64(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "single": pa.float32(),
    "float_": pa.float64(),
    "float64": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "Instant": pa.timestamp("ns", "UTC"),
}
_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "bool_col": pa.bool_(),
    "byte_col": pa.int8(),
    "char_col": pa.uint16(),
    "short_col": pa.int16(),
    "int_col": pa.int32(),
    "long_col": pa.int64(),
    "float_col": pa.float32(),
    "double_col": pa.float64(),
    "string_col": pa.string(),
    "datetime_col": pa.timestamp("ns", "UTC"),
}


class InputColumn:
    """A column of a new table.

    Args:
        name: the name of the column.
        data: its values.
        data_type: its Arrow type; None to infer it from the values.

    """

    def __init__(self, name: str, data: Any, data_type: pa.DataType | None = None) -> None:
        self.name = name
        try:
            self.values = pa.array(data, data_type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequestError(f"The values of column {shown(name)} do not fit its type: {error}.") from error


class _Factory:
    """The functions that make tables.

    Args:
        context: the context of the console.

    """

    def __init__(self, context: ScriptContext) -> None:
        self._context = context

    def empty_table(self, size: int) -> ScriptTable:
        """A table of ``size`` rows without columns."""
        return ScriptTable(self._context.compute(EmptyTable(size), ()), self._context)

    def time_table(self, period: Duration, start_time: Moment | None = None, blink_table: bool = False) -> ScriptTable:
        """A table with a row for each period that has passed; see ``bs.time_table``."""
        every, start = duration_nanoseconds(period), moment_nanoseconds(start_time, "start_time")
        return ScriptTable(self._context.compute(TimeTable(every, start, blink_table), ()), self._context)

    def merge(self, tables: Sequence[ScriptTable]) -> ScriptTable:
        """The rows of tables with the same columns, one table after the other."""
        return merge([table for table in tables if table is not None])

    def merge_sorted(self, tables: Sequence[ScriptTable], order_by: str) -> ScriptTable:
        """The rows of tables with the same columns, in the order of one column."""
        return merge(list(tables), order_by)

    def new_table(self, cols: Sequence[InputColumn] | Mapping[str, Any]) -> ScriptTable:
        """A static table of columns, or of a mapping of names to values."""
        if not isinstance(cols, Mapping):
            cols = {column.name: column.values for column in cols}
        return self.table_of(cols)

    def table_of(self, rows: Any) -> ScriptTable:
        """A static table with the rows of a data frame or a pyarrow table."""
        with self._context.shielded():
            made = table_of_rows(rows, name="new_table", graph=self._context.graph)
            made.is_refreshing = False
        return ScriptTable(made, self._context)

    def input_table(
        self,
        col_defs: Any = None,
        init_table: ScriptTable | None = None,
        key_cols: str | Sequence[str] | None = None,
        blink_table: bool = False,
    ) -> ScriptTable:
        """A table that takes rows from scripts and from clients.

        It has the columns of ``col_defs``, or the columns and rows of ``init_table``.
        """
        if (col_defs is None) == (init_table is None):
            raise InvalidRequestError("input_table takes either col_defs or init_table.")
        if blink_table and (key_cols or init_table is not None):
            raise InvalidRequestError("A blink table has neither keys nor rows that it begins with.")
        schema = as_schema(col_defs) if init_table is None else init_table.schema
        keys = [key_cols] if isinstance(key_cols, str) else list(key_cols or ())
        graph, name = self._context.graph, "input_table"
        made: SourceTable
        with self._context.shielded():
            if blink_table:
                made = BlinkTable(graph, name, schema, is_input=True)
            elif keys:
                made = KeyedTable(graph, name, schema, keys, is_input=True)
            else:
                made = AppendTable(graph, name, schema, is_input=True)
        table = ScriptTable(made, self._context)
        if init_table is not None:
            table.add(init_table)
        return table


def script_builtins(context: ScriptContext, output: Output) -> dict[str, Any]:
    """The built-in names of scripts: Python's, with some replaced.

    ``import`` also finds these modules, ``print`` writes to ``output``, and functions that read the keyboard raise.
    """
    modules = _modules(context)

    def import_module(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002  (as Python calls it)
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level or (name != _ROOT and not name.startswith(f"{_ROOT}.")):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = modules.get(name)
        if found is None:
            there = ", ".join(sorted(modules))
            raise ModuleNotFoundError(f"There is no module '{name}' in this console. There are: {there}.", name=name)
        return found if fromlist else modules[_ROOT]

    def script_print(
        *values: object, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False
    ) -> None:
        import sys

        if file is not None and file not in (sys.stdout, sys.stderr):
            builtins.print(*values, sep=sep, end=end, file=file, flush=flush)
            return
        joined = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
        level = STDERR if file is sys.stderr else STDOUT
        context.guarded(lambda: output.write(joined, level))  # shielded, because it takes locks

    own: dict[str, Any] = {"__import__": import_module, "print": script_print}
    for name, reason in _REFUSED.items():
        own[name] = _refused(name, reason)
    return {**vars(builtins), **own}


def _refused(name: str, reason: str) -> Callable[..., None]:
    def refuse(*_args: object, **_keywords: object) -> None:
        raise RuntimeError(f"There is no {name}() in this console: {reason}.")

    return refuse


def _modules(context: ScriptContext) -> dict[str, ModuleType]:
    factory = _Factory(context)
    made = {
        "agg": _module("agg", vars(agg), agg.__all__),
        "updateby": _module("updateby", vars(updateby), updateby.__all__),
        "dtypes": _module("dtypes", {**_TYPES, "DType": pa.DataType}),
        "column": _module(
            "column", {"InputColumn": InputColumn} | {name: _column(kind) for name, kind in _COLUMNS.items()}
        ),
        "arrow": _module("arrow", {"to_arrow": ScriptTable.to_arrow, "to_table": factory.table_of}),
        "pandas": _module("pandas", {"to_pandas": ScriptTable.to_pandas, "to_table": factory.table_of}),
        "table": _module(
            "table",
            {
                "Table": ScriptTable,
                "PartitionedTable": ScriptPartitionedTable,
                "SortDirection": SortDirection,
                "MultiJoinInput": MultiJoinInput,
                "multi_join": multi_join,
            },
        ),
    }
    functions = ("empty_table", "time_table", "merge", "merge_sorted", "new_table", "input_table")
    names: dict[str, Any] = {name: getattr(factory, name) for name in functions}
    root = _module("", {**names, "DHError": BarrageError, "SortDirection": SortDirection, **made})
    root.__path__ = []
    return {_ROOT: root} | {f"{_ROOT}.{name}": module for name, module in made.items()}


def _module(name: str, names: Mapping[str, Any], exported: Sequence[str] | None = None) -> ModuleType:
    module = ModuleType(f"{_ROOT}.{name}".rstrip("."))
    chosen = list(names) if exported is None else list(exported)
    vars(module).update({entry: names[entry] for entry in chosen}, __all__=chosen)
    return module


def _column(kind: pa.DataType) -> Callable[[str, Any], InputColumn]:
    def column(name: str, data: Any) -> InputColumn:
        return InputColumn(name, data, kind)

    return column
