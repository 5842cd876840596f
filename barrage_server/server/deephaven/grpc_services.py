"""gRPC's own services, health and reflection, with damaged requests refused.

grpcio logs a traceback for a request that it cannot parse, and waits without limit for a missing one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from barrage_server.flight.sockets import peer_name
from barrage_server.server.stranger_calls import StrangerCalls

__all__ = ["GrpcServices"]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_MOST_BYTES: Final = 64 << 10
"""Most bytes of a request, which has a few names."""


class GrpcServices:
    """The handlers of gRPC's generated services, guarded.

    The functions that add generated services to a server take this object in place of a server. The services need no
    credentials, so the number of their calls is limited.

    Args:
        most: calls at a time; further ones are refused.
        seconds: seconds that a caller has to send a request.
        strangers: returns the counter of calls without credentials; ``None`` while no call needs any.
    """

    def __init__(self, most: int, seconds: float, strangers: Callable[[], StrangerCalls | None] = lambda: None) -> None:
        self._handlers: dict[str, Handler] = {}
        self._strangers = strangers
        self._most = most
        self._seconds = seconds
        self._open = 0

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Ignore the handlers of a service as a group; they come one by one, too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Take the handlers of one service, by method."""
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = self._guarded(handler)

    def find(self, method: str) -> Handler:
        """The handler of a method, by its full name."""
        return self._handlers.get(method) or self._unknown

    @property
    def _unknown(self) -> Handler:
        async def run(_requests: object, context: Context) -> None:
            await self._admit(context)
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "There is no such method here.")

        return grpc.stream_stream_rpc_method_handler(run)

    async def _admit(self, context: Context) -> None:
        """Count the call, and abort it when there were too many from its address."""
        strangers = self._strangers()
        if strangers is None:
            return
        peer = peer_name(str(context.peer()))
        if strangers.has_ended(peer) or not strangers.admit(peer):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, strangers.refusal)

    def _guarded(self, handler: Any) -> Handler:
        async def run(_requests: object, context: Context) -> None:
            await self._admit(context)
            if self._open >= self._most:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, f"There are {self._most} such calls (handshakes)."
                )
            self._open += 1
            try:
                await _run(handler, context, self._seconds)
            finally:
                self._open -= 1

        return grpc.stream_stream_rpc_method_handler(run, response_serializer=handler.response_serializer)


async def _run(handler: Any, context: Context, seconds: float) -> None:
    parse: Callable[[bytes], Any] = handler.request_deserializer

    async def read() -> Any:
        """The next request; None after the last one."""
        try:
            message = await asyncio.wait_for(context.read(), seconds)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"No request came within {seconds:g} s.")
        if message is grpc.aio.EOF:
            return None
        if len(message) > _MOST_BYTES:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"A request has {_MOST_BYTES:,} bytes at most here, and this one has {len(message):,}.",
            )
        try:
            return parse(message)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The request is damaged.")

    async def requests() -> AsyncIterator[Any]:
        while (request := await read()) is not None:
            yield request

    if handler.request_streaming:
        async for response in handler.stream_stream(requests(), context):
            await context.write(response)
        return
    request = await read()
    if request is None:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The call came without a request.")
    elif handler.response_streaming:
        await handler.unary_stream(request, context)  # it writes by itself
    else:
        await context.write(await handler.unary_unary(request, context))
