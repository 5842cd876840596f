"""Where the tables of an engine get the computation of their operations from, which is in a room above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from barrage_server.errors import UnsupportedOperationError

__all__ = ["Deriver", "derive", "derive_with"]

Deriver: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""Takes an operation and the tables that are its inputs; returns the table of its result."""


def _nothing(_operation: Any, _inputs: Sequence[Any]) -> Any:
    raise UnsupportedOperationError("Operations are not installed in this process: import barrage_server.")


_deriver: Deriver = _nothing


def derive_with(deriver: Deriver) -> None:
    """Let ``deriver`` compute the operations on tables of this process."""
    global _deriver
    _deriver = deriver


def derive(operation: Any, inputs: Sequence[Any]) -> Any:
    """The table of the result of ``operation`` on ``inputs``."""
    return _deriver(operation, inputs)
