"""gRPC's own services, health and reflection, with damaged requests refused.

grpcio logs a traceback for a request that it cannot parse, and waits without limit for a missing one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

__all__ = ["GrpcServices"]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class GrpcServices:
    """The handlers of generated services. To the functions that add those to a server, this is one."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def add_generic_rpc_handlers(self, _handlers: object) -> None:
        """Take the handlers of one service as a group; they come one by one, too."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Take the handlers of one service, by method."""
        for name, handler in handlers.items():
            self._handlers[f"/{service}/{name}"] = _guarded(handler)

    def find(self, method: str) -> Handler | None:
        """The handler of a method, by its full name; None when there is none."""
        return self._handlers.get(method)


def _guarded(handler: Any) -> Handler:
    parse: Callable[[bytes], Any] = handler.request_deserializer

    async def read(context: Context) -> Any:
        """The next request; None when there is no more."""
        message = await context.read()
        if message is grpc.aio.EOF:
            return None
        try:
            return parse(message)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The request is damaged.")

    async def requests(context: Context) -> AsyncIterator[Any]:
        while (request := await read(context)) is not None:
            yield request

    async def run(_requests: object, context: Context) -> None:
        if handler.request_streaming:
            async for response in handler.stream_stream(requests(context), context):
                await context.write(response)
            return
        request = await read(context)
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The call came without a request.")
        elif handler.response_streaming:
            await handler.unary_stream(request, context)  # it writes by itself
        else:
            await context.write(await handler.unary_unary(request, context))

    return grpc.stream_stream_rpc_method_handler(run, response_serializer=handler.response_serializer)
