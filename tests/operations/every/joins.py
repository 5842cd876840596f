"""Operations on several tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import barrage_server as bs
from tests.operations import test_as_of, test_range_join
from tests.operations.every.links import COLUMNS, FLAG, KEY, NUMBER, TEXT, Given, Link
from tests.operations.oracle import Row, Rows
from tests.operations.pairs import key_of
from tests.operations.test_equi_join import ADDED, alone, pairs_of

TAKEN: Final = ["n = number", "t = text"]
TAKEN_BACK: Final = ["key", "number = n", "text = t", "flag", "items"]


def taken_back(row: Row) -> Row:
    return (row[KEY], row[5], row[6], row[FLAG], row[4])


def matched(left: Rows, right: Rows, columns: list[int], *, first: bool = False) -> Rows:
    """The left rows with number and text of the right row that has the same key."""
    there = {key_of(row, columns): (row[NUMBER], row[TEXT]) for row in (right[::-1] if first else right)}
    return [(*row, *there.get(key_of(row, columns), (None, None))) for row in left]


def natural_join(match: str) -> Link:
    return Link(
        lambda table, sides: table.natural_join(sides.other, "flag", TAKEN, type=match),
        lambda given: matched(given.rows, given.other, [FLAG], first=match == "first_match"),
        back=TAKEN_BACK,
        back_row=taken_back,
    )


def is_in(row: Row, others: Rows, columns: list[int]) -> bool:
    return key_of(row, columns) in {key_of(other, columns) for other in others}


def pairs(verb: str, expected: Callable[[Rows, Rows], Rows], **more: Any) -> Link:
    """A join by flags with three rows of the other table."""
    return Link(
        lambda table, sides: getattr(table, verb)(sides.other.head(3), "flag", ADDED, **more),
        lambda given: expected(given.rows, given.other[:3]),
        back=["key = isNull(key) ? k : key", "number = n", "text = t", "flag", "items = l"],
        back_row=lambda row: (row[5] if row[KEY] is None else row[KEY], row[6], row[7], row[FLAG], row[8]),
        grows=True,
    )


def outer(left: Rows, right: Rows) -> Rows:
    return pairs_of(left, right, [FLAG], outer=True)


def as_of(verb: str, relation: str, stamp: int) -> Link:
    def expected(given: Given) -> Rows:
        found = [(row, test_as_of.nearest(row, given.other, [FLAG], stamp, relation)) for row in given.rows]
        return [(*row, *((None, None) if other is None else (other[NUMBER], other[TEXT]))) for row, other in found]

    name = COLUMNS[stamp]
    return Link(
        lambda table, sides: getattr(table, verb)(sides.other, ["flag", f"{name} {relation} {name}"], TAKEN),
        expected,
        back=TAKEN_BACK,
        back_row=taken_back,
    )


def range_join(match: str) -> Link:
    case = test_range_join.case_of(match, [FLAG])
    return Link(
        lambda table, sides: case.make(table, sides.other),
        lambda given: case.expected(given.rows, given.other),
        back=["key", "number = (double)len(xs)", "text", "flag", "items"],
        back_row=lambda row: (row[KEY], None if row[7] is None else float(len(row[7])), *row[2:5]),
    )


def multi_joined(given: Given) -> Rows:
    """A row for each key: what the last row of the parent has, and what the unique table has."""
    left = {row[KEY]: row for row in given.rows}
    right = {row[KEY]: row for row in given.unique}
    return [
        (key, *left.get(key, (None,) * 5)[1:], *right.get(key, (None,) * 5)[1:3])
        for key in dict.fromkeys([*left, *right])
    ]


LINKS: Final[dict[str, Link]] = {
    "natural_join": Link(
        lambda table, sides: table.natural_join(sides.unique, "key", TAKEN),
        lambda given: matched(given.rows, given.unique, [KEY]),
        back=TAKEN_BACK,
        back_row=taken_back,
    ),
    "natural_join of the first match": natural_join("first_match"),
    "natural_join of the last match": natural_join("last_match"),
    "exact_join": Link(
        lambda table, sides: table.exact_join(sides.lookup, "flag", TAKEN),
        lambda given: matched(given.rows, given.lookup, [FLAG]),
        back=TAKEN_BACK,
        back_row=taken_back,
    ),
    "join": pairs("join", lambda left, right: pairs_of(left, right, [FLAG]), reserve_bits=2),
    "join of all pairs": Link(
        lambda table, sides: table.join(sides.other.tail(2), None, TAKEN, reserve_bits=1),
        lambda given: [(*row, other[NUMBER], other[TEXT]) for row in given.rows for other in given.other[-2:]],
        back=TAKEN_BACK,
        back_row=taken_back,
        grows=True,
    ),
    "left_outer_join": pairs("left_outer_join", outer),
    "full_outer_join": pairs("full_outer_join", lambda left, right: outer(left, right) + alone(left, right, [FLAG])),
    "aj": as_of("aj", ">=", KEY),
    "aj of what is before": as_of("aj", ">", NUMBER),
    "raj": as_of("raj", "<=", TEXT),
    "raj of what is behind": as_of("raj", "<", KEY),
    **{f"range_join {match}": range_join(match) for match in ("low <= x <= high", "<- low <= x <= high ->")},
    "multi_join": Link(
        lambda table, sides: bs.multi_join(
            [
                bs.MultiJoinInput(table.last_by("key"), "key", COLUMNS[1:]),
                bs.MultiJoinInput(sides.unique, "key", TAKEN),
            ]
        ),
        multi_joined,
        back=TAKEN_BACK,
        back_row=taken_back,
        keys=1,
        accumulates=True,
        grows=True,
    ),
    "where_in": Link(
        lambda table, sides: table.where_in(sides.other, ["flag", "text"]),
        lambda given: [row for row in given.rows if is_in(row, given.other, [FLAG, TEXT])],
    ),
    "where_not_in": Link(
        lambda table, sides: table.where_not_in(sides.other, "number"),
        lambda given: [row for row in given.rows if not is_in(row, given.other, [NUMBER])],
    ),
}
