"""The smallest and largest values of each type, where rows never leave, against those of Python."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from barrage_server.engine import BlinkTable, UpdateGraph
from barrage_server.operations.aggregations import agg_by
from barrage_server.plan import aggregation as agg

_DAY = dt.date(2026, 2, 3)
_INSTANT = dt.datetime(2026, 2, 3, 4, 5, 6, tzinfo=ZoneInfo("UTC"))
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -1, 0, 127],
    pa.uint8(): [0, 1, 127, 128, 255],
    pa.int16(): [-(1 << 15), 0, 5],
    pa.uint16(): [0, 1 << 15, 5],
    pa.int32(): [-(1 << 31), 0, (1 << 31) - 1],
    pa.uint32(): [0, 1 << 31, 5],
    pa.int64(): [-(1 << 63), 0, (1 << 63) - 1],
    pa.uint64(): [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
    pa.float16(): [-1.5, 0.0, 2.5, math.inf, math.nan],
    pa.float32(): [-1.5, -0.0, 2.5, -math.inf, math.nan],
    pa.float64(): [-1e308, -0.0, 5e-324, math.inf, -math.inf, math.nan],
    pa.date32(): [_DAY, _DAY - dt.timedelta(40_000), _DAY + dt.timedelta(3)],
    pa.timestamp("us", "UTC"): [_INSTANT, _INSTANT - dt.timedelta(40_000), _INSTANT + dt.timedelta(3)],
    pa.duration("ms"): [dt.timedelta(-3), dt.timedelta(0), dt.timedelta(3)],
    pa.time32("s"): [dt.time(0), dt.time(23, 59)],
    pa.string(): ["", "a", "B", "ä"],
    pa.bool_(): [False, True],
}


def best(values: list[Any], *, is_largest: bool) -> Any:
    """Null is left out, and NaN wins."""
    there = [value for value in values if value is not None]
    nans = [value for value in there if isinstance(value, float) and math.isnan(value)]
    if nans or not there:
        return nans[0] if nans else None
    return max(there) if is_largest else min(there)


@pytest.mark.parametrize("data_type", VALUES, ids=str)
def test_the_extremes_of_each_group_are_those_of_all_its_rows(data_type: pa.DataType) -> None:
    chance = random.Random(str(data_type))
    table = BlinkTable(UpdateGraph(), "t", pa.schema([("g", pa.int64()), ("v", data_type)]))
    made = agg_by([table], [agg.min_("low = v"), agg.max_("high = v")], ["g"])
    groups: dict[int, list[Any]] = {}
    for count in (1, 3, 0, 40, 2):
        keys = chance.choices(range(8), k=count)
        values = chance.choices([None, None, *VALUES[data_type]], k=count)
        table.append(pa.table({"g": pa.array(keys, pa.int64()), "v": pa.array(values, data_type)}))
        for key, value in zip(keys, values, strict=True):
            groups.setdefault(key, []).append(value)
        found = made.version.to_table().to_pylist()
        wanted = [
            {"g": key, "low": best(cells, is_largest=False), "high": best(cells, is_largest=True)}
            for key, cells in groups.items()
        ]
        assert repr(found) == repr(wanted)
