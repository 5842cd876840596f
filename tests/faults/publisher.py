"""A publisher in a process of its own: numbered batches for each of its tables, exactly once, whatever happens.

It keeps nothing: when it is started it asks the server for the last batch.
"""

from __future__ import annotations

import random
import sys
import threading

import barrage_server as bs
from tests.faults.child import say, serve
from tests.faults.source import EPOCH, PLAIN, mode, options, sent

PUBLISHER = "plain"
# What may happen while connections are cut, servers end, and disks are full. Nothing else may.
PASSING = (bs.UnavailableError, bs.DeadlineError, bs.ReadOnlyError)


class Feeder:
    """Publishes the batches of one table, up to a number."""

    def __init__(self, uri: str, name: str, seed: str) -> None:
        self._uri = uri
        self._name = name
        self._chance = random.Random(f"{seed}/{name}")
        self._changed = threading.Condition()
        self._until = -1
        self._done = -1
        self._error: str | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def feed(self, until: int) -> None:
        """Publish the batches up to ``until``, which included, from now on."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Return when all of them are acknowledged."""
        with self._changed:
            done = self._changed.wait_for(lambda: self._done >= self._until or self._error is not None, timeout)
            if self._error is not None:
                raise RuntimeError(self._error)
            if not done:
                raise TimeoutError(f"{self._name} is at batch {self._done} of {self._until}")

    def _run(self) -> None:
        try:
            with bs.connect(self._uri, timeout=5.0, wait=120.0) as client:
                done: int | None = None  # asked for when it is not known
                while True:
                    try:
                        if done is None:
                            last = client.last_batch(self._name, PUBLISHER, epoch=EPOCH)
                            done = -1 if last is None else last
                        with self._changed:
                            self._done = done
                            self._changed.notify_all()
                            while self._until <= done:
                                self._changed.wait()
                        done = self._publish(client, done)
                    except PASSING as error:
                        print(f"{self._name} after {done}: {error!r}", file=sys.stderr, flush=True)
                        if isinstance(error, bs.ReadOnlyError):
                            say(told="read only", table=self._name)
                        if self._chance.random() < 0.5:
                            done = None
                        with self._changed:
                            self._changed.wait(0.1)
        except BaseException as error:
            with self._changed:
                self._error = f"{self._name}: {error!r}"
                self._changed.notify_all()
            raise

    def _publish(self, client: bs.Client, done: int) -> int:
        again = done >= 0 and self._chance.random() < 0.1
        number = self._chance.randint(max(0, done - 3), done) if again else done + 1
        result = client.publish(
            self._name,
            sent(self._name, number),
            mode=mode(self._name, number),
            publisher=PUBLISHER,
            batch=number,
            epoch=EPOCH,
            **options(self._name),
        )
        if again and result.applied:
            raise AssertionError(f"batch {number} of {self._name} was applied twice, after {done}")
        say(told="done", table=self._name, batch=number)
        return max(done, number)


def main(uri: str, seed: str) -> None:
    feeders = {name: Feeder(uri, name, seed) for name in PLAIN}

    def feed(until: int) -> None:
        for feeder in feeders.values():
            feeder.feed(until)

    def wait(seconds: float) -> None:
        for feeder in feeders.values():
            feeder.wait(seconds)

    serve({"feed": feed, "wait": wait})


if __name__ == "__main__":
    main(*sys.argv[1:])
