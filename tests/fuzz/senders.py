"""How a call of raw bytes is made at each endpoint, and what came of it."""

from __future__ import annotations

import logging
import socket
import struct
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol

from barrage_proto import deephaven_pb2 as deephaven
from google.protobuf.message import DecodeError
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.fuzz.corpus import DEEPHAVEN, EXPORTED, Call

grpc: Any = import_module("grpc")  # it has no types

# it tells of connections that were hung up on, which is what this does to them
logging.getLogger("websockets.client").setLevel(logging.CRITICAL + 1)

HANGS_AFTER = 60.0
"""Seconds without an answer after which a call counts as hanging: far more than a busy machine needs."""
_READ = 3
_READ_OF_SUBSCRIPTION = 1
_GLANCE = 0.05
_NEW_SESSION = Call(DEEPHAVEN + "SessionService/NewSession", (b"",))
# so that calls about this export need not wait for it
EXPORT = Call(
    DEEPHAVEN + "SessionService/ExportFromTicket",
    (
        deephaven.ExportRequest(
            source_id=deephaven.Ticket(ticket=scope_ticket("everything")),
            result_id=deephaven.Ticket(ticket=export_ticket(EXPORTED)),
        ).SerializeToString(),
    ),
    session=True,
)
_MULTIPLEX = Subprotocol("grpc-websockets-multiplex")
_END = 0x8000_0000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: the status and its text, the messages read, and whether it hung."""

    code: str
    text: str = ""
    messages: tuple[bytes, ...] = ()
    hung: bool = False


class Sender(Protocol):
    """One client of one endpoint, used by one thread."""

    def send(self, call: Call) -> Outcome:
        """Make the call; read a little of the answer, then hang up."""

    def close(self) -> None:
        """Hang up."""


class GrpcSender:
    """Calls over one HTTP/2 connection."""

    def __init__(self, address: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(address, options=options)
        self._token = ""

    def send(self, call: Call) -> Outcome:
        if call.session and not self._token:
            self._token = _token_of(self._call(_NEW_SESSION, HANGS_AFTER))
            self._call(EXPORT, HANGS_AFTER)
        outcome = self._call(call, _GLANCE if call.waits else HANGS_AFTER)
        if outcome.code == "UNAUTHENTICATED":
            self._token = ""
        return replace(outcome, hung=outcome.code == "DEADLINE_EXCEEDED" and not call.waits)

    def close(self) -> None:
        self._channel.close()

    def _call(self, call: Call, timeout: float) -> Outcome:
        metadata = [("authorization", f"Bearer {self._token}")] if call.session and self._token else []
        stream = self._channel.stream_stream(call.method)(iter(call.messages), timeout=timeout, metadata=metadata)
        read: list[bytes] = []
        try:
            for message in stream:
                read.append(message)
                if len(read) == _enough(call):
                    break
        except grpc.RpcError as error:
            return Outcome(error.code().name, error.details() or "", tuple(read))
        finally:
            stream.cancel()
        return Outcome("OK", "", tuple(read))


class WebSender:
    """Calls over a websocket, as Deephaven's JavaScript API makes them; a new one after each that was closed."""

    def __init__(self, address: str) -> None:
        self._url = f"ws://{address}/io.deephaven.proto.backplane.grpc.SessionService/NewSession"
        self._socket: ClientConnection | None = None
        self._stack = ExitStack()
        self.next_stream = 0
        self._token = ""

    def send(self, call: Call) -> Outcome:
        if call.session and not self._token:
            self._token = _token_of(self._call(_NEW_SESSION, HANGS_AFTER))
            self._call(EXPORT, HANGS_AFTER)
        outcome = self._call(call, _GLANCE if call.waits else HANGS_AFTER)
        if outcome.code == "16":
            self._token = ""
        return replace(outcome, hung=outcome.hung and not call.waits)

    def send_frames(self, frames: list[bytes]) -> Outcome:
        """Frames as they are, damaged ones too; then hang up, since nothing can be expected of them."""
        try:
            web = self._connected()
            for frame in frames:
                web.send(frame)
            return self._read(web, None, _GLANCE, _READ)
        except (ConnectionClosed, InvalidHandshake, OSError) as error:
            return Outcome("CLOSED", str(error))
        finally:
            self.close()

    def close(self) -> None:
        if self._socket is not None:
            # the connection goes before its closing handshake, which would have to be waited for
            with suppress(OSError):
                self._socket.socket.shutdown(socket.SHUT_RDWR)
            self._socket = None
        self._stack.close()

    def frames(self, call: Call) -> list[bytes]:
        """The frames of a call: headers, messages, end."""
        stream, self.next_stream = self.next_stream, self.next_stream + 1
        lines = {"grpc-websockets-path": call.method}
        if call.session and self._token:
            lines["authorization"] = f"Bearer {self._token}"
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        opening = struct.pack(">I", stream) + text.encode()
        sent = [struct.pack(">IBBI", stream, 0, 0, len(message)) + message for message in call.messages]
        return [opening, *sent, struct.pack(">IB", stream | _END, 1)]

    def _call(self, call: Call, timeout: float) -> Outcome:
        try:
            web = self._connected()
            stream = self.next_stream
            frames = self.frames(call)
            # The end of a stream is how this protocol cancels: answers are asked for before it, where there are any.
            for frame in frames:
                web.send(frame)
            outcome = self._read(web, stream, timeout, 1 + _enough(call))
        except (ConnectionClosed, InvalidHandshake, OSError) as error:
            self.close()
            return Outcome("CLOSED", str(error))
        if outcome.code in ("CLOSED", "READ", "TIMEOUT"):
            self.close()
        return outcome

    def _connected(self) -> ClientConnection:
        if self._socket is None:
            self.next_stream = 0
            opening = connect(
                self._url,
                subprotocols=[_MULTIPLEX],
                max_size=None,
                compression=None,
                proxy=None,
                close_timeout=0.1,
                open_timeout=HANGS_AFTER,
            )
            self._socket = self._stack.enter_context(opening)
        return self._socket

    def _read(self, web: ClientConnection, stream: int | None, timeout: float, enough: int) -> Outcome:
        read: list[bytes] = []
        while True:
            try:
                frame = web.recv(timeout)
            except TimeoutError:
                return Outcome("TIMEOUT", "", tuple(read), hung=stream is not None)
            except ConnectionClosed as error:
                return Outcome("CLOSED", str(error), tuple(read))
            data = frame.encode() if isinstance(frame, str) else frame
            read.append(data)
            if stream is not None and len(data) >= 9 and struct.unpack_from(">I", data)[0] == stream | _END:
                text = data[9:].decode("latin-1")
                code = text.partition("grpc-status:")[2].partition("\r")[0].strip()
                return Outcome(code, text, tuple(read))
            if len(read) >= enough:
                return Outcome("READ", "", tuple(read))


def _enough(call: Call) -> int:
    """Messages of an answer after which the call is cancelled. A subscription need not send more than its schema."""
    return _READ_OF_SUBSCRIPTION if call.method.endswith("DoExchange") else _READ


def _token_of(outcome: Outcome) -> str:
    """The token of a new session."""
    for message in outcome.messages:
        data = message[9:] if message[:4] == b"\0\0\0\0" else message
        try:
            token = deephaven.HandshakeResponse.FromString(data).session_token
        except DecodeError:
            continue  # headers or trailers
        if token.startswith(b"Bearer "):
            return token.decode().removeprefix("Bearer ")
    return ""
