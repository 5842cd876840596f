"""Built-in functions, and the choice among their signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from barrage_server.formula.arithmetic import Kernel, convert
from barrage_server.formula.kinds import INTEGERS, NULL, NUMBERS, ZONE, Kind
from barrage_server.formula.vectors import constant

__all__ = [
    "ANY",
    "INTEGER",
    "LIST",
    "NUMBER",
    "NUMBER_LIST",
    "Builtin",
    "Family",
    "Fixed",
    "Match",
    "Parameter",
    "Signature",
]


@dataclass(frozen=True, slots=True)
class Family:
    """Several kinds that a parameter takes as they are."""

    name: str
    takes: Callable[[Kind], bool]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A parameter whose argument is a literal; the kernel gets its Python value."""

    kind: Kind


Parameter: TypeAlias = Kind | Family | Fixed

NUMBER: Final = Family("number", lambda kind: kind in NUMBERS)
INTEGER: Final = Family("integer", lambda kind: kind in INTEGERS)
ANY: Final = Family("any", lambda kind: kind is not ZONE)
LIST: Final = Family("list", lambda kind: kind.item is not None)
NUMBER_LIST: Final = Family("list of numbers", lambda kind: kind.item is not None and kind.item in NUMBERS)


@dataclass(frozen=True, slots=True)
class Match:
    """A signature that fits a call, bound to the kinds of the arguments.

    Attributes:
        kind: the kind of the result.
        kernel: computes the result.
        converters: the kernel that converts each argument, or ``None``.
        fixed: which arguments are passed as the Python values of literals.

    """

    kind: Kind
    kernel: Kernel
    converters: tuple[Kernel | None, ...]
    fixed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters and a result.

    Attributes:
        parameters: one per argument; the last one repeats if ``repeats``.
        result: the kind of the result, or a function of the arguments' kinds that raises ``TypeError`` for others.
        kernel: computes it; with ``binds``, makes the kernel from the arguments' kinds.
        check: looks at the values of fixed parameters at once, and raises ``ValueError``.
        check_literals: the same, for the values of all arguments where these are literals.

    """

    parameters: tuple[Parameter, ...]
    result: Kind | Callable[[tuple[Kind, ...]], Kind]
    kernel: Callable[..., Any]
    binds: bool = False
    repeats: bool = False
    check: Callable[..., None] | None = None
    check_literals: Callable[..., None] | None = None

    def match(self, arguments: Sequence[tuple[Kind, bool, Any]]) -> Match | None:
        """Bind the signature to arguments; ``None`` if it does not fit.

        Args:
            arguments: kind, whether it is a literal, and the literal's value.

        """
        wanted = self.parameters
        if self.repeats and len(arguments) >= len(wanted):
            wanted = (*wanted, *[wanted[-1]] * (len(arguments) - len(wanted)))
        if len(arguments) != len(wanted):
            return None
        kinds: list[Kind] = []
        converters: list[Kernel | None] = []
        for parameter, (kind, is_literal, _) in zip(wanted, arguments, strict=True):
            taken = _taken(parameter, kind, is_literal)
            if taken is None:
                return None
            kinds.append(taken[0])
            converters.append(taken[1])
        try:
            result = self.result if isinstance(self.result, Kind) else self.result(tuple(kinds))
        except TypeError:
            return None
        fixed = tuple(isinstance(parameter, Fixed) for parameter in wanted)
        if self.check is not None:
            self.check(*(value for (_, _, value), is_fixed in zip(arguments, fixed, strict=True) if is_fixed))
        if self.check_literals is not None and all(is_literal for _, is_literal, _ in arguments):
            self.check_literals(*(value for _, _, value in arguments))
        kernel = self.kernel(tuple(kinds)) if self.binds else self.kernel
        return Match(result, kernel, tuple(converters), fixed)

    def shown(self, is_method: bool) -> str:
        """The parameters as text, without the receiver of a method."""
        names = [each.name if not isinstance(each, Fixed) else f"a literal {each.kind}" for each in self.parameters]
        return ", ".join(names[is_method:]) + (", ..." if self.repeats else "")


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function, or a method whose receiver is the first argument.

    Attributes:
        name: as formulas call it.
        meaning: one sentence for the users' page.
        signatures: the first that fits is taken.
        is_pure: whether equal arguments give equal results.

    """

    name: str
    meaning: str
    signatures: tuple[Signature, ...]
    is_pure: bool = True

    def match(self, arguments: Sequence[tuple[Kind, bool, Any]]) -> Match | None:
        """Bind the first signature that fits; ``None`` if there is none."""
        return next((match for each in self.signatures if (match := each.match(arguments)) is not None), None)

    def takes_receiver(self, kind: Kind) -> bool:
        """Whether values of this kind have the method."""
        return any(_taken(each.parameters[0], kind, is_literal=True) is not None for each in self.signatures)

    @property
    def receivers(self) -> str:
        """The kinds that have the method, as text."""
        first = [each.parameters[0] for each in self.signatures]
        return " or ".join(dict.fromkeys(str(each.kind) if isinstance(each, Fixed) else each.name for each in first))

    def shown(self, receiver: Kind | None) -> str:
        """The parameters of the signatures as text, for a receiver of this kind."""
        is_method = receiver is not None
        fitting = [
            each
            for each in self.signatures
            if receiver is None or _taken(each.parameters[0], receiver, is_literal=True) is not None
        ]
        return " or ".join(dict.fromkeys(f"({each.shown(is_method)})" for each in fitting or self.signatures))


def _taken(parameter: Parameter, kind: Kind, is_literal: bool) -> tuple[Kind, Kernel | None] | None:
    """The kind of an argument for a parameter, and its converter, or ``None``."""
    if isinstance(parameter, Fixed):
        return (parameter.kind, None) if is_literal and convert(kind, parameter.kind) is not None else None
    if isinstance(parameter, Family):
        return (kind, None) if parameter.takes(kind) else None
    if kind is NULL:
        return parameter, lambda _: constant(None, parameter)
    converter = convert(kind, parameter)
    return None if converter is None else (parameter, None if kind == parameter else converter)
