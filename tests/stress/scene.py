"""The whole of it: servers in processes of their own, writers, subscribers, what disturbs them, and the judge."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.flight as fl

import barrage_server as bs
from tests.live.figures import faults_of, growth
from tests.live.process import PATIENCE, Figures, ServerProcess
from tests.live.proxy import Proxy
from tests.stress.cells import Row, rows
from tests.stress.subscribers import PASSING, Subscriber
from tests.stress.writers import PublishingWriter, Shapes, Writer, all_writers, difference
from tests.waiting import until

SUBSCRIBERS = 12
ROUND_SECONDS = 3.0
_FLUSH = "flush"


class Scene:
    """One seeded run.

    Args:
        seed: of all choices. What threads and sockets do in between is not repeated.
        folder: for the servers' logs.
        progress: told a line after every round.
        shapes: what data may look like.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        progress: Callable[[str], None] = lambda _: None,
        shapes: Shapes = Shapes(),  # noqa: B008
    ) -> None:
        self._shapes = shapes
        self._seed = str(seed)
        self._folder = folder
        self._progress = progress
        self._chance = random.Random(f"{seed}/scene")
        self._stack = ExitStack()
        self._halt = threading.Event()
        self._errors: list[str] = []
        self._flushed = 0

    def run(self, seconds: float) -> None:
        """Run rounds for ``seconds``, at least two; AssertionError when a check fails."""
        began = time.monotonic()
        with self._stack:
            self._set_up()
            number = 0
            while number < 2 or time.monotonic() - began < seconds:
                if number and self._chance.random() < 0.25:
                    self._restart()
                self._active()
                self._judge()
                if number % 4 == 0 or self._chance.random() < 0.2:
                    self._rest()
                number += 1
                views = sum(1 for entry in self._subscribers if entry.live is not None)
                self._progress(
                    f"round {number}, {time.monotonic() - began:.0f} s: {views} views equal, "
                    f"server {self._server.figures()}, relay {self._relay.figures()}, here {Figures.of(os.getpid())}"
                )
            self._rest()

    # Setting up and restarting.

    def _set_up(self) -> None:
        self._server = ServerProcess(self._folder)
        self._stack.callback(lambda: self._server.kill())
        self._relay = self._stack.enter_context(ServerProcess(self._folder))
        ports = (*self._server.ports[:2], *self._relay.ports[:2])
        self._proxies = [self._stack.enter_context(Proxy(port)) for port in ports]
        self._upstream = self._stack.enter_context(Proxy(self._server.ports[0]))
        self._writers = all_writers(self._seed, self._shapes)
        for writer in self._writers:
            writer.start(self._server)
            self._stack.callback(writer.stop)
        self._flush()
        tables = [writer.name for writer in self._writers]
        for name in tables:
            self._follow(name)
        flight, deephaven, relay, relay_deephaven = (f"127.0.0.1:{proxy.port}" for proxy in self._proxies)
        addresses = [
            f"grpc://{flight}", f"grpc://{deephaven}", f"dh+plain://{deephaven}", f"grpc://{relay}",
            f"dh+plain://{relay_deephaven}",
        ]  # fmt: skip
        self._subscribers = [
            Subscriber(
                f"subscriber {number} at {addresses[number % len(addresses)]}",
                f"{self._seed}/{number}",
                addresses[number % len(addresses)],
                tables,
            )
            for number in range(SUBSCRIBERS)
        ]
        for subscriber in self._subscribers:
            self._stack.callback(subscriber.close)
        self._before: tuple[Figures, ...] | None = None

    def _follow(self, name: str) -> None:
        self._relay.command(do="follow", uri=f"grpc://127.0.0.1:{self._upstream.port}/{quote(name)}", name=name)

    def _restart(self) -> None:
        """End the server, gently or not, and put another in its place. It has no tables: writers begin anew."""
        for writer in self._writers:
            writer.stop()
        ports = self._server.ports
        self._check_log(self._server)
        if self._chance.random() < 0.5:
            self._server.close()
        else:
            self._server.kill()
        self._server = ServerProcess(self._folder, ports=ports)
        for writer in self._writers:
            writer.start(self._server)
        self._before = None

    # One round.

    def _active(self) -> None:
        """Run all writers and subscribers for a while."""
        self._halt.clear()
        threads = [
            *(self._thread(writer.step, writer.name, writer.chance, 0.1) for writer in self._writers),
            *(self._thread(entry.step, entry.name, entry.chance, 0.3) for entry in self._subscribers),
            self._thread(self._disturb, "disturbance", self._chance, 0.6),
        ]
        self._halt.wait(ROUND_SECONDS)
        self._halt.set()
        for proxy in (*self._proxies, self._upstream):
            proxy.resume()
        for thread in threads:
            thread.join(3 * PATIENCE)
            assert not thread.is_alive(), f"{thread.name} hangs"
        self._raise()

    def _thread(self, step: Callable[[], None], name: str, chance: random.Random, pause: float) -> threading.Thread:
        def run() -> None:
            try:
                while not self._halt.is_set():
                    step()
                    self._halt.wait(chance.uniform(0, pause))
            except Exception as error:
                self._errors.append(f"{name}: {error!r}")
                self._halt.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def _disturb(self) -> None:
        proxy = self._chance.choice([*self._proxies, self._upstream])
        if self._chance.random() < 0.5:
            proxy.cut()
        else:
            proxy.stall()
            self._halt.wait(self._chance.uniform(0, 0.8))
            proxy.resume()

    def _raise(self) -> None:
        alive = [server for server in (self._server, self._relay) if not server.is_alive]
        for server in alive:
            self._errors.append(f"a server died with {server.exit_code}: {server.log()[-3000:]}")
        assert not self._errors, "\n".join(self._errors)

    # The judge.

    def _judge(self) -> None:
        """At rest every table is what was written to it, and every view what it ought to be."""
        self._flush()
        content = {writer.name: self._content(writer) for writer in self._writers}
        schemas = {writer.name: writer.schema for writer in self._writers}
        deadline = time.monotonic() + PATIENCE
        for subscriber in self._subscribers:
            self._wait_for_view(subscriber, content, schemas, deadline)
        for server in (self._server, self._relay):
            self._check_log(server)

    def _content(self, writer: Writer) -> list[Row]:
        with fl.connect(self._server.flight) as client:

            def served() -> list[Row]:
                return rows(client.do_get(fl.Ticket(writer.name.encode())).read_all())

            if isinstance(writer, PublishingWriter):
                until(lambda: writer.wait_published(served()), what=f"the publication of '{writer.name}' is complete")
            found = served()
        writer.check(found)
        return found

    def _wait_for_view(
        self, subscriber: Subscriber, content: dict[str, list[Row]], schemas: dict[str, pa.Schema], deadline: float
    ) -> None:
        def equal() -> bool:
            try:
                subscriber.ready()
            except PASSING:
                return False  # the relay may be on its way to a table that was made anew
            names = schemas[subscriber.table].names
            live = subscriber.live
            assert live is not None
            if live.state is not bs.LiveState.LIVE or not set(live.schema.names) <= set(names):
                return False
            return subscriber.seen() == subscriber.expected(content[subscriber.table], names)

        try:
            until(equal, max(5.0, deadline - time.monotonic()))
        except AssertionError:
            live = subscriber.live
            if live is None:
                raise AssertionError(f"{subscriber}: no subscription") from None
            names = schemas[subscriber.table].names
            wanted = subscriber.expected(content[subscriber.table], names)
            text = difference(subscriber.seen(), wanted)
            raise AssertionError(f"{subscriber}, error {live.error!r}, types {live.schema.types}: {text}") from None

    def _flush(self) -> None:
        """A cycle that changes no table that is looked at: the rows of blink tables go."""
        self._flushed += 1
        self._writers[0].client.append(_FLUSH, {"n": [self._flushed]})

    def _check_log(self, server: ServerProcess) -> None:
        faults = faults_of(server.log())
        assert not faults, f"the log {server.log_path} tells of faults: " + " | ".join(faults[:5])

    def _rest(self) -> None:
        """When all subscribers have gone, memory, threads and descriptors are back where they were."""
        for subscriber in self._subscribers:
            subscriber.close()
        statistics = [bs.connect(server.flight) for server in (self._server, self._relay)]
        try:
            upstream, relay = statistics
            followed = len(self._writers)
            until(
                lambda: len(upstream.statistics()["subscriptions"]) <= followed,
                what="subscriptions end with their clients",
            )
            until(
                lambda: not relay.statistics()["subscriptions"],
                what="subscriptions of the relay end with their clients",
            )
        finally:
            for client in statistics:
                client.close()
        before = self._before
        if before is None:
            self._before = self._figures()
            return
        found: list[str] = []

        def is_back() -> bool:
            found[:] = [
                f"{name}: {text}"
                for name, first, last in zip(("server", "relay", "clients"), before, self._figures(), strict=True)
                for text in growth(first, last)
            ]
            return not found

        with suppress(AssertionError):
            until(is_back, pause=1)
        if found:
            raise AssertionError("; ".join(found))

    def _figures(self) -> tuple[Figures, ...]:
        gc.collect()
        pa.default_memory_pool().release_unused()
        return (self._server.settled(), self._relay.settled(), Figures.of(os.getpid()))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for logs, which stays when something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="barrage-stress-"))
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
