"""A TCP proxy on loopback that cuts connections, and holds up what they carry."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import threading
from contextlib import suppress
from typing import Self

_PIECE = 1 << 16


class Proxy:
    """Passes on what comes to its port to a port of the same machine, until told otherwise.

    A connection has a thread for each direction. While the proxy is stalled, they do not read: what is sent fills the
    buffers of both ends. While the target is away, connections are closed at once, as those to a dead server are.

    Args:
        target: the port that it passes on to.
        source: the address of this machine that its connections to the target come from.

    """

    def __init__(self, target: int, source: str = "127.0.0.1") -> None:
        self._target = target
        self._source = source
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._vanished: set[tuple[socket.socket, socket.socket]] = set()
        self._closed = False
        self._taken = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def cut(self) -> int:
        """End all connections, without a farewell; how many there were."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            _shut(*pair)
        return len(pairs)

    def stall(self) -> None:
        """Pass nothing on until :meth:`resume`."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def vanish(self) -> int:
        """Swallow all that comes on the connections there are, which stay open, as those to a machine that has lost its
        power; how many there were. Later connections work.
        """
        with self._lock:
            self._vanished |= self._pairs
            return len(self._pairs)

    @property
    def held(self) -> int:
        """Bytes held here: by stalled threads, and in the buffers of the sockets."""
        with self._lock:
            return self._taken + sum(_unread(end) for pair in self._pairs for end in pair)

    @property
    def connections(self) -> int:
        with self._lock:
            return len(self._pairs)

    def close(self) -> None:
        self._closed = True
        self.resume()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target), source_address=(self._source, 0))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (near, far)
            with self._lock:
                self._pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pass_on, args=(source, sink, pair), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, pair: tuple[socket.socket, socket.socket]) -> None:
        with suppress(OSError):
            while True:
                self._flowing.wait()
                piece = source.recv(_PIECE)
                if not piece:
                    break
                if not self._flowing.is_set():
                    self._hold(len(piece))
                if pair not in self._vanished:
                    sink.sendall(piece)
        if pair not in self._vanished:
            _shut(*pair)
        with self._lock:
            is_last = pair not in self._pairs
            self._pairs.discard(pair)
            if is_last:
                self._vanished.discard(pair)
        if is_last:  # the other direction has ended already
            for end in pair:
                end.close()

    def _hold(self, nbytes: int) -> None:
        with self._lock:
            self._taken += nbytes
        self._flowing.wait()
        with self._lock:
            self._taken -= nbytes


def _unread(end: socket.socket) -> int:
    """Bytes in the receive buffer of a socket."""
    answer: tuple[int] = struct.unpack("i", fcntl.ioctl(end, termios.FIONREAD, struct.pack("i", 0)))
    return answer[0]


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
