"""The computation of a derived table: a pure function of versions and updates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import RowSet

__all__ = ["Change", "Changes", "Inputs", "Operator", "Outcome"]


_NO_KEYS: Final = np.zeros(0, np.int64)


class Change(NamedTuple):
    """The change of one input.

    Attributes:
        update: the update; empty if only the views of the input have changed, and not its values.
        before: the version before the update, with the previous keys.
        after: the version after the update.
    """

    update: TableUpdate
    before: TableVersion
    after: TableVersion

    def moved(self) -> tuple[Int64Array, Int64Array]:
        """The row keys that stay and are shifted, before and after the change.

        Returns:
            Two int64 arrays of one length, ascending.
        """
        shifted = self.update.shifted
        if not shifted.size:
            return _NO_KEYS, _NO_KEYS
        keys = ((self.before.row_set - self.update.removed) & shifted.sources()).keys()
        return keys, shifted.apply_keys(keys)


class Outcome(NamedTuple):
    """The present result of an operator.

    Attributes:
        rows: its row keys.
        views: its columns, which may be those of an input.
        update: its change; at the start, all rows are added.
        readable: the rows whose cells can be read, if these are more than ``rows``, such as the history of a blink
            table.
    """

    rows: RowSet
    views: Sequence[ColumnView]
    update: TableUpdate
    readable: RowSet | None = None


Inputs: TypeAlias = tuple[TableVersion, ...]
Changes: TypeAlias = tuple[Change | None, ...]


class Operator(ABC):
    """Computes a table from others, and keeps the state for that.

    An operator knows no graph, lock, thread or clock. One thread calls it at a time: :meth:`start` once, then
    :meth:`follow` with each change in turn. It reads values of changed rows only, in the columns that the result
    depends on.

    Attributes:
        name: the operator's name in errors, one word.
        schema: the columns of the result.
    """

    name: ClassVar[str]
    schema: pa.Schema

    @property
    def nbytes(self) -> int:
        """Bytes of the operator's state, without columns shared with inputs."""
        return 0

    @abstractmethod
    def start(self, inputs: Inputs) -> Outcome:
        """The result for the given versions of the inputs."""

    @abstractmethod
    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """The result after changes of the inputs.

        Args:
            changes: for each input, its change since the last call; ``None`` without one.
            inputs: the versions after the changes.
        """
