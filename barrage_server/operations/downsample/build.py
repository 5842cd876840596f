"""The table of ``downsample``; results of one table share what they know."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import pyarrow as pa
import pyarrow.types as pat

from barrage_server.arguments import shown
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.errors import InvalidRequestError
from barrage_server.formula.literals import parse_duration, parse_instant
from barrage_server.operations.checks import known_columns
from barrage_server.operations.downsample.axis import Axis, Number, is_axis, is_time
from barrage_server.operations.downsample.blocks import Blocks
from barrage_server.operations.downsample.by_value import ByValue
from barrage_server.operations.downsample.in_order import InOrder
from barrage_server.operations.downsample.marks import Span
from barrage_server.operations.downsample.numbers import is_number
from barrage_server.operations.downsample.operator import Downsample
from barrage_server.operations.downsample.places import ColumnPlaces, Places, RowPlaces
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.plan.downsample import MOST_PIXELS, MOST_SERIES, Place
from barrage_server.plan.downsample import Downsample as Plan
from barrage_server.wire.conversions import NANOSECONDS

__all__ = ["downsample", "is_sorted"]

Known = TypeVar("Known")

_shared: Final[WeakKeyDictionary[Table, WeakValueDictionary[Hashable, Any]]] = WeakKeyDictionary()
"""State about the columns of tables, shared by results while one of them is referenced."""
_operators: Final[WeakKeyDictionary[Table, Downsample]] = WeakKeyDictionary()
_DAY: Final = 86_400 * NANOSECONDS["s"]
_LONGEST_TEXT: Final = 100


def downsample(parents: Sequence[Table], operation: Plan, *, name: str | None = None) -> Table:
    """The points of a plot of a table.

    Raises:
        InvalidRequestError: a column is of a type that cannot be plotted, there are too many, or the range is none.
        UnknownColumnError: the table lacks a column.
        LimitError: there are too many rows to be sorted.

    """
    (table,) = parents
    series = _series(table, operation)
    x = None if operation.x is None else _along(table, operation.x)
    data_type = pa.int64() if x is None else table.schema.field(x).type
    axis = Axis(data_type)
    span = _span(operation, axis, data_type)
    traits, in_order = table.traits, None
    by_key = traits.ring_capacity is not None and not traits.append_only
    if traits.append_only or by_key or not table.is_refreshing:
        places: Places = (
            RowPlaces(axis) if x is None else _known(table, ("x", x, by_key), lambda: ColumnPlaces(axis, x))
        )
        in_order = InOrder(span, places, [_blocks(table, number, by_key) for number in series])
    by_value = ByValue(span, axis, x, series)
    operator = Downsample(table.schema, x, series, in_order, by_value, by_key=by_key)
    made = make([table], operator.name, operator, TableTraits(stated=route_of(traits)), name=name)
    _operators[made] = operator
    return made


def is_sorted(table: Table) -> bool:
    """Whether a plot sorts its rows by x, as they are not known to be in order.

    False for other tables.
    """
    operator = _operators.get(table)
    return operator is not None and not operator.is_in_order


def _blocks(table: Table, number: int, by_key: bool) -> Blocks:
    return _known(table, ("y", number, by_key), lambda: Blocks(number))


def _known(table: Table, key: Hashable, make_one: Callable[[], Known]) -> Known:
    known = _shared.setdefault(table, WeakValueDictionary())
    found: Known | None = known.get(key)
    if found is None:
        found = make_one()
        known[key] = found
    return found


def _series(table: Table, operation: Plan) -> tuple[int, ...]:
    numbers = tuple(known_columns(table, operation.ys, "ys"))
    if len(numbers) > MOST_SERIES:
        raise InvalidRequestError(f"ys must have at most {MOST_SERIES} columns, not {len(numbers)}.")
    for number in numbers:
        field = table.schema.field(number)
        if not is_number(field.type):
            raise InvalidRequestError(
                f"ys must be columns of numbers, and {field.name[:100]!r} of '{table.name}' is of type {field.type}."
            )
    return numbers


def _along(table: Table, name: str) -> int:
    (number,) = known_columns(table, (name,), "x")
    field = table.schema.field(number)
    if not is_axis(field.type):
        raise InvalidRequestError(
            f"x must be a column of numbers or times, and {field.name[:100]!r} of '{table.name}' is of type "
            f"{field.type}. Without x, rows are plotted by their position."
        )
    return number


def _span(operation: Plan, axis: Axis, data_type: pa.DataType) -> Span:
    first = _number(operation.first, "first", axis, data_type)
    last = _number(operation.last, "last", axis, data_type)
    tail_x = _number(operation.tail_x, "tail_x", axis, data_type, is_distance=True)
    given = (first is not None or last is not None, operation.tail_rows is not None, tail_x is not None)
    if sum(given) > 1:
        raise InvalidRequestError("A plot has one range: first and last, or tail_rows, or tail_x.")
    if first is not None and last is not None and last < first:
        raise InvalidRequestError("last must not be less than first.")
    if tail_x is not None and tail_x < 0:
        raise InvalidRequestError("tail_x must not be negative.")
    if operation.tail_rows is not None and operation.tail_rows < 1:
        raise InvalidRequestError(f"tail_rows must be at least 1, not {operation.tail_rows}.")
    if not 1 <= operation.pixels <= MOST_PIXELS:
        raise InvalidRequestError(f"pixels must be from 1 to {MOST_PIXELS:,}, not {operation.pixels}.")
    return Span(first, last, operation.tail_rows, tail_x, operation.pixels)


def _number(
    value: Place | None, what: str, axis: Axis, data_type: pa.DataType, *, is_distance: bool = False
) -> Number | None:
    """A place or a distance on the axis as a number.

    Texts of digits are numbers, too, for programs that do not have them exactly.
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST_TEXT:
            raise InvalidRequestError(f"{what} must be a number or a time, not a text of {len(text):,} characters.")
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            value = int(text)
        elif is_time(data_type):
            return _parsed(text, what, data_type, is_distance=is_distance)
        else:
            value = _decimal(text, what)
    if axis.is_whole:
        whole = int(value)
        return whole + 1 if what == "first" and whole < value else whole
    return float(value)


def _decimal(text: str, what: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InvalidRequestError(f"{what} must be a number, as x is one, not {shown(text)}.")
    return found


def _parsed(text: str, what: str, data_type: pa.DataType, *, is_distance: bool) -> int:
    reads_duration = is_distance or pat.is_duration(data_type)
    example = "PT5M" if reads_duration else "2024-06-15T10:00:00Z"
    try:
        found = parse_duration(text) if reads_duration else parse_instant(text)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise InvalidRequestError(f"{what} must be a number or a text such as '{example}', not {shown(text)}.")
    return found // _unit(data_type)


def _unit(data_type: pa.DataType) -> int:
    """Nanoseconds of the unit of a type of times."""
    if pat.is_date32(data_type):
        return _DAY
    return NANOSECONDS["ms" if pat.is_date64(data_type) else data_type.unit]
