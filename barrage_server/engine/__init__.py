"""Tables that tick: cells in columns, versions for readers, the update graph."""

from barrage_server.engine.append import AppendTable, BlinkTable, RingTable
from barrage_server.engine.conform import ArrowStream, Rows
from barrage_server.engine.cycle_log import CycleLog, CycleNote
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.keyed import KeyedTable, ReplacedTable
from barrage_server.engine.operator import Change, Operator, Outcome
from barrage_server.engine.replica import ReplicaTable, ReplicaUpdate
from barrage_server.engine.standalone import StandaloneGraph
from barrage_server.engine.static import StaticTable
from barrage_server.engine.table import SourceTable, StoredTable, Table, TableListener
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import TableUpdate, UpdateNode, coalesce, coalesce_nodes
from barrage_server.engine.version import TableVersion

__all__ = [
    "AppendTable",
    "ArrowStream",
    "BlinkTable",
    "Change",
    "CycleLog",
    "CycleNote",
    "DerivedTable",
    "KeyedTable",
    "Operator",
    "Outcome",
    "ReplacedTable",
    "ReplicaTable",
    "ReplicaUpdate",
    "RingTable",
    "Rows",
    "SourceTable",
    "StandaloneGraph",
    "StaticTable",
    "StoredTable",
    "Table",
    "TableListener",
    "TableTraits",
    "TableUpdate",
    "TableVersion",
    "UpdateGraph",
    "UpdateNode",
    "coalesce",
    "coalesce_nodes",
]
