"""Limits of formulas, operations and plans that no setting changes.

``docs/queries.md`` lists them. A text about one has its name in brackets, as texts about settings have theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "CONDITION_CANDIDATES",
    "CONDITION_DEPTH",
    "CONDITION_PARTS",
    "CONDITION_TEXT_CHARACTERS",
    "COPIED_BYTES",
    "FORMULA_CHARACTERS",
    "FORMULA_DEPTH",
    "FORMULA_PARTS",
    "FORMULA_STEPS",
    "FORMULA_TEXT_BYTES",
    "FUNCTION_TYPES",
    "JOIN_ROWS",
    "JSON_DEPTH",
    "LIST_ITEMS",
    "OPERATION_RESULTS",
    "PLAN_BYTES",
    "PLAN_INPUTS",
    "PLAN_OPERATIONS",
    "PLAN_VALUES",
    "RANGE_ITEMS",
    "ROW_KEY",
    "TEXT_BYTES",
    "TIME_TABLES",
    "TIME_TABLE_ROWS",
    "VIEW_DEPTH",
    "FixedLimit",
]


@dataclass(frozen=True, slots=True)
class FixedLimit:
    """A bound with the name that errors and the documentation give it.

    Attributes:
        name: in the form of the names of settings.
        most: the largest allowed value.

    """

    name: str
    most: int


FORMULA_CHARACTERS: Final = FixedLimit("formula_characters", 10_000)
FORMULA_PARTS: Final = FixedLimit("formula_parts", 1_000)
"""Operators, names and values."""
FORMULA_DEPTH: Final = FixedLimit("formula_depth", 64)
FORMULA_STEPS: Final = FixedLimit("formula_steps", 4_000)
"""Computations: a part of a formula may be several."""
FORMULA_TEXT_BYTES: Final = FixedLimit("formula_text_bytes", 128 << 20)
"""Bytes of text that a function may make for the rows of one evaluation."""
TEXT_BYTES: Final = FixedLimit("text_bytes", (1 << 31) - 1)
"""Bytes of text of one array, whose offsets have 32 bits."""
FUNCTION_TYPES: Final = FixedLimit("function_types", 243)
"""Types of arguments that a function is compiled for: those that five arguments can have."""

CONDITION_PARTS: Final = FixedLimit("condition_parts", 1_000)
CONDITION_DEPTH: Final = FixedLimit("condition_depth", 64)
CONDITION_CANDIDATES: Final = FixedLimit("condition_candidates", 100_000)
CONDITION_TEXT_CHARACTERS: Final = FixedLimit("condition_text_characters", 10_000)

PLAN_BYTES: Final = FixedLimit("plan_bytes", 1 << 20)
PLAN_OPERATIONS: Final = FixedLimit("plan_operations", 1_000)
PLAN_INPUTS: Final = FixedLimit("plan_inputs", 10_000)
PLAN_VALUES: Final = FixedLimit("plan_values", 100_000)
"""Strings, numbers, lists and objects."""
JSON_DEPTH: Final = FixedLimit("json_depth", 160)
"""Levels of nested lists and objects. A level of a plan's conditions takes two."""

OPERATION_RESULTS: Final = FixedLimit("operation_results", 10_000)
"""Formulas or aggregations of one operation."""
VIEW_DEPTH: Final = FixedLimit("view_depth", 64)
"""Views that a value may pass on its way from storage: each takes some frames of the stack."""
LIST_ITEMS: Final = FixedLimit("list_items", (1 << 31) - 1)
"""Values of the lists of one array, whose offsets have 32 bits."""
RANGE_ITEMS: Final = FixedLimit("range_items", 1 << 26)
"""Items of the lists of all columns that are read at once: half a GiB of numbers."""
JOIN_ROWS: Final = FixedLimit("join_rows", 1 << 31)
"""Rows of a join in which a row may have several matches."""
TIME_TABLES: Final = FixedLimit("time_tables", 500)
"""Time tables of clients, each of which costs every cycle."""
TIME_TABLE_ROWS: Final = FixedLimit("time_table_rows", 1 << 24)
"""Rows of a time table that are due when it is made."""
COPIED_BYTES: Final = FixedLimit("copied_bytes", 512 << 20)
"""Bytes of lists or texts that one read copies."""
ROW_KEY: Final = FixedLimit("row_key", (1 << 63) - 1)
