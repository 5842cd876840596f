"""The package's public names: complete, sorted, and loaded only when used."""

from __future__ import annotations

import subprocess
import sys

import barrage_server as bs
from barrage_server import client, errors


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert bs.__all__ == sorted(bs.__all__)
    for name in bs.__all__:
        assert getattr(bs, name) is not None
    assert set(bs.__all__) <= set(dir(bs))


def test_every_error_is_public() -> None:
    assert set(errors.__all__) <= set(bs.__all__)
    for name in errors.__all__:
        assert getattr(bs, name) is getattr(errors, name)


def test_the_client_room_lists_what_it_has() -> None:
    assert {name for name in client.__all__ if name != "KEEP"} <= set(bs.__all__)
    for name in client.__all__:
        assert getattr(client, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(bs, "nonsense")


def _loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = _loaded("import barrage_server")
    assert not {"pyarrow", "numpy", "pyroaring", "pyspark", "grpc"} & loaded


def test_a_client_needs_neither_spark_nor_a_server_nor_pandas() -> None:
    loaded = _loaded("import barrage_server\nbarrage_server.connect\nbarrage_server.LiveTable")
    assert not {"pyspark", "py4j", "grpc", "pandas", "polars", "barrage_server.server", "barrage_server.spark"} & loaded
