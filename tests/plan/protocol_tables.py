"""The tables of ``docs/protocol.md`` about the JSON of plans: ``python -m tests.plan.protocol_tables`` writes them."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from barrage_server.plan.condition import Condition, Operand
from barrage_server.plan.json_form import verbs
from barrage_server.plan.operation import Operation
from barrage_server.typed_json import fields_of

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
SCALARS: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    types.NoneType: "null",
}


def kind_of(kind: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def classes(kind: Any) -> Iterator[type]:
    """The classes of objects in values of a type, as far as they are dataclasses."""
    for one in parts(kind):
        if get_origin(one) is tuple:
            yield from classes(get_args(one)[0])
        elif one not in SCALARS and not issubclass(one, StrEnum):
            derived = one.__subclasses__()
            if not hasattr(one, "__dataclass_fields__") or (not fields_of(one) and derived):
                for other in derived:
                    yield from classes(other)
            else:
                yield one


def words(kind: Any) -> str:
    """A type in words."""
    found, left = [], list(parts(kind))
    for name, group in (("condition", Condition), ("operand", Operand)):
        if set(parts(group)) <= set(left):
            found.append(name)
            left = [one for one in left if one not in parts(group)]
    for one in left:
        if get_origin(one) is tuple:
            inner = words(get_args(one)[0])
            found.append(f"list of ({inner})" if " " in inner else f"list of {inner.removesuffix('s')}s")
        elif one in SCALARS:
            found.append(SCALARS[one])
        elif issubclass(one, StrEnum):
            found.append("one of " + ", ".join(f"`{member}`" for member in one))
        else:
            found.append(kind_of(one))
    return " or ".join(sorted(found, key=lambda word: word == "null"))


def field_words(field: Field[Any], kind: Any) -> str:
    if field.default is MISSING:
        return f"`{field.name}`: {words(kind)}"
    names = {"None": "null", "False": "false", "True": "true", "()": "[]"}
    default = "{}" if is_dataclass(field.default) else names.get(str(field.default), field.default)
    return f"`{field.name}`: {words(kind)}, {default} when left out"


def fields_text(kind: type) -> str:
    return "; ".join(field_words(field, of) for field, of in fields_of(kind).values()) or "–"


def inputs_text(kind: type[Operation]) -> str:
    least, most = kind.least_inputs, kind.most_inputs
    return f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"


def operation_lines() -> list[str]:
    return [f"| `{verb}` | {inputs_text(kind)} | {fields_text(kind)} |" for verb, kind in sorted(verbs().items())]


def object_lines() -> list[str]:
    """The objects within operations, and those within them."""
    found: dict[str, type] = {}
    waiting: list[Any] = list(verbs().values())
    while waiting:
        for _, kind in fields_of(waiting.pop()).values():
            for one in classes(kind):
                if kind_of(one) not in found:
                    found[kind_of(one)] = one
                    waiting.append(one)
    return [f"| `{name}` | {fields_text(kind)} |" for name, kind in sorted(found.items())]


def with_tables(page: str) -> str:
    """The page with its two tables as they have to be."""
    for heading, lines in (
        ("| verb | tables | fields |\n|---|---|---|\n", operation_lines()),
        ("| kind | fields |\n|---|---|\n", object_lines()),
    ):
        before, found, behind = page.partition(heading)
        assert found, f"{PAGE.name} has no table with the heading {heading}"
        rest = behind.partition("\n\n")[2]
        page = before + heading + "\n".join(lines) + "\n\n" + rest
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
