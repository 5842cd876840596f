"""The bound of one Arrow array with 32-bit offsets."""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_ITEMS"]

MOST_ITEMS: Final = (1 << 31) - 1
"""The most bytes of texts, or items of lists, in one array."""
