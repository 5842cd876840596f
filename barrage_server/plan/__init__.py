"""What is computed from tables, as values: operations, conditions, and the methods that make them."""

from __future__ import annotations

from barrage_server.plan import aggregation as agg

__all__ = ["agg"]
