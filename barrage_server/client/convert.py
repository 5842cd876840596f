"""Arrow tables as data frames of other libraries, when those are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from barrage_server.errors import DependencyError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["to_pandas", "to_polars"]


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


def _require(package: str, method: str) -> None:
    if find_spec(package) is None:
        raise DependencyError(f"{method}() needs {package}, which is not installed: pip install {package}")
