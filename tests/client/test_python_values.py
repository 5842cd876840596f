"""Python values that a client publishes are taken, and refused, as a table in the same process does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, UpdateGraph
from tests.engine.test_python_values import REFUSED, TAKEN, appended, case_name


@pytest.mark.parametrize(("values", "data_type", "stored"), TAKEN, ids=case_name)
def test_what_a_table_takes_a_client_sends(
    client: bs.Client, values: Any, data_type: pa.DataType, stored: list[Any]
) -> None:
    client.create_table("t", pa.schema([("x", data_type)]))
    assert client.append("t", {"x": values}) == len(stored)
    assert client.snapshot("t").column("x").to_pylist() == stored


@pytest.mark.parametrize(
    ("values", "data_type"), [case for case in REFUSED if not isinstance(case[0], Iterator)], ids=case_name
)
def test_what_a_table_refuses_a_client_refuses_in_the_same_words(
    client: bs.Client, values: Any, data_type: pa.DataType
) -> None:
    client.create_table("t", pa.schema([("x", data_type)]))
    with pytest.raises(bs.SchemaMismatchError) as embedded:
        appended(values, data_type)
    with pytest.raises(bs.SchemaMismatchError) as remote:
        client.append("t", {"x": values})
    assert str(remote.value) == str(embedded.value)
    assert client.table("t").size == 0


def test_every_verb_takes_python_values(client: bs.Client) -> None:
    client.create_table("t", {"k": "int32", "price": "float64"}, key="k")
    client.upsert("t", {"k": [1, 2], "price": [1, 2]})
    client.publish("t", {"k": [3], "price": [None]}, key="k")
    client.delete("t", {"k": [1]})
    assert client.snapshot("t").to_pylist() == [{"k": 2, "price": 2.0}, {"k": 3, "price": None}]
    client.replace("t", {"k": [], "price": []})
    assert client.table("t").size == 0


def test_a_table_that_is_made_anew_gets_the_types_that_it_has_now(client: bs.Client) -> None:
    for kind, stored in (("float64", 1.0), ("int8", 1), ("decimal128(5, 2)", 1)):
        client.create_table("t", {"x": kind})
        client.append("t", {"x": [1]})
        assert client.snapshot("t")["x"].to_pylist() == [stored]
        client.drop("t")
    client.append("t", {"x": [1]})
    assert client.snapshot("t").schema.field("x").type == pa.int64()


def test_columns_that_have_arrow_types_are_not_converted(client: bs.Client) -> None:
    client.create_table("t", {"x": "float64", "y": "float64"})
    with pytest.raises(bs.SchemaMismatchError, match="Expected values of type double, got int64"):
        client.append("t", {"x": pa.array([1]), "y": [1]})


def test_columns_that_do_not_fit_are_told_as_before(client: bs.Client) -> None:
    client.create_table("t", {"x": "float64"})
    table = AppendTable(UpdateGraph(), "t", {"x": "float64"})
    for rows in ({"y": [1]}, {"x": [1], "y": [1]}):
        with pytest.raises(bs.SchemaMismatchError) as embedded:
            table.append(rows)
        with pytest.raises(bs.SchemaMismatchError) as remote:
            client.append("t", rows)
        assert str(remote.value) == str(embedded.value)
