"""A server in a process of its own, told what to do by JSON lines on stdin: ``python -m tests.live.child OPTIONS``.

It ends when stdin does, so that nothing is left behind by a test that was killed. The log goes to stderr.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import logging
import resource
import sys
from typing import Any

import pyarrow as pa

import barrage_server as bs
from barrage_server.process import choose_allocators
from barrage_server.publish import StagingLimits
from barrage_server.server import Limits
from tests.soak.updates import Updates


def main() -> None:
    options = json.loads(sys.argv[1])
    limit = options["address_space"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    choose_allocators()  # as serve does
    logging.basicConfig(stream=sys.stderr, level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    limits = dict(options.get("limits", {}))
    if "staging" in limits:
        limits["staging"] = StagingLimits(**limits["staging"])
    ports = options["ports"]
    server = bs.Server(
        port=ports[0],
        front=options["front"],
        deephaven_port=ports[1],
        deephaven_web_port=ports[2],
        limits=Limits(**limits),
        token=None,
        data_dir=options["data_dir"],
    )
    _answer({"uris": [server.uri, server.deephaven_uri, server.deephaven_web_uri]})
    done = Commands(server).run
    with server:
        for line in sys.stdin:
            _answer(done(json.loads(line)))


class Commands:
    """What the process does on request."""

    def __init__(self, server: bs.Server) -> None:
        self._server = server
        self._updates: Updates | None = None

    def run(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run one command; what went wrong is the answer's ``error``."""
        server = self._server
        try:
            match command["do"]:
                case "settle":
                    _settle()
                case "follow":
                    server.follow(command["uri"], name=command["name"], wait=None, max_delay=0.5)
                case "drop":
                    server.drop(command["name"])
                case "make updates":
                    self._updates = Updates(server, command["seed"])
                case "update":
                    assert self._updates is not None
                    self._updates.run(command["count"])
                case other:
                    raise ValueError(f"no command {other}")
        except (bs.BarrageError, ValueError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {}


def _settle() -> None:
    """Give back what nothing refers to, so that the figures of this process are those of what it holds."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
