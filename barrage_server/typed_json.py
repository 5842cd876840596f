"""JSON values of dataclasses, written and read by the types of their fields.

A dataclass is an object with its fields. Where a field can hold dataclasses of several classes, the object names its
class by ``"kind"``: ``is_null`` for ``IsNull``. Tuples are lists, and members of enumerations are their texts. Reading
is strict: no value is converted, except an integer to a number. ``Annotated`` adds :class:`AtLeast` to integers and
:data:`MAY_BE_EMPTY` to strings.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import sys
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field
from enum import StrEnum
from functools import cache
from math import isfinite
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from barrage_server.arguments import shown
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError
from barrage_server.fixed_limits import JSON_DEPTH

__all__ = ["KIND", "MAY_BE_EMPTY", "REQUIRED", "AtLeast", "OwnForm", "TypedJson", "fields_of", "nearest"]

KIND: Final = "kind"
"""The field of an object that names its class."""
REQUIRED: Final[Mapping[str, bool]] = {"required": True}
"""Metadata of a field that must be present although it has a default in Python."""
MAY_BE_EMPTY: Final = object()
"""Note of ``Annotated``: the string may be empty, where others may not. Strings in lists always may."""
_INT64: Final = 1 << 63
_UNIONS: Final = (Union, types.UnionType)


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The least value of an integer. ``text`` begins the error for smaller ones."""

    minimum: int
    text: str


@dataclass(frozen=True, slots=True)
class OwnForm:
    """The form of a type that is neither a dataclass nor one of JSON: a string.

    Attributes:
        text: a description of the string, for the text of an error.
        write: makes the string.
        read: reads it; the second argument is the place, as the beginning of the text of an error.

    """

    text: str
    write: Callable[[Any], str]
    read: Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class _Form:
    """The values that a type allows.

    Attributes:
        scalars: of ``str``, ``bool``, ``int``, ``float`` and ``NoneType``.
        enumeration: a class of texts; None: none.
        items: the type of the items of a list; None: no list.
        classes: dataclasses by their kind.
        own: a type with a form of its own; None: none.
        notes: the notes of ``Annotated``.

    """

    scalars: frozenset[type]
    enumeration: type[StrEnum] | None
    items: Any
    classes: dict[str, type]
    own: type | None
    notes: tuple[Any, ...]


_WORDS: Final = {
    str: "a string",
    bool: "true or false",
    int: "a 64-bit integer",
    float: "a finite number",
    types.NoneType: "null",
}


def _parts(kind: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """The members of a union, and the notes of ``Annotated``."""
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        parts, others = _parts(inner)
        return parts, (*others, *notes)
    if get_origin(kind) not in _UNIONS:
        return [kind], ()
    found = [_parts(one) for one in get_args(kind)]
    return [part for parts, _ in found for part in parts], tuple(note for _, notes in found for note in notes)


@cache
def _form(kind: Any, owns: tuple[type, ...]) -> _Form:
    """The form of a type. ``owns``: types with forms of their own.

    Raises:
        TypeError: the type has no form as JSON.

    """
    scalars: set[type] = set()
    enumeration: type[StrEnum] | None = None
    items: Any = None
    classes: dict[str, type] = {}
    own: type | None = None
    parts, notes = _parts(kind)
    for one in parts:
        if one in _WORDS:
            scalars.add(one)
        elif one in owns:
            own = one
        elif get_origin(one) is tuple and len(get_args(one)) == 2 and get_args(one)[1] is Ellipsis:
            items = Annotated[get_args(one)[0], MAY_BE_EMPTY]
        elif isinstance(one, type) and issubclass(one, StrEnum):
            enumeration = one
        elif isinstance(one, type) and (found := _dataclasses(one)):
            classes.update((_kind(name), name) for name in found)
        else:
            raise TypeError(f"{one!r} has no form as JSON.")
    return _Form(frozenset(scalars), enumeration, items, classes, own, notes)


def _dataclasses(kind: type) -> list[type]:
    """The dataclasses among a class and its subclasses."""
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
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (field, hints[field.name]) for field in dataclasses.fields(kind)}


@dataclass(frozen=True, slots=True)
class TypedJson:
    """How dataclasses are written and read.

    Attributes:
        error: the class of errors about values that do not fit.
        with_defaults: whether fields with their default are written. A default of None never is.
        null_is_absent: whether null is the same as no field.
        empty_texts: whether strings may be empty.
        broken_texts: whether strings may have half of a pair of surrogates, which their reader must refuse.
        own: types with forms of their own.

    """

    error: type[BarrageError] = InvalidRequestError
    with_defaults: bool = False
    null_is_absent: bool = False
    empty_texts: bool = True
    broken_texts: bool = False
    own: Mapping[type, OwnForm] = field(default_factory=dict)
    _owns: tuple[type, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_owns", tuple(self.own))

    def write(self, value: Any, kind: Any, place: str, depth: int = 0) -> Any:
        """The JSON value of ``value``, which a field of the type ``kind`` has.

        Raises:
            BarrageError: of the class ``error``: it is not of that type; the text begins with ``place``.
            LimitError: it is nested too deep.

        """
        form = self._form(kind)
        _check_depth(place, depth)
        if isinstance(value, tuple) and form.items is not None:
            return [self.write(item, form.items, f"{place}[{at}]", depth + 1) for at, item in enumerate(value)]
        if type(value) in form.classes.values():
            named = {KIND: _kind(type(value))} if len(form.classes) > 1 else {}
            return {**named, **self.written_fields(value, place, depth)}
        if form.enumeration is not None and isinstance(value, form.enumeration):
            return str(value)
        if form.own is not None and isinstance(value, form.own):
            return self.own[form.own].write(value)
        return self._scalar(value, form, place, is_hidden=False)

    def written_fields(self, value: Any, place: str, depth: int = 0) -> dict[str, Any]:
        """The fields of a dataclass as JSON values. Raises the errors of :meth:`write`."""
        found = {}
        for name, (entry, kind) in fields_of(type(value)).items():
            given = getattr(value, name)
            if given is not None if self.with_defaults else not _is_default(given, entry):
                found[name] = self.write(given, kind, _within(place, name), depth + 1)
        return found

    def read(self, value: Any, kind: Any, place: str, depth: int = 0, *, is_hidden: bool = False) -> Any:
        """The value of a field of the type ``kind`` whose JSON value is ``value``.

        Args:
            value: of JSON.
            kind: the type.
            place: the place of the value, for the text of an error.
            depth: how many lists and objects it is within.
            is_hidden: whether no error shows the value.

        Raises:
            BarrageError: of the class ``error``: it does not fit; the text begins with ``place``.
            LimitError: it is nested too deep.

        """
        form = self._form(kind)
        _check_depth(place, depth)
        if isinstance(value, list) and form.items is not None:
            return tuple(
                self.read(item, form.items, f"{place}[{at}]", depth + 1, is_hidden=is_hidden)
                for at, item in enumerate(value)
            )
        if isinstance(value, dict) and form.classes:
            return self.object_of(self._class(value, form, place), value, place, depth, (KIND,))
        if isinstance(value, str) and value and form.own is not None:
            return self.own[form.own].read(value, place)
        if isinstance(value, str) and form.enumeration is not None and value in list(form.enumeration):
            return form.enumeration(value)
        found = self._scalar(value, form, place, is_hidden=is_hidden)
        if not form.notes and (found or self.empty_texts):
            return found
        if found == "" and not self._takes_empty(form):
            raise self._unfit(value, form, place, is_hidden=is_hidden)
        for note in form.notes:
            if isinstance(note, AtLeast) and isinstance(found, int) and found < note.minimum:
                raise self.error(f"{note.text}, not {found}.")
        return found

    def object_of(
        self,
        kind: type,
        value: Mapping[str, Any],
        place: str,
        depth: int = 0,
        others: tuple[str, ...] = (),
        *,
        refuse_others: bool = True,
    ) -> Any:
        """The dataclass ``kind`` with the fields of an object.

        ``others``: fields that the object may have besides. ``refuse_others``: whether further fields are refused, and
        not ignored. Raises the errors of :meth:`read`.
        """
        known = fields_of(kind)
        if refuse_others and (more := value.keys() - known.keys()) and not more.issubset(others):
            self.refuse_others(value, (*known, *others), place, known)
        found = {}
        for name, (entry, field_kind) in known.items():
            given = value.get(name, MISSING)
            if given is MISSING or (given is None and self.null_is_absent):
                if "required" in entry.metadata or (entry.default is MISSING and entry.default_factory is MISSING):
                    text = self._text(self._form(field_kind))
                    raise self.error(f"{_within(place, name)} is missing; it must be {text}.")
            else:
                found[name] = self.read(given, field_kind, _within(place, name), depth + 1, is_hidden=not entry.repr)
        return kind(**found)

    def refuse_others(
        self, value: Mapping[str, Any], allowed: Collection[str], place: str, known: Collection[str] | None = None
    ) -> None:
        """Refuse a field that is not ``allowed``, with a suggestion from ``known``."""
        for name in value:
            if name not in allowed:
                told = nearest(name, allowed if known is None else known)
                raise self.error(f"{place.rstrip(': ')} has an unknown field {shown(name)}. {told}")

    def checked_text(self, value: str, place: str) -> str:
        """``value``, if it is Unicode text; an error for half of a pair of surrogates."""
        try:
            if not value.isascii():
                value.encode()
        except UnicodeEncodeError:
            raise self.error(f"{place} has half of a pair of surrogates, which is no text.") from None
        return value

    def _form(self, kind: Any) -> _Form:
        return _form(kind, self._owns)

    def _class(self, value: Mapping[str, Any], form: _Form, place: str) -> type:
        named = value.get(KIND)
        if len(form.classes) == 1:
            (only,) = form.classes.values()
            if named is None or KIND in fields_of(only):
                return only
        if not isinstance(named, str) or named not in form.classes:
            known = ", ".join(f"'{entry}'" for entry in form.classes)
            told = f"is {shown(named)}" if KIND in value else "is missing"
            raise self.error(f"{place}.{KIND} {told}; it must be one of {known}.")
        return form.classes[named]

    def _scalar(self, value: Any, form: _Form, place: str, *, is_hidden: bool) -> Any:
        kind: type | None = type(value)
        if kind not in _WORDS:
            kind = next((one for one in (bool, str, int, float) if isinstance(value, one)), None)
        if kind is int and -_INT64 <= value < _INT64:
            if int in form.scalars:
                return int(value)
            if float in form.scalars:
                return float(value)
        elif kind is float and kind in form.scalars and isfinite(value):
            return float(value)
        elif kind is str and kind in form.scalars:
            return str(value) if self.broken_texts else self.checked_text(str(value), place)
        elif kind in (bool, types.NoneType) and kind in form.scalars:
            return value
        raise self._unfit(value, form, place, is_hidden=is_hidden)

    def _unfit(self, value: Any, form: _Form, place: str, *, is_hidden: bool) -> BarrageError:
        return self.error(f"{place} must be {self._text(form)}{'' if is_hidden else f', not {shown(value)}'}.")

    def _takes_empty(self, form: _Form) -> bool:
        return self.empty_texts or MAY_BE_EMPTY in form.notes

    def _text(self, form: _Form) -> str:
        """The allowed values, for the text of an error."""
        words = [word for kind, word in _WORDS.items() if kind in form.scalars and kind is not types.NoneType]
        if str in form.scalars and not self._takes_empty(form):
            words[0] = "a string that is not empty"
        if float in form.scalars and int in form.scalars:
            words.remove(_WORDS[int])
        if form.enumeration is not None:
            words.append("one of " + ", ".join(f"'{member}'" for member in form.enumeration))
        if form.items is not None:
            words.append("a list")
        if form.own is not None:
            words.append(self.own[form.own].text)
        if len(form.classes) == 1:
            words.append("an object")
        elif form.classes:
            words.append(f"an object with '{KIND}'")
        if types.NoneType in form.scalars:
            words.append(_WORDS[types.NoneType])
        return " or ".join(words)


def _is_default(value: Any, entry: Field[Any]) -> bool:
    return bool(value == entry.default) and type(value) is type(entry.default)


def _within(place: str, name: str) -> str:
    """The place of a field. A place that ends with a space is the name of a message."""
    return f"{place}{name}" if place.endswith(" ") else f"{place}.{name}"


def _check_depth(place: str, depth: int) -> None:
    if depth > JSON_DEPTH.most:
        top = place.split(".", 1)[0]
        raise LimitError(
            f"{top} is nested too deep: {JSON_DEPTH.most} levels of lists and objects are the most ({JSON_DEPTH.name})."
        )


def nearest(name: str, known: Collection[str]) -> str:
    """A sentence that suggests the entry of ``known`` closest to ``name``, or all."""
    close = difflib.get_close_matches(name[:100], known, n=1)
    return f"Did you mean '{close[0]}'?" if close else f"There are: {', '.join(known) or 'none'}."
