"""How a page must write the cells of a table, in plain Python."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, overload
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyarrow import types

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
EPOCH = date(1970, 1, 1)
CUT = 512
FLOATS: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}


class Texts(Sequence[str | None]):
    """Cells of a column as the page shows them where there is space, made when asked for; ``None`` for null."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column
        self._made: dict[int, str | None] = {}

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, row: int) -> str | None: ...

    @overload
    def __getitem__(self, row: slice) -> list[str | None]: ...

    def __getitem__(self, row: int | slice) -> str | list[str | None] | None:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        if row not in self._made:
            cell = self._column[row]
            self._made[row] = visible(text_of(cell)) if cell.is_valid else None
        return self._made[row]


def text_of(cell: Any) -> str:
    """A cell that is not null and not nested."""
    kind = cell.type
    if types.is_boolean(kind):
        return str(cell.as_py()).lower()
    if types.is_integer(kind):
        return str(cell.as_py())
    if types.is_floating(kind):
        return float_text(float(cell.as_py()), kind.bit_width)
    if types.is_decimal(kind):
        return f"{cell.as_py():f}"
    if types.is_string(kind) or types.is_large_string(kind):
        text: str = cell.as_py()
        return text if len(text) <= CUT else f"{text[:CUT]}… ({len(text):,} characters)"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        digits = cell.as_py().hex()
        return digits if len(digits) <= CUT else f"{digits[:CUT]}… ({len(digits):,} characters)"
    value = int(cell.value)
    if types.is_date32(kind):
        return (EPOCH + timedelta(value)).isoformat()
    if types.is_date64(kind):
        return (EPOCH + timedelta(value // (1000 * DAY))).isoformat()
    per = PER_SECOND[kind.unit]
    seconds, part = divmod(abs(value) if types.is_duration(kind) else value, per)
    fraction = f".{part:0{len(str(per)) - 1}}" if per > 1 else ""
    if types.is_time(kind):
        return clock(seconds) + fraction
    if types.is_duration(kind):
        days, rest = divmod(seconds, DAY)
        return f"{'-' if value < 0 else ''}{f'{days}d ' if days else ''}{clock(rest)}{fraction}"
    assert types.is_timestamp(kind)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    if kind.tz is None:
        return f"{moment.date().isoformat()} {clock(seconds % DAY)}{fraction}"
    local = moment.astimezone(zone_of(kind.tz))
    offset = local.utcoffset()
    assert offset is not None
    sign, apart = ("-", -offset) if offset < timedelta(0) else ("+", offset)
    whole = clock(int(apart.total_seconds()))
    ahead = whole[:-3] if whole.endswith(":00") else whole
    return f"{local.date().isoformat()} {local.time().isoformat()}{fraction}{sign}{ahead}"


def zone_of(name: str) -> tzinfo:
    """A place, or an offset such as ``-05:30``."""
    if name[0] not in "+-":
        return ZoneInfo(name)
    hours, minutes = name[1:].split(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if name[0] == "-" else offset)


def clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def float_text(value: float, bits: int) -> str:
    """The shortest digits that read back as the same float, written as JavaScript writes numbers."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0"
    mantissa, _, exponent = np.format_float_scientific(abs(FLOATS[bits](value)), unique=True, trim="-").partition("e")
    digits, power = mantissa.replace(".", ""), int(exponent) + 1
    if len(digits) <= power <= 21:
        return sign + digits.ljust(power, "0")
    if 0 < power <= 21:
        return f"{sign}{digits[:power]}.{digits[power:]}"
    if -6 < power <= 0:
        return f"{sign}0.{'0' * -power}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{power - 1:+}"


def visible(text: str) -> str:
    """Text with controls, and what changes the direction of others, as symbols."""
    return "".join(map(symbol, text))


def symbol(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    joins = code in (0x200C, 0x200D)
    # A variation selector goes with the letter before it.
    if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") and not joins:
        return f"[U+{code:04X}]"
    return character
