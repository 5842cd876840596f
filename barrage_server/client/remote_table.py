"""Tables of a server, and plans of tables for the server to compute from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

import pyarrow as pa

from barrage_server.arguments import shown
from barrage_server.client.annotations import user_schema
from barrage_server.client.held_result import HeldResult
from barrage_server.client.info import TableInfo
from barrage_server.client.live import LiveTable
from barrage_server.client.lookup import look_up
from barrage_server.client.names import FlightAddress, NamedAddress, checked_name
from barrage_server.client.page_source import PageSource
from barrage_server.client.reading import follow, read_once
from barrage_server.client.session import Session
from barrage_server.client.update import Update
from barrage_server.client.window import Viewport
from barrage_server.engine import ReplicaTable
from barrage_server.engine.frames import to_pandas, to_polars
from barrage_server.errors import InvalidRequestError, UnknownTableError
from barrage_server.plan.operable import Operable
from barrage_server.plan.operation import Operation
from barrage_server.plan.plan import NamedTable, Plan, Result, Source, Step
from barrage_server.public import public
from barrage_server.showing import shown_in_notebook
from barrage_server.subscription import Dialect
from barrage_server.wire.schema import key_columns, table_attributes

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from barrage_server.client.remote_partitions import RemotePartitionedTable

__all__ = ["RemoteTable", "planned", "remote_table"]

T = TypeVar("T")

_LONGEST_NAME: Final = 200


@public
class RemoteTable(TableInfo, Operable["RemoteTable"]):
    """A table of a server, or the plan of a table for the server to compute.

    :meth:`Client.table` returns a table of the server, with the server's description of that moment. The methods that
    make tables from tables return plans. A plan calls the server only when its content, schema or size are requested.
    Then the server computes it, and keeps it, ticking, until the plan is closed or freed. Use it as a context manager,
    or :meth:`close` it.

    >>> best = client.table("trades").where("size > 5").last_by("sym")
    >>> with best.subscribe(viewport=range(100)) as live:
    ...     print(live.to_pandas())

    A plan is computed again when the server has forgotten its result, after a restart or a long time without use.

    Attributes:
        name: the table's name on the server; for a plan, its first table and its operations.
        schema: the columns.
        size: the number of rows: at the look-up for a table of the server, now for a plan.
        attributes: what the server promises about the table, such as ``AppendOnly`` or ``BlinkTable``.
        key_columns: the columns whose values identify a row; empty when there are none.
    """

    __setattr__ = object.__setattr__  # TableInfo is frozen; here properties without setters are

    def __init__(
        self,
        session: Session,
        address: FlightAddress,
        info: TableInfo | None = None,
        operation: Operation | None = None,
        inputs: tuple[RemoteTable, ...] = (),
    ) -> None:
        self._session = session
        self._address = address
        self._info = info
        self._operation = operation
        self._inputs = inputs
        self._is_closed = False
        address.use()

    # Description.

    @property
    def name(self) -> str:
        """The table's name on the server; for a plan, its name in errors and logs."""
        return self._address.name

    @property
    def schema(self) -> pa.Schema:
        """The columns, without the annotations of the protocol. Computes a plan."""
        return self._described().schema

    @property
    def attributes(self) -> dict[str, object]:
        """What the server promises about the table. Computes a plan."""
        return self._described().attributes

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns whose values identify a row. Computes a plan."""
        return self._described().key_columns

    @property
    def durable(self) -> bool | None:
        """Whether the table is in the server's data directory; ``None`` if unknown.

        Computes a plan, for which it is ``None``.
        """
        return self._described().durable

    @property
    def size(self) -> int:
        """The number of rows; -1 when the server does not say.

        For a table of the server it is the number at the look-up, for a plan the present number.
        """
        if self._operation is None:
            return self._described().size
        address = self._held()
        return self._again(lambda: self._session.plans.size(address.output()))

    @property
    def is_static(self) -> bool:
        """Whether the table is known never to change. Computes a plan."""
        address = self._address
        return isinstance(address, HeldResult) and self._again(address.output).is_static

    @property
    def is_refreshing(self) -> bool:
        """Whether the table may change. Computes a plan."""
        return not self.is_static

    def _described(self) -> TableInfo:
        info = self._info
        if info is None:
            output = self._again(self._held().output)
            schema = output.schema
            info = TableInfo(self.name, user_schema(schema), output.size, table_attributes(schema), key_columns(schema))
            self._info = info
        return info

    # Operations.

    def operate(self, operation: Operation, *others: RemoteTable) -> RemoteTable:
        """Plan ``operation`` on this table and ``others``, without a call to the server.

        Errors in formulas and columns are raised when the server computes the result.

        Raises:
            InvalidRequestError: one of ``others`` is not a table of this client.
        """
        for other in others:
            if not isinstance(other, RemoteTable):
                raise InvalidRequestError(
                    f"The tables of an operation on a server are tables of client.table(), and one is {shown(other)}."
                )
            if other._session is not self._session:
                raise InvalidRequestError(f"The table '{other.name}' belongs to another client.")
        return planned(self._session, operation, (self, *others))

    def partition_by(self, by: Sequence[str] | str, drop_keys: bool = False) -> RemotePartitionedTable:
        """Divide the table into one table for each key, computed on request.

        >>> acme = client.table("trades").partition_by("sym").get_constituent("ACME")

        Args:
            by: the columns with the keys.
            drop_keys: whether these tables lack the key columns.
        """
        from barrage_server.client.remote_partitions import RemotePartitionedTable  # imports this module

        return RemotePartitionedTable(self, by, drop_keys)

    # Content.

    def to_arrow(
        self, columns: Sequence[str] | None = None, viewport: Viewport = None, *, reverse: bool = False
    ) -> pa.Table:
        """Read the present content, or a part of it, as :meth:`Client.snapshot` does.

        Args:
            columns: names of the columns; None for all. They come in the table's order.
            viewport: row positions wanted, such as ``range(0, 100)``; None for all.
            reverse: count positions from the end of the table.

        Raises what :meth:`Client.snapshot` does, and the errors of the operations.
        """
        return self._again(lambda: read_once(self._session, self._address, columns, viewport, reverse=reverse))

    def __getitem__(self, columns: object) -> NoReturn:
        """Raise InvalidRequestError: a plan has no content here."""
        raise InvalidRequestError(
            f"'{self.name}' is a table of a server, and has no content here to index: read columns by "
            f"table.to_arrow(['price']), rows by table.to_arrow(viewport=range(0, 10)), or follow it by "
            f"table.subscribe() and index that."
        )

    def __len__(self) -> int:
        """Raise InvalidRequestError: a plan has no rows here."""
        raise InvalidRequestError(
            f"'{self.name}' is a table of a server, and has no rows here to count: read table.size, or follow it by "
            f"table.subscribe() and count that."
        )

    def __bool__(self) -> bool:
        """True, without a call to the server."""
        return True

    def __iter__(self) -> NoReturn:
        """Raise InvalidRequestError: a plan has no content here."""
        raise InvalidRequestError(
            f"'{self.name}' is a table of a server, and has no content here to iterate over: table.to_arrow() and "
            f"table.to_pandas() read it, table.schema.names are its columns."
        )

    def to_pandas(self) -> pd.DataFrame:
        """Read the present content as a pandas data frame.

        Raises:
            DependencyError: pandas is missing.
        """
        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Read the present content as a polars data frame.

        Raises:
            DependencyError: polars is missing.
        """
        return to_polars(self.to_arrow())

    @property
    def page_source(self) -> PageSource:
        """The table, as the source of a page."""
        self._check_open()
        return PageSource(self._session.channel, self._address)

    def widget(self, *, height: int = 400, theme: str = "auto", plot: object = None) -> Any:
        """Show the table in a notebook, as :func:`barrage_server.show` does.

        Args:
            height: height of the widget, in CSS pixels.
            theme: ``auto``, ``light`` or ``dark``.
            plot: a plot in place of the grid, as for :func:`barrage_server.show`.

        Raises what :func:`barrage_server.show` does.
        """
        return shown_in_notebook(self.page_source, height=height, theme=theme, plot=plot)

    def subscribe(
        self,
        columns: Sequence[str] | None = None,
        viewport: Viewport = None,
        *,
        reverse: bool = False,
        interval_ms: int = 50,
        dialect: Dialect | str | None = None,
        timeout: float | None = None,
        onto: ReplicaTable | None = None,
        on_update: Callable[[Update], object] | None = None,
    ) -> LiveTable:
        """Follow the table, or a window of it.

        The live table does not need this object any more. After a lost connection the server computes a plan again.

        Args:
            columns: names of the columns; None for all.
            viewport: row positions, such as ``range(0, 100)``; None for the whole table.
            reverse: count positions from the end of the table.
            interval_ms: least time between two updates, in milliseconds.
            dialect: how viewports are described, as for :meth:`Client.subscribe`.
            timeout: seconds, as for :meth:`Client.subscribe`.
            onto: a table to fill, as for :meth:`Client.subscribe`.
            on_update: called with each update, as for :meth:`Client.subscribe`.

        Raises what :meth:`Client.subscribe` does, and the errors of the operations.
        """
        self._check_open()
        return follow(
            self._session,
            self._address,
            columns,
            viewport,
            reverse=reverse,
            interval_ms=interval_ms,
            dialect=dialect,
            timeout=timeout,
            onto=onto,
            on_update=on_update,
        )

    def bind(self, name: str) -> RemoteTable:
        """Serve the result under a name, until that table is dropped.

        Returns:
            The table of that name.

        Raises the errors of the operations, and:
            InvalidRequestError: this is a table of the server.
            AlreadyExistsError: there is another table of that name.
            ForbiddenError: the right to make that table is missing.
            LimitError: there are too many tables.
        """
        address, plans = self._address, self._session.plans
        checked_name(name)
        if not isinstance(address, HeldResult):
            raise InvalidRequestError(f"'{self.name}' is a table of the server, and has a name.")
        self._again(lambda: plans.bind(address.output(), name))
        return remote_table(self._session, look_up(self._session.channel, name))

    def close(self) -> None:
        """Release the result on the server once no subscription uses it.

        May be called repeatedly.
        """
        if not self._is_closed:
            self._is_closed = True
            self._address.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        if self._operation is not None or (isinstance(other, RemoteTable) and other._operation is not None):
            return self is other
        if not isinstance(other, TableInfo):
            return NotImplemented
        return _fields(self) == _fields(other)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy the description only, without the connection."""
        return TableInfo, _fields(self)

    __hash__ = None  # type: ignore[assignment]  # attributes is a dictionary

    def __repr__(self) -> str:
        return super().__repr__() if self._operation is None else f"<RemoteTable {self.name!r}>"

    def _repr_html_(self) -> str:
        """The columns, for notebooks; of a plan its name, without a call."""
        return super()._repr_html_() if self._operation is None else f"<i>{escape(self.name)}</i>"

    def _held(self) -> HeldResult:
        """Return the address of a plan."""
        assert isinstance(self._address, HeldResult)
        return self._address

    def _again(self, ask: Callable[[], T]) -> T:
        """Return ``ask()``; repeat it once if the server has forgotten the result."""
        self._check_open()
        losses = self._address.losses
        try:
            return ask()
        except UnknownTableError:
            if not self._address.lost() and self._address.losses == losses:  # another thread may have noticed it first
                raise
            return ask()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidRequestError(f"The table '{self.name}' was closed; make it again.")


def remote_table(session: Session, info: TableInfo) -> RemoteTable:
    """Make the handle of a table of the server."""
    return RemoteTable(session, NamedAddress(info.name), info)


def planned(session: Session, operation: Operation, inputs: tuple[RemoteTable, ...] = ()) -> RemoteTable:
    """Plan ``operation`` on ``inputs``, without a call to the server."""
    name = ".".join([*(table.name for table in inputs[:1]), operation.verb])[-_LONGEST_NAME:]
    address = HeldResult(session.plans, name, lambda: _plan_of(operation, inputs), session.releases)
    return RemoteTable(session, address, None, operation, inputs)


def _fields(info: TableInfo) -> tuple[object, ...]:
    return info.name, info.schema, info.size, info.attributes, info.key_columns, info.durable


def _plan_of(operation: Operation, inputs: tuple[RemoteTable, ...]) -> Plan:
    """Make the plan of an operation and all operations before it, each once."""
    steps: list[Step] = []
    known: dict[int, Source] = {}
    waiting: list[tuple[RemoteTable, bool]] = [(table, False) for table in reversed(inputs)]
    while waiting:  # depth first, without recursion: plans may be long
        table, is_ready = waiting.pop()
        if id(table) in known:
            continue
        if table._operation is None:
            known[id(table)] = NamedTable(table.name)
        elif is_ready:
            steps.append(Step(table._operation, tuple(known[id(one)] for one in table._inputs)))
            known[id(table)] = Result(len(steps) - 1)
        else:
            waiting.append((table, True))
            waiting += [(one, False) for one in reversed(table._inputs)]
    steps.append(Step(operation, tuple(known[id(one)] for one in inputs)))
    return Plan(tuple(steps), (len(steps) - 1,))
