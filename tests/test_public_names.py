"""The package's public names: complete, found where they say they are, and loaded only when used."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pandas
import polars

import barrage_server as bs
from barrage_server import client, errors


def test_every_name_is_there_once() -> None:
    assert len(set(bs.__all__)) == len(bs.__all__)
    for name in bs.__all__:
        assert getattr(bs, name) is not None
    assert set(bs.__all__) <= set(dir(bs))


def test_every_error_is_public() -> None:
    assert set(errors.__all__) <= set(bs.__all__)
    for name in errors.__all__:
        assert getattr(bs, name) is getattr(errors, name)


def test_the_client_room_lists_what_it_has() -> None:
    assert set(client.__all__) <= set(bs.__all__)
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


COMMAND_LINE = {"typer", "rich", "prompt_toolkit", "pydantic", "pydantic_settings", "barrage_server.cli"}
ENGINES = {"pyspark", "py4j", "grpc", "pandas", "polars", "barrage_server.server"}


def test_a_client_needs_neither_spark_nor_a_server_nor_pandas_nor_the_command_line() -> None:
    loaded = _loaded("import barrage_server\nbarrage_server.connect\nbarrage_server.LiveTable")
    assert not {"barrage_server.spark", *ENGINES, *COMMAND_LINE} & loaded


def test_a_server_that_follows_none_needs_no_client() -> None:
    loaded = _loaded("import barrage_server\nbarrage_server.Server")
    assert not {"barrage_server.client", "grpc", "pandas", *COMMAND_LINE} & loaded


def test_an_executor_of_spark_needs_neither_its_driver_nor_the_command_line() -> None:
    """What a task is made of is imported where it runs."""
    loaded = _loaded("import barrage_server.spark.tasks, barrage_server.spark.worker")
    assert not (ENGINES | COMMAND_LINE) & loaded


def _classes() -> list[type]:
    return [value for name in bs.__all__ if inspect.isclass(value := getattr(bs, name))]


MODULES: list[Any] = [bs.agg, bs.condition, bs.updateby]
"""Modules that are public names. Their classes are found in them."""


def _classes_of_modules() -> list[type]:
    return [kind for module in MODULES for name in module.__all__ if inspect.isclass(kind := getattr(module, name))]


def test_public_classes_live_where_users_find_them() -> None:
    for kind in _classes():
        assert kind.__module__ == "barrage_server", kind
        assert getattr(bs, kind.__name__) is kind
        assert pickle.loads(pickle.dumps(kind)) is kind


def _types_in(hint: object) -> set[type]:
    """The classes of this package in an annotation."""
    parts = list(hint) if isinstance(hint, list) else list(get_args(hint))
    found = {entry for part in parts for entry in _types_in(part)}
    if isinstance(hint, type) and hint.__module__.partition(".")[0] == "barrage_server":
        found.add(hint)
    return found


# What the package makes and hands out; users do not call the constructors.
MADE = {
    bs.AsyncUpdates,
    bs.FollowedTable,
    bs.LiveTable,
    bs.Publication,
    bs.TableUpdate,
    bs.TableVersion,
    bs.Update,
    bs.UpdateGraph,
    bs.Updates,
}
# Tables and their graph have a side that faces the rooms above, not users.
INNER = {
    "apply",
    "apply_operations",
    "attach",
    "check_operations",
    "make_views",
    "detach",
    "fail",
    "function_of",
    "operate",
    "page_source",
    "rename",
    "restate",
    "retire",
    "stage",
    "versions",
    "views",
    "with_views",
}


def _signatures() -> Iterator[tuple[str, Callable[..., object]]]:
    for module in MODULES:
        for name in module.__all__:
            if inspect.isfunction(value := getattr(module, name)):
                yield f"{module.__name__}.{name}", value
    for name in bs.__all__:
        value = getattr(bs, name)
        if not inspect.isclass(value):
            if inspect.isfunction(value):
                yield name, value
            continue
        made = value in MADE or is_dataclass(value)  # fields are looked at below
        for attribute, member in inspect.getmembers_static(value):
            if attribute in INNER or (attribute.startswith("_") and (attribute != "__init__" or made)):
                continue
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(function) and function.__module__.startswith("barrage_server"):
                yield f"{name}.{attribute}", function


def test_what_public_methods_take_and_give_is_public() -> None:
    """A user can annotate, test for and make everything that the interface speaks of."""
    public = {*_classes(), *_classes_of_modules()}
    names = {"pd": pandas, "pl": polars, **{kind.__name__: kind for kind in public}}
    checked = 0
    for where, function in _signatures():
        module = vars(sys.modules[function.__module__])
        for hint in get_type_hints(function, {**names, **module}).values():
            hidden = _types_in(hint) - public
            assert not hidden, f"bs.{where} speaks of {hidden}"
            checked += 1
    assert checked > 300


def test_fields_of_public_values_are_public() -> None:
    public = {*_classes(), *_classes_of_modules()}
    for kind in filter(is_dataclass, public):
        for field in fields(kind):
            assert not _types_in(field.type) - public, f"{kind.__name__}.{field.name}"


def test_a_client_and_an_executor_load_no_tools_of_the_command_line() -> None:
    heavy = {"typer", "rich", "pydantic", "pydantic_settings", "prompt_toolkit", "pyspark.sql.session", "websockets"}
    client = "import barrage_server as bs\nfor name in bs.__all__: getattr(bs, name)"
    executor = "import barrage_server.spark.tasks, barrage_server.spark.worker"
    for code in (client, executor):
        assert not heavy & _loaded(code), code
