"""The works that compare engines: both compute from the same rows, and different results are an error."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import query_data as data
from benchmarks.names import DEEPHAVEN, OURS
from benchmarks.process import ProcessFailedError
from benchmarks.works.queries import check_equal


@pytest.mark.parametrize("name", ["wide", "small", "names", "trades", "quotes"])
def test_rows_depend_on_the_name_and_the_cycle_alone(name: str) -> None:
    for cycle in (0, 1, 2):
        once, again = data.ticking(name, 500, cycle), data.ticking(name, 500, cycle)
        assert all(np.array_equal(once[column], again[column]) for column in once)
    first, second = data.ticking(name, 500, 1), data.ticking(name, 500, 2)
    assert not all(np.array_equal(first[column], second[column]) for column in first)


def test_of_a_keyed_row_only_the_value_changes() -> None:
    before, after = data.ticking("wide", 500, 0), data.ticking("wide", 500, 3)
    for column in ("part", "item"):
        assert np.array_equal(before[column][after["id"]], after[column])
    assert len(np.unique(after["id"])) == len(after["id"])


def test_appended_rows_go_on_in_time() -> None:
    times = np.concatenate([data.ticking("trades", 500, cycle)["time"] for cycle in range(4)])
    assert np.array_equal(times, np.arange(len(times)) * 10)


def test_the_right_tables_have_the_keys_of_the_large_one() -> None:
    facts, names = data.facts(5000), data.names(5000)
    assert set(facts["item"]) <= set(names["item"])
    assert len(np.unique(names["item"])) == len(names["item"])
    assert len(data.quotes(5000)["bid"]) == 500


def test_a_checksum_depends_on_the_order_and_takes_nan_for_nothing() -> None:
    one = data.checksum({"a": np.array([1.0, 2.0])})
    assert one == [2.0, 5.0]
    assert data.checksum({"a": np.array([2.0, 1.0])}) != one
    assert data.checksum({"a": np.array([1.0, np.nan])}) == [2.0, 1.0]


def test_engines_with_different_results_are_an_error() -> None:
    check_equal({OURS: [2.0, 5.0]})
    check_equal({OURS: [2.0, 5.0], DEEPHAVEN: [2.0, 5.0 + 1e-12]})
    with pytest.raises(ProcessFailedError, match="Deephaven have different results"):
        check_equal({OURS: [2.0, 5.0], DEEPHAVEN: [2.0, 6.0]})
