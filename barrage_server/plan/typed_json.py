"""JSON values of dataclasses, written and read by the types of their fields.

A dataclass is an object with its fields, without those that have their default. Where a field can hold dataclasses of
several classes, the object names its class by ``"kind"``: ``is_null`` for ``IsNull``. Tuples are lists, members of
enumerations are their texts. Values are checked strictly: nothing is converted but an integer to a number.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import sys
import types
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass
from enum import StrEnum
from functools import cache
from math import isfinite
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError, LimitError

__all__ = ["KIND", "MOST_DEPTH", "checked_text", "fields_of", "nearest", "object_of", "read", "write", "written_fields"]

KIND: Final = "kind"
"""The field of an object that names its class."""
MOST_DEPTH: Final = 160
"""Levels of lists and objects within each other. The conditions of a plan have two for each level of theirs."""
_INT64: Final = 1 << 63
_UNIONS: Final = (Union, types.UnionType)


@dataclass(frozen=True, slots=True)
class _Form:
    """The values that a type allows.

    Attributes:
        scalars: of ``str``, ``bool``, ``int``, ``float`` and ``NoneType``.
        enumeration: a class of texts; None: none.
        items: the type of the items of a list; None: no list.
        classes: dataclasses by their kind.

    """

    scalars: frozenset[type]
    enumeration: type[StrEnum] | None
    items: Any
    classes: dict[str, type]

    @property
    def text(self) -> str:
        """What fits, for the text of an error."""
        words = [word for kind, word in _WORDS.items() if kind in self.scalars]
        if float in self.scalars and int in self.scalars:
            words.remove(_WORDS[int])
        if self.enumeration is not None:
            words.append("one of " + ", ".join(f"'{member}'" for member in self.enumeration))
        if self.items is not None:
            words.append("a list")
        if len(self.classes) == 1:
            words.append("an object")
        elif self.classes:
            words.append(f"an object with '{KIND}'")
        return " or ".join(words)


_WORDS: Final = {
    str: "a string",
    bool: "true or false",
    int: "a 64-bit integer",
    float: "a finite number",
    types.NoneType: "null",
}


@cache
def _form(kind: Any) -> _Form:
    """The form of a type; TypeError for one that JSON has no form for here."""
    scalars: set[type] = set()
    enumeration: type[StrEnum] | None = None
    items: Any = None
    classes: dict[str, type] = {}
    for one in get_args(kind) if get_origin(kind) in _UNIONS else (kind,):
        if one in _WORDS:
            scalars.add(one)
        elif get_origin(one) is tuple and len(get_args(one)) == 2 and get_args(one)[1] is Ellipsis:
            items = get_args(one)[0]
        elif isinstance(one, type) and issubclass(one, StrEnum):
            enumeration = one
        elif isinstance(one, type) and (found := _dataclasses(one)):
            classes.update((_kind(name), name) for name in found)
        else:
            raise TypeError(f"{one!r} has no form as JSON.")
    return _Form(frozenset(scalars), enumeration, items, classes)


def _dataclasses(kind: type) -> list[type]:
    """A class and those derived from it, as far as they are dataclasses."""
    found = [kind] if dataclasses.is_dataclass(kind) else []
    derived: type
    for derived in kind.__subclasses__():
        found += _dataclasses(derived)
    # a dataclass with slots is a copy of the class that was written, which may still be around
    return [one for one in found if getattr(sys.modules.get(one.__module__), one.__name__, None) is one]


def _kind(kind: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def fields_of(kind: type) -> Mapping[str, tuple[Field[Any], Any]]:
    """The fields of a dataclass, and their types."""
    described: Any = kind
    return _fields(described)


@cache
def _fields(kind: Any) -> Mapping[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {field.name: (field, hints[field.name]) for field in dataclasses.fields(kind)}


def write(value: Any, kind: Any, place: str, depth: int = 0) -> Any:
    """The JSON value of ``value``, which a field of the type ``kind`` has.

    Raises:
        InvalidRequestError: it is not of that type; the text begins with ``place``.
        LimitError: it is nested too deep.

    """
    form = _form(kind)
    _check_depth(place, depth)
    if isinstance(value, tuple) and form.items is not None:
        return [write(item, form.items, f"{place}[{number}]", depth + 1) for number, item in enumerate(value)]
    if type(value) in form.classes.values():
        named = {KIND: _kind(type(value))} if len(form.classes) > 1 else {}
        return {**named, **written_fields(value, place, depth)}
    if form.enumeration is not None and isinstance(value, form.enumeration):
        return str(value)
    return _scalar(value, form, place)


def written_fields(value: Any, place: str, depth: int = 0) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, as JSON values. Raises what :func:`write` does."""
    found = {}
    for name, (field, kind) in fields_of(type(value)).items():
        given = getattr(value, name)
        if given != field.default or type(given) is not type(field.default):
            found[name] = write(given, kind, f"{place}.{name}", depth + 1)
    return found


def read(value: Any, kind: Any, place: str, depth: int = 0) -> Any:
    """The value of a field of the type ``kind`` whose JSON value is ``value``.

    Raises:
        InvalidRequestError: it does not fit; the text begins with ``place``.
        LimitError: it is nested too deep.

    """
    form = _form(kind)
    _check_depth(place, depth)
    if isinstance(value, list) and form.items is not None:
        return tuple(read(item, form.items, f"{place}[{number}]", depth + 1) for number, item in enumerate(value))
    if isinstance(value, dict) and form.classes:
        return object_of(_class(value, form, place), value, place, depth, (KIND,))
    if isinstance(value, str) and form.enumeration is not None and value in list(form.enumeration):
        return form.enumeration(value)
    return _scalar(value, form, place)


def object_of(kind: type, value: Mapping[str, Any], place: str, depth: int = 0, others: tuple[str, ...] = ()) -> Any:
    """The dataclass ``kind`` with the fields of an object, which has ``others`` beside them.

    Raises what :func:`read` does.
    """
    known = fields_of(kind)
    for name in value:
        if name not in known and name not in others:
            raise InvalidRequestError(f"{place} has an unknown field {shown(name)}. {nearest(name, known)}")
    found = {}
    for name, (field, field_kind) in known.items():
        if name in value:
            found[name] = read(value[name], field_kind, f"{place}.{name}", depth + 1)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise InvalidRequestError(f"{place}.{name} is missing; it must be {_form(field_kind).text}.")
    return kind(**found)


def _class(value: Mapping[str, Any], form: _Form, place: str) -> type:
    named = value.get(KIND)
    if named is None and len(form.classes) == 1:
        return next(iter(form.classes.values()))
    if not isinstance(named, str) or named not in form.classes:
        known = ", ".join(f"'{entry}'" for entry in form.classes)
        told = f"is {shown(named)}" if KIND in value else "is missing"
        raise InvalidRequestError(f"{place}.{KIND} {told}; it must be one of {known}.")
    return form.classes[named]


def _scalar(value: Any, form: _Form, place: str) -> Any:
    kind = next((one for one in (bool, str, int, float, types.NoneType) if isinstance(value, one)), None)
    if kind is int and -_INT64 <= value < _INT64:
        if int in form.scalars:
            return int(value)
        if float in form.scalars:
            return float(value)
    elif kind is float and kind in form.scalars and isfinite(value):
        return float(value)
    elif kind is str and kind in form.scalars and isinstance(value, str):
        return checked_text(str(value), place)
    elif kind in (bool, types.NoneType) and kind in form.scalars:
        return value
    raise InvalidRequestError(f"{place} must be {form.text}, not {shown(value)}.")


def checked_text(value: str, place: str) -> str:
    """``value``, if it is Unicode text; InvalidRequestError for half of a pair of surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"{place} has half of a pair of surrogates, which is no text.") from None
    return value


def _check_depth(place: str, depth: int) -> None:
    if depth > MOST_DEPTH:
        top = place.split(".", 1)[0]
        raise LimitError(f"{top} is nested too deep: {MOST_DEPTH} levels of lists and objects are the most.")


def nearest(name: str, known: Collection[str]) -> str:
    """A sentence that names the entry of ``known`` that is most like an unknown one, or all."""
    close = difflib.get_close_matches(name[:100], known, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(known) or 'none'}."
