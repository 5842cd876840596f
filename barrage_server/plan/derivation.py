"""The seam between tables of the engine and the operators, a room above them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from barrage_server.errors import UnsupportedOperationError

__all__ = ["UNLIMITED", "Allowance", "Deriver", "derive", "derive_with"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits of the result of an operation, which fails beyond them.

    Attributes:
        seconds: of a cycle, by the clock of its graph.
        nbytes: of its own state.

    """

    seconds: float = math.inf
    nbytes: float = math.inf


UNLIMITED: Final = Allowance()

Deriver: TypeAlias = Callable[[Any, Sequence[Any], Allowance], Any]
"""Takes an operation, the tables that are its inputs, and an allowance; returns the table of its result."""


def _nothing(_operation: Any, _inputs: Sequence[Any], _allowance: Allowance) -> Any:
    raise UnsupportedOperationError("Operations are not installed in this process: import barrage_server.")


_deriver: Deriver = _nothing


def derive_with(deriver: Deriver) -> None:
    """Let ``deriver`` compute the operations on tables of this process."""
    global _deriver
    _deriver = deriver


def derive(operation: Any, inputs: Sequence[Any], allowance: Allowance = UNLIMITED) -> Any:
    """Derive the table of ``operation`` on ``inputs``, within ``allowance``."""
    return _deriver(operation, inputs, allowance)
