"""Python values are stored as they are, or refused."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import SchemaMismatchError

NOW = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
ZONED = NOW.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
INT64, DAY = pa.int64(), dt.date(2024, 1, 2)


REFUSED: list[tuple[Any, pa.DataType]] = [
    ([1.5], INT64),
    ([1, 1.5], INT64),
    ([Decimal("1.5")], INT64),
    (np.array([1.5]), INT64),
    (np.array([1.5], object), INT64),
    (pd.Series([1.5, None], dtype=object), INT64),
    ((value for value in [1.5]), INT64),
    ([np.float32(2.5)], pa.int8()),
    ([True], INT64),
    ([[1.5]], pa.list_(INT64)),
    ([np.array([1.5])], pa.list_(INT64)),
    ([{"a": 1.5}], pa.struct([("a", INT64)])),
    ([(1.5,)], pa.struct([("a", INT64)])),
    ([{"a": 1, "lost": 2}], pa.struct([("a", INT64)])),
    ([[("k", 1.5)]], pa.map_(pa.string(), INT64)),
    ([{"k": 1.5}], pa.map_(pa.string(), INT64)),
    ([1], pa.bool_()),
    (np.array([0, 2]), pa.bool_()),
    ([b"x"], pa.string()),
    (["x"], pa.binary()),
    (["xy"], pa.binary(2)),
    (np.array(["a"]), pa.binary()),
    ([1e300], pa.float32()),
    ([100_000], pa.float16()),
    (np.array([1e300]), pa.float32()),
    ([NOW], pa.timestamp("s")),
    ([NOW], pa.timestamp("ms", "UTC")),
    ([NOW], pa.date32()),
    ([NOW], pa.date64()),
    (np.array([NOW], "M8[us]"), pa.date32()),
    (np.array([NOW], "M8[us]"), INT64),
    (pd.Series([NOW]), pa.timestamp("s")),
    (pd.Series([NOW]), pa.date32()),
    ([pd.Timestamp(1_700_000_000_123_456_789)], pa.timestamp("us")),
    ([ZONED], pa.timestamp("us")),
    ([NOW.time()], pa.time32("ms")),
    ([dt.timedelta(microseconds=1_500_001)], pa.duration("s")),
    ([pd.Timedelta(1)], pa.duration("us")),
    ([5.5], pa.timestamp("s")),
    ([5.5], pa.duration("s")),
    ([Decimal("1.234")], pa.decimal128(5, 2)),
    ([1.5], pa.decimal128(5, 2)),
    ([300], pa.int8()),
    ([-1], pa.uint8()),
    ([1 << 63], INT64),
    (["\ud800"], pa.string()),
    (5, pa.string()),
    ([float("nan")], INT64),
    ([object()], INT64),
]
TAKEN: list[tuple[Any, pa.DataType, list[Any]]] = [
    ([1, None], INT64, [1, None]),
    ([1.0, 2.0], INT64, [1, 2]),
    (np.array([1.0]), INT64, [1]),
    (pd.Series([1.0, None]), INT64, [1, None]),
    (np.array([1, 2], np.int8), INT64, [1, 2]),
    (range(3), INT64, [0, 1, 2]),
    ([1, 2.5], pa.float64(), [1.0, 2.5]),
    ([0.1], pa.float32(), [0.10000000149011612]),
    ([float("inf")], pa.float32(), [float("inf")]),
    (np.array([True, False]), pa.bool_(), [True, False]),
    (pd.Series(["a", None]), pa.string(), ["a", None]),
    ([bytearray(b"x")], pa.binary(), [b"x"]),
    ([5], pa.timestamp("s"), [dt.datetime(1970, 1, 1, 0, 0, 5)]),
    ([5], pa.date32(), [dt.date(1970, 1, 6)]),
    ([NOW], pa.timestamp("us"), [NOW]),
    ([NOW.replace(microsecond=0)], pa.timestamp("s"), [NOW.replace(microsecond=0)]),
    ([NOW], pa.timestamp("us", "UTC"), [NOW.replace(tzinfo=dt.UTC)]),
    ([ZONED], pa.timestamp("us", "UTC"), [ZONED]),
    ([DAY], pa.date32(), [DAY]),
    ([NOW.time()], pa.time64("us"), [NOW.time()]),
    ([dt.timedelta(seconds=2)], pa.duration("s"), [dt.timedelta(seconds=2)]),
    ([1, Decimal("1.5")], pa.decimal128(5, 2), [Decimal("1.00"), Decimal("1.50")]),
    ([{"a": 1}, {}, None], pa.struct([("a", INT64)]), [{"a": 1}, {"a": None}, None]),
    ([(1,)], pa.struct([("a", INT64)]), [{"a": 1}]),
    ([{"k": 1}, [("k", 2)]], pa.map_(pa.string(), INT64), [[("k", 1)], [("k", 2)]]),
    ([[1, None], np.array([2])], pa.list_(INT64), [[1, None], [2]]),
    ([uuid.UUID(int=7)], pa.uuid(), [uuid.UUID(int=7)]),
    ([b"x" * 16], pa.uuid(), [uuid.UUID(bytes=b"x" * 16)]),
]


def case_name(value: object) -> str:
    return str(value).split(" at 0x")[0][:40]


def appended(values: Any, data_type: pa.DataType) -> list[Any]:
    table = AppendTable(UpdateGraph(), "t", pa.schema([("x", data_type)]))
    table.append({"x": values})
    found: list[Any] = table.to_arrow().column("x").to_pylist()
    return found


@pytest.mark.parametrize(("values", "data_type"), REFUSED, ids=case_name)
def test_what_would_lose_something_is_refused(values: Any, data_type: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError):
        appended(values, data_type)


@pytest.mark.parametrize(("values", "data_type", "stored"), TAKEN, ids=case_name)
def test_what_loses_nothing_is_taken(values: Any, data_type: pa.DataType, stored: list[Any]) -> None:
    assert appended(values, data_type) == stored


def test_nanoseconds_as_numbers_need_no_pandas() -> None:
    """pyarrow makes Python's values of them by way of pandas only, which is not always there."""
    code = (
        "import importlib.abc, sys\n"
        "class Missing(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.partition('.')[0] == 'pandas': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import pyarrow as pa\n"
        "from barrage_server.engine.python_values import array_of\n"
        "for kind in (pa.timestamp('ns'), pa.timestamp('ns', 'UTC'), pa.time64('ns'), pa.duration('ns')):\n"
        "    assert array_of([1, None, 3], kind).cast(pa.int64()).to_pylist() == [1, None, 3]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
