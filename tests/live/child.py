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
from barrage_server.publish import StagingLimits
from barrage_server.server import Limits


def main() -> None:
    options = json.loads(sys.argv[1])
    limit = options["address_space"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    logging.basicConfig(stream=sys.stderr, level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    limits = dict(options.get("limits", {}))
    if "staging" in limits:
        limits["staging"] = StagingLimits(**limits["staging"])
    ports = options["ports"]
    server = bs.Server(
        port=ports[0], deephaven_port=ports[1], deephaven_web_port=ports[2], limits=Limits(**limits), token=None
    )
    _answer({"uris": [server.uri, server.deephaven_uri, server.deephaven_web_uri]})
    with server:
        for line in sys.stdin:
            _answer(_done(server, json.loads(line)))


def _done(server: bs.Server, command: dict[str, Any]) -> dict[str, Any]:
    """Run one command; what went wrong is the answer's ``error``."""
    try:
        if command["do"] == "settle":
            _settle()
        elif command["do"] == "follow":
            server.follow(command["uri"], name=command["name"], wait=None, max_delay=0.5)
        elif command["do"] == "drop":
            server.drop(command["name"])
        else:
            raise ValueError(f"no command {command['do']}")
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
