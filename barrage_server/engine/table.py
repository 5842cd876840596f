"""The base classes of tables: schema, versions, listeners, and cells."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import pyarrow as pa

from barrage_server.arguments import callback, shown
from barrage_server.arguments import names as checked_names
from barrage_server.engine.callbacks import Callbacks
from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.cycle import told
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.html import table_html
from barrage_server.engine.readable import Readable
from barrage_server.engine.schemas import SchemaLike, as_schema, unknown_column
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.types import check_type
from barrage_server.engine.update import TableUpdate, UpdateNode
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.engine.weak_list import WeakList
from barrage_server.errors import InvalidRequestError, ParentFailedError, TableFailedError, UnavailableError
from barrage_server.formula.constant_comparisons import ConstantComparisons
from barrage_server.plan.derivation import derive
from barrage_server.plan.operable import Operable
from barrage_server.plan.operation import Operation
from barrage_server.rowset import RowSet

if TYPE_CHECKING:
    from barrage_server.engine.derived import DerivedTable
    from barrage_server.engine.partitioned import PartitionedTable

from barrage_server.public import public

__all__ = ["SourceTable", "StoredTable", "Table", "TableListener"]

TableListener = Callable[[TableUpdate, TableVersion, TableVersion], None]


@public
class Table(Operable["Table"], Readable):
    """A table that ticks: row keys, columns, and one update per cycle.

    Readers take :attr:`version`, which never changes. Operations such as :meth:`where` make tables that follow this
    one.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; or a mapping of names to types.
        key_columns: the columns whose values identify a row; empty when there are none.
        traits: the promises to subscribers.
    """

    index_example: ClassVar[str] = "table['price']"
    rows_example: ClassVar[str] = "table.where('price > 100'), table.head(10), or table.to_arrow().slice(start, length)"
    height: int = 0
    """The length of the longest path to a source table, in parents."""
    parents: tuple[Table, ...] = ()
    """The tables that this one is computed from."""
    owned: tuple[Table, ...] = ()
    """The parents that only this table references. Their storage and time count as its own, and they fail with it."""
    is_refreshing: bool = True
    """Whether the table may change. Tables computed only from constant tables are constant, too."""

    def __init__(
        self,
        graph: UpdateGraph,
        name: str,
        schema: SchemaLike,
        *,
        key_columns: Sequence[str] = (),
        traits: TableTraits | None = None,
    ) -> None:
        schema = as_schema(schema)
        check_schema(schema, needs_columns=self.is_refreshing)
        self.graph = graph
        self._name = name
        self._schema = schema
        self._key_columns = tuple(key_columns)
        self._traits = traits or TableTraits()
        self._listeners = Callbacks[TableListener]()
        self.children: WeakList[DerivedTable] = WeakList()  # that the graph has attached
        self.constant_comparisons = ConstantComparisons()  # that the filters of this table share
        self._failure: BaseException | None = None
        self.failure_id = ""
        """The id of the log record about :attr:`failure`."""
        self._retired = ""
        self._version = self._make_version(graph.step, TableUpdate.empty(len(schema)))
        self._next_version: TableVersion | None = None

    @property
    def name(self) -> str:
        """The table's name in messages, in logs, and for clients."""
        return self._name

    def rename(self, name: str) -> None:
        """Give the table another name. For the catalog: clients see this name."""
        self._name = name

    @property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types, in order."""
        return self._schema

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns whose values identify a row; empty when there are none."""
        return self._key_columns

    @property
    def traits(self) -> TableTraits:
        """The promises that hold for every version of this table."""
        return self._traits

    @property
    def attributes(self) -> dict[str, object]:
        """The traits as attributes for clients, by name, such as ``AppendOnly``; a copy."""
        return self._traits.attributes

    @property
    def version(self) -> TableVersion:
        """The version that is visible now."""
        return self._version

    @property
    def size(self) -> int:
        """The number of rows in the current version."""
        return self._version.size

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of storage for the columns, uncollected garbage included."""

    @property
    def own_bytes(self) -> int:
        """The part of :attr:`nbytes` that is not that of a parent."""
        return self.nbytes

    def lineage(self) -> list[Table]:
        """This table and all that it is computed from, each once."""
        found, waiting = dict.fromkeys([self]), [self]
        while waiting:
            fresh = [parent for parent in dict.fromkeys(waiting.pop().parents) if parent not in found]
            found.update(dict.fromkeys(fresh))
            waiting += fresh
        return list(found)

    @property
    def state_bytes(self) -> int:
        """Bytes of storage of this table alone, without its parents."""
        return self.nbytes

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The current content as an Arrow table, in the order of the row keys.

        Args:
            columns: the names of the columns to include; ``None`` for all.

        Raises:
            UnknownColumnError: a name that the schema lacks.
        """
        numbers = None if columns is None else self.column_numbers(columns)
        return self._version.to_table(numbers)

    def __iter__(self) -> NoReturn:
        """Raise InvalidRequestError: a table has rows and columns to iterate over."""
        raise InvalidRequestError(
            "A table is not iterated over itself: table.to_pandas(), table.to_arrow() and table['column'] are its "
            "content, table.schema.names its columns."
        )

    def operate(self, operation: Operation, *others: Table) -> Table:
        """The result of ``operation`` on this table and ``others``, as a table.

        The result follows the tables while it is referenced. Equal operations on one table share one result. Publishers
        to this table do not wait while the result is computed.

        Raises:
            InvalidRequestError, UnknownColumnError, LimitError: see :class:`Operable`.
            TableFailedError: one of the tables is derived and has failed.
        """
        _check_tables(others)
        made: Table = derive(operation, (self, *others))
        return made

    def partition_by(self, by: Sequence[str] | str, drop_keys: bool = False) -> PartitionedTable:
        """This table as one table for each key, made when it is asked for.

        >>> acme = trades.partition_by("sym").get_constituent("ACME")

        Args:
            by: the key columns.
            drop_keys: whether these tables lack the key columns.

        Raises:
            UnknownColumnError: the table lacks a column.
            UnsupportedTypeError: values of a column cannot be keys.
        """
        from barrage_server.engine.partitioned import PartitionedTable  # which is made of tables

        return PartitionedTable(self, by, drop_keys)

    def column_numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of columns by name.

        Raises:
            UnknownColumnError: a name that the schema lacks.
        """
        return column_numbers(self.schema, names, self.name)

    def add_listener(self, listener: TableListener) -> Callable[[], None]:
        """Call ``listener(update, previous, current)`` after each cycle with a change.

        The listener runs on the publishing thread, after the cycle is visible: it must be quick, and must not wait for
        another publisher.

        Returns:
            A function that removes the listener.
        """
        callback(listener, "listener")
        return self._listeners.add(listener)

    @property
    def listeners(self) -> tuple[TableListener, ...]:
        """The present listeners, in the order of their additions."""
        return tuple(self._listeners)

    @property
    def has_listeners(self) -> bool:
        """Whether there are listeners at present."""
        return bool(self._listeners)

    # What the update graph calls, inside a cycle.

    def prepare_version(self, step: int, update: TableUpdate) -> None:
        """Make the version of the cycle ``step``, invisible until :meth:`show_version`."""
        self._next_version = self._make_version(step, update)

    def show_version(self) -> None:
        """Make the prepared version visible, and link it to the history."""
        following = self._next_version
        if following is not None:
            if following.node is not self._version.node:
                self._version.node.next = following.node
            self._version, self._next_version = following, None

    def peek(self) -> TableVersion:
        """The prepared version during a cycle; otherwise the visible one."""
        return self._next_version or self._version

    def repoint(self) -> bool:
        """Prepare a version with other views, after a cycle without a change.

        Returns:
            Whether there are other views.
        """
        return False

    def _make_version(self, step: int, update: TableUpdate) -> TableVersion:
        rows = self.current_rows()
        return TableVersion(
            schema=self._schema,
            row_set=rows,
            readable=self.readable_rows(),
            node=UpdateNode(step, rows, update),
            views=self.make_views(),
        )

    @abstractmethod
    def make_views(self) -> Sequence[ColumnView]:
        """The present columns, for a new version."""

    @abstractmethod
    def current_rows(self) -> RowSet:
        """The present rows, for a new version."""

    def readable_rows(self) -> RowSet:
        """The rows whose cells a version can read.

        These are the rows of the table, or more where removed rows stay readable.
        """
        return self.current_rows()

    @property
    @abstractmethod
    def operation(self) -> str:
        """The operation of a cycle on such a table, for error texts."""

    @property
    def remedy(self) -> str:
        """What to do about a failed table, for error texts."""
        return "Drop and create it again."

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped this table in a cycle; ``None`` if it has not failed."""
        return self._failure

    def fail(self, error: BaseException, error_id: str) -> None:
        """Refuse all further changes, after an error in the middle of a cycle.

        Args:
            error: the error.
            error_id: the id of the log record about it.
        """
        self._failure, self.failure_id = error, error_id
        self._next_version = None

    def retire(self, reason: str) -> None:
        """Refuse all further changes, because another table has replaced this one."""
        self._retired = reason

    def check_usable(self) -> None:
        """Raise if the table no longer changes.

        Raises:
            UnavailableError: the table is retired.
            TableFailedError: the table has failed.
        """
        if self._retired:
            raise UnavailableError(self._retired)
        if self._failure is not None:
            if isinstance(self._failure, ParentFailedError):
                reason = f". {self._failure.text}"
            else:
                reason = f" since {self.operation} failed in a cycle ({told(self._failure)})."
            raise TableFailedError(
                f"Table '{self.name}' does not change any more{reason} {self.remedy}", self.failure_id
            )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The current content for any library that reads Arrow streams."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        failed = "" if self.failure is None else " failed"
        return f"<{type(self).__name__} {self.name!r} rows={self.size} step={self._version.step}{failed}>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        version = self._version
        notes = () if self.failure is None else ("failed",)
        return table_html(f"{type(self).__name__} {self.name}", version, key_columns=self.key_columns, notes=notes)


class SourceTable(Table):
    """A table that changes because rows are published to it."""

    @property
    def operation(self) -> str:
        """The operation of a cycle on it, for error texts."""
        return "the writing of rows"

    def check_writable(self) -> None:
        """Raise what :meth:`check_usable` does, or UnavailableError for a closed graph."""
        if self.graph.is_closed:
            self.graph.check_open(self.name)
        if self._failure is not None or self._retired:
            self.check_usable()

    @property
    def changes_by_itself(self) -> bool:
        """Whether the next cycle changes the table even without an operation."""
        return False

    def check_operations(self, operations: Sequence[Any]) -> None:
        """Raise if ``operations`` do not fit the table, before any is applied."""

    @abstractmethod
    def apply_operations(self, operations: Sequence[Any]) -> TableUpdate:
        """Apply staged operations in order; returns the resulting update."""


class StoredTable(SourceTable):
    """A source table that keeps cells in memory.

    Args:
        graph, name, schema, key_columns, traits: those of :class:`Table`.
        overwrites: whether cells that a version may hold can be overwritten later; see :class:`ColumnStore`.
        page_bits: rows per page of storage, as a power of two.
        interns: whether columns may store equal values of variable width once.
    """

    def __init__(
        self,
        graph: UpdateGraph,
        name: str,
        schema: SchemaLike,
        *,
        key_columns: Sequence[str] = (),
        traits: TableTraits | None = None,
        overwrites: bool = True,
        page_bits: int = MAX_PAGE_BITS,
        interns: bool = True,
    ) -> None:
        schema = as_schema(schema)
        check_schema(schema)
        self._store = ColumnStore(
            schema,
            overwrites=overwrites,
            page_bits=page_bits,
            interns=interns,
            distinct=key_columns[0] if len(key_columns) == 1 else None,
        )
        self._rows = RowSet.empty()
        super().__init__(graph, name, schema, key_columns=key_columns, traits=traits)

    def current_rows(self) -> RowSet:
        """The rows that have cells."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes of storage for the columns, uncollected garbage included."""
        return self._store.nbytes

    def make_views(self) -> Sequence[ColumnView]:
        """The present cells."""
        return self._store.views()


def _check_tables(tables: Sequence[object]) -> None:
    for table in tables:
        if not isinstance(table, Table):
            raise InvalidRequestError(
                f"The other table must be a table of this process, not {shown(table)}. "
                + (
                    "Compute both at the server, or follow that one here: table.subscribe().table."
                    if isinstance(table, Operable)
                    else "To make a table of rows, write bs.table(rows)."
                )
            )


def check_schema(schema: pa.Schema, *, needs_columns: bool = True) -> None:
    """Raise if a table cannot have ``schema``.

    Args:
        schema: the schema.
        needs_columns: whether a schema without columns is an error.

    Raises:
        InvalidRequestError: there are no columns, or a name repeats.
        UnsupportedTypeError: a column has a type that tables cannot hold.
    """
    if len(schema) == 0 and needs_columns:
        raise InvalidRequestError("A table needs at least one column.")
    names = Counter(schema.names)
    if len(names) != len(schema):
        twice = sorted(name for name, count in names.items() if count > 1)
        raise InvalidRequestError(
            f"Column names must differ from each other; these stand more than once: {', '.join(twice)}."
        )
    for field in schema:
        check_type(field.type)


def column_numbers(schema: pa.Schema, names: Sequence[str], table: str) -> list[int]:
    """The numbers of the columns ``names`` in ``schema``.

    Raises:
        UnknownColumnError: a name that the schema lacks.
    """
    known = {name: number for number, name in enumerate(schema.names)}
    wanted = checked_names(names, "columns")
    for name in wanted:
        if name not in known:
            raise unknown_column(name, known, table)
    return [known[name] for name in wanted]
