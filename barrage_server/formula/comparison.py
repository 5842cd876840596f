"""Comparison and logic.

A comparison never gives null: null equals null and is lower than every value but NaN; NaN differs from everything,
and is neither less nor greater. Logic has three values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula.arithmetic import Resolved, cast, promoted
from barrage_server.formula.decimals import are_exact, as_decimal, exact_types, integers_within
from barrage_server.formula.kinds import (
    BOOLEAN,
    DOUBLE,
    INTEGERS,
    LONG,
    NULL,
    STRING,
    ZONE,
    Kind,
    is_opaque,
)
from barrage_server.formula.vectors import Arrow, Cells, Flags, Vector, flags, missing, present

__all__ = ["choice", "common", "comparison", "conjunction", "disjunction", "holds", "members", "negation"]

_MIRRORED: Final = {">": "<", ">=": "<="}
_ARROW: Final = {"==": pc.equal, "<": pc.less, "<=": pc.less_equal}
_MANY: Final = 8
"""Constants of ``in`` from which on they are looked up instead of compared one by one."""


def common(left: Kind, right: Kind) -> Kind | None:
    """The kind in which two values are compared, or ``None``."""
    if left == right:
        return left
    if left.is_decimal and right.is_decimal:
        return left
    if left.is_decimal or right.is_decimal:
        return DOUBLE if all(kind.is_decimal or kind.is_number for kind in (left, right)) else None
    if not (left.is_number and right.is_number):
        return None
    if left in INTEGERS and right in INTEGERS:
        return LONG
    return promoted(left, right)


def comparison(operator: str, left: Kind, right: Kind) -> Resolved | None:
    """Resolve ``== != < <= > >=``; ``None`` for kinds that cannot be compared."""
    if operator == "!=":
        equal = comparison("==", left, right)
        if equal is None:
            return None
        compare = equal[1]
        return BOOLEAN, lambda a, b: Cells(~_values(compare(a, b)))
    if operator in _MIRRORED:
        other = comparison(_MIRRORED[operator], right, left)
        if other is None:
            return None
        run = other[1]
        return BOOLEAN, lambda a, b: run(b, a)
    if ZONE in (left, right):
        return None
    if NULL in (left, right):
        return BOOLEAN, _null_comparison(operator)
    if are_exact(left, right):
        function = _ARROW[operator]
        types = exact_types(function, left, right)
        if types is not None:
            first, second = types
            compare = _arrow_comparison(operator)
            return BOOLEAN, lambda a, b: compare(as_decimal(a, first), as_decimal(b, second))
        if left.is_decimal and right.is_decimal:
            return None
    kind = common(left, right)
    if kind is None or (is_opaque(kind) and not _is_binary(kind)) or kind.item is not None:
        return None
    if kind.dtype is None:
        return BOOLEAN, _arrow_comparison(operator)
    to_left, to_right = cast(left, kind), cast(right, kind)
    if to_left is None or to_right is None:
        return None
    compare_cells = _cell_comparison(operator)
    return BOOLEAN, lambda a, b: compare_cells(to_left(a), to_right(b))


def _cell_comparison(operator: str) -> Callable[[Cells, Cells], Cells]:
    def equal(a: Cells, b: Cells) -> Cells:
        found = np.asarray(a.values == b.values)
        if a.valid is not None or b.valid is not None:
            left, right = present(a), present(b)
            found = (found & left & right) | ~(left | right)
        return Cells(found)

    def less(a: Cells, b: Cells) -> Cells:
        found = np.asarray(a.values < b.values)
        if a.valid is not None or b.valid is not None:
            left, right = present(a), present(b)
            lower = ~left & right
            if b.values.dtype.kind == "f":
                lower = lower & ~np.isnan(b.values)
            found = (found & left & right) | lower
        return Cells(found)

    if operator == "==":
        return equal
    if operator == "<":
        return less
    return lambda a, b: Cells(less(a, b).values | equal(a, b).values)


def _arrow_comparison(operator: str) -> Callable[[Arrow, Arrow], Cells]:
    function = _ARROW[operator]

    def run(a: Arrow, b: Arrow) -> Cells:
        known = function(a, b)
        found = flags(known if isinstance(known, pa.Scalar) else pc.fill_null(known, False))
        nulls_a, nulls_b = missing(a), missing(b)
        if operator != "<":
            found = found | (nulls_a & nulls_b)
        if operator != "==":
            found = found | (nulls_a & ~nulls_b)
        return Cells(found)

    return run


def _null_comparison(operator: str) -> Callable[[Vector, Vector], Cells]:
    """Comparison with the literal null."""

    def run(a: Vector, b: Vector) -> Cells:
        nulls_a, nulls_b = missing(a), missing(b)
        if operator == "==":
            return Cells(nulls_a & nulls_b)
        lower = nulls_a & ~nulls_b
        if isinstance(b, Cells) and b.values.dtype.kind == "f":
            lower = lower & ~np.isnan(b.values)
        return Cells(lower if operator == "<" else lower | (nulls_a & nulls_b))

    return run


def _is_binary(kind: Kind) -> bool:
    return bool(pa.types.is_binary(kind.arrow) or pa.types.is_large_binary(kind.arrow))


def _values(vector: Vector) -> Flags:
    assert isinstance(vector, Cells)
    return np.asarray(vector.values, np.bool_)


def negation(a: Cells) -> Cells:
    """``!``: null remains null."""
    return Cells(~_values(a), a.valid)


def conjunction(a: Cells, b: Cells) -> Cells:
    """``&&``: false if one side is, else null if one side is."""
    if a.valid is None and b.valid is None:
        return Cells(a.values & b.values)
    left, right = present(a), present(b)
    is_false = (left & ~_values(a)) | (right & ~_values(b))
    return Cells(~is_false & left & right, is_false | (left & right))


def disjunction(a: Cells, b: Cells) -> Cells:
    """``||``: true if one side is, else null if one side is."""
    if a.valid is None and b.valid is None:
        return Cells(a.values | b.values)
    left, right = present(a), present(b)
    is_true = (left & _values(a)) | (right & _values(b))
    return Cells(is_true, is_true | (left & right))


def holds(a: Cells) -> Flags:
    """Where a condition is true and not null."""
    return _values(a) if a.valid is None else _values(a) & a.valid


def choice(condition: Cells, first: Vector, second: Vector) -> Vector:
    """The first value where the condition is true, else the second; both of one kind."""
    chosen = holds(condition)
    if isinstance(first, Cells) and isinstance(second, Cells):
        valid = None
        if first.valid is not None or second.valid is not None:
            valid = np.where(chosen, present(first), present(second))
        return Cells(np.where(chosen, first.values, second.values), valid)
    if chosen.ndim == 0:
        return first if chosen else second
    if isinstance(first, Cells) or isinstance(second, Cells):
        raise TypeError("Values of two kinds cannot be chosen from.")
    if isinstance(first.type, pa.BaseExtensionType):  # which Arrow's kernel does not take
        rows = len(chosen)
        arrays = [pa.nulls(rows, each.type) if isinstance(each, pa.Scalar) else each for each in (first, second)]
        return pa.concat_arrays(arrays).take(pa.array(np.where(chosen, 0, rows) + np.arange(rows)))
    return pc.if_else(pa.array(chosen), first, second)


def members(kind: Kind, items: Sequence[Any], ignore_case: bool) -> Callable[[Vector], Cells]:
    """A kernel that tests membership among constants.

    Null is a constant like any other, and NaN equals nothing.

    Args:
        kind: of the values; a string, a decimal, or one of fixed width.
        items: in the units of the kind, integers for decimals; ``None`` for null.
        ignore_case: whether strings are compared in lower case.

    """
    has_null = any(item is None for item in items)
    known = [item for item in items if item is not None and item == item]
    if kind is STRING or kind.is_decimal:
        candidates = pa.array(known if kind is STRING else integers_within(known, kind), kind.arrow)
        candidates = pc.utf8_lower(candidates) if ignore_case else candidates

        def among(a: Arrow) -> Cells:
            found = flags(pc.is_in(pc.utf8_lower(a) if ignore_case else a, candidates))
            return Cells(found | missing(a) if has_null else found & present(a))

        return among
    assert kind.dtype is not None
    wanted = np.array(known, kind.dtype)

    def inside(a: Cells) -> Cells:
        found = np.zeros(a.values.shape, np.bool_)
        if len(wanted) >= _MANY:
            found = np.isin(a.values, wanted)
        else:
            for value in wanted:
                found = found | (a.values == value)
        if a.valid is not None:
            found = (found & a.valid) | (~a.valid if has_null else np.zeros((), np.bool_))
        return Cells(found)

    return inside
