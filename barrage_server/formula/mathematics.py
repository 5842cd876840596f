"""Mathematical functions, and functions of null and NaN."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np

from barrage_server.formula import arithmetic, comparison
from barrage_server.formula.builtin import ANY, INTEGER, NUMBER, Builtin, Family, Signature
from barrage_server.formula.kinds import (
    BOOLEAN,
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    LONG,
    NULL,
    NUMBERS,
    SHORT,
    Kind,
)
from barrage_server.formula.vectors import Cells, Flags, Vector, both, missing, present

__all__ = ["FUNCTIONS"]

_SIGNED: Final = Family("number", lambda kind: kind in NUMBERS and kind.name != "char")
_FLOATS: Final = Family("float or double", lambda kind: kind in (FLOAT, DOUBLE))
_ORDERED: Final = (BYTE, SHORT, INT, LONG, FLOAT, DOUBLE)


def _cells(function: Callable[..., Any]) -> Callable[..., Cells]:
    """A kernel of a numpy function; null where an argument is null."""

    def run(*arguments: Cells) -> Cells:
        valid = None
        for argument in arguments:
            valid = both(valid, argument.valid)
        return Cells(np.asarray(function(*(argument.values for argument in arguments))), valid)

    return run


def _widest(kinds: tuple[Kind, ...]) -> Kind:
    """The kind that all numbers fit, chosen as Java chooses among overloads."""
    if any(kind not in NUMBERS for kind in kinds):
        raise TypeError
    found = [SHORT if kind.name == "char" and len(set(kinds)) > 1 else kind for kind in kinds]
    if len(set(found)) == 1 and found[0] in _ORDERED:
        return found[0]
    if set(found) == {BYTE, SHORT}:
        return INT
    return max((INT if kind.name == "char" else kind for kind in kinds), key=_ORDERED.index)


def _same(function: Callable[..., Any]) -> Callable[[tuple[Kind, ...]], Callable[..., Cells]]:
    """A kernel on values cast to their widest kind."""

    def bind(kinds: tuple[Kind, ...]) -> Callable[..., Cells]:
        dtype, run = _widest(kinds).dtype, _cells(function)
        return lambda *given: run(*(Cells(each.values.astype(dtype, copy=False), each.valid) for each in given))

    return bind


def _real(name: str, function: Callable[[Any], Any], meaning: str, result: Kind = DOUBLE) -> Builtin:
    return Builtin(name, meaning, (Signature((DOUBLE,), result, _cells(function)),))


def _numbers(name: str, function: Callable[..., Any], meaning: str, count: int, family: Family = NUMBER) -> Builtin:
    """A function of ``count`` numbers with a result of their widest kind."""
    return Builtin(name, meaning, (Signature((family,) * count, _widest, _same(function), binds=True),))


def _round(values: Any) -> Any:
    """To the nearest integer, halves up."""
    below = np.floor(values)
    return arithmetic.whole(np.where(values - below >= 0.5, below + 1, below), LONG)


def _floor_div(a: Any, b: Any) -> Any:
    return np.floor_divide(a, np.where(b == 0, 1, b))


def _floor_mod(a: Any, b: Any) -> Any:
    return np.mod(a, np.where(b == 0, 1, b))


def _not_zero(function: Callable[..., Any]) -> Callable[[tuple[Kind, ...]], Callable[..., Cells]]:
    """A kernel that gives null where the second argument is 0."""
    bind = _same(function)

    def bound(kinds: tuple[Kind, ...]) -> Callable[..., Cells]:
        run = bind(kinds)

        def checked(a: Cells, b: Cells, *more: Cells) -> Cells:
            found = run(a, b, *more)
            is_sound: Flags = np.asarray(b.values != 0)
            return found if is_sound.all() else Cells(found.values, both(found.valid, is_sound))

        return checked

    return bound


def _lower(values: Any, width: Any, offset: Any = 0) -> Any:
    offset = np.asarray(offset).astype(values.dtype)
    width = np.where(width == 0, np.ones_like(width), width)
    return np.floor_divide(values - offset, width) * width + offset


def _upper(values: Any, width: Any, offset: Any = 0) -> Any:
    lower = _lower(values, width, offset)
    return np.where(lower == values, values, lower + width).astype(values.dtype)


def _of_extreme(kinds: tuple[Kind, ...]) -> Kind:
    """The widest kind; a single number keeps its own kind."""
    return kinds[0] if len(kinds) == 1 else _widest(kinds)


def _extreme(function: Callable[..., Any]) -> Callable[[tuple[Kind, ...]], Callable[..., Cells]]:
    """The largest or smallest argument: nulls are left out, and NaN wins."""

    def bind(kinds: tuple[Kind, ...]) -> Callable[..., Cells]:
        dtype = _of_extreme(kinds).dtype

        def run(*given: Cells) -> Cells:
            values, valid = given[0].values.astype(dtype, copy=False), present(given[0])
            for each in given[1:]:
                other, is_there = each.values.astype(dtype, copy=False), present(each)
                chosen = np.where(valid & is_there, function(values, other), np.where(valid, values, other))
                values, valid = chosen, valid | is_there
            return Cells(values, None if valid.all() else valid)

        return run

    return bind


def _is_null(vector: Vector) -> Cells:
    return Cells(missing(vector))


def _test(function: Callable[[Any], Any], of_null: bool) -> Callable[[Cells], Cells]:
    """A test of numbers that never gives null."""

    def run(a: Cells) -> Cells:
        found = (
            np.asarray(function(a.values))
            if a.values.dtype.kind == "f"
            else np.full(a.values.shape, function(np.float64(0)), np.bool_)
        )
        return Cells(found if a.valid is None else np.where(a.valid, found, of_null))

    return run


def _replaced(wanted: Callable[[Any], Any], nulls: bool) -> Callable[..., Cells]:
    """Values replaced where a test holds, and with ``nulls`` where they are null."""

    def run(a: Cells, b: Cells) -> Cells:
        is_there = present(a)
        is_replaced = np.asarray(wanted(a.values)) & is_there
        if nulls:
            is_replaced = is_replaced | ~is_there
        values = np.where(is_replaced, b.values.astype(a.values.dtype), a.values)
        valid = np.where(is_replaced, present(b), is_there)
        return Cells(values, valid)

    return run


def _first_kind(kinds: tuple[Kind, ...]) -> Kind:
    """The kind of the first argument, which the second one must fit."""
    first, second = kinds[-2:]
    if first == second or second is NULL:
        return first
    if arithmetic.convert(second, first) is None and not (first in INTEGERS and second is INT):
        raise TypeError
    return first


def _or_else(kinds: tuple[Kind, ...]) -> Callable[[Vector, Vector], Vector]:
    first, second = kinds
    kernel = arithmetic.cast(second, first)

    def run(a: Vector, b: Vector) -> Vector:
        return comparison.choice(Cells(present(a)), a, b if kernel is None else kernel(b))

    return run


def _two_kinds(kinds: tuple[Kind, ...]) -> Kind:
    """The common kind of the last two of three arguments."""
    if kinds[1] == kinds[2]:
        return kinds[1]
    return _widest(kinds[1:])


def _if_else(kinds: tuple[Kind, ...]) -> Callable[..., Vector]:
    kind = _two_kinds(kinds)
    first, second = arithmetic.cast(kinds[1], kind), arithmetic.cast(kinds[2], kind)
    assert first is not None
    assert second is not None

    def run(condition: Cells, a: Vector, b: Vector) -> Vector:
        chosen = comparison.choice(condition, first(a), second(b))
        if condition.valid is None or not isinstance(chosen, Cells):
            return chosen
        return Cells(chosen.values, present(chosen) & condition.valid)

    return run


def _in_range(kinds: tuple[Kind, ...]) -> Callable[..., Cells]:
    resolved = [comparison.comparison("<=", kinds[1], kinds[0]), comparison.comparison("<=", kinds[0], kinds[2])]

    def run(value: Vector, least: Vector, most: Vector) -> Cells:
        lower, upper = (each[1] for each in resolved if each is not None)
        found = comparison.conjunction(_as_cells(lower(least, value)), _as_cells(upper(value, most)))
        return Cells(found.values & present(value) & present(least) & present(most))

    return run


def _as_cells(vector: Vector) -> Cells:
    assert isinstance(vector, Cells)
    return vector


def _among(kinds: tuple[Kind, ...]) -> Callable[..., Cells]:
    """Whether the first value equals one of the others."""
    resolved = [comparison.comparison("==", kinds[0], kind) for kind in kinds[1:]]

    def run(value: Vector, *others: Vector) -> Cells:
        found: Flags = np.zeros((), np.bool_)
        for each, other in zip(resolved, others, strict=True):
            assert each is not None
            found = found | _as_cells(each[1](value, other)).values
        return Cells(found)

    return run


def _folded(function: Callable[[Cells, Cells], Cells]) -> Callable[..., Cells]:
    return lambda *given: reduce(function, given)


def _comparable(kinds: tuple[Kind, ...]) -> Kind:
    if any(comparison.comparison("<=", kinds[0], kind) is None for kind in kinds[1:]):
        raise TypeError
    return BOOLEAN


_EMPTY: Final = "; null where the first is not below the second, which is an error of literals."


class _Random:
    """A kernel that draws a value for each row."""

    takes_run = True

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw

    def __call__(self, run: Any, *bounds: Cells) -> Cells:
        """Draw ``run.rows`` values; null for a null bound, or an empty range."""
        low, high = ([np.broadcast_to(each.values, run.rows) for each in bounds] + [None, None])[:2]
        valid = None
        for each in bounds:
            valid = both(valid, each.valid)
        if low is None or high is None:
            return Cells(self._draw(np.random.default_rng(), run.rows), valid)
        is_sound = np.asarray(low < high)
        found = self._draw(np.random.default_rng(), np.where(is_sound, low, 0), np.where(is_sound, high, 1))
        return Cells(found, both(valid, is_sound))


def _chance(name: str, kinds: tuple[Kind, ...], result: Kind, draw: Callable[..., Any], meaning: str) -> Builtin:
    signature = Signature(kinds, result, _Random(draw), check_literals=_check_bounds if kinds else None)
    return Builtin(name, f"{meaning} For `update` and `select`.", (signature,), False)


def _check_bounds(low: Any, high: Any) -> None:
    if low is not None and high is not None and not low < high:
        raise ValueError("the first bound must be below the second")


FUNCTIONS: Final = (
    Builtin("abs", "The size of a number.", (Signature((_SIGNED,), _widest, _same(np.abs), binds=True),)),
    Builtin(
        "signum",
        "-1, 0 or 1: the sign of a number.",
        (
            Signature((INT,), INT, _cells(np.sign)),
            Signature((LONG,), INT, _cells(lambda a: np.sign(a).astype(np.int32))),
            Signature((_FLOATS,), INT, _cells(lambda a: np.nan_to_num(np.sign(a)).astype(np.int32))),
        ),
    ),
    _real("sqrt", np.sqrt, "The square root; NaN of negative numbers."),
    _real("cbrt", np.cbrt, "The cube root."),
    _real("exp", np.exp, "e to the power of a number."),
    _real("expm1", np.expm1, "e to the power of a number, less 1."),
    _real("log", np.log, "The natural logarithm."),
    _real("log10", np.log10, "The logarithm to base 10."),
    _real("log1p", np.log1p, "The natural logarithm of a number plus 1."),
    _real("sin", np.sin, "The sine."),
    _real("cos", np.cos, "The cosine."),
    _real("tan", np.tan, "The tangent."),
    _real("asin", np.arcsin, "The angle of a sine."),
    _real("acos", np.arccos, "The angle of a cosine."),
    _real("atan", np.arctan, "The angle of a tangent."),
    _real("sinh", np.sinh, "The hyperbolic sine."),
    _real("cosh", np.cosh, "The hyperbolic cosine."),
    _real("tanh", np.tanh, "The hyperbolic tangent."),
    _real("toDegrees", np.degrees, "An angle of radians in degrees."),
    _real("toRadians", np.radians, "An angle of degrees in radians."),
    _real("ceil", np.ceil, "The next integer above, as a double."),
    _real("floor", np.floor, "The next integer below, as a double."),
    _real("rint", np.rint, "The nearest integer, as a double; halves go to the even one."),
    _real("round", _round, "The nearest integer; halves go up.", LONG),
    Builtin("pow", "A number to the power of another.", (Signature((DOUBLE, DOUBLE), DOUBLE, _cells(np.power)),)),
    Builtin("atan2", "The angle of a point (y, x).", (Signature((DOUBLE, DOUBLE), DOUBLE, _cells(np.arctan2)),)),
    Builtin("hypot", "The length of a vector.", (Signature((DOUBLE, DOUBLE), DOUBLE, _cells(np.hypot)),)),
    Builtin(
        "floorDiv",
        "The quotient, rounded down; null by 0.",
        (Signature((INTEGER, INTEGER), _widest, _not_zero(_floor_div), binds=True),),
    ),
    Builtin(
        "floorMod",
        "The remainder with the sign of the divisor; null by 0.",
        (Signature((INTEGER, INTEGER), _widest, _not_zero(_floor_mod), binds=True),),
    ),
    _numbers("clamp", np.clip, "A number, or the nearer bound if it is outside of two.", 3),
    Builtin(
        "lowerBin",
        "The largest multiple of a width, plus an offset, not above a value; null if the width is 0.",
        (
            Signature((NUMBER, NUMBER), _widest, _not_zero(_lower), binds=True),
            Signature((NUMBER, NUMBER, NUMBER), _widest, _not_zero(_lower), binds=True),
        ),
    ),
    Builtin(
        "upperBin",
        "The smallest multiple of a width, plus an offset, not below a value; null if the width is 0.",
        (
            Signature((NUMBER, NUMBER), _widest, _not_zero(_upper), binds=True),
            Signature((NUMBER, NUMBER, NUMBER), _widest, _not_zero(_upper), binds=True),
        ),
    ),
    Builtin(
        "max",
        "The largest of several numbers that are not null; NaN if one is.",
        (Signature((NUMBER,), _of_extreme, _extreme(np.maximum), binds=True, repeats=True),),
    ),
    Builtin(
        "min",
        "The smallest of several numbers that are not null; NaN if one is.",
        (Signature((NUMBER,), _of_extreme, _extreme(np.minimum), binds=True, repeats=True),),
    ),
    Builtin("isNull", "Whether a value of any type is null.", (Signature((ANY,), BOOLEAN, _is_null),)),
    Builtin(
        "isNaN", "Whether a number is NaN; false for null.", (Signature((NUMBER,), BOOLEAN, _test(np.isnan, False)),)
    ),
    Builtin(
        "isInf",
        "Whether a number is infinite; false for null.",
        (Signature((NUMBER,), BOOLEAN, _test(np.isinf, False)),),
    ),
    Builtin(
        "isFinite",
        "Whether a number is neither null nor NaN nor infinite.",
        (Signature((NUMBER,), BOOLEAN, _test(np.isfinite, False)),),
    ),
    Builtin(
        "replaceIfNull",
        "A value, or another one where it is null.",
        (Signature((ANY, ANY), _first_kind, _or_else, binds=True),),
    ),
    Builtin(
        "replaceIfNaN",
        "A number, or another one where it is NaN.",
        (
            Signature((FLOAT, FLOAT), FLOAT, _replaced(np.isnan, False)),
            Signature((DOUBLE, DOUBLE), DOUBLE, _replaced(np.isnan, False)),
        ),
    ),
    Builtin(
        "replaceIfNullNaN",
        "A number, or another one where it is null or NaN.",
        (
            Signature((FLOAT, FLOAT), FLOAT, _replaced(np.isnan, True)),
            Signature((DOUBLE, DOUBLE), DOUBLE, _replaced(np.isnan, True)),
        ),
    ),
    Builtin(
        "replaceIfNonFinite",
        "A number, or another one where it is null, NaN or infinite.",
        (
            Signature((FLOAT, FLOAT), FLOAT, _replaced(lambda a: ~np.isfinite(a), True)),
            Signature((DOUBLE, DOUBLE), DOUBLE, _replaced(lambda a: ~np.isfinite(a), True)),
        ),
    ),
    Builtin(
        "ifelse",
        "The second argument where the first is true, the third where it is false, else null.",
        (Signature((BOOLEAN, ANY, ANY), _two_kinds, _if_else, binds=True),),
    ),
    Builtin(
        "inRange",
        "Whether a value is between two others, both included; false if one of them is null.",
        (Signature((ANY, ANY, ANY), _comparable, _in_range, binds=True),),
    ),
    _chance("random", (), DOUBLE, lambda rng, rows: rng.random(rows), "A random number from 0 to 1."),
    _chance("randomBool", (), BOOLEAN, lambda rng, rows: rng.random(rows) < 0.5, "A random boolean."),
    _chance(
        "randomInt",
        (INT, INT),
        INT,
        lambda rng, low, high: rng.integers(low, high).astype(np.int32),
        f"A random int from a bound to below another{_EMPTY}",
    ),
    _chance(
        "randomLong",
        (LONG, LONG),
        LONG,
        lambda rng, low, high: rng.integers(low, high),
        f"A random long from a bound to below another{_EMPTY}",
    ),
    _chance(
        "randomDouble",
        (DOUBLE, DOUBLE),
        DOUBLE,
        lambda rng, low, high: low + rng.random(len(low)) * (high - low),
        f"A random number from a bound to another{_EMPTY}",
    ),
    Builtin(
        "in",
        "Whether a value equals one of several others.",
        (Signature((ANY, ANY), _comparable, _among, binds=True, repeats=True),),
    ),
    Builtin(
        "and",
        "Whether all conditions are true, as `&&`.",
        (Signature((BOOLEAN, BOOLEAN), BOOLEAN, _folded(comparison.conjunction), repeats=True),),
    ),
    Builtin(
        "or",
        "Whether one condition is true, as `||`.".replace("|", "\\|"),
        (Signature((BOOLEAN, BOOLEAN), BOOLEAN, _folded(comparison.disjunction), repeats=True),),
    ),
    Builtin("not", "The opposite.", (Signature((BOOLEAN,), BOOLEAN, comparison.negation),)),
)
