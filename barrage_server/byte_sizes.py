"""Numbers of bytes as texts of errors."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["shown_apart"]

_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_BYTE: Final = (1, "byte")


def shown_apart(taken: float, most: float) -> tuple[str, str]:
    """A number of bytes and its bound as texts, which differ if they do.

    Each is in the largest unit of which it has one, rounded up to a tenth; both are in bytes where that is too coarse.
    """
    unit = _unit(most)
    if _shown(taken, unit) == _shown(most, unit):
        return _shown(taken, _BYTE), _shown(most, _BYTE)
    return _shown(taken, _unit(taken)), _shown(most, unit)


def _unit(nbytes: float) -> tuple[int, str]:
    return next((unit for unit in _UNITS if nbytes >= unit[0]), _BYTE)


def _shown(nbytes: float, unit: tuple[int, str]) -> str:
    size, name = unit
    if unit == _BYTE:
        whole = math.ceil(nbytes)
        return f"{whole:,} {name if whole == 1 else f'{name}s'}"
    whole, tenths = divmod(math.ceil(nbytes / size * 10), 10)
    return f"{whole:,}{f'.{tenths}' if tenths else ''} {name}"
