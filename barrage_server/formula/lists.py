"""Functions of lists: lengths, items, and their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula import comparison
from barrage_server.formula.builtin import ANY, LIST, NUMBER_LIST, Builtin, Family, Parameter, Signature
from barrage_server.formula.kinds import BOOLEAN, LONG, Kind, list_of
from barrage_server.formula.segments import Indices, item_kind, numbers_of, segments_of
from barrage_server.formula.vectors import Arrow, Cells, Flags, Vector, both, from_arrow, missing, to_arrow

__all__ = ["FUNCTIONS", "METHODS"]

_ITEMS: Final = Family("list of numbers, strings or times", lambda kind: _is_comparable_list(kind))


def _is_comparable_list(kind: Kind) -> bool:
    item = kind.item
    return item is not None and comparison.comparison("==", item, item) is not None


def _length(lists: Arrow) -> Vector:
    return from_arrow(pc.list_value_length(lists).cast(pa.int64()), LONG)


def _present(lists: Arrow) -> Cells:
    """How many items are not null."""
    items, starts, lengths, valid = segments_of(lists)
    before = np.concatenate(([0], np.cumsum(items.is_valid().to_numpy(zero_copy_only=False))))
    return Cells((before[starts + lengths] - before[starts]).astype(np.int64), valid)


def _nth(kinds: tuple[Kind, ...]) -> Callable[[Arrow, Cells], Vector]:
    kind = item_kind(kinds)

    def run(lists: Arrow, index: Cells) -> Vector:
        items, starts, lengths, _ = segments_of(lists)
        wanted = np.broadcast_to(index.values, lengths.shape).astype(np.int64)
        is_there = (wanted >= 0) & (wanted < lengths)
        if index.valid is not None:
            is_there = is_there & index.valid
        return from_arrow(items.take(pa.array(np.where(is_there, starts + wanted, 0), mask=~is_there)), kind)

    return run


def _first(kinds: tuple[Kind, ...]) -> Callable[[Arrow], Vector]:
    nth = _nth(kinds)
    return lambda lists: nth(lists, Cells(np.zeros((), np.int64)))


def _last(kinds: tuple[Kind, ...]) -> Callable[[Arrow], Vector]:
    nth = _nth(kinds)
    return lambda lists: nth(lists, Cells(segments_of(lists).lengths - 1))


def _exchanged(kinds: tuple[Kind, ...]) -> Callable[[Cells, Arrow], Vector]:
    nth = _nth(kinds)
    return lambda index, lists: nth(lists, index)


def _index_of(kinds: tuple[Kind, ...]) -> Callable[[Vector, Arrow], Cells]:
    """The place of the first item that equals a value; null if there is none."""
    value_kind, item = kinds[0], kinds[1].item
    assert item is not None
    resolved = comparison.comparison("==", value_kind, item)
    assert resolved is not None
    compare = resolved[1]

    def run(value: Vector, lists: Arrow) -> Cells:
        segments = segments_of(lists)
        owners = segments.owners
        rows = to_arrow(value, value_kind, len(segments.lengths))
        equal = compare(from_arrow(rows.take(pa.array(owners)), value_kind), from_arrow(segments.items, item))
        assert isinstance(equal, Cells)
        places = np.flatnonzero(equal.values)
        found = np.full(len(segments.lengths), -1, np.int64)
        found[owners[places[::-1]]] = (places - segments.starts[owners[places]])[::-1]  # the first is written last
        return Cells(found, both(segments.valid, found >= 0))

    return run


def _among(kinds: tuple[Kind, ...]) -> Callable[[Vector, Arrow], Cells]:
    find = _index_of(kinds)
    return lambda value, lists: Cells(~missing(find(value, lists)))


def _matching(result: Kind) -> Callable[[tuple[Kind, ...]], Kind]:
    def kind(kinds: tuple[Kind, ...]) -> Kind:
        item = kinds[1].item
        if item is None or comparison.comparison("==", kinds[0], item) is None:
            raise TypeError
        return result

    return kind


def _place_of_extreme(ufunc: Any) -> Callable[[tuple[Kind, ...]], Callable[[Arrow], Cells]]:
    """The place of the first largest or smallest item; null if one is NaN."""

    def bind(kinds: tuple[Kind, ...]) -> Callable[[Arrow], Cells]:
        kind = item_kind(kinds)
        find = _index_of((kind, kinds[0]))

        def run(lists: Arrow) -> Cells:
            numbers = numbers_of(lists, kinds[0])
            extreme = numbers.answer(numbers.reduce(ufunc, numbers.values))
            found = find(extreme, lists)
            return Cells(found.values, both(found.valid, both(numbers.valid, numbers.lengths > 0)))

        return run

    return bind


def _listed(kinds: tuple[Kind, ...]) -> Kind:
    """Lists of the same items, as Arrow's plain lists."""
    return list_of(item_kind(kinds))


def _list_array(items: pa.Array, lengths: Indices, valid: Flags | None, kind: Kind) -> pa.Array:
    """Lists of some lengths of items in a row."""
    assert kind.item is not None
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    plain = to_arrow(from_arrow(items, kind.item), kind.item, len(items))
    return pa.ListArray.from_arrays(offsets, plain, mask=None if valid is None else pa.array(~valid))


def _reversed(kinds: tuple[Kind, ...]) -> Callable[[Arrow], pa.Array]:
    kind = _listed(kinds)

    def run(lists: Arrow) -> pa.Array:
        items, starts, lengths, valid = segments_of(lists)
        places = np.repeat(2 * starts + lengths - 1, lengths) - np.arange(len(items))
        return _list_array(items.take(pa.array(places)), lengths, valid, kind)

    return run


def _sorted(kinds: tuple[Kind, ...]) -> Callable[[Arrow], pa.Array]:
    """Null first, NaN last."""
    kind = _listed(kinds)
    item = kind.item
    assert item is not None

    def run(lists: Arrow) -> pa.Array:
        segments = segments_of(lists)
        cells = from_arrow(segments.items, item)
        assert isinstance(cells, Cells)
        known = np.ones(len(cells.values), np.bool_) if cells.valid is None else cells.valid
        order = np.lexsort((np.where(known, cells.values, 0), known, segments.owners))
        return _list_array(segments.items.take(pa.array(order)), segments.lengths, segments.valid, kind)

    return run


def _of_items(
    name: str, parameters: tuple[Parameter, ...], kind: Any, kernel: Callable[..., Any], meaning: str
) -> Builtin:
    return Builtin(name, meaning, (Signature(parameters, kind, kernel, binds=True),))


FUNCTIONS: Final = (
    Builtin("count", "How many items are not null.", (Signature((LIST,), LONG, _present),)),
    Builtin("len", "The length of a list, with its nulls.", (Signature((LIST,), LONG, _length),)),
    _of_items("reverse", (LIST,), _listed, _reversed, "The items from the last to the first."),
    _of_items("sort", (NUMBER_LIST,), _listed, _sorted, "The numbers in order: null first, NaN last."),
    _of_items("first", (LIST,), item_kind, _first, "The first item."),
    _of_items("last", (LIST,), item_kind, _last, "The last item."),
    _of_items("nth", (LONG, LIST), item_kind, _exchanged, "The item at a place, from 0; null where there is none."),
    _of_items(
        "firstIndexOf", (ANY, _ITEMS), _matching(LONG), _index_of, "The place of a value in a list; null without it."
    ),
    _of_items("in", (ANY, _ITEMS), _matching(BOOLEAN), _among, "Whether a value is in a list."),
    _of_items(
        "indexOfMax",
        (NUMBER_LIST,),
        LONG,
        _place_of_extreme(np.maximum),
        "The place of the largest number; null if one is NaN.",
    ),
    _of_items(
        "indexOfMin",
        (NUMBER_LIST,),
        LONG,
        _place_of_extreme(np.minimum),
        "The place of the smallest number; null if one is NaN.",
    ),
)

METHODS: Final = (
    Builtin("size", "The length of a list.", (Signature((LIST,), LONG, _length),)),
    _of_items("get", (LIST, LONG), item_kind, _nth, "The item at a place, from 0; null where there is none."),
)
