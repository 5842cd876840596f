"""Rows of other libraries as Arrow, and Arrow tables as data frames.

Rows come in through Arrow's PyCapsule interface (``__arrow_c_stream__``), which pandas 2.2, polars, DuckDB, pyarrow and
others offer: no data frame library is imported for that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barrage_server.arguments import class_with_article, shown
from barrage_server.engine.python_values import array_of
from barrage_server.errors import BarrageError, DependencyError, SchemaMismatchError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["arrow_column", "arrow_rows", "column_name", "is_rows", "to_pandas", "to_polars"]

# What pandas calls a column that is made of an index without a name: row numbers, and no data.
_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")
_PANDAS: Final = b"pandas"
_POLARS: Final = b"_PL_"


def is_rows(data: object) -> bool:
    """Whether :func:`arrow_rows` takes ``data``."""
    return not isinstance(data, type) and (
        isinstance(data, Mapping)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "__arrow_c_array__")
        or _is_old_pandas(data)
    )


def arrow_rows(
    data: Any, types: Mapping[str, pa.DataType] | None = None
) -> pa.Table | pa.RecordBatch | pa.RecordBatchReader:
    """The rows of ``data``, without a copy where its library allows.

    A reader stays one, and is read by the caller. Of a pandas frame, an index with a name is a column; one without a
    name is left out.

    Args:
        data: a pyarrow table, record batch or reader; a pandas or polars data frame, or anything else that offers Arrow
            streams; or a mapping of column names to values.
        types: of columns by name, for those of a mapping whose values have no Arrow type of their own.

    Raises:
        SchemaMismatchError: it holds no rows, or values that have no Arrow type.
    """
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return data
    try:
        if isinstance(data, Mapping):
            return _of_mapping(data, types or {})
        if is_rows(data):
            if hasattr(data, "__arrow_c_stream__"):
                return _plain_frame(pa.RecordBatchReader.from_stream(data).read_all())
            if hasattr(data, "__arrow_c_array__"):
                return pa.record_batch(data)
            return _plain_frame(pa.Table.from_pandas(data))
    except BarrageError:
        raise
    except Exception as error:  # conversions of other libraries raise what they like
        raise SchemaMismatchError(f"Cannot take rows from {class_with_article(data)}: {_said(error)}") from None
    hint = " Call collect() first." if callable(getattr(data, "collect", None)) else ""
    raise SchemaMismatchError(
        f"Rows must be a pyarrow RecordBatch or Table, a data frame, or a mapping of column names to values such as "
        f'{{"price": [1.5, 2.0]}}, not {type(data).__name__}.{hint}'
    )


def arrow_column(name: str, values: Any, data_type: pa.DataType | None = None) -> pa.Array | pa.ChunkedArray:
    """One column of a mapping as an Arrow array.

    Args:
        name: the column's name, for messages.
        values: the values.
        data_type: the type, for values without an Arrow type of their own; ``None`` to infer it.

    Raises:
        SchemaMismatchError: the values have no Arrow type, or another than ``data_type``.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes) or not (hasattr(values, "__len__") or hasattr(values, "__iter__")):
        raise SchemaMismatchError(f"Column '{name}' must be a list of values, not {type(values).__name__}.")
    try:
        try:
            return pa.array(values) if data_type is None else array_of(values, data_type)
        except (pa.ArrowTypeError, TypeError):
            if not hasattr(values, "__arrow_c_stream__"):
                raise
            return pa.chunked_array(values)  # a series that is no sequence
    except Exception as error:  # conversions of other libraries raise what they like
        takes = "" if data_type is None else f" takes {data_type}"
        raise SchemaMismatchError(f"Column '{name}'{takes}: {_said(error)}") from None


def _said(error: Exception) -> str:
    """The text of an error, with several arguments joined by semicolons."""
    return "; ".join(str(part).rstrip(".") for part in error.args) if len(error.args) > 1 else str(error)


def column_name(name: Any) -> str:
    """``name``, which must be a string; SchemaMismatchError otherwise."""
    if not isinstance(name, str):
        raise SchemaMismatchError(f"Column names are strings, not {shown(name)}.")
    return name


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """``table`` as a pandas data frame.

    Raises:
        DependencyError: pandas is not installed.
    """
    _require("pandas", "to_pandas")
    return table.to_pandas()


def to_polars(table: pa.Table) -> pl.DataFrame:
    """``table`` as a polars data frame, without a copy where polars allows.

    Raises:
        DependencyError: polars is not installed.
    """
    _require("polars", "to_polars")
    import polars

    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


def _of_mapping(data: Mapping[Any, Any], types: Mapping[str, pa.DataType]) -> pa.Table:
    columns = {column_name(name): arrow_column(name, values, types.get(name)) for name, values in data.items()}
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(column)}" for name, column in columns.items())
        raise SchemaMismatchError(f"All columns must have the same number of rows: {lengths}.")
    return pa.table(columns)


def _is_old_pandas(data: object) -> bool:
    """Whether ``data`` is a frame of a pandas that has no Arrow streams yet."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _plain_frame(table: pa.Table) -> pa.Table:
    """``table`` without unnamed indexes and metadata that its library added."""
    kept = [number for number, name in enumerate(table.schema.names) if not _UNNAMED_INDEX.fullmatch(name)]
    if len(kept) < table.num_columns:
        table = table.select(kept)
    fields = [field.with_metadata(_without(field.metadata)) for field in table.schema]
    return table.cast(pa.schema(fields, metadata=_without(table.schema.metadata)))


def _without(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    kept = {key: value for key, value in (metadata or {}).items() if key != _PANDAS and not key.startswith(_POLARS)}
    return kept or None


def _require(package: str, method: str) -> None:
    if find_spec(package) is None:
        raise DependencyError(f"{method}() needs {package}, which is not installed: pip install {package}")
