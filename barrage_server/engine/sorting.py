"""Stable sorts of numbers together with their positions.

A number and its position are packed into 64 bits and sorted as one, which is much faster than an indirect sort. Numbers
that do not fit are sorted indirectly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from barrage_server.engine.plan import Int64Array

__all__ = ["last_of_each", "order_of_small", "positions_in_order", "sort_with_positions", "sorted_positions"]

# Ascending runs up to which a merge, linear in their length, is faster than a sort.
_FEW_RUNS = 4
# Numbers of 16 bits, for which numpy has a linear stable sort.
_SMALL = 1 << 16
# Of the numbers, those that are equal in their upper bits must be less than one in 2**_FEW_TIES.
_FEW_TIES = 2


def sort_with_positions(values: Int64Array, *, runs: int | None = None) -> tuple[Int64Array, Int64Array]:
    """Sort numbers, and return the previous position of each as well.

    Args:
        values: int64, none negative.
        runs: the number of ascending runs in ``values``, if the caller knows it.

    Returns:
        Two int64 arrays as long as ``values``: the numbers in ascending order, and their positions. Equal numbers stay
            in order.
    """
    bits = len(values).bit_length()
    if (runs is not None and runs <= _FEW_RUNS) or len(values) < 2:
        positions = np.argsort(values, kind="stable")
        return values.take(positions), positions
    beyond = int(values.max()).bit_length() + bits - 63
    if beyond > 0:
        positions = _by_upper_bits(values, bits, beyond)
        return values.take(positions), positions
    packed = _packed(values, bits)
    ordered = packed >> bits
    packed &= (1 << bits) - 1
    return ordered, packed


def sorted_positions(values: Int64Array) -> Int64Array:
    """The second result of :func:`sort_with_positions` alone."""
    if len(values) < 2:
        return np.zeros(len(values), np.int64)
    bits = len(values).bit_length()
    beyond = int(values.max()).bit_length() + bits - 63
    if beyond > 0:
        return _by_upper_bits(values, bits, beyond)
    packed = _packed(values, bits)
    packed &= (1 << bits) - 1
    return packed


def _packed(values: Int64Array, bits: int) -> Int64Array:
    """Numbers in ascending order, each with its position in the lowest ``bits``."""
    packed = values << bits
    packed |= np.arange(len(values), dtype=np.int64)
    packed.sort()
    return packed


def _by_upper_bits(values: Int64Array, bits: int, beyond: int) -> Int64Array:
    """The positions of numbers in order, sorted by their upper bits first.

    Args:
        values: the numbers.
        bits: the bits of a position.
        beyond: the number of lowest bits of a number that do not fit beside a position.
    """
    packed = _packed(values >> beyond, bits)
    positions = packed & ((1 << bits) - 1)
    packed >>= bits
    same = packed[1:] == packed[:-1]
    if not same.any():
        return positions
    is_tied = np.append(same, False)
    is_tied[1:] |= same
    tied = np.flatnonzero(is_tied)
    if len(tied) > len(values) >> _FEW_TIES:
        return np.argsort(values, kind="stable")
    those = positions[tied]
    positions[tied] = those[np.lexsort((values[those], packed[tied]))]
    return positions


def positions_in_order(values: Int64Array, width: int) -> Int64Array:
    """The result of :func:`sorted_positions`, computed in place.

    Args:
        values: int64, none negative; overwritten.
        width: bits of the largest number.
    """
    bits = len(values).bit_length()
    if width + bits > 63:
        return np.argsort(values, kind="stable")
    values <<= bits
    values |= np.arange(len(values), dtype=np.int64)
    values.sort()
    values &= (1 << bits) - 1
    return values


def order_of_small(values: npt.NDArray[np.integer], low: int, high: int) -> Int64Array:
    """The stable order of numbers that mostly lie close together.

    Linear in the number of values if ``high - low`` is less than 65,536.

    Args:
        values: numbers from ``low`` to ``high``.
        low: a lower bound.
        high: an upper bound.
    """
    if high - low < _SMALL:
        return np.argsort((values - low if low else values).astype(np.uint16), kind="stable")
    return np.argsort(values, kind="stable")


def last_of_each(values: Int64Array, *, runs: int | None = None) -> tuple[Int64Array, Int64Array]:
    """The distinct numbers in ``values``, ascending, and the last position of each.

    See :func:`sort_with_positions`.
    """
    ordered, positions = sort_with_positions(values, runs=runs)
    differs = ordered[1:] != ordered[:-1]
    if differs.all():
        return ordered, positions
    last = np.flatnonzero(np.append(differs, True))
    return ordered.take(last), positions.take(last)
