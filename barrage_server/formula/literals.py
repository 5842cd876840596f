"""Literals: numbers and texts in single quotes.

Single quotes enclose characters, times, dates, durations, periods and time zones.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from barrage_server.formula.kinds import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    DURATION,
    FLOAT,
    INSTANT,
    INT,
    LOCAL_DATE,
    LOCAL_TIME,
    LONG,
    NULL,
    PERIOD,
    SHORT,
    ZONE,
    Kind,
)

__all__ = [
    "CONSTANTS",
    "number",
    "parse_date",
    "parse_duration",
    "parse_instant",
    "parse_period",
    "parse_time",
    "quoted",
    "zone_alias",
    "zone_name",
]

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_INT, _LONG = 2**31 - 1, 2**63 - 1
_STRAY: Final = {
    False: re.compile("(?<![0-9_])_|_(?![0-9_])"),
    True: re.compile("(?<![0-9a-fA-F_])_|_(?![0-9a-fA-F_])"),
}
"""An underscore that is not between digits, of decimal numbers and of those with a base."""
_NONZERO: Final = re.compile("[0.]*[1-9]")
"""The begin of a fraction that is not 0."""

CONSTANTS: Final[dict[str, tuple[Any, Kind]]] = {
    "null": (None, NULL),
    "true": (True, BOOLEAN),
    "false": (False, BOOLEAN),
    "NULL_BOOLEAN": (None, BOOLEAN),
    "NULL_BYTE": (None, BYTE),
    "NULL_SHORT": (None, SHORT),
    "NULL_CHAR": (None, CHAR),
    "NULL_INT": (None, INT),
    "NULL_LONG": (None, LONG),
    "NULL_FLOAT": (None, FLOAT),
    "NULL_DOUBLE": (None, DOUBLE),
    "MAX_BYTE": (2**7 - 1, BYTE),
    "MAX_SHORT": (2**15 - 1, SHORT),
    "MAX_INT": (_INT, INT),
    "MAX_LONG": (_LONG, LONG),
    "MIN_BYTE": (1 - 2**7, BYTE),
    "MIN_SHORT": (1 - 2**15, SHORT),
    "MIN_INT": (-_INT, INT),
    "MIN_LONG": (-_LONG, LONG),
    "NAN_FLOAT": (float("nan"), FLOAT),
    "NAN_DOUBLE": (float("nan"), DOUBLE),
    "POS_INFINITY_FLOAT": (float("inf"), FLOAT),
    "POS_INFINITY_DOUBLE": (float("inf"), DOUBLE),
    "NEG_INFINITY_FLOAT": (float("-inf"), FLOAT),
    "NEG_INFINITY_DOUBLE": (float("-inf"), DOUBLE),
    "MICRO": (1_000, LONG),
    "MILLI": (1_000_000, LONG),
    "SECOND": (_SECOND, LONG),
    "MINUTE": (60 * _SECOND, LONG),
    "HOUR": (3_600 * _SECOND, LONG),
    "DAY": (_DAY, LONG),
    "WEEK": (7 * _DAY, LONG),
    "YEAR_365": (365 * _DAY, LONG),
    "YEAR_AVG": (31_556_952 * _SECOND, LONG),
    "PI": (3.141592653589793, DOUBLE),
    "E": (2.718281828459045, DOUBLE),
    "SECONDS_PER_NANO": (1 / _SECOND, DOUBLE),
    "MINUTES_PER_NANO": (1 / (60 * _SECOND), DOUBLE),
    "HOURS_PER_NANO": (1 / (3_600 * _SECOND), DOUBLE),
    "DAYS_PER_NANO": (1 / _DAY, DOUBLE),
    "Math.PI": (3.141592653589793, DOUBLE),
    "Math.E": (2.718281828459045, DOUBLE),
    "Integer.MAX_VALUE": (_INT, INT),
    "Integer.MIN_VALUE": (-_INT - 1, INT),
    "Long.MAX_VALUE": (_LONG, LONG),
    "Long.MIN_VALUE": (-_LONG - 1, LONG),
    "Double.NaN": (float("nan"), DOUBLE),
    "Double.POSITIVE_INFINITY": (float("inf"), DOUBLE),
    "Double.NEGATIVE_INFINITY": (float("-inf"), DOUBLE),
}
_ALIASES: Final = {
    "ET": "America/New_York",
    "CT": "America/Chicago",
    "MT": "America/Denver",
    "PT": "America/Los_Angeles",
    "HK": "Asia/Hong_Kong",
    "JP": "Asia/Tokyo",
    "LON": "Europe/London",
    "Z": "UTC",
    "GMT": "UTC",
}
_CLOCK: Final = r"(\d{2})(?::(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_TIME: Final = re.compile(rf"L?(?=\d\d:){_CLOCK}", re.ASCII)
_INSTANT: Final = re.compile(
    rf"(\d{{4}}-\d{{2}}-\d{{2}})T(?:{_CLOCK})? ?([A-Za-z][\w/+-]*|[+-]\d{{2}}:?\d{{2}})", re.ASCII
)
_OFFSET: Final = re.compile(r"([+-])(\d{2}):?(\d{2})", re.ASCII)
_DURATION: Final = re.compile(
    r"([+-]?)P(?=[\d+T-])(?:([+-]?\d{1,9})W)?(?:([+-]?\d{1,9})D)?"
    r"(?:T(?=[\d+-])(?:([+-]?\d{1,12})H)?(?:([+-]?\d{1,12})M)?(?:([+-]?)(\d{1,12})(?:\.(\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_CLOCK_DURATION: Final = re.compile(
    r"(-?)PT(-?)(\d{1,9}):(\d{1,9})(?::(\d{1,9})(?:\.(\d{1,9}))?)?", re.ASCII | re.IGNORECASE
)
_PERIOD: Final = re.compile(
    r"([+-]?)P(?=[\d+-])(?P<years>[+-]?\d{1,6}Y)?(?P<months>[+-]?\d{1,6}M)?(?:([+-]?\d{1,6})W)?(?:([+-]?\d{1,6})D)?",
    re.ASCII | re.IGNORECASE,
)
_WHAT_THERE_IS: Final = (
    "Strings are in backticks. Single quotes hold one character, an instant with its zone such as "
    "'2024-06-15T10:00:00 ET', a date such as '2024-06-15', a time such as '10:00:00', a duration such as 'PT1h30m', a "
    "period such as 'P1D', or a time zone such as 'UTC'."
)


def number(text: str, sign: int = 1) -> tuple[Any, Kind]:
    """The value and kind of a literal; an integer beyond 32 bits is a long.

    Raises:
        ValueError: its type has no such value; says why.

    """
    word = text.replace("_", "").lower()
    based = word[:2] in ("0x", "0b")
    if _STRAY[based].search(text):
        raise ValueError("An underscore stands between two digits of a number.")
    if not based and (word[-1] in "fd" or "." in word or "e" in word):
        return sign * _fraction(word), (FLOAT if word[-1] == "f" else DOUBLE)
    digits = word.rstrip("l")
    if len(digits) > 70:
        raise ValueError(f"The number has {len(digits)} digits, and a long has room for 19.")
    if not based and len(digits) > 1 and digits[0] == "0":
        raise ValueError("A number that begins with 0 is octal in Java: leave the 0 out.")
    if based and not digits[2:]:
        raise ValueError("The number has no digits.")
    whole = int(digits, {"0x": 16, "0b": 2}.get(digits[:2], 10))
    is_long = word[-1] == "l" or whole > _INT
    if based and 2**63 <= whole < 2**64:  # the bits of a negative number
        whole -= 2**64
    whole *= sign
    if not -(2**63) <= whole < 2**63:
        raise ValueError("The number is beyond the 64 bits of a long: write a double, such as 1e20.")
    return whole, (LONG if is_long else INT)


def _fraction(word: str) -> float:
    """The value of a literal of a float or a double.

    Raises:
        ValueError: the type has no room for it, as in Java.

    """
    value = float(word.rstrip("fd"))
    is_single = word[-1] == "f"
    with np.errstate(over="ignore", under="ignore"):
        stored = float(np.float32(value)) if is_single else value
    if math.isinf(stored) or (not stored and _NONZERO.match(word)):
        size = "large" if stored else "small"
        raise ValueError(f"The number is too {size} for a {'float' if is_single else 'double'}.")
    return value


def quoted(text: str) -> tuple[Any, Kind]:
    """The value and kind of a literal in single quotes.

    Raises:
        ValueError: the text is none; says what there is.

    """
    if len(text) == 1:
        if ord(text) > 0xFFFF:
            raise ValueError("A char has 16 bits: put the character into backticks.")
        return ord(text), CHAR
    for parse, kind in (
        (parse_instant, INSTANT),
        (parse_date, LOCAL_DATE),
        (parse_time, LOCAL_TIME),
        (parse_period, PERIOD),
        (parse_duration, DURATION),
        (zone_name, ZONE),
    ):
        try:
            value = parse(text)
        except (ValueError, OverflowError) as error:
            units = " A period has days and weeks, as 'P1D' and 'P2W'." if kind is PERIOD else ""
            raise ValueError(f"There is no such {kind}: '{text}'.{units}") from error
        if value is not None:
            return value, kind
    raise ValueError(f"'{text}' in single quotes is no value. {_WHAT_THERE_IS}")


def parse_date(text: str) -> int | None:
    """Parse a date to days since 1970; ``None`` for another form."""
    match = _DATE.fullmatch(text)
    return None if match is None else date(*map(int, match.groups())).toordinal() - date(1970, 1, 1).toordinal()


def parse_time(text: str) -> int | None:
    """Parse a time of day to nanoseconds since midnight; ``None`` if it is none."""
    match = _TIME.fullmatch(text)
    return None if match is None else _clock(match.groups())


def parse_instant(text: str) -> int | None:
    """Parse an instant to nanoseconds since 1970; ``None`` for another form."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    days, nanoseconds, zone = parse_date(match[1]), _clock(match.groups()[1:5]), _zone(match[6])
    if zone is None or days is None:
        raise ValueError(text)
    local = datetime(1970, 1, 1) + timedelta(days=days, seconds=nanoseconds // _SECOND)
    seconds = (local.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    found = seconds * _SECOND + nanoseconds % _SECOND
    if abs(found) > _LONG:
        raise ValueError(text)
    return found


def parse_period(text: str) -> int | None:
    """Parse weeks and days to days; ``None`` for another form."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        return None
    if match["years"] or match["months"]:
        raise ValueError("Years and months have no fixed number of days.")
    return (7 * int(match[4] or 0) + int(match[5] or 0)) * (-1 if match[1] == "-" else 1)


def parse_duration(text: str) -> int | None:
    """Parse a duration to nanoseconds; ``None`` for another form.

    Weeks and days have 24 hours. Deephaven's form ``PT00:01:30.5`` is understood, too.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return _parse_clock_duration(text)
    sign, weeks, days, hours, minutes, minus, seconds, part = match.groups()
    whole = 7 * int(weeks or 0) * _DAY + int(days or 0) * _DAY + int(hours or 0) * 3600 * _SECOND
    small = int(seconds or 0) * _SECOND + int((part or "0").ljust(9, "0"))
    found = (whole + int(minutes or 0) * 60 * _SECOND + (-small if minus == "-" else small)) * (
        -1 if sign == "-" else 1
    )
    if abs(found) > _LONG:
        raise ValueError(text)
    return found


def _parse_clock_duration(text: str) -> int | None:
    """Parse hours, minutes and seconds with colons to nanoseconds."""
    match = _CLOCK_DURATION.fullmatch(text)
    if match is None:
        return None
    first, second, hours, minutes, seconds, part = match.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    found = (whole * _SECOND + int((part or "0").ljust(9, "0"))) * (-1 if first else 1) * (-1 if second else 1)
    if abs(found) > _LONG:
        raise ValueError(text)
    return found


def zone_name(text: str) -> str | None:
    """Arrow's name of a time zone, or ``None``."""
    if _zone(text) is None:
        return None
    offset = _OFFSET.fullmatch(text)
    return _ALIASES.get(text, text) if offset is None else f"{offset[1]}{offset[2]}:{offset[3]}"


def zone_alias(zone: str) -> str:
    """The short name of a zone, or the zone."""
    return next((alias for alias, name in _ALIASES.items() if name == zone and name != "UTC"), zone)


def _clock(parts: tuple[str | Any, ...]) -> int:
    hours, minutes, seconds = (int(part or 0) for part in parts[:3])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("There is no such time of a day.")
    return (hours * 3600 + minutes * 60 + seconds) * _SECOND + int((parts[3] or "0").ljust(9, "0"))


def _zone(text: str) -> tzinfo | None:
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    name = _ALIASES.get(text, text)
    if name == "UTC":
        return UTC
    if not re.fullmatch(r"[A-Za-z]\w*(?:/[A-Za-z][\w+-]*)+", name, re.ASCII):
        return None  # a name becomes a path
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None
