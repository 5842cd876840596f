"""What a derived table computes: a pure function of versions and updates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import pyarrow as pa

from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import RowSet

__all__ = ["Change", "Changes", "Inputs", "Operator", "Outcome"]


class Change(NamedTuple):
    """How one input has changed.

    Attributes:
        update: what has happened; nothing, if the input has only got other views of the same rows and values.
        before: the version that it happened to: previous values, under the keys before it.
        after: the version that it led to.

    """

    update: TableUpdate
    before: TableVersion
    after: TableVersion


class Outcome(NamedTuple):
    """The result as it is now.

    Attributes:
        rows: its row keys.
        views: its columns, which may be those of an input.
        update: what has happened to it; at the start, that all rows were added.

    """

    rows: RowSet
    views: Sequence[ColumnView]
    update: TableUpdate


Inputs: TypeAlias = tuple[TableVersion, ...]
Changes: TypeAlias = tuple[Change | None, ...]


class Operator(ABC):
    """Computes a table from others, and keeps what it needs for that.

    It knows no graph, lock, thread or clock. One thread calls it at a time: :meth:`start` once, then :meth:`follow`
    with each change in turn. Values are read where the update says that they changed, in the columns that matter.

    Attributes:
        name: what errors call it, in one word.
        schema: the columns of the result.

    """

    name: ClassVar[str]
    schema: pa.Schema

    @property
    def nbytes(self) -> int:
        """Bytes of what it keeps, without the columns that it shares with its inputs."""
        return 0

    @abstractmethod
    def start(self, inputs: Inputs) -> Outcome:
        """The result for the given versions of the inputs."""

    @abstractmethod
    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """The result after changes of the inputs.

        Args:
            changes: for each input, how it has changed since the last call; ``None`` when it has not.
            inputs: the versions that this has led to.

        """
