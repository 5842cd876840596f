"""The operations of a page on its table: filters, an order, a plot.

Nothing is sorted in the browser.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

import pyarrow as pa

from barrage_server.errors import InvalidRequestError, UnknownColumnError
from barrage_server.plan.condition import (
    BigDecimal,
    Column,
    Compare,
    Comparison,
    Condition,
    Instant,
    IsNan,
    IsNull,
    LocalDate,
)
from barrage_server.plan.downsample import Downsample
from barrage_server.plan.operation import Operation, Sort, SortColumn, Where
from barrage_server.wire.browser_types import form_of
from barrage_server.wire.page_messages import CellFilter, Open, Plot
from barrage_server.wire.schema import unwrapped_type

__all__ = ["OPERATIONS", "operations_of"]

OPERATIONS: Final = ("sort", "filter", "plot")
"""The names of operations that the page offers."""
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([+-]\d\d:\d\d(?::\d\d)?)?", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def operations_of(opening: Open, schema: pa.Schema) -> tuple[Operation, ...]:
    """The operations on the table that a page opens, each on the previous result.

    Args:
        opening: has conditions, order and plot.
        schema: the table's.

    Raises:
        InvalidRequestError: a cell is not of its column's type, or that type cannot be filtered by a cell.
        UnknownColumnError: the table lacks a column.
    """
    conditions = (*opening.where, *(_condition(one, schema) for one in opening.filters))
    operations: list[Operation] = []
    if conditions:
        operations.append(Where(conditions))
    if opening.sort:
        if opening.plot is not None:
            raise InvalidRequestError("A plot has the order of its x; leave out 'sort'.")
        operations.append(Sort(tuple(SortColumn(key.column, descending=key.descending) for key in opening.sort)))
    if opening.plot is not None:
        operations.append(_downsample(opening.plot))
    return tuple(operations)


def _downsample(plot: Plot) -> Downsample:
    return Downsample(plot.x, plot.ys, plot.first, plot.last, plot.tail_rows, plot.tail_x, plot.pixels)


def _condition(chosen: CellFilter, schema: pa.Schema) -> Condition:
    """The condition that a cell equals the one that the page shows."""
    names = schema.names
    if chosen.column not in names:
        raise UnknownColumnError(f"The table has no column {chosen.column[:100]!r}.")
    number = names.index(chosen.column)
    column = Column(chosen.column)
    if chosen.equals is None:
        return IsNull(column)
    form, text = form_of(schema.types[number])["form"], chosen.equals
    try:
        match form:
            case "text":
                return Compare(Comparison.EQUAL, column, text)
            case "int":
                return Compare(Comparison.EQUAL, column, int(text))
            case "bool" if text in ("true", "false"):
                return Compare(Comparison.EQUAL, column, text == "true")
            case "float":
                # of the column's width: the digits of a narrow float mean another double
                value = float(pa.scalar(float(text)).cast(unwrapped_type(schema.types[number]), safe=False).as_py())
                return IsNan(column) if math.isnan(value) else Compare(Comparison.EQUAL, column, value)
            case "decimal":
                return Compare(Comparison.EQUAL, column, BigDecimal(text))
            case "date":
                return Compare(Comparison.EQUAL, column, LocalDate((date.fromisoformat(text) - _EPOCH.date()).days))
            case "timestamp":
                return Compare(Comparison.EQUAL, column, Instant(_nanoseconds(text)))
    except ValueError:
        raise InvalidRequestError(f"{text[:50]!r} is no value of column '{chosen.column}' ({form}).") from None
    raise InvalidRequestError(
        f"Rows are not picked by a cell of column '{chosen.column}' ({form}); write a condition instead."
    )


def _nanoseconds(text: str) -> int:
    """Parse a timestamp of a page to nanoseconds since 1970 UTC, or of no zone.

    Raises:
        ValueError: it is none.
    """
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError("no timestamp")
    day, hours, minutes, seconds, fraction, offset = found.groups()
    moment = datetime.fromisoformat(f"{day}T{hours}:{minutes}:{seconds}{offset or '+00:00'}")
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    return whole * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
