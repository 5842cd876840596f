"""Methods of strings, and functions that make or read strings.

Positions count characters from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula import texts
from barrage_server.formula.builtin import Builtin, Family, Fixed, Signature
from barrage_server.formula.kinds import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    Kind,
)
from barrage_server.formula.text_numbers import BLANKS, each_text, floats_of, integers_of
from barrage_server.formula.text_size import check_text_bytes, text_bytes
from barrage_server.formula.vectors import Arrow, Vector, constant, from_arrow

__all__ = ["FUNCTIONS", "METHODS", "pattern_fault"]

_TEXT: Final = Fixed(STRING)
_PLACE: Final = Fixed(INT)
_MOST_REPEATS: Final = 10_000
_WRITTEN: Final = Family("any value with a text", texts.has_text)


def _cells(kind: Kind, function: Callable[..., Arrow]) -> Callable[..., Vector]:
    """A kernel of an Arrow function with a result of fixed width."""

    def run(text: Arrow, *arguments: Any) -> Vector:
        found = function(text, *arguments)
        if isinstance(found, pa.Scalar):
            return constant(found.as_py(), kind)
        return from_arrow(found.cast(kind.arrow), kind)

    return run


def _grown(text: Arrow, count: Arrow, each: int) -> None:
    """Check the size of texts with ``count`` replacements of ``each`` bytes."""
    total = count.as_py() if isinstance(count, pa.Scalar) else pc.sum(count).as_py()
    check_text_bytes(text_bytes(text) + (total or 0) * each)


def _replace(text: Arrow, old: Any, new: Any) -> Arrow:
    before, after = (chr(each) if isinstance(each, int) else each for each in (old, new))
    if not before:
        return _replace_all(text, "", _escaped(after))
    _grown(text, pc.count_substring(text, before), len(after.encode()))
    return pc.replace_substring(text, before, after)


def _replace_all(text: Arrow, pattern: str, new: str, most: int | None = None) -> Arrow:
    rewrite = _rewrite(new)
    count = pc.count_substring_regex(text, pattern)
    _grown(text, count, len(rewrite.encode()))
    check_text_bytes(text_bytes(text) * (1 + len(re.findall(r"\\\d", rewrite))))
    return pc.replace_substring_regex(text, pattern, rewrite, max_replacements=most)


def _replace_first(text: Arrow, pattern: str, new: str) -> Arrow:
    return _replace_all(text, pattern, new, 1)


def _escaped(text: str) -> str:
    """A replacement of Java that means the text itself."""
    return text.replace("\\", "\\\\").replace("$", "\\$")


def _rewrite(text: str) -> str:
    r"""Java's form of a replacement (``$1``, ``\$``) as RE2's."""
    return re.sub(
        r"\\(.)|\$(\d)|(\\)$",
        lambda match: f"\\{match[2]}" if match[2] else (match[1] or "\\").replace("\\", "\\\\"),
        text,
        flags=re.DOTALL,
    )


def _check_pattern(pattern: str, new: str = "") -> None:
    """Raise ValueError for a pattern that RE2 refuses, or a missing group.

    RE2 has no look-around.
    """
    try:
        pc.replace_substring_regex(pa.array([""]), pattern, _rewrite(new))
    except pa.ArrowInvalid as error:
        raise ValueError(f"the regular expression is refused: {pattern_fault(error)}") from None


def pattern_fault(error: pa.ArrowInvalid) -> str:
    """What is wrong with a regular expression, in sentences."""
    reason = (str(error).partition(": ")[2] or str(error))[:200].rstrip(".")
    hint = ". The syntax is RE2's, which has no look-around and no back references"
    return f"{reason}{hint if 'perl operator' in reason or 'escape sequence' in reason else ''}"


def _matches(text: Arrow, pattern: str) -> Arrow:
    return pc.match_substring_regex(text, rf"\A(?:{pattern})\z")


def _check_place(start: int | None, stop: int | None = 0) -> None:
    if start is None or stop is None or start < 0 or stop < 0:
        raise ValueError("positions in a text begin with 0")


def _check_repeats(count: int | None) -> None:
    if count is None or not 0 <= count <= _MOST_REPEATS:
        raise ValueError(f"a text is repeated 0 to {_MOST_REPEATS} times")


def _check_known(*values: Any) -> None:
    if any(value is None for value in values):
        raise ValueError("an argument is null")


def _repeat(text: Arrow, count: int) -> Arrow:
    check_text_bytes(text_bytes(text) * count)
    return pc.binary_repeat(text, count)


def _concat(first: Arrow, second: Arrow) -> Arrow:
    rows = max((len(each) for each in (first, second) if not isinstance(each, pa.Scalar)), default=1)
    check_text_bytes(text_bytes(first, rows) + text_bytes(second, rows))
    return pc.binary_join_element_wise(first, second, "")


def _index(text: Arrow, wanted: Any) -> Arrow:
    """Characters before the first occurrence; -1 if there is none."""
    part = chr(wanted) if isinstance(wanted, int) else wanted
    return _places(text, part, lambda value: value.find(part))


def _last_index(text: Arrow, wanted: Any) -> Arrow:
    part = chr(wanted) if isinstance(wanted, int) else wanted
    return _places(text, part, lambda value: value.rfind(part), is_last=True)


def _places(text: Arrow, part: str, find: Callable[[str], int], *, is_last: bool = False) -> Arrow:
    """The place of ``part`` in each text.

    Texts beyond ASCII that have the part are searched one by one, each different text once.
    """
    if isinstance(text, pa.Scalar):
        return pa.scalar(find(text.as_py()) if text.is_valid else None, pa.int32())
    is_ascii = pc.fill_null(pc.string_is_ascii(text), True)
    has_part = pc.fill_null(pc.match_substring(text, part), False)
    others = pc.and_(has_part, pc.invert(is_ascii)) if part else has_part
    found = _ascii_places(pc.if_else(is_ascii, text, ""), part, is_last=is_last)
    found = pc.if_else(pc.is_valid(text), found, pa.scalar(None, pa.int32()))
    if not pc.any(others).as_py():
        return found
    return pc.replace_with_mask(found, others, each_text(text.filter(others), pa.int32(), find))


def _ascii_places(text: pa.Array, part: str, *, is_last: bool) -> pa.Array:
    """Places by bytes, which are characters here; -1 where the part is not found."""
    if not is_last:
        return pc.find_substring(text, part).cast(pa.int32())
    from_end = pc.find_substring(pc.ascii_reverse(text), part[::-1]).cast(pa.int32())
    place = pc.subtract(
        pc.subtract(pc.binary_length(text).cast(pa.int32()), from_end), pa.scalar(len(part), pa.int32())
    )
    return pc.if_else(pc.less(from_end, 0), pa.scalar(-1, pa.int32()), place)


def _char(text: Arrow, place: int) -> Arrow:
    """The code of a character; null beyond the end, and beyond 16 bits."""
    found = pc.utf8_slice_codeunits(text, place, place + 1)
    return each_text(found, pa.uint16(), lambda value: ord(value) if value and ord(value) <= 0xFFFF else None)


def _is_true(text: Arrow, kind: Kind) -> Arrow:
    return pc.equal(pc.utf8_lower(text), "true").cast(kind.arrow)


def _parse(name: str, kind: Kind, read: Callable[[Arrow, Kind], Arrow], meaning: str) -> Builtin:
    kernel = _cells(kind, lambda text: read(text, kind))
    return Builtin(name, f"{meaning} of a text; null if it has none.", (Signature((STRING,), kind, kernel),))


def _test(name: str, function: Callable[..., Arrow], meaning: str) -> Builtin:
    return Builtin(name, meaning, (Signature((STRING, _TEXT), BOOLEAN, _cells(BOOLEAN, function), check=_check_known),))


def _search(name: str, function: Callable[..., Arrow], meaning: str) -> Builtin:
    kernel = _cells(INT, function)
    return Builtin(
        name,
        meaning,
        (
            Signature((STRING, _TEXT), INT, kernel, check=_check_known),
            Signature((STRING, Fixed(CHAR)), INT, kernel, check=_check_known),
        ),
    )


def _plain(name: str, function: Callable[[Arrow], Arrow], meaning: str, kind: Kind = STRING) -> Builtin:
    kernel = _cells(kind, function) if kind.dtype is not None else function
    return Builtin(name, meaning, (Signature((STRING,), kind, kernel),))


METHODS: Final = (
    _plain("length", pc.utf8_length, "The number of characters.", INT),
    _plain("isEmpty", lambda text: pc.equal(pc.binary_length(text), 0), "Whether there are no characters.", BOOLEAN),
    _plain(
        "isBlank",
        lambda text: pc.equal(pc.binary_length(pc.utf8_trim_whitespace(text)), 0),
        "Whether there are only white characters, or none.",
        BOOLEAN,
    ),
    _plain("toUpperCase", pc.utf8_upper, "In upper case."),
    _plain("toLowerCase", pc.utf8_lower, "In lower case."),
    _plain("trim", lambda text: pc.utf8_trim(text, BLANKS), "Without the spaces and control characters at both ends."),
    _plain("strip", pc.utf8_trim_whitespace, "Without the white characters at both ends."),
    _plain("stripLeading", pc.utf8_ltrim_whitespace, "Without the white characters at the beginning."),
    _plain("stripTrailing", pc.utf8_rtrim_whitespace, "Without the white characters at the end."),
    _plain("toString", lambda text: text, "The string itself."),
    _test("startsWith", pc.starts_with, "Whether it begins with a literal."),
    _test("endsWith", pc.ends_with, "Whether it ends with a literal."),
    _test("contains", pc.match_substring, "Whether it has a literal in it."),
    Builtin(
        "matches",
        "Whether all of it matches a literal regular expression (RE2: no look-around, no back references).",
        (Signature((STRING, _TEXT), BOOLEAN, _cells(BOOLEAN, _matches), check=_check_pattern),),
    ),
    Builtin(
        "equals",
        "Whether it is the same string; null if one of them is.",
        (Signature((STRING, STRING), BOOLEAN, _cells(BOOLEAN, pc.equal)),),
    ),
    Builtin(
        "equalsIgnoreCase",
        "Whether it is the same string in lower case; null if one of them is.",
        (
            Signature(
                (STRING, STRING),
                BOOLEAN,
                _cells(BOOLEAN, lambda a, b: pc.equal(pc.utf8_lower(a), pc.utf8_lower(b))),
            ),
        ),
    ),
    _search("indexOf", _index, "The position of the first occurrence of a literal string or char; or -1."),
    _search(
        "lastIndexOf",
        _last_index,
        "The position of the last occurrence of a literal string or char; or -1.",
    ),
    Builtin(
        "charAt",
        "The char at a literal position; null beyond the end.",
        (Signature((STRING, _PLACE), CHAR, _cells(CHAR, _char), check=_check_place),),
    ),
    Builtin(
        "substring",
        "From a literal position, up to another one if there are two; positions beyond the end mean the end.",
        (
            Signature((STRING, _PLACE), STRING, lambda text, a: pc.utf8_slice_codeunits(text, a), check=_check_place),
            Signature(
                (STRING, _PLACE, _PLACE),
                STRING,
                lambda text, a, b: pc.utf8_slice_codeunits(text, a, max(a, b)),
                check=_check_place,
            ),
        ),
    ),
    Builtin(
        "concat",
        "Followed by another string; null if one of them is.",
        (Signature((STRING, STRING), STRING, _concat),),
    ),
    Builtin(
        "repeat",
        f"Repeated a literal number of times, at most {_MOST_REPEATS}.",
        (Signature((STRING, _PLACE), STRING, _repeat, check=_check_repeats),),
    ),
    Builtin(
        "replace",
        "With every occurrence of a literal string or char replaced by another.",
        (
            Signature((STRING, _TEXT, _TEXT), STRING, _replace, check=_check_known),
            Signature((STRING, Fixed(CHAR), Fixed(CHAR)), STRING, _replace, check=_check_known),
        ),
    ),
    Builtin(
        "replaceAll",
        "With every match of a literal regular expression replaced; `$1` in the replacement is the first group.",
        (Signature((STRING, _TEXT, _TEXT), STRING, _replace_all, check=_check_pattern),),
    ),
    Builtin(
        "replaceFirst",
        "With the first match of a literal regular expression replaced.",
        (Signature((STRING, _TEXT, _TEXT), STRING, _replace_first, check=_check_pattern),),
    ),
)


def _value_of(name: str) -> Builtin:
    meaning = "The text of a number, boolean, char, string or time, as Java writes it."
    return Builtin(name, meaning, (Signature((_WRITTEN,), STRING, texts.writer, binds=True),))


FUNCTIONS: Final = (
    _value_of("String.valueOf"),
    *(
        _parse(name, kind, integers_of, "The integer")
        for name, kind in (
            ("parseByte", BYTE),
            ("parseShort", SHORT),
            ("parseInt", INT),
            ("Integer.parseInt", INT),
            ("parseLong", LONG),
            ("Long.parseLong", LONG),
        )
    ),
    *(
        _parse(name, kind, floats_of, "The number")
        for name, kind in (("parseFloat", FLOAT), ("parseDouble", DOUBLE), ("Double.parseDouble", DOUBLE))
    ),
    _parse("parseBoolean", BOOLEAN, _is_true, "Whether `true` is the word, in any case,"),
)
