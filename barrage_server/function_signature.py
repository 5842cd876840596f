"""How a registered function is called: what servers tell of it, and clients get."""

from __future__ import annotations

from dataclasses import dataclass

from barrage_server.public import public

__all__ = ["FunctionSignature"]


@public
@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A registered function that formulas may call.

    Functions declare no types of arguments: they take what a formula passes, or refuse it.

    Attributes:
        name: the function's name.
        kind: ``batch``, ``scalar`` or ``compiled``.
        returns: the name of the Arrow type of its result, such as ``double``.

    """

    name: str
    kind: str
    returns: str
