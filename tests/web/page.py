"""A page without a screen: the code of ``web/`` in Node, driven by commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tests.waiting import until
from tests.web.node import ROOT, node


class Page:
    """``web/tests/programs/live.ts``, connected to a server.

    Args:
        uri: of the server's page, as ``server.web_uri``.
        token: the server's token.

    """

    def __init__(self, uri: str, token: str | None = None) -> None:
        origin = uri.rstrip("/")
        url = f"ws{origin.removeprefix('http')}/live"
        command = [node(), "web/tests/programs/live.ts", url, origin, *([token] if token else [])]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to a command."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def open(self, table: str, first: int, count: int, *, reverse: bool = False, **more: Any) -> None:
        self.ask("open", table=table, view={"first": first, "count": count, "reverse": reverse, **more})

    def move(self, first: int, count: int, *, reverse: bool = False, **more: Any) -> None:
        self.ask("move", view={"first": first, "count": count, "reverse": reverse, **more})

    def until(self, do: str, condition: Callable[[Any], object], what: str = "") -> Any:
        """Ask until the answer is as wanted; that answer."""

        def asked() -> Any:
            found = self.ask(do)
            return found if condition(found) else None

        return until(asked, what=what, pause=0.02)
