"""Functions and methods of instants, dates, times of day and durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.errors import InvalidRequestError
from barrage_server.formula import arithmetic, bounded, comparison, literals, texts
from barrage_server.formula.builtin import ANY, Builtin, Family, Fixed, Signature
from barrage_server.formula.kinds import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    INSTANT,
    INT,
    LOCAL_DATE,
    LOCAL_TIME,
    LONG,
    PERIOD,
    STRING,
    ZONE,
    Kind,
)
from barrage_server.formula.vectors import AnyArray, Arrow, Cells, Vector, both, constant, from_arrow, present

__all__ = ["FUNCTIONS", "METHODS"]

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_DAYS: Final = Cells(np.asarray(_DAY, np.int64))
_ZONE: Final = Fixed(ZONE)
_IS_LOCAL: Final = Fixed(BOOLEAN)
_WRITTEN: Final = (INSTANT, LOCAL_DATE, LOCAL_TIME, DURATION)
_TIMES: Final = Family("Instant, LocalDate, LocalTime or Duration", lambda kind: kind in _WRITTEN)


# --- time zones


def _local(instants: Cells, zone: str) -> AnyArray:
    """Nanoseconds since 1970 on the clock of a zone."""
    if zone == "UTC":
        return instants.values
    return _cells_of(pc.local_timestamp(_timestamps(instants, zone)), instants)


def _timestamps(instants: Cells, zone: str | None) -> pa.Array:
    """Instants as Arrow's timestamps; nulls become 0."""
    values = instants.values if instants.valid is None else np.where(instants.valid, instants.values, 0)
    return pa.array(np.atleast_1d(values)).cast(pa.timestamp("ns", zone))


def _cells_of(stamps: pa.Array, like: Cells) -> AnyArray:
    found: AnyArray = stamps.cast(pa.int64()).to_numpy()
    return found if like.values.ndim or (like.valid is not None and like.valid.ndim) else found.reshape(())


def _instants(local: Cells, zone: str) -> Cells:
    """The instants at which a zone's clock shows these times.

    The earlier one of two, and the end of a gap.
    """
    if zone == "UTC":
        return local
    stamps = pc.assume_timezone(_timestamps(local, None), zone, ambiguous="earliest", nonexistent="latest")
    return Cells(_cells_of(stamps, local), local.valid)


def _midnight(instants: Cells, zone: str) -> Cells:
    """The beginning of the day, in a zone."""
    local = _local(instants, zone)
    return _instants(Cells(local - np.mod(local, _DAY), instants.valid), zone)


# --- fields


def _year(days: AnyArray) -> AnyArray:
    return days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970


def _month(days: AnyArray) -> AnyArray:
    return np.mod(days.astype("M8[D]").astype("M8[M]").astype(np.int64), 12) + 1


def _day_of_month(days: AnyArray) -> AnyArray:
    dates = days.astype("M8[D]")
    found: AnyArray = (dates - dates.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1
    return found


def _day_of_year(days: AnyArray) -> AnyArray:
    dates = days.astype("M8[D]")
    found: AnyArray = (dates - dates.astype("M8[Y]").astype("M8[D]")).astype(np.int64) + 1
    return found


def _date_field(name: str, field: Callable[[AnyArray], AnyArray], meaning: str) -> Builtin:
    """A function of a date, or of an instant in a zone."""

    def of_date(dates: Cells) -> Cells:
        return Cells(field(dates.values.astype(np.int64)).astype(np.int32), dates.valid)

    def of_instant(instants: Cells, zone: str) -> Cells:
        return of_date(Cells(np.floor_divide(_local(instants, zone), _DAY), instants.valid))

    return Builtin(
        name, meaning, (Signature((LOCAL_DATE,), INT, of_date), Signature((INSTANT, _ZONE), INT, of_instant))
    )


def _clock_field(name: str, unit: int, per: int, kind: Kind, meaning: str) -> Builtin:
    """A field of the clock in a zone: units of a larger unit."""

    def run(instants: Cells, zone: str) -> Cells:
        found = np.floor_divide(np.mod(_local(instants, zone), unit * per), unit)
        return Cells(found.astype(kind.dtype), instants.valid)

    return Builtin(name, meaning, (Signature((INSTANT, _ZONE), kind, run),))


def _day_field(name: str, unit: int, kind: Kind, meaning: str) -> Builtin:
    """A function of units since midnight."""

    def of_time(times: Cells) -> Cells:
        return Cells(np.floor_divide(times.values, unit).astype(kind.dtype), times.valid)

    def of_instant(instants: Cells, zone: str, is_local: bool | None = True) -> Cells:
        if is_local:
            return of_time(Cells(np.mod(_local(instants, zone), _DAY), instants.valid))
        return of_time(Cells(instants.values - _midnight(instants, zone).values, instants.valid))

    return Builtin(
        name,
        meaning,
        (
            Signature((LOCAL_TIME,), kind, of_time),
            Signature((INSTANT, _ZONE), kind, of_instant),
            Signature((INSTANT, _ZONE, _IS_LOCAL), kind, of_instant),
        ),
    )


# --- conversions


def _map(function: Callable[[AnyArray], AnyArray], kind: Kind) -> Callable[[Cells], Cells]:
    return lambda a: Cells(np.asarray(function(a.values)).astype(kind.dtype, copy=False), a.valid)


def _mapped(name: str, kind: Kind, result: Kind, function: Callable[[AnyArray], AnyArray], meaning: str) -> Builtin:
    return Builtin(name, meaning, (Signature((kind,), result, _map(function, result)),))


def _cut(values: AnyArray, unit: int) -> AnyArray:
    """Division toward zero."""
    found: AnyArray = np.floor_divide(values - np.fmod(values, unit), unit)
    return found


def _floors(unit: int) -> Callable[[AnyArray], AnyArray]:
    return lambda values: np.floor_divide(values, unit)


def _cuts(unit: int) -> Callable[[AnyArray], AnyArray]:
    return lambda values: _cut(values, unit)


def _from_units(name: str, source: Kind, target: Kind, unit: int, meaning: str) -> Builtin:
    """A function that converts units; null where 64 bits overflow."""
    most = np.iinfo(np.int64).max // unit

    def run(a: Cells) -> Cells:
        fits = np.abs(a.values) <= most
        return Cells(np.multiply(a.values, unit), both(a.valid, None if np.all(fits) else np.asarray(fits)))

    return Builtin(name, meaning, (Signature((source,), target, run),))


def _difference(name: str, unit: float, meaning: str, *, is_whole: bool = False) -> Builtin:
    kind = LONG if is_whole else DOUBLE

    def run(a: Cells, b: Cells) -> Cells:
        size, valid = bounded.minus(b, a)
        return Cells(_cut(size, int(unit)) if is_whole else np.divide(size, unit), valid)

    return Builtin(name, meaning, (Signature((INSTANT, INSTANT), kind, run),))


def _bin(*, up: bool) -> tuple[Signature, ...]:
    def run(a: Cells, width: Cells, offset: Cells | None = None) -> Cells:
        is_sound = np.asarray(width.values != 0)
        by = Cells(np.where(is_sound, width.values, 1), both(width.valid, None if is_sound.all() else is_sound))
        start = a if offset is None else bounded.minus(a, offset)
        bins = Cells(np.floor_divide(start.values, by.values), start.valid)
        found = bounded.times(bins, by)
        if up:
            is_inside = Cells(np.asarray(found.values != start.values).astype(np.int64))
            found = bounded.plus(found, bounded.times(is_inside, by))
        return found if offset is None else bounded.plus(found, offset)

    return tuple(
        Signature((INSTANT, *more), INSTANT, run) for more in ((LONG,), (DURATION,), (LONG, LONG), (DURATION, DURATION))
    )


def _order(name: str, operator: str, meaning: str) -> Builtin:
    resolved = comparison.comparison(operator, INSTANT, INSTANT)
    assert resolved is not None
    compare = resolved[1]

    def run(a: Vector, b: Vector) -> Cells:
        found = compare(a, b)
        assert isinstance(found, Cells)
        return Cells(found.values & present(a) & present(b))

    return Builtin(name, meaning, (Signature((INSTANT, INSTANT), BOOLEAN, run),))


def _operator(name: str, operator: str, meaning: str) -> Builtin:
    """An operator as a function."""

    def kind(kinds: tuple[Kind, ...]) -> Kind:
        resolved = arithmetic.arithmetic(operator, *kinds)
        if resolved is None:
            raise TypeError
        return resolved[0]

    def bind(kinds: tuple[Kind, ...]) -> arithmetic.Kernel:
        resolved = arithmetic.arithmetic(operator, *kinds)
        assert resolved is not None
        return resolved[1]

    return Builtin(name, meaning, (Signature((ANY, ANY), kind, bind, binds=True),))


def _moved(name: str, operator: str, meaning: str) -> Builtin:
    """A method that moves an instant, a date or a time of day.

    A time of day stays within its day.
    """

    def signature(first: Kind, second: Kind) -> Signature:
        resolved = arithmetic.arithmetic(operator, first, second)
        assert resolved is not None
        return Signature((first, second), *resolved)

    ufunc = np.add if operator == "+" else np.subtract

    def within_a_day(a: Cells, b: Cells) -> Cells:
        moved = ufunc(a.values, np.fmod(b.values, _DAY))  # both less than a day: no sum of them wraps
        return Cells(np.mod(moved, _DAY), both(a.valid, b.valid))

    signatures = (
        Signature((LOCAL_TIME, DURATION), LOCAL_TIME, within_a_day),
        signature(LOCAL_DATE, PERIOD),
        signature(INSTANT, DURATION),
        signature(INSTANT, PERIOD),
    )
    return Builtin(name, meaning, signatures)


def _days(name: str, move: Callable[[Cells, Cells], Cells], meaning: str) -> Builtin:
    def run(a: Cells, b: Cells) -> Cells:
        return bounded.narrowed(move(a, b))

    return Builtin(name, meaning, (Signature((LOCAL_DATE, LONG), LOCAL_DATE, run),))


def _parse(name: str, kind: Kind, read: Callable[[str], int | None], meaning: str) -> tuple[Builtin, Builtin]:
    """A function that parses texts, under both of its names."""

    def safe(text: str) -> int | None:
        try:
            return read(text)
        except (ValueError, OverflowError):
            return None

    def run(text: Arrow) -> Vector:
        if isinstance(text, pa.Scalar):
            return constant(safe(text.as_py()) if text.is_valid else None, kind)
        encoded = text.dictionary_encode()
        values = pa.array([safe(each) for each in encoded.dictionary.to_pylist()], pa.int64())
        found = from_arrow(values.take(encoded.indices), LONG)
        assert isinstance(found, Cells)
        return Cells(found.values.astype(kind.dtype, copy=False), found.valid)

    signatures = (Signature((STRING,), kind, run),)
    return Builtin(name, meaning, signatures), Builtin(f"{name}Quiet", meaning, signatures)


def _format(*, is_date: bool) -> Callable[[Cells, str], Arrow]:
    """Write instants by a zone's clock: the date, or date, time and zone."""

    def run(instants: Cells, zone: str) -> Arrow:
        local = Cells(_local(instants, zone), instants.valid)
        is_null = np.broadcast_to(~present(local), np.atleast_1d(local.values).shape)
        moments = pa.array(np.atleast_1d(local.values), mask=is_null).cast(pa.timestamp("ns"))
        if is_date:
            shown = moments.cast(pa.date32(), safe=False).cast(pa.string())
        else:
            shown = pc.binary_join_element_wise(texts.with_t(moments), literals.zone_alias(zone), " ")
        return shown if local.values.ndim or is_null.size != 1 else shown[0]

    return run


class _Now:
    """A kernel that returns the time of the evaluation."""

    takes_run = True

    def __call__(self, run: Any) -> Cells:
        if run.now is None:
            raise InvalidRequestError("now() has no meaning here: the time is not known.")
        return Cells(np.asarray(run.now, np.int64))


_PARTS: Final = (
    _date_field("year", _year, "The year."),
    _date_field("yearOfCentury", lambda days: np.mod(_year(days), 100), "The last two digits of the year."),
    _date_field("monthOfYear", _month, "The month, from 1."),
    _date_field("dayOfMonth", _day_of_month, "The day of the month, from 1."),
    _date_field("dayOfYear", _day_of_year, "The day of the year, from 1."),
    _date_field("dayOfWeekValue", lambda days: np.mod(days + 3, 7) + 1, "The day of the week: 1 is Monday."),
    _day_field("hourOfDay", 3600 * _SECOND, INT, "Hours since midnight."),
    _day_field("minuteOfDay", 60 * _SECOND, INT, "Minutes since midnight."),
    _day_field("secondOfDay", _SECOND, INT, "Seconds since midnight."),
    _day_field("millisOfDay", 1_000_000, INT, "Milliseconds since midnight."),
    _day_field("nanosOfDay", 1, LONG, "Nanoseconds since midnight."),
    _clock_field("minuteOfHour", 60 * _SECOND, 60, INT, "Minutes of the hour."),
    _clock_field("secondOfMinute", _SECOND, 60, INT, "Seconds of the minute."),
    _clock_field("millisOfSecond", 1_000_000, 1_000, INT, "Milliseconds of the second."),
    _clock_field("microsOfSecond", 1_000, 1_000_000, LONG, "Microseconds of the second."),
    _clock_field("nanosOfSecond", 1, _SECOND, LONG, "Nanoseconds of the second."),
    _mapped("nanosOfMilli", INSTANT, INT, lambda a: np.mod(a, 1_000_000), "Nanoseconds of the millisecond."),
    _mapped(
        "microsOfMilli",
        INSTANT,
        INT,
        lambda a: np.floor(np.mod(a, 1_000_000) / 1e3 + 0.5),
        "Microseconds of the millisecond, rounded.",
    ),
)
_UNITS: Final = (
    ("Nanos", 1, "nanoseconds"),
    ("Micros", 1_000, "microseconds"),
    ("Millis", 1_000_000, "milliseconds"),
    ("Seconds", _SECOND, "seconds"),
)
_CONVERSIONS: Final = (
    *(
        _mapped(f"epoch{name}", INSTANT, LONG, _floors(unit), f"{words.capitalize()} since 1970.")
        for name, unit, words in _UNITS
    ),
    *(
        _from_units(f"epoch{name}ToInstant", LONG, INSTANT, unit, f"The instant {words} after 1970.")
        for name, unit, words in _UNITS
    ),
    _mapped("epochDays", LOCAL_DATE, LONG, lambda a: a, "Days since 1970."),
    Builtin(
        "epochDaysToLocalDate",
        "The date of days since 1970.",
        (Signature((LONG,), LOCAL_DATE, lambda a: bounded.narrowed(a)),),
    ),
    *(
        _from_units(f"{name.lower()}ToNanos", LONG, LONG, unit, f"{words.capitalize()} in nanoseconds.")
        for name, unit, words in _UNITS[1:]
    ),
    *(
        _mapped(f"nanosTo{name}", LONG, LONG, _cuts(unit), f"Nanoseconds in {words}.")
        for name, unit, words in _UNITS[1:]
    ),
    Builtin(
        "toLocalDate",
        "The date of an instant in a zone.",
        (
            Signature(
                (INSTANT, _ZONE),
                LOCAL_DATE,
                lambda a, zone: Cells(np.floor_divide(_local(a, zone), _DAY).astype(np.int32), a.valid),
            ),
        ),
    ),
    Builtin(
        "toLocalTime",
        "The time of day of an instant in a zone.",
        (Signature((INSTANT, _ZONE), LOCAL_TIME, lambda a, zone: Cells(np.mod(_local(a, zone), _DAY), a.valid)),),
    ),
    Builtin(
        "toInstant",
        "The instant of a date and a time in a zone.",
        (
            Signature(
                (LOCAL_DATE, LOCAL_TIME, _ZONE),
                INSTANT,
                lambda a, b, zone: _instants(bounded.plus(bounded.times(a, _DAYS), b), zone),
            ),
        ),
    ),
    Builtin(
        "atMidnight",
        "The beginning of the day of an instant in a zone.",
        (Signature((INSTANT, _ZONE), INSTANT, _midnight),),
    ),
)

FUNCTIONS: Final = (
    *_PARTS,
    *_CONVERSIONS,
    Builtin("now", "The time of the evaluation; for `update` and `select`.", (Signature((), INSTANT, _Now()),), False),
    Builtin("lowerBin", "Instants too, with widths as nanoseconds or durations.", _bin(up=False)),
    Builtin("upperBin", "Instants too, with widths as nanoseconds or durations.", _bin(up=True)),
    _difference("diffNanos", 1, "Nanoseconds from one instant to another.", is_whole=True),
    _difference("diffMicros", 1_000, "Microseconds from one instant to another.", is_whole=True),
    _difference("diffMillis", 1_000_000, "Milliseconds from one instant to another.", is_whole=True),
    _difference("diffSeconds", 1e9, "Seconds from one instant to another, as a double."),
    _difference("diffMinutes", 60e9, "Minutes from one instant to another, as a double."),
    _difference("diffDays", float(_DAY), "Days from one instant to another, as a double."),
    _difference("diffYears365", 365.0 * _DAY, "Years of 365 days from one instant to another, as a double."),
    _difference("diffYearsAvg", 31_556_952e9, "Years of 365.2425 days from one instant to another, as a double."),
    _order("isBefore", "<", "Whether an instant is before another; false for null."),
    _order("isBeforeOrEqual", "<=", "Whether an instant is not after another; false for null."),
    _order("isAfter", ">", "Whether an instant is after another; false for null."),
    _order("isAfterOrEqual", ">=", "Whether an instant is not before another; false for null."),
    _operator("plus", "+", "The operator `+`, of times and numbers."),
    _operator("minus", "-", "The operator `-`, of times and numbers."),
    _days("plusDays", bounded.plus, "A date, days later."),
    _days("minusDays", bounded.minus, "A date, days earlier."),
    Builtin(
        "formatDate",
        "A date as text: `2024-06-15`.",
        (
            Signature((LOCAL_DATE,), STRING, lambda a: texts.to_text(a, LOCAL_DATE)),
            Signature((INSTANT, _ZONE), STRING, _format(is_date=True)),
        ),
    ),
    Builtin(
        "formatDateTime",
        "An instant as text by the clock of a zone: `2024-06-15T06:00:00.000000000 ET`.",
        (Signature((INSTANT, _ZONE), STRING, _format(is_date=False)),),
    ),
    *_parse("parseInstant", INSTANT, literals.parse_instant, "The instant that a text is; null if it is none."),
    *_parse("parseLocalDate", LOCAL_DATE, literals.parse_date, "The date that a text is; null if it is none."),
    *_parse("parseLocalTime", LOCAL_TIME, literals.parse_time, "The time of day that a text is; null if it is none."),
    *_parse("parseDuration", DURATION, literals.parse_duration, "The duration that a text is; null if it is none."),
    *_parse("parseDurationNanos", LONG, literals.parse_duration, "The same in nanoseconds."),
)


METHODS: Final = (
    Builtin(
        "toString", "A time as text, as Java writes it.", (Signature((_TIMES,), STRING, texts.writer, binds=True),)
    ),
    _mapped("toEpochMilli", INSTANT, LONG, lambda a: np.floor_divide(a, 1_000_000), "Milliseconds since 1970."),
    _mapped("getEpochSecond", INSTANT, LONG, lambda a: np.floor_divide(a, _SECOND), "Seconds since 1970."),
    _mapped("getYear", LOCAL_DATE, INT, lambda a: _year(a.astype(np.int64)), "The year."),
    _mapped("getMonthValue", LOCAL_DATE, INT, lambda a: _month(a.astype(np.int64)), "The month, from 1."),
    _mapped("getDayOfMonth", LOCAL_DATE, INT, lambda a: _day_of_month(a.astype(np.int64)), "The day of the month."),
    _mapped("getDayOfYear", LOCAL_DATE, INT, lambda a: _day_of_year(a.astype(np.int64)), "The day of the year."),
    _mapped("toEpochDay", LOCAL_DATE, LONG, lambda a: a, "Days since 1970."),
    _mapped("getHour", LOCAL_TIME, INT, lambda a: a // (3600 * _SECOND), "The hour."),
    _mapped("getMinute", LOCAL_TIME, INT, lambda a: a // (60 * _SECOND) % 60, "The minute of the hour."),
    _mapped("getSecond", LOCAL_TIME, INT, lambda a: a // _SECOND % 60, "The second of the minute."),
    _mapped("toNanoOfDay", LOCAL_TIME, LONG, lambda a: a, "Nanoseconds since midnight."),
    _mapped("toNanos", DURATION, LONG, lambda a: a, "Nanoseconds."),
    _mapped("toMillis", DURATION, LONG, lambda a: np.floor_divide(a, 1_000_000), "Milliseconds, rounded down."),
    _mapped("toSeconds", DURATION, LONG, lambda a: np.floor_divide(a, _SECOND), "Seconds, rounded down."),
    _mapped("getSeconds", DURATION, LONG, lambda a: np.floor_divide(a, _SECOND), "Seconds, rounded down."),
    _moved("plus", "+", "A time later; a time of day goes on at midnight."),
    _moved("minus", "-", "A time earlier; a time of day goes on at midnight."),
)
