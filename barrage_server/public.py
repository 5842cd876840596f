"""The decorator of public classes: their ``__module__`` is the package."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TypeVar, get_type_hints

__all__ = ["public"]

_Class = TypeVar("_Class", bound=type)


def public(kind: _Class) -> _Class:
    """Make the package the module of a class, in tracebacks, ``repr`` and pickles.

    Its name must be one of ``barrage_server.__all__``. Field types of a dataclass are resolved here, among the names of
    its own module, because libraries such as pydantic resolve them in the module that the class names.
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        kind.__annotations__ = {name: hints[name] for name in kind.__annotations__}
        for field in fields(kind):
            field.type = hints[field.name]
    kind.__module__ = "barrage_server"
    return kind
