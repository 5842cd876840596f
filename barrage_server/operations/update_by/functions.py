"""The interfaces of functions along rows: scans and windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import pick
from barrage_server.engine.version import TableVersion
from barrage_server.engine.where import row_flags
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.checks import key_text
from barrage_server.operations.formula_view import Computation
from barrage_server.operations.update_by.segments import Flags

__all__ = ["DECREASING", "Fault", "Frame", "RefusedRow", "Scan", "Window", "Windows", "flags"]


class Fault(NamedTuple):
    """Why a row is refused, as parts of a text.

    Attributes:
        rule: what holds for all rows, as a sentence.
        found: what is there instead, without a full stop.
        advice: what to do, as a sentence.

    """

    rule: str
    found: str
    advice: str

    def error(self, version: TableVersion, keys: Sequence[int], row: int) -> InvalidRequestError:
        """The error, which names the group of a row.

        Args:
            version: has the row.
            keys: the numbers of the columns that tell groups apart.
            row: its row key.

        """
        values = [array[0].as_py() for array in pick([version.views[number] for number in keys], np.array([row]))]
        where = f" with the key {key_text(values)}" if values else ""
        return InvalidRequestError(f"{self.rule} {self.found}{where}. {self.advice}")


class RefusedRow(Exception):  # noqa: N818  (it is told as the error of its fault)
    """A function cannot take a row.

    Attributes:
        fault: why.
        place: where the row is among those that the function got.

    """

    def __init__(self, fault: Fault, place: int) -> None:
        super().__init__(fault, place)
        self.fault = fault
        self.place = place


DECREASING: Final = Fault(
    "The times of the rows of a group must not decrease from row to row.",
    "They do",
    "Sort the table by that column before update_by.",
)


class Frame(NamedTuple):
    """The position of a window around its row.

    Attributes:
        time: the number of the column of instants that windows are measured by; None: rows are counted.
        before: how far the window goes back: rows with the row itself, or nanoseconds.
        after: how far it goes on behind the row.

    """

    time: int | None
    before: int
    after: int


class Scan(ABC):
    """A function of a row and those before it in its group.

    It continues from the values stored with the row before.

    Attributes:
        inputs: the numbers of the columns that it reads.
        types: the types of the result and of the other values stored with each row.

    """

    inputs: tuple[int, ...]
    types: tuple[pa.DataType, ...]

    @abstractmethod
    def run(self, columns: Sequence[pa.Array], starts: Int64Array, carry: Sequence[pa.Array]) -> list[pa.Array]:
        """Compute the result and the other stored values, for rows in order.

        Args:
            columns: the inputs.
            starts: the beginnings of runs, each of rows of one group, ascending from 0.
            carry: for each run the values stored with the row before it; null without one.

        Raises:
            RefusedRow: it cannot take a row.

        """


class Windows(NamedTuple):
    """The windows of rows, as ranges of the values that were read.

    Attributes:
        first, end: the first value of each window, and that behind its last one; equal for an empty one.
        own: the row itself.

    """

    first: Int64Array
    end: Int64Array
    own: Int64Array


class Window(ABC):
    """A function of the rows of a window around a row.

    Attributes:
        inputs: the numbers of the columns that it reads.
        type: that of the result.
        frame: the rows of the window.

    """

    inputs: tuple[int, ...]
    type: pa.DataType
    frame: Frame

    @abstractmethod
    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Compute the result for each window of the values of the inputs."""


def flags(conditions: Sequence[Computation], values: dict[str, pa.Array], rows: int) -> Flags:
    """Which rows meet all conditions."""
    holds = np.ones(rows, np.bool_)
    for condition in conditions:
        holds &= row_flags(condition.evaluate({name: values[name] for name in condition.columns}, rows), rows)
    return holds
