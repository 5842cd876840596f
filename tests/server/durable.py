"""Rows of durable tables, and what a server has of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import barrage_server as bs
from barrage_server.server.durability import Durability
from barrage_server.wire.commit_messages import CommitRequest, StageRequest

__all__ = ["SCHEMA", "commit", "durability_of", "rows", "state"]

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


def rows(*keys: int) -> dict[str, list[Any]]:
    """Rows with these keys."""
    return {"key": list(keys), "text": [f"row {key}" for key in keys]}


def state(server: bs.Server) -> dict[str, tuple[Any, Any]]:
    """Row keys and rows of each table."""
    return {table.name: (table.version.row_set, table.to_arrow()) for table in server.tables()}


def commit(server: bs.Server, batch: int) -> Any:
    """Commit a batch of one row to the table ``t``; the result."""
    server_state = server._server_state
    token = server_state.staging.open(StageRequest("query", "t", batch, attempt="a"), SCHEMA, server_state.clock())
    server_state.staging.add(token, pa.record_batch(rows(batch), SCHEMA), server_state.clock())
    server_state.staging.seal(token, 1, server_state.clock())
    request = CommitRequest("query", "t", batch, tokens=(token,), schema=SCHEMA)
    return server_state.committer.commit(request, now=server_state.wall_clock())


def durability_of(server: bs.Server) -> Durability:
    """The journal and checkpoints of a server. ``save`` makes a checkpoint now."""
    durability = server._server_state.durability
    assert durability is not None
    return durability
