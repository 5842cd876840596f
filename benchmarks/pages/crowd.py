"""Many pages in one thread.

They are websockets that take updates and acknowledge them as painted, without decoding them.
"""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Sequence
from typing import Final

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from barrage_server.wire.page_messages import SUBPROTOCOL
from benchmarks.crowd import watched
from benchmarks.steady import Steady
from benchmarks.systems import System

__all__ = ["page_crowd"]

_UPDATE: Final = 1
"""The kind of a binary frame that begins an update."""
_PAINTED: Final = 2
"""Updates that the page acknowledges together, as they come more slowly than a round trip takes."""


def page_crowd(
    system: System,
    web: str,
    name: str,
    viewports: Sequence[tuple[int, int]],
    *,
    interval_ms: int,
    settle: float,
    measure: float,
) -> Steady:
    """As :func:`benchmarks.crowd.crowd`, with pages instead of subscribers.

    Args:
        system: the server.
        web: the address of its page.
        name: a table.
        viewports: first row and number of rows of each page.
        interval_ms: the least time between two updates.
        settle: seconds before it is measured.
        measure: seconds of measuring.
    """
    members = [_Page(web, name, viewport, interval_ms) for viewport in viewports]
    return asyncio.run(watched(system, members, interval_ms=interval_ms, settle=settle, measure=measure))


class _Page:
    """One page: when its updates came, and their bytes."""

    def __init__(self, web: str, name: str, viewport: tuple[int, int], interval_ms: int) -> None:
        self._uri = f"{web.replace('http', 'ws', 1)}/live"
        first, count = viewport
        asked = {"table": name, "first": first, "count": count, "reverse": False, "interval": interval_ms}
        self._said = [{"type": "hello", "version": 1}, {"type": "open", "stream": 1, "kind": "follow", **asked}]
        self.times: list[float] = []
        self.nbytes = 0

    async def follow(self) -> None:
        """Receive until cancelled."""
        protocols = [Subprotocol(SUBPROTOCOL)]
        async with connect(self._uri, subprotocols=protocols, max_size=None, compression=None) as socket:
            for message in self._said:
                await socket.send(json.dumps(message))
            painted = json.dumps({"type": "ack", "stream": 1, "updates": _PAINTED})
            async for frame in socket:
                if isinstance(frame, str):
                    if error := json.loads(frame).get("error"):
                        raise ConnectionError(f"the server has ended a page: {error}")
                elif struct.unpack_from("<IB", frame)[1] == _UPDATE:
                    self.times.append(time.time())
                    self.nbytes += len(frame)
                    if not len(self.times) % _PAINTED:
                        await socket.send(painted)
