"""A call that a server cancels is an error where it was made, and never an interrupt of the main thread.

pyarrow takes a cancelled ``list_actions``, ``list_flights`` or ``read_all`` for Ctrl-C, on whatever thread it runs.
"""

from __future__ import annotations

import ast
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.client.access import Access
from barrage_server.client.channel import Channel
from barrage_server.client.keepalive import KeepAlive
from tests.waiting import until

PACKAGE = Path(bs.__file__).parent


class Cancels(grpc.GenericRpcHandler):
    """Cancels every call but those named, which it has another server answer."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        self.calls.append(str(details.method).rpartition("/")[2])

        def handle(_requests: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
            context.set_code(grpc.StatusCode.CANCELLED)
            return iter(())

        return grpc.stream_stream_rpc_method_handler(handle)


@pytest.fixture
def cancels() -> Iterator[tuple[str, Cancels]]:
    handler = Cancels()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"grpc://127.0.0.1:{port}", handler
    server.stop(None).wait(10)


@pytest.fixture
def interrupts() -> Iterator[list[int]]:
    """Interrupts of the main thread while the test runs."""
    found: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: found.append(number))
    yield found
    signal.signal(signal.SIGINT, before)


def on_a_thread(call: Callable[[], object]) -> BaseException | None:
    """What ``call`` raises on a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return raised[0] if raised else None


def rows() -> pa.Table:
    return pa.table({"x": [1]})


CALLS: dict[str, Callable[[bs.Client], object]] = {
    "ping": lambda client: client.ping(),
    "tables": lambda client: client.tables(),
    "table": lambda client: client.table("t"),
    "functions": lambda client: client.functions(),
    "statistics": lambda client: client.statistics(),
    "snapshot": lambda client: client.snapshot("t"),
    "view": lambda client: client.snapshot("t", viewport=range(3)),
    "subscribe": lambda client: client.subscribe("t"),
    "append": lambda client: client.append("t", rows()),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_on_any_thread_raise_errors(name: str, cancels: tuple[str, Cancels], interrupts: list[int]) -> None:
    uri, handler = cancels
    client = bs.Client(uri, timeout=5, retry=bs.RetryPolicy.never())
    try:
        raised = on_a_thread(lambda: CALLS[name](client))
        assert isinstance(raised, bs.BarrageError)
    finally:
        client.close()
    assert handler.calls
    assert interrupts == []


def test_a_relay_goes_on(cancels: tuple[str, Cancels], interrupts: list[int]) -> None:
    uri, handler = cancels
    with bs.Server() as relay:
        relay.follow(f"{uri}/t", wait=None)
        until(lambda: len(handler.calls) >= 3, 60)
        assert interrupts == []


def test_the_keep_alive_goes_on(cancels: tuple[str, Cancels], interrupts: list[int]) -> None:
    uri, handler = cancels
    channel = Channel(uri, Access(), timeout=5)
    with KeepAlive(channel.greet, "barrage-session", pause=0.01).held():
        until(lambda: len(handler.calls) >= 3, 60)
    channel.close()
    assert interrupts == []


def test_calls_that_interrupt_are_made_in_one_place_only() -> None:
    """To list the flights of servers of another make; there is no other way to ask for them."""
    found = [
        f"{path.relative_to(PACKAGE)}: {node.func.attr}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "import pyarrow.flight" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("list_actions", "list_flights", "read_all")
    ]
    assert found == ["client/client.py: list_flights"]
