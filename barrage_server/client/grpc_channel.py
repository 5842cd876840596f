"""Calls of a server's services over gRPC, in the session of a connection."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from barrage_server.client.channel import OPTIONS, Channel
from barrage_server.errors import BarrageError, UnavailableError
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.flight.errors import from_status
from barrage_server.process import leave_to_parent

__all__ = ["GrpcChannel"]

R = TypeVar("R", bound=Message)

_OPTIONS: Final = (*OPTIONS, ("grpc.max_receive_message_length", -1))


class GrpcChannel:
    """Calls of gRPC beside Flight, with the credentials of a connection.

    The newest token of their answers becomes that of the connection.

    Args:
        channel: the connection.

    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._grpc: grpc.Channel | None = None
        self._pid = os.getpid()

    def unary(self, method: str, request: Message, response: type[R]) -> R:
        """Return the response to one request.

        Raises:
            BarrageError: the error of the server, or there is no connection.

        """
        found, end = self.responses(method, request, response)
        if end is not None:
            raise end
        if not found:
            raise UnavailableError(f"{self._channel.address} ended the call without an answer.")
        return found[0]

    def responses(self, method: str, request: Message, response: type[R]) -> tuple[Sequence[R], BarrageError | None]:
        """Return all responses to one request, and the error that ended the call, if any.

        Raises:
            AuthenticationError: there is no session.
            UnavailableError: the connection is closed.

        """
        opened = self._open()
        start: Any = opened.unary_stream(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
        metadata = self._channel.metadata()
        try:
            call = start(request, timeout=self._channel.timeout, metadata=metadata)
        except ValueError:
            if self._grpc is opened:
                raise
            raise self._closed() from None  # another thread has closed it meanwhile
        found: list[R] = []
        try:
            for message in call:
                found.append(message)
        except grpc.RpcError as error:
            return found, self._typed(error)
        finally:
            self._learn(call)
            call.cancel()
        return found, None

    def close(self) -> None:
        """Close the connection; the next call reopens it, unless the channel is closed."""
        with self._lock:
            opened, self._grpc = self._grpc, None
        if opened is not None and self._pid == os.getpid():
            opened.close()

    def _open(self) -> grpc.Channel:
        with self._lock:
            if self._channel.is_closed:
                raise self._closed()
            if self._pid != os.getpid():  # the parent's channel is left alone
                self._grpc, self._pid = None, os.getpid()
            if self._grpc is None:
                target, access = self._channel.grpc_target
                if access is None:
                    self._grpc = grpc.insecure_channel(target, _OPTIONS)
                else:
                    credentials = grpc.ssl_channel_credentials(*access.pem())
                    self._grpc = grpc.secure_channel(target, credentials, _OPTIONS)
                leave_to_parent(self._grpc)
            return self._grpc

    def _closed(self) -> UnavailableError:
        return UnavailableError(f"This client of {self._channel.address} is closed; connect again.")

    def _learn(self, call: Any) -> None:
        """Take the token from the headers or trailers of a finished call."""
        if not call.done():
            return
        for headers in (call.initial_metadata(), call.trailing_metadata()):
            self._channel.login.received(value for name, value in headers or () if name == AUTHORIZATION)

    def _typed(self, error: Any) -> BarrageError:
        status, text = error.code(), error.details() or ""
        if status is grpc.StatusCode.UNAVAILABLE:
            return UnavailableError(f"No connection to {self._channel.address}: {text}.")
        return from_status(status.name, text)
