"""Formulas, and what a fuzzer makes of them and of plans: token by token, and value by value."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

from barrage_server.formula.catalog import FUNCTIONS, METHODS

__all__ = ["FORMULAS", "changed_formula", "changed_plan"]

FORMULAS = [
    "price * 2 + count",
    "price > 1 && sym in `A`, `B`",
    "sym not in `A` || isNull(price)",
    "sym icase in `a`, `b`",
    "count in 1, 2, 3",
    "size % 7 == 3 ? tiny : short_",
    "(double)size / (count - 7)",
    "(int)price",
    "(byte)size",
    "(char)letter == 'A'",
    "-size",
    "!flag",
    "~count & 7 | tiny ^ 1",
    "size << 3",
    "sym + `!` + price",
    "sym.toUpperCase().substring(0, 1)",
    "isNull(sym) ? -1 : sym.length()",
    "sym.startsWith(`A`) && sym.contains(`b`)",
    "sym.matches(`[A-C]+.*`)",
    "String.valueOf(count)",
    "at + 'PT1h'",
    "at - SECOND * 3",
    "lowerBin(at, 10 * SECOND)",
    "epochMillis(at)",
    "hourOfDay(at, 'ET', true)",
    "at > '2024-01-01T00:00:00Z'",
    "day > '2024-01-01'",
    "dayOfWeekValue(at, 'UTC')",
    "sum(numbers) + len(texts)",
    "max(numbers) - min(numbers)",
    "numbers[0]",
    "first(texts)",
    "reverse(numbers)",
    "count_[ii - 1]",
    "price_[i + 1] - price",
    "ii * 2 + i",
    "sqrt(abs(price))",
    "pow(price, 2) + exp(part)",
    "replaceIfNull(count, 5)",
    "amount * amount",
    "amount + size",
    "1_000L + 0x1F - 0b11 * 1e3f",
    "`a\\n` + 'x'",
    "flag && true",
    "NULL_INT + count",
    "isNaN(price) || isInf(part)",
    "median(numbers) + std(numbers)",
    "round(price)",
    "floorDiv(size, count)",
    "parseInt(sym)",
]
_TOKEN = re.compile(r"`[^`]*`|'[^']*'|[A-Za-z_][A-Za-z_0-9]*|[0-9][0-9a-zA-Z_.]*|\\s+|.", re.DOTALL)
_COLUMNS = [
    "id", "sym", "letter", "flag", "tiny", "short_", "count", "size", "part", "price", "amount", "at", "day", "clock",
    "numbers", "texts",
]  # fmt: skip
_SIGNS = [
    "+", "-", "*", "/", "%", "&", "|", "^", "~", "!", "<<", ">>", ">>>", "<", "<=", ">", ">=", "==", "!=", "=", "&&",
    "||", "?", ":", "(", ")", "[", "]", ",", ".", ";", "->", "{", "}",
]  # fmt: skip
_ODD = [
    "0", "-1", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808L", "1e308", "1e-400", "0.0f",
    "NaN", "null", "true", "i", "ii", "``", "`\\u202e`", "'PT1s'", "'2024-02-30'", "'9999-12-31T23:59:59Z'", "'a'",
    "`" + "x" * 300 + "`", "`(a+)+$`", "(" * 40, "!" * 40, "__import__", "lambda", "\0", "\udc80", "\U0001f600",
    "(byte)", "(short)", "(int)", "(long)", "(float)", "(double)", "(char)", "(String)", "in", "not in", "now()",
    "NULL_LONG", "MINUTE", "java.lang.Math.abs", "_", "x_", "price_",
]  # fmt: skip
_WORDS = [*_COLUMNS, *_SIGNS, *_ODD, *(f"{name}(" for name in FUNCTIONS), *(f".{name}(" for name in METHODS)]
_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 5, 2**31, 2**63 - 1, -(2**63), 2**70, 1.5, 1e308, "", "id", "sym", "price", "at",
    "x = ii", "sym = price", "x = sym", "keyed", "log", [], {}, [[]], ["sym"], ["sym", "sym"], "x" * 2_000,
    {"kind": "any_of"},
]  # fmt: skip


_FIELDS = [
    "aggregation", "aggregations", "blink", "by", "capacity", "columns", "control", "decay", "descending", "absolute",
    "filters", "first", "formula", "function", "history", "incremental", "initial", "initialize", "inverted", "joins",
    "kind", "last", "name", "null_fill", "on", "operations", "order_by", "outputs", "period", "pixels", "rows", "share",
    "start", "stop", "tail_rows", "tail_x", "time_column", "before", "after", "match", "verb", "weight", "with_mean",
    "x", "ys",
]  # fmt: skip
_MOST_STEPS = 12


def changed_formula(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A token removed, doubled, replaced, or moved; or a part put around another, or in its place."""
    found = _TOKEN.findall(data.decode(errors="replace")) or [""]
    place = chance.randrange(len(found))
    kind = chance.randrange(12)
    if kind > 7:
        found[place] = _alike(found[place], chance)
    elif kind == 0:
        del found[place]
    elif kind == 1:
        found[place:place] = found[place : place + chance.randint(1, 5)]
    elif kind in (2, 3):
        found[place] = chance.choice(_WORDS)
    elif kind == 4:
        found.insert(place, chance.choice(_WORDS))
    elif kind == 5:
        end = chance.randint(place, len(found))
        found[place:end] = ["(", chance.choice(others).decode(), ")"]
    elif kind == 6:
        end = chance.randint(place, len(found))
        name = chance.choice(list(FUNCTIONS))
        found[place:end] = [name, "(", *found[place:end], *chance.choice([[], [", ", chance.choice(_COLUMNS)]]), ")"]
    else:
        other = chance.randrange(len(found))
        found[place], found[other] = found[other], found[place]
    return "".join(found)[:12_000].encode(errors="replace")


def _alike(token: str, chance: random.Random) -> str:
    """Another token of the same sort."""
    for sort in (_COLUMNS, _SIGNS, list(FUNCTIONS), list(METHODS)):
        if token in sort:
            return chance.choice(sort)
    if token[:1].isdigit():
        return chance.choice(["0", "1", "2", "-1", "127", "255", "2147483647", "9223372036854775807", "0.5", "1e300"])
    return chance.choice(_WORDS) if token.strip() else token


def changed_plan(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A value of a plan replaced by another one of this plan or others, removed, or doubled."""
    try:
        plan = json.loads(data)
    except ValueError:
        return chance.choice(others)
    places = list(_places(plan))
    if not places:
        return chance.choice(others)
    holder, key = chance.choice(places)
    kind = chance.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 6 and isinstance(holder, dict):
        # a field that objects of this or another sort have
        holder[chance.choice(_FIELDS)] = chance.choice(_VALUES)
    elif kind == 7 and isinstance(steps := plan.get("operations") if isinstance(plan, dict) else None, list):
        _go_on(steps, json.loads(chance.choice(others)), chance)
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif kind == 2:
        holder[key] = chance.choice(_VALUES)
    elif kind == 3 and isinstance(holder[key], str):
        holder[key] = changed_formula(holder[key].encode(), [b"price", b"sym"], chance).decode(errors="replace")
    else:
        found = list(_places(json.loads(chance.choice(others))))
        wanted = [(one, at) for one, at in found if at == key]
        if chosen := wanted if wanted and chance.random() < 0.7 else found:
            theirs, place = chance.choice(chosen)
            holder[key] = theirs[place]
    return json.dumps(plan).encode()


def _go_on(steps: list[Any], other: Any, chance: random.Random) -> None:
    """Put the operations of another plan behind those of a plan, and have them read its results."""
    behind = other.get("operations") if isinstance(other, dict) else None
    if not isinstance(behind, list) or len(steps) + len(behind) > _MOST_STEPS:
        return
    first = len(steps)
    for step in behind:
        if isinstance(step, dict) and isinstance(inputs := step.get("inputs"), list):
            for number, source in enumerate(inputs):
                if type(source) is int:
                    inputs[number] = first + source
                elif first and chance.random() < 0.7:
                    inputs[number] = chance.randrange(first)
        steps.append(step)


def _places(value: Any) -> Any:
    """The places of all values within a value: what holds each, and its key."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from _places(inner)
