"""Rounds of disturbances, and what must hold after each: see ``docs/reliability.md``."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import barrage_server as bs
from tests.faults import damage as damages
from tests.faults.child import PATIENCE, Child, descendants, end
from tests.faults.following import digest
from tests.faults.publisher import PUBLISHER
from tests.faults.servers import Serving
from tests.faults.source import CAPACITY, EPOCH, PLAIN, SPARK, batch, content, mode, options, ordered, sent
from tests.live.process import ROOT
from tests.live.proxy import Proxy
from tests.ports import free_port

ROUND_SECONDS = 2.0
BATCHES = (4, 12)
"""Least and most batches of each publisher in a round."""

# How often each is drawn. What ends a driver of Spark takes long.
WEIGHTS = {
    "server killed": 5,
    "server killed at rest": 2,
    "server ended": 1,
    "driver killed": 1,
    "executor killed": 2,
    "worker killed": 2,
    "publisher killed": 2,
    "subscriber killed": 1,
    "relay killed": 1,
    "connections cut": 4,
    "connections stalled": 3,
    "connections vanished": 2,
    "disk full": 3,
    "journal torn": 4,
    "journal flipped": 4,
    "checkpoint flipped": 2,
}
_OF_SPARK = ("driver killed", "executor killed", "worker killed")
_AT_REST = ("server killed at rest", "journal torn", "journal flipped", "checkpoint flipped")


@dataclass(frozen=True)
class Disturbance:
    """What happens in a round, after ``at`` of its time (0 to 1); ``seed`` is that of its own choices."""

    kind: str
    at: float
    seed: int

    def __str__(self) -> str:
        return self.kind if self.kind in _AT_REST else f"{self.kind} at {self.at * ROUND_SECONDS:.2f} s"


def plan(seed: int, number: int, *, spark: bool) -> list[Disturbance]:
    """The disturbances of a round, in their order: of the seed and its number alone."""
    chance = random.Random(f"{seed}/{number}")
    kinds = {kind: weight for kind, weight in WEIGHTS.items() if spark or kind not in _OF_SPARK}
    drawn = chance.choices([*kinds], [*kinds.values()], k=chance.choice([1, 1, 2, 2, 3]))
    made = [Disturbance(kind, chance.random(), chance.randrange(1 << 30)) for kind in drawn]
    return sorted(made, key=lambda one: (one.kind in _AT_REST, one.at))


class RoundError(AssertionError):
    """A round that went wrong, with what repeats it."""


class Rounds:
    """A server, its publishers and its subscribers.

    Args:
        seed: of all choices. What threads, sockets and disks do in between is not repeated.
        folder: for everything.
        progress: told a line after every round.
        spark: whether there is a cluster of Spark.
    """

    def __init__(self, seed: int, folder: Path, progress: Callable[[str], None], *, spark: bool = True) -> None:
        self._seed = seed
        self._folder = folder
        self._progress = progress
        self._has_spark = spark
        self._tables = (*PLAIN, *(SPARK if spark else ()))
        self._last = -1  # the last batch of each publisher
        self._files = -1
        self._starts = 0
        self._was_full = False
        self._acknowledged: dict[str, int] = {}
        self._read_only = threading.Event()
        self._before: dict[str, pa.Table] = {}
        self._stack = ExitStack()
        self.done: Counter[str] = Counter()
        self.rounds = 0

    def run(self, first: int, rounds: int) -> None:
        """Run rounds; RoundError when one goes wrong."""
        with self._stack:
            began = time.monotonic()
            self._set_up()
            self._progress(f"ready after {time.monotonic() - began:.0f} s")
            for number in range(first, first + rounds):
                began = time.monotonic()
                disturbances = plan(self._seed, number, spark=self._has_spark)
                text = ", ".join(map(str, disturbances))
                try:
                    notes = self._round(number, disturbances)
                except BaseException as error:
                    raise RoundError(f"round {number} of seed {self._seed} ({text}): {error}") from error
                self.rounds += 1
                self.done.update(one.kind for one in disturbances)
                more = f"; {', '.join(notes)}" if notes else ""
                self._progress(f"round {number}, {time.monotonic() - began:.1f} s: {text}{more}")

    # Setting up.

    def _set_up(self) -> None:
        self._data = self._folder / "data"
        self._source = self._folder / "source"
        self._staging = self._folder / "staging"
        for folder in (self._source, self._staging):
            folder.mkdir()
        self._port = free_port()
        self._serve(random.Random(f"{self._seed}/first"))
        self._stack.callback(lambda: self._server.kill())
        self._uri = f"grpc://127.0.0.1:{self._port}"
        self._proxies = {
            name: self._stack.enter_context(Proxy(self._port)) for name in ("spark", "publisher", "subscriber", "relay")
        }
        self._relay_port = free_port()
        self._begin_relay()
        self._stack.callback(lambda: self._relay.kill())
        self._begin_publisher()
        self._stack.callback(lambda: self._publisher.kill())
        self._subscribers: dict[str, Child] = {}
        for name in ("direct", "relayed"):
            self._begin_subscriber(name)
        self._stack.callback(self._end_subscribers)
        if self._has_spark:
            self._begin_cluster()
            self._begin_driver()
            self._stack.callback(self._end_driver)
        self._client = self._stack.enter_context(bs.connect(self._uri, timeout=20, wait=PATIENCE))

    def _proxied(self, name: str) -> str:
        return f"grpc://127.0.0.1:{self._proxies[name].port}"

    def _serve(self, chance: random.Random) -> None:
        """Start the server; with which settings is drawn."""
        self._starts += 1
        checkpoint = chance.choice([1 << 15, 1 << 18, 64 << 20])
        self._server = Serving(
            self._folder / f"server-{self._starts}.log",
            checkpoint,
            *("--data-dir", str(self._data), "--port", str(self._port)),
            *("--fsync", chance.choice(["always", "interval", "os"])),
            *("--front", chance.choice(["pyarrow", "grpc"])),
        )
        self._server.wait_ready()
        self._was_full = False

    def _begin_relay(self) -> None:
        upstream = self._proxied("relay")
        follows = [word for name in self._tables for word in ("--follow", f"{upstream}/{name}")]
        log = self._folder / "relay.log"
        self._relay = Serving(log, 64 << 20, "--port", str(self._relay_port), *follows)
        self._relay.wait_ready()

    def _begin_publisher(self) -> None:
        self._publisher = Child(
            "tests.faults.publisher",
            self._folder / "publisher.log",
            self._proxied("publisher"),
            str(self._seed),
            told=self._told,
        )

    def _told(self, what: dict[str, Any]) -> None:
        if what["told"] == "done":
            self._acknowledged[what["table"]] = max(what["batch"], self._acknowledged.get(what["table"], -1))
        else:
            self._read_only.set()

    def _begin_subscriber(self, name: str) -> None:
        uri = self._proxied("subscriber") if name == "direct" else f"grpc://127.0.0.1:{self._relay_port}"
        log = self._folder / f"subscriber-{name}.log"
        self._subscribers[name] = Child("tests.faults.following", log, uri, f"{self._seed}/{name}")

    def _end_subscribers(self) -> None:
        for child in self._subscribers.values():
            child.kill()

    def _begin_cluster(self) -> None:
        from tests.spark.daemons import Daemon

        daemons: list[Daemon] = []

        def begin(name: str, *arguments: str, **environment: str) -> None:
            daemon = Daemon(name, *arguments, **environment)
            self._stack.callback(daemon.close)
            daemons.append(daemon)

        begin("master.Master")
        started = daemons[0].line_with("Starting Spark master at spark://")
        self._master = "spark://" + started.rsplit("spark://", 1)[1].strip()
        for number in range(2):
            work = str(self._folder / f"work-{number}")
            arguments = ("--cores", "1", "--memory", "640m", "--work-dir", work, self._master)
            begin("worker.Worker", *arguments, PYSPARK_PYTHON=sys.executable)
        for daemon in daemons[1:]:
            daemon.line_with("Successfully registered with master")
        self._workers = daemons[1:]

    def _begin_driver(self) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "generated"), sysconfig.get_path("purelib")])
        arguments = (self._master, self._proxied("spark"), str(self._source), str(self._folder / "checkpoints"), path)
        self._driver = Child("tests.faults.driver", self._folder / "driver.log", *arguments)
        self._driver.ask(300, do="start")

    def _end_driver(self, chance: random.Random | None = None) -> None:
        """Kill the driver: its Python, its JVM, or both, and then what is left of it."""
        family = [self._driver.pid, *descendants(self._driver.pid)]
        if chance is not None:
            chance.shuffle(family)
            family = family[: chance.randint(1, len(family))] + family
        for pid in family:
            end(pid)
        self._driver.kill()

    # One round.

    def _round(self, number: int, disturbances: list[Disturbance]) -> list[str]:
        chance = random.Random(f"{self._seed}/{number}/batches")
        self._feed(chance)
        began = time.monotonic()
        notes: list[str] = []
        for one in disturbances:
            if one.kind in _AT_REST:
                continue
            threading.Event().wait(max(0.0, began + one.at * ROUND_SECONDS - time.monotonic()))
            notes += self._disturb(one.kind, random.Random(one.seed))
        threading.Event().wait(max(0.0, began + ROUND_SECONDS - time.monotonic()))
        for proxy in self._proxies.values():
            proxy.resume()
        if self._was_full:
            notes += self._empty_disk(chance)
        notes += self._drain()
        self._check()
        for one in disturbances:
            if one.kind in _AT_REST:
                notes += self._disturb(one.kind, random.Random(one.seed))
        return notes

    def _feed(self, chance: random.Random) -> None:
        self._last += chance.randint(*BATCHES)
        self._publisher.ask(do="feed", until=self._last)
        if self._has_spark:
            for _ in range(chance.randint(2, 6)):
                self._files += 1
                path = self._staging / f"{self._files:06d}.parquet"
                pq.write_table(batch("spark", self._files), path)
                stamp = 1_700_000_000 + self._files
                os.utime(path, (stamp, stamp))
                path.rename(self._source / path.name)

    def _drain(self) -> list[str]:
        """Everything works again: wait until all is published."""
        self._publisher.ask(2 * PATIENCE, do="wait", seconds=PATIENCE)
        if not self._has_spark:
            return []
        failures = self._driver.ask(4 * PATIENCE, do="drain", seconds=3 * PATIENCE)["failures"]
        return [f"{len(failures)} queries started again"] if failures else []

    def _disturb(self, kind: str, chance: random.Random) -> list[str]:
        if kind == "server killed":
            self._server.kill()
            self._restart(chance)
        elif kind == "server ended":
            self._server.terminate()
            self._restart(chance)
        elif kind == "server killed at rest":
            self._server.kill()
            self._restart(chance)
            self._check(exactly=True)
        elif kind == "driver killed":
            self._end_driver(chance)
            self._begin_driver()
        elif kind == "executor killed":
            return self._end_one(chance, "CoarseGrainedExecutorBackend", [worker.pid for worker in self._workers])
        elif kind == "worker killed":
            return self._end_one(chance, "pyspark", [self._driver.pid, *(worker.pid for worker in self._workers)])
        elif kind == "publisher killed":
            self._publisher.kill()
            self._begin_publisher()
            self._publisher.ask(do="feed", until=self._last)
        elif kind == "subscriber killed":
            name = chance.choice([*self._subscribers])
            self._subscribers[name].kill()
            self._begin_subscriber(name)
        elif kind == "relay killed":
            self._relay.kill()
            self._begin_relay()
        elif kind == "connections cut":
            name, proxy = chance.choice([*self._proxies.items()])
            return [f"{proxy.cut()} to {name}"]
        elif kind == "connections stalled":
            name, proxy = chance.choice([*self._proxies.items()])
            proxy.stall()
            return [f"to {name}"]
        elif kind == "connections vanished":
            name, proxy = chance.choice([*self._proxies.items()])
            return [f"{proxy.vanish()} to {name}"]
        elif kind == "disk full":
            self._read_only.clear()
            segment = max((self._data / "journal").glob("*.log"))
            self._server.fill_disk(segment.stat().st_size + chance.randint(0, 4000))
            self._was_full = True
        else:
            return self._damage(kind, chance)
        return []

    def _restart(self, chance: random.Random) -> None:
        self._check_log()
        self._serve(chance)

    def _end_one(self, chance: random.Random, text: str, parents: list[int]) -> list[str]:
        found = [pid for parent in parents for pid, line in descendants(parent).items() if text in line]
        if text == "pyspark":  # of Python, not of Java
            found = [
                pid for parent in parents for pid, line in descendants(parent).items()
                if "python" in line.split(" ")[0] and "-m pyspark" in line
            ]  # fmt: skip
        return [] if found and end(chance.choice(found)) else ["there was none"]

    def _empty_disk(self, chance: random.Random) -> list[str]:
        """Nothing could be written: tables can be read, and all that was acknowledged is there after a restart."""
        notes = []
        if self._server.is_alive:
            is_full = self._read_only.wait(3)  # unless no batch was left, or there was still room
            notes = [] if is_full else ["there was room"]
            for name in self._tables:
                with suppress(bs.UnknownTableError):
                    self._client.snapshot(name)
            if chance.random() < 0.5:
                self._server.terminate()
            else:
                self._server.kill()
        self._check_log()
        self._serve(chance)
        return notes

    def _damage(self, kind: str, chance: random.Random) -> list[str]:
        """Damage a copy of what a killed server has left, and start a server on it."""
        self._server.kill()
        copy = self._folder / "copy"
        make = {"journal torn": damages.tear, "journal flipped": damages.flip, "checkpoint flipped": damages.spoil}
        made = make[kind](self._data, copy, chance)
        self._restart(chance)
        try:
            if made is not None:
                try:
                    self._examine(made)
                except Exception as error:
                    kept = self._folder / "damaged"
                    shutil.copytree(copy, kept)
                    raise AssertionError(f"{made.what} in {kept}: {error}") from error
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        return ["there was none" if made is None else made.what]

    def _examine(self, damage: damages.Damage) -> None:
        """A server on a damaged copy starts with a state that was, or says where the damage is."""
        folder = str(damage.folder)
        log = self._folder / "copy.log"
        is_checkpoint = "state" in damage.what
        if is_checkpoint or damage.segment is not None:
            text = Serving(log, 1 << 18, "--data-dir", folder, "--port", "0").fails()
            wanted = (
                ("checkpoint",) if is_checkpoint else (damage.segment or "", f"at byte {damage.offset:,}", "damaged")
            )
            assert all(word in text for word in wanted), f"the start said: {text}"
            assert "Traceback" not in text, text
            assert self._tool("check", folder)[0] == 1
            if is_checkpoint:
                assert self._tool("repair", folder, "--yes")[0] == 1
                return
            assert self._tool("repair", folder)[0] == 1
            assert self._tool("check", folder)[0] == 1  # nothing was done without --yes
            assert self._tool("repair", folder, "--yes")[0] == 0
            assert self._tool("check", folder)[0] == 0
        server = Serving(log, 1 << 18, "--data-dir", folder, "--port", "0")
        try:
            server.wait_ready()
            with bs.connect(server.uri) as client:
                self._check_prefix(client, damage.lasts)
        finally:
            server.kill()

    def _tool(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "barrage_server.cli", *arguments],
            capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "generated")])},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    def _check_prefix(self, client: bs.Client, lasts: dict[str, int]) -> None:
        """Each table has the batches that are left, which are those before the damage; the publisher can go on."""
        there = {table.name for table in client.tables()}
        for name in PLAIN:
            last = client.last_batch(name, PUBLISHER, epoch=EPOCH) if name in there else None
            assert last == lasts.get(name), f"{name} is at batch {last}, the records left say {lasts.get(name)}"
            if name in there:
                _compare(name, client.snapshot(name), content(name, last), f"after batch {last} of the copy")
            begin = 0 if last is None else last + 1
            if begin < self._last and name != "py_whole":  # what replaces everything lacks nothing
                with _raises(bs.LostBatchesError):
                    self._publish(client, name, begin + 1)
            for missing in range(begin, self._last + 1):
                assert self._publish(client, name, missing).applied
            assert not self._publish(client, name, self._last).applied
            _compare(name, client.snapshot(name), content(name, self._last), "when published again on the copy")
        if {"spark_log", "spark_last"} <= there:  # they share their commits
            log = client.snapshot("spark_log")
            newest = log.group_by("k").aggregate([("id", "max")]).rename_columns(["k", "id"])
            wanted = newest.select(["id", "k"]).sort_by("id")
            _compare("spark_last", client.snapshot("spark_last"), wanted, "of the copy")

    def _publish(self, client: bs.Client, name: str, number: int) -> Any:
        return client.publish(
            name, sent(name, number), mode=mode(name, number), publisher=PUBLISHER, batch=number, epoch=EPOCH,
            **options(name),
        )  # fmt: skip

    # The judge.

    def _check(self, *, exactly: bool = False) -> None:
        """Everything that must hold. ``exactly``: nothing was published since the last time."""
        seen: dict[str, tuple[pa.Table, np.ndarray[Any, Any]]] = {}
        for name in self._tables:
            seen[name] = self._content(name)
        for name, (rows, keys) in seen.items():
            last = self._last if name in PLAIN else self._files
            _compare(name, rows, content(name, last), f"after batch {last}")
            keyed = rows.append_column("row key", pa.array(keys))
            self._check_keys(name, keyed, exactly=exactly)
            self._before[name] = keyed
        for name in PLAIN:
            known = self._client.last_batch(name, PUBLISHER, epoch=EPOCH)
            assert known == self._last, f"the last batch of {name} is {known}, not {self._last}"
            assert self._acknowledged.get(name, -1) <= self._last
        self._check_views(seen)
        self._check_log()
        assert not self._relay.faults(full=False), f"the relay's log tells of faults: {self._relay.log_path}"

    def _content(self, name: str) -> tuple[pa.Table, np.ndarray[Any, Any]]:
        """What a new subscriber gets: rows and row keys."""
        with self._client.subscribe(name) as live:
            live.wait_for_content(PATIENCE)
            version = live.version
            return version.to_table(), version.row_set.keys()

    def _check_keys(self, name: str, now: pa.Table, *, exactly: bool) -> None:
        """Rows that were there have the row keys that they had."""
        before = self._before.get(name)
        if name == "py_ring":
            total = content("py_log", -1).num_rows + sum(batch(name, n).num_rows for n in range(self._last + 1))
            size = min(total, CAPACITY)
            assert now["row key"].to_pylist() == list(range(total - size, total)), f"row keys of {name}"
        if before is None:
            return
        if exactly:
            assert now.equals(before), f"{name} is not as it was before the crash, row keys included"
        elif name in ("py_log", "spark_log", "spark_format"):
            assert now.slice(0, before.num_rows).equals(before), f"rows of {name} have other row keys than before"
        elif name in ("spark_last", "spark_sums"):
            keys = dict(zip(before["k"].to_pylist(), before["row key"].to_pylist(), strict=True))
            found = dict(zip(now["k"].to_pylist(), now["row key"].to_pylist(), strict=True))
            assert keys.items() <= found.items(), f"rows of {name} have other row keys than before"

    def _check_views(self, seen: dict[str, tuple[pa.Table, np.ndarray[Any, Any]]]) -> None:
        for child in self._subscribers.values():
            views = child.ask(do="follow", tables=[*self._tables])["views"]
            digests = []
            for name, viewport, reverse in views:
                rows, keys = seen[name]
                if viewport is None:
                    digests.append(digest(rows, keys))
                    continue
                first, stop = viewport
                if reverse:
                    first, stop = max(0, rows.num_rows - stop), max(0, rows.num_rows - first)
                digests.append(digest(rows.slice(first, stop - first), None))
            child.send(do="agree", digests=digests, seconds=PATIENCE)
        for name, child in self._subscribers.items():
            try:
                child.answer(2 * PATIENCE)
            except RuntimeError as error:
                raise AssertionError(f"a replica of {name} differs: {error}") from None

    def _check_log(self) -> None:
        faults = self._server.faults(full=self._was_full)
        assert not faults, f"the log {self._server.log_path} tells of faults: " + " | ".join(faults[:5])


def _compare(name: str, found: pa.Table, wanted: pa.Table, when: str) -> None:
    rows = ordered(name, found)
    wanted = wanted.cast(rows.schema).combine_chunks()
    if rows.equals(wanted):
        return
    order = rows.schema.names[0]
    extra = set(rows[order].to_pylist()) - set(wanted[order].to_pylist())
    missing = set(wanted[order].to_pylist()) - set(rows[order].to_pylist())
    raise AssertionError(
        f"{name} {when} has {rows.num_rows:,} rows, not {wanted.num_rows:,}: "
        f"{len(extra):,} too many {sorted(extra)[:3]}, {len(missing):,} missing {sorted(missing)[:3]}"
    )


@contextmanager
def _raises(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder, which stays when something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="barrage-faults-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
