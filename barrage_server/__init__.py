"""Live tables over Arrow Flight: publish from Spark or Python, then subscribe."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

import barrage_server.log  # noqa: F401  (guards all loggers)
from barrage_server.plan.derivation import Allowance, derive_with
from barrage_server.showing import show_with

if TYPE_CHECKING:
    from barrage_server.client import (
        KEEP,
        AsyncUpdates,
        Client,
        Dialect,
        Keep,
        LiveState,
        LiveTable,
        Publication,
        PublishResult,
        RemoteTable,
        RetryPolicy,
        TableInfo,
        TableList,
        Update,
        Updates,
        connect,
    )
    from barrage_server.client.remote_partitions import RemotePartitionedTable
    from barrage_server.clock import time_table
    from barrage_server.engine import (
        AppendTable,
        ArrowStream,
        BlinkTable,
        CycleLog,
        CycleNote,
        KeyedTable,
        ReplacedTable,
        ReplicaTable,
        RingTable,
        Table,
        TableTraits,
        TableUpdate,
        TableVersion,
        UpdateGraph,
    )
    from barrage_server.engine.partitioned import PartitionedTable
    from barrage_server.engine.standalone import table
    from barrage_server.errors import (
        AlreadyExistsError,
        AuthenticationError,
        BarrageError,
        DeadlineError,
        DependencyError,
        FencedError,
        ForbiddenError,
        InternalError,
        InvalidRequestError,
        JournalError,
        KeyMismatchError,
        LimitError,
        LostBatchesError,
        MessageTooLargeError,
        NotFoundError,
        ParentFailedError,
        PublishError,
        QueryStoppedError,
        ReadOnlyError,
        RowSetError,
        SchemaMismatchError,
        TableFailedError,
        UnavailableError,
        UnknownColumnError,
        UnknownTableError,
        UnsupportedOperationError,
        UnsupportedTypeError,
        WireFormatError,
    )
    from barrage_server.formula import Functions
    from barrage_server.function_signature import FunctionSignature
    from barrage_server.notebook import show
    from barrage_server.operations import empty_table
    from barrage_server.plan import agg, condition, updateby
    from barrage_server.plan.aggregation import Aggregation
    from barrage_server.plan.expression import Expression, call, col
    from barrage_server.plan.multi_join import MultiJoinInput, multi_join
    from barrage_server.plan.operable import merge
    from barrage_server.plan.update_by import BadDataBehavior, DeltaControl, OperationControl, UpdateByOperation
    from barrage_server.publish import StagingLimits, StagingStatistics
    from barrage_server.relay import FollowedState, FollowedStatistics
    from barrage_server.relay.followed_table import FollowedTable
    from barrage_server.rowset import RowSet, RowSetShiftData
    from barrage_server.server import (
        CredentialFile,
        Credentials,
        Front,
        Fsync,
        Limits,
        Principal,
        ResultStatistics,
        Right,
        Role,
        ServedTables,
        Server,
        ServerStatistics,
        StreamGauges,
        SubscriptionGauges,
        TableStatistics,
        TokenFile,
        WebTokens,
    )
    from barrage_server.subscription import SubscriptionLimits
    from barrage_server.wire.protocol import PublishMode, TableKind

__version__: Final = "0.1.0"

__all__ = [
    "KEEP",
    "Aggregation",
    "AlreadyExistsError",
    "AppendTable",
    "ArrowStream",
    "AsyncUpdates",
    "AuthenticationError",
    "BadDataBehavior",
    "BarrageError",
    "BlinkTable",
    "Client",
    "CredentialFile",
    "Credentials",
    "CycleLog",
    "CycleNote",
    "DeadlineError",
    "DeltaControl",
    "DependencyError",
    "Dialect",
    "Expression",
    "FencedError",
    "FollowedState",
    "FollowedStatistics",
    "FollowedTable",
    "ForbiddenError",
    "Front",
    "Fsync",
    "FunctionSignature",
    "Functions",
    "InternalError",
    "InvalidRequestError",
    "JournalError",
    "Keep",
    "KeyMismatchError",
    "KeyedTable",
    "LimitError",
    "Limits",
    "LiveState",
    "LiveTable",
    "LostBatchesError",
    "MessageTooLargeError",
    "MultiJoinInput",
    "NotFoundError",
    "OperationControl",
    "ParentFailedError",
    "PartitionedTable",
    "Principal",
    "Publication",
    "PublishError",
    "PublishMode",
    "PublishResult",
    "QueryStoppedError",
    "ReadOnlyError",
    "RemotePartitionedTable",
    "RemoteTable",
    "ReplacedTable",
    "ReplicaTable",
    "ResultStatistics",
    "RetryPolicy",
    "Right",
    "RingTable",
    "Role",
    "RowSet",
    "RowSetError",
    "RowSetShiftData",
    "SchemaMismatchError",
    "ServedTables",
    "Server",
    "ServerStatistics",
    "StagingLimits",
    "StagingStatistics",
    "StreamGauges",
    "SubscriptionGauges",
    "SubscriptionLimits",
    "Table",
    "TableFailedError",
    "TableInfo",
    "TableKind",
    "TableList",
    "TableStatistics",
    "TableTraits",
    "TableUpdate",
    "TableVersion",
    "TokenFile",
    "UnavailableError",
    "UnknownColumnError",
    "UnknownTableError",
    "UnsupportedOperationError",
    "UnsupportedTypeError",
    "Update",
    "UpdateByOperation",
    "UpdateGraph",
    "Updates",
    "WebTokens",
    "WireFormatError",
    "__version__",
    "agg",
    "call",
    "col",
    "condition",
    "connect",
    "empty_table",
    "merge",
    "multi_join",
    "show",
    "table",
    "time_table",
    "updateby",
]

_NAMES: Final = {
    "clock": "time_table",
    "client": (
        "KEEP AsyncUpdates Client Dialect Keep LiveState LiveTable Publication PublishResult RemoteTable RetryPolicy "
        "TableInfo TableList Update Updates connect"
    ),
    "client.remote_partitions": "RemotePartitionedTable",
    "engine": (
        "AppendTable ArrowStream BlinkTable CycleLog CycleNote KeyedTable ReplacedTable ReplicaTable RingTable Table "
        "TableTraits TableUpdate TableVersion UpdateGraph"
    ),
    "engine.partitioned": "PartitionedTable",
    "engine.standalone": "table",
    "formula": "Functions",
    "function_signature": "FunctionSignature",
    "notebook": "show",
    "operations": "empty_table",
    "plan": "agg condition updateby",
    "plan.aggregation": "Aggregation",
    "plan.expression": "Expression call col",
    "plan.multi_join": "MultiJoinInput multi_join",
    "plan.operable": "merge",
    "plan.update_by": "BadDataBehavior DeltaControl OperationControl UpdateByOperation",
    "publish": "StagingLimits StagingStatistics",
    "relay": "FollowedState FollowedStatistics",
    "relay.followed_table": "FollowedTable",
    "rowset": "RowSet RowSetShiftData",
    "server": (
        "CredentialFile Credentials Front Fsync Limits Principal ResultStatistics Right Role ServedTables Server "
        "ServerStatistics StreamGauges SubscriptionGauges TableStatistics TokenFile WebTokens"
    ),
    "subscription": "SubscriptionLimits",
    "wire.protocol": "PublishMode TableKind",
}
_HOMES: Final = {name: home for home, names in _NAMES.items() for name in names.split()}


def _derive(operation: Any, inputs: Sequence[Any], allowance: Allowance) -> Any:
    """Compute the result of an operation. Its code is loaded on first use."""
    from barrage_server.operations import derive

    return derive(operation, inputs, time_ns, allowance)


derive_with(_derive)


def _show(shown: Any, **options: Any) -> Any:
    """Make the widget of ``shown`` in a notebook. Its code is loaded on first use."""
    from barrage_server.notebook.widget_of import widget_of

    return widget_of(shown, **options)


show_with(_show)


def __getattr__(name: str) -> Any:
    """Load a public name from its room on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
