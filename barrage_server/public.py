"""The mark of a public class: it says that it lives where users find it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TypeVar, get_type_hints

__all__ = ["public"]

_Class = TypeVar("_Class", bound=type)


def public(kind: _Class) -> _Class:
    """Give a class the package as its module: in tracebacks, in ``repr``, and in what is pickled.

    Its name must be one of ``barrage_server.__all__``. The types of a dataclass's fields are looked up here, among the
    names of its own module: libraries that want them, such as pydantic, look in the module that a class names.
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        kind.__annotations__ = {name: hints[name] for name in kind.__annotations__}
        for field in fields(kind):
            field.type = hints[field.name]
    kind.__module__ = "barrage_server"
    return kind
