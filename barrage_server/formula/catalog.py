"""The functions and methods that formulas may name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barrage_server.formula import aggregations, lists, mathematics, strings, times
from barrage_server.formula.builtin import Builtin

__all__ = ["FUNCTIONS", "METHODS"]


def _by_name(builtins: Iterable[Builtin]) -> dict[str, Builtin]:
    """Builtins by name; those of one name are merged, with all signatures."""
    found: dict[str, Builtin] = {}
    for each in builtins:
        before = found.get(each.name)
        if before is not None:
            each = Builtin(
                each.name, f"{before.meaning} {each.meaning}", before.signatures + each.signatures, each.is_pure
            )
        found[each.name] = each
    return found


_MODULES: Final = (mathematics, times, strings, aggregations, lists)
FUNCTIONS: Final = _by_name(each for module in _MODULES for each in module.FUNCTIONS)
METHODS: Final = _by_name((*strings.METHODS, *times.METHODS, *lists.METHODS))
