"""Tables take rows from any library that offers Arrow streams, without importing one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, KeyedTable, ReplacedTable, Rows, Table, UpdateGraph
from barrage_server.engine.frames import arrow_rows
from barrage_server.errors import SchemaMismatchError

SCHEMA = {"sym": "string", "price": "float64"}
COLUMNS = {"sym": ["a", "b"], "price": [1.5, None]}


class _OnlyStream:
    """A library of which nothing is known but the Arrow stream that it offers."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class _OnlyArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


ROWS: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, sorted": lambda: pd.DataFrame({"price": [None, 1.5], "sym": ["b", "a"]}).sort_values("sym"),
    "pandas, indexed": lambda: pd.DataFrame(COLUMNS).set_index("sym"),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype({"sym": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("sym").cast(pl.Categorical)),
    "pyarrow": lambda: pa.table(COLUMNS),
    "a record batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "a reader": lambda: pa.table(COLUMNS).to_reader(),
    "some stream": lambda: _OnlyStream(pa.table(COLUMNS)),
    "some array": lambda: _OnlyArray(pa.RecordBatch.from_pydict(COLUMNS)),
    "lists": lambda: COLUMNS,
    "numpy": lambda: {"sym": np.array(["a", "b"], dtype=object), "price": pa.array([1.5, None])},
    "series of pandas": lambda: dict(pd.DataFrame(COLUMNS)),
    "series of polars": lambda: pl.DataFrame(COLUMNS).to_dict(),
    "another table": lambda: _filled(AppendTable(UpdateGraph(), "other", SCHEMA), COLUMNS),
}


def _filled(table: AppendTable, rows: Rows) -> Table:
    table.append(rows)
    return table


@pytest.mark.parametrize("name", ROWS)
def test_every_operation_takes_them(name: str) -> None:
    rows = ROWS[name]
    appended = AppendTable(UpdateGraph(), "t", SCHEMA)
    appended.append(rows())
    keyed = KeyedTable(UpdateGraph(), "t", SCHEMA, "sym")
    keyed.upsert({"sym": ["b", "c"], "price": [7.0, 8.0]})
    keyed.upsert(rows())
    replaced = ReplacedTable(UpdateGraph(), "t", SCHEMA)
    replaced.replace(rows())
    wanted = pa.table(COLUMNS).to_pylist()
    assert appended.to_arrow().to_pylist() == wanted
    assert replaced.to_arrow().to_pylist() == wanted
    assert sorted(keyed.to_arrow()["sym"].to_pylist()) == ["a", "b", "c"]
    keyed.replace(rows())
    assert sorted(keyed.to_arrow().to_pylist(), key=lambda row: str(row["sym"])) == wanted
    keyed.delete(rows())
    assert keyed.size == 0


@pytest.mark.parametrize("name", ROWS)
def test_a_client_takes_the_same(name: str) -> None:
    found = arrow_rows(ROWS[name]())
    table = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
    assert sorted(table.schema.names) == ["price", "sym"]
    assert not table.schema.metadata, "notes of the frame's library stay there"
    assert [row["sym"] for row in table.to_pylist()] == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (None, "mapping of column names"),
        (3, "not int"),
        ("sym", "not str"),
        ([{"sym": "a", "price": 1.0}], "not list"),
        (pl.DataFrame(COLUMNS).lazy(), r"collect\(\)"),
        (pd.DataFrame, "not type"),
        (pd.DataFrame({"sym": ["a", 1], "price": [1.0, 2.0]}), "sym"),
        (pd.DataFrame({"sym": ["a"], "price": ["x"]}), "price"),
        ({"sym": ["a"], "price": 3.0}, "price"),
        ({"sym": "ab", "price": [1.0, 2.0]}, "sym"),
        ({"sym": ["a"], "price": [object()]}, "price"),
        ({3: ["a"], "price": [1.0]}, "3"),
        (pl.DataFrame({"sym": ["a"], "price": [1]}), "int64"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_no_fitting_rows_is_refused_in_words(rows: Any, text: str) -> None:
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    with pytest.raises(SchemaMismatchError, match=text):
        table.append(rows)
    assert table.size == 0


def test_what_a_reader_raises_comes_through_and_nothing_is_added() -> None:
    def batches() -> Any:
        yield pa.RecordBatch.from_pydict(COLUMNS)
        raise RuntimeError("the disk is gone")

    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        table.append(pa.RecordBatchReader.from_batches(pa.table(COLUMNS).schema, batches()))
    assert table.size == 0


def test_other_libraries_read_a_table() -> None:
    table = _filled(AppendTable(UpdateGraph(), "t", SCHEMA), COLUMNS)
    assert pa.table(table).to_pydict() == COLUMNS
    assert pl.DataFrame(table).rows() == [("a", 1.5), ("b", None)]
    assert table.to_polars().rows() == [("a", 1.5), ("b", None)]
    assert table.to_pandas()["sym"].tolist() == ["a", "b"]
    assert table.head(1).to_arrow().to_pylist() == [{"sym": "a", "price": 1.5}]


def test_no_frame_library_is_imported_for_another_one() -> None:
    script = """
import sys
import pyarrow as pa
from barrage_server.engine import AppendTable, UpdateGraph
class Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table({"a": pa.array(range(3), pa.int64())}).__arrow_c_stream__(requested_schema)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "polars"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
table = AppendTable(UpdateGraph(), "t", {"a": "int64"})
table.append(Stream())
print(table.size)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "3\n", done.stderr
