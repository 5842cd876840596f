"""Operations on tables as values, and the methods that make them."""

from __future__ import annotations

from barrage_server.plan import aggregation as agg
from barrage_server.plan import condition
from barrage_server.plan import update_by_functions as updateby

__all__ = ["agg", "condition", "updateby"]
