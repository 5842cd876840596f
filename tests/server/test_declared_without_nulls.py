"""Columns and nested fields that are declared without nulls are read in every way that tables can be read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs


def no_nulls(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


CASES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [1, 2]),
    "string": (pa.string(), ["a", "b"]),
    "struct": (pa.struct([no_nulls("a", pa.int64())]), [{"a": 1}, {"a": 2}]),
    "list": (pa.list_(no_nulls("item", pa.int64())), [[1], [2, 3]]),
    "large_list": (pa.large_list(no_nulls("item", pa.string())), [["a"], []]),
    "fixed_size_list": (pa.list_(no_nulls("item", pa.int32()), 2), [[1, 2], [3, 4]]),
    "map": (pa.map_(pa.string(), no_nulls("value", pa.int64())), [[("a", 1)], []]),
    "deep": (
        pa.list_(no_nulls("item", pa.struct([no_nulls("x", pa.list_(no_nulls("item", pa.float64())))]))),
        [[{"x": [1.0]}], []],
    ),
}


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_they_are_read_by_download_snapshot_and_subscription(kind: str, front: str) -> None:
    with bs.Server(deephaven_port=0, front=front) as server:
        assert server.deephaven_uri is not None
        for name, (data_type, values) in CASES.items():
            rows = pa.table(
                [pa.array([1, 2], pa.int64()), pa.array(values, data_type)],
                schema=pa.schema([no_nulls("k", pa.int64()), no_nulls("v", data_type)]),
            )
            if kind == "append":
                server.append_table(name, rows.schema).append(rows)
            else:
                server.keyed_table(name, rows.schema, key=["k"]).upsert(rows)
        for uri in (server.uri, server.deephaven_uri):
            with bs.connect(uri) as client, fl.FlightClient(uri.replace("dh+plain", "grpc")) as plain:
                for name, (_, values) in CASES.items():
                    assert client.snapshot(name).column("v").to_pylist() == values
                    assert client.snapshot(name, viewport=range(1)).column("v").to_pylist() == values[:1]
                    for viewport in (None, range(1, 9)):
                        with client.subscribe(name, viewport=viewport) as live:
                            shown = live.to_arrow().column("v").to_pylist()
                            assert shown == (values if viewport is None else values[1:])
                    assert plain.do_get(fl.Ticket(b"s/" + name.encode())).read_all().column("v").to_pylist() == values
