"""The seam by which tables get their notebook widgets from a room above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from barrage_server.errors import UnsupportedOperationError

__all__ = ["Shower", "show_with", "shown_in_notebook"]

Shower: TypeAlias = Callable[..., Any]
"""Returns the widget of a table or plan, with the given options."""


def _nothing(_shown: Any, **_options: Any) -> Any:
    raise UnsupportedOperationError("Widgets are not installed in this process: import barrage_server.")


_shower: Shower = _nothing


def show_with(shower: Shower) -> None:
    """Let ``shower`` make the widgets of this process."""
    global _shower
    _shower = shower


def shown_in_notebook(shown: Any, **options: Any) -> Any:
    """The widget of a source of pages."""
    return _shower(shown, **options)
