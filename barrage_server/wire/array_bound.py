"""The bound of one Arrow array: its offsets have 32 bits."""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_ITEMS"]

MOST_ITEMS: Final = (1 << 31) - 1
"""Bytes of texts, or items of lists, of one array."""
