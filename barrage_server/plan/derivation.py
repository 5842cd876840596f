"""Where the tables of an engine get the computation of their operations from, which is in a room above them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from barrage_server.errors import UnsupportedOperationError

__all__ = ["UNLIMITED", "Allowance", "Deriver", "derive", "derive_with"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the result of an operation may take; it fails when it takes more.

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
    """The table of the result of ``operation`` on ``inputs``, which takes no more than its allowance."""
    return _deriver(operation, inputs, allowance)
