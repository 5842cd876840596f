"""Formulas, plans and batches of clients, changed at random and computed on tables that tick.

``python -m tests.fuzz.computing`` runs as many as it is told. Each gives tables, or an error of this project's tree:
anything else is a fault, and so are ten seconds or a gigabyte for one of them, and a table that fails later for a
reason that is none of its own. The input is then left in a file. An input depends on its kind, the seed, its number and
the inputs that are kept.

These are in ``tests/fuzz/kept``: a run begins with the seeds and with them, and changes both. With ``--collect`` it
traces what each input reaches, changes further what reaches anything, and leaves there those of all inputs that reach
what no other one does (``tests.fuzz.kept``). The files depend on the inputs before, their number and the seed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import math
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from barrage_proto import table_pb2
from google.protobuf.message import DecodeError

from barrage_server.deephaven.operations import planned
from barrage_server.engine import AppendTable, KeyedTable, Table
from barrage_server.errors import BarrageError, UnsupportedOperationError
from barrage_server.plan import operation as operations
from barrage_server.plan.json_form import plan_from_json
from barrage_server.server.assembly import assemble
from barrage_server.server.authentication import Authentication
from barrage_server.server.fsync import Fsync
from barrage_server.server.limits import Limits
from barrage_server.server.plans import compute
from barrage_server.server.principal import Principal
from barrage_server.server.statistics import ServerStatistics
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec
from tests.fuzz.batches import changed_batch
from tests.fuzz.corpus import batches_about
from tests.fuzz.kept import FOLDER, MOST_BYTES, MOST_KEPT, Place, kept, least, places, write
from tests.fuzz.plans import plans_about, plans_of_two
from tests.fuzz.texts import FORMULAS, changed_formula, changed_plan

KINDS = ("formula", "plan", "batch")
_ME = Principal("fuzz")
_ROWS = 8
_SECONDS = 10
_MOST_MEMORY = 1 << 30
_SHOWN_ROWS = 20
_PROGRESS = 10_000


class FaultError(Exception):
    """What should not have happened."""


class Computing:
    """A server's state without endpoints, with two tables that have columns of every kind of formulas."""

    def __init__(self) -> None:
        limits = Limits(result_bytes=64 << 20, total_result_bytes=256 << 20, start_seconds=5.0)
        self._state = assemble(
            data_dir=None,
            fsync=Fsync.OS,
            limits=limits,
            subscriptions=SubscriptionLimits(),
            writers=1,
            authentication=Authentication(),
            roles=None,
            drop=lambda _: None,
            statistics=_no_statistics,
        )
        self._cycle = 0
        self._log = _Log()
        logging.getLogger("barrage_server").addHandler(self._log)
        schema = rows_of(0).schema
        keyed, _ = self._state.catalog.ensure("keyed", schema, TableSpec(TableKind.KEYED, key=("id",)))
        log, _ = self._state.catalog.ensure("log", schema, TableSpec(TableKind.APPEND))
        assert isinstance(keyed, KeyedTable)
        assert isinstance(log, AppendTable)
        self._keyed, self._appended = keyed, log
        self.tick()

    def close(self) -> None:
        """End what runs."""
        logging.getLogger("barrage_server").removeHandler(self._log)
        self._state.checks.shutdown()
        self._state.dispatcher.close()

    def tick(self) -> None:
        """A cycle that adds, modifies and removes rows."""
        graph = self._state.catalog.graph
        with graph.cycle():
            rows = rows_of(self._cycle)
            self._keyed.upsert(rows)
            self._appended.append(rows)
        if self._cycle:
            self._keyed.delete({"id": [self._cycle - 1]})
        self._cycle += 1

    def run(self, kind: str, data: bytes) -> bool:
        """Compute one input; whether there was a result.

        Raises:
            FaultError: something else than a result or an error of the tree has come of it.

        """
        made: list[Table] = []
        try:
            made = list(getattr(self, f"_{kind}")(data))
            for table in made:
                self._read(table)
            if made:
                self.tick()
            for table in made:
                self._read(table)
        except BarrageError:
            pass
        self._log.check()
        return bool(made)

    def _read(self, table: Table) -> None:
        version = table.snapshot().version
        rows = version.row_set.slice(0, _SHOWN_ROWS)
        for number in range(min(len(version.schema), 200)):
            for part in version.pieces(rows, [number]):
                (array,) = version.read(part, [number])
                array.validate(full=True)

    def _formula(self, data: bytes) -> Iterator[Table]:
        text = data.decode(errors="replace")
        table: Table = self._appended if len(text) % 2 else self._keyed
        for operation in (operations.View((f"made = {text}",)), operations.Where((text,))):
            with contextlib.suppress(BarrageError):
                yield self._state.results.compute(_ME, operation, [table])

    def _plan(self, data: bytes) -> Iterator[Table]:
        for outcome in compute(self._state, _ME, plan_from_json(data), lambda: False):
            yield self._made(outcome)

    def _batch(self, data: bytes) -> Iterator[Table]:
        request = table_pb2.BatchTableRequest()
        try:
            request.ParseFromString(data)
        except DecodeError:  # the endpoint refuses it before there is a request
            return
        results: list[Table | BarrageError] = []
        for operation in request.ops[:50]:
            kind = operation.WhichOneof("op")
            if kind in (None, "fetch_table", "apply_preview_columns", "create_input_table"):
                continue
            try:
                wanted = planned(kind, getattr(operation, kind))
                inputs = [self._source(reference, results) for reference in wanted.inputs]
                results.append(self._state.results.compute(_ME, wanted.operation, inputs))
            except BarrageError as error:
                results.append(error)
        yield from (result for result in results if isinstance(result, Table))

    def _source(self, reference: Any, results: list[Table | BarrageError]) -> Table:
        if reference.WhichOneof("ref") == "batch_offset" and 0 <= reference.batch_offset < len(results):
            return self._made(results[reference.batch_offset])
        return self._appended if b"log" in reference.ticket.ticket else self._keyed

    def _made(self, outcome: Table | BarrageError) -> Table:
        if isinstance(outcome, BarrageError):
            raise outcome
        return outcome


def _no_statistics() -> ServerStatistics:
    raise UnsupportedOperationError("There is no server whose statistics could be asked for.")


class _Log(logging.Handler):
    """Keeps what the log has of faults: errors that are none of the tree."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, BarrageError):
            self._found = error

    def check(self) -> None:
        """Raise what was found."""
        error, self._found = self._found, None
        if error is not None:
            raise FaultError(f"{type(error).__name__}: {error}") from error


def rows_of(cycle: int) -> pa.Table:
    """Rows with every kind of column that formulas take, null and odd values among them."""
    chance = random.Random(cycle)
    first = cycle * _ROWS // 2

    def column(kind: pa.DataType, *values: Any) -> pa.Array:
        return pa.array([chance.choice([None, *values]) for _ in range(_ROWS)], kind)

    return pa.table(
        {
            "id": pa.array(range(first, first + _ROWS), pa.int64()),
            "sym": column(pa.string(), "", "A", "B", "abc\0\u202e\U0001f600", "x" * 30),
            "letter": column(pa.uint16(), 65, 0xD800, 0).cast(pa.uint16()),
            "flag": column(pa.bool_(), True, False),
            "tiny": column(pa.int8(), -127, 0, 127),
            "short_": column(pa.int16(), -32767, 1, 32767),
            "count": column(pa.int32(), -(2**31) + 1, 0, 7, 2**31 - 1),
            "size": column(pa.int64(), -(2**63) + 1, -1, 0, 3, 2**63 - 1),
            "part": column(pa.float32(), -0.0, 1.5, math.nan, math.inf),
            "price": column(pa.float64(), -0.0, 0.1, 1e308, -math.inf, math.nan, 5e-324),
            "amount": column(pa.decimal128(20, 3), Decimal("0.001"), Decimal("-99999999999999999.999")),
            "at": column(pa.timestamp("ns", "UTC"), 0, -1, 2**63 - 1, 1_700_000_000_000_000_000),
            "day": column(pa.date32(), 0, 20_000, -700_000),
            "clock": column(pa.time64("ns"), 0, 86_399_999_999_999),
            "numbers": column(pa.list_(pa.int64()), [], [1, None, 3], [2**63 - 1] * 3),
            "texts": column(pa.list_(pa.string()), [], ["a", None], ["", "b" * 20]),
        }
    )


def seeds(kind: str) -> list[bytes]:
    """Valid inputs."""
    if kind == "formula":
        return [text.encode() for text in FORMULAS]
    if kind == "plan":
        return [*plans_about("keyed"), *plans_of_two("keyed", "log")]
    return list(batches_about("log", "keyed"))


CHANGES: dict[str, Callable[[bytes, list[bytes], random.Random], bytes]] = {
    "formula": changed_formula,
    "plan": changed_plan,
    "batch": changed_batch,
}


def inputs(kind: str, count: int, seed: int) -> Iterator[bytes]:
    """The seeds and the inputs that are kept, then changed ones."""
    valid = [*seeds(kind), *kept(kind)]
    return islice(chain(valid, changed(kind, valid, random.Random(f"{kind} {seed}"))), count)


def changed(kind: str, valid: list[bytes], chance: random.Random) -> Iterator[bytes]:
    """Changes of inputs, without an end. ``valid`` may grow meanwhile."""
    while True:
        data = chance.choice(valid)
        for _ in range(chance.choice([1, 1, 1, 2, 4])):
            data = CHANGES[kind](data, valid, chance)
        yield data


def check(computing: Computing, kind: str, data: bytes) -> bool:
    """Compute one input within its time; whether there was a result."""

    def hangs(*_: object) -> None:
        raise FaultError(f"It takes more than {_SECONDS} s.")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(_SECONDS)
    try:
        return computing.run(kind, data)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def reach(kind: str, data: bytes) -> frozenset[Place]:
    """The places that an input reaches, on tables that no other input was computed on."""
    computing = Computing()
    try:
        with places() as reached:
            check(computing, kind, data)
    finally:
        computing.close()
    return frozenset(reached)


class Report:
    """Counts what is computed, and leaves the inputs of faults in files."""

    def __init__(self, kind: str, count: int, seed: int, folder: Path) -> None:
        self.faults = 0
        self._kind, self._count, self._seed, self._folder = kind, count, seed, folder
        self._began = time.monotonic()

    def fault(self, number: int, data: bytes, error: Exception) -> None:
        self.faults += 1
        path = self._folder / f"{self._kind}-{self._seed}-{number}"
        path.write_bytes(data)
        print(f"{path}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)

    def goes_on(self, done: int, more: str) -> bool:
        """Tell how far it is, now and then; whether there is memory to go on."""
        if done % _PROGRESS and done != self._count:
            return True
        gc.collect()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        seconds = time.monotonic() - self._began
        print(f"{self._kind}: {done:,} inputs, {more}, {most} MiB, {seconds:.0f} s", flush=True)
        if most << 20 <= _MOST_MEMORY:
            return True
        print(f"{self._kind}: the process has taken more than {_MOST_MEMORY >> 20} MiB", file=sys.stderr)
        self.faults += 1
        return False


def run(kind: str, count: int, seed: int, folder: Path) -> int:
    """Compute many inputs; the number of faults, which are left in files."""
    computing, report, made = Computing(), Report(kind, count, seed, folder), 0
    for number, data in enumerate(inputs(kind, count, seed)):
        if number and not number % _PROGRESS:
            computing.close()
            computing = Computing()  # its tables have grown
        try:
            made += check(computing, kind, data)
        except Exception as error:  # any is a fault: the files tell which inputs, and the others are tried, too
            report.fault(number, data, error)
        if not report.goes_on(number + 1, f"{made:,} results"):
            break
    computing.close()
    return report.faults


def found(kind: str, before: list[bytes], count: int, seed: int, report: Report) -> list[bytes]:
    """The inputs to keep: of those before, and of ``count`` others. What reaches anything is changed further."""
    valid = seeds(kind)
    known = frozenset[Place]().union(*(reach(kind, data) for data in valid))
    candidates = {data: reach(kind, data) - known for data in before if data not in valid}
    valid += candidates
    reached = known.union(*candidates.values())
    for number, data in enumerate(islice(changed(kind, valid, random.Random(f"{kind} {seed}")), count)):
        if len(data) <= MOST_BYTES:
            try:
                if (once := reach(kind, data) - known) - reached:
                    again = once & reach(kind, data)  # not what depends on the time
                    if again - reached:
                        candidates[data] = again
                        valid.append(data)
                        reached |= again
            except Exception as error:  # a fault, as in a run that collects nothing
                report.fault(number, data, error)
        if not report.goes_on(number + 1, f"{len(reached - known):,} places in {len(candidates):,}"):
            break
    return least(candidates, MOST_KEPT)


def collect(kind: str, count: int, seed: int, folder: Path) -> int:
    """Compute many inputs and keep some; the number of faults, which are left in files."""
    report = Report(kind, count, seed, folder)
    chosen = found(kind, kept(kind), count, seed, report)
    write(kind, chosen)
    print(f"{kind}: {len(chosen):,} inputs are kept in {FOLDER}", flush=True)
    return report.faults


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.computing", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS], help="all when left out")
    parser.add_argument("--inputs", type=int, default=100_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--collect", action="store_true", help="keep the inputs that reach what no other one does")
    parser.add_argument("--file", type=Path, help="compute the input in a file that a fault has left")
    arguments = parser.parse_args()
    kinds = arguments.kinds or KINDS
    if arguments.file is not None:
        computing = Computing()
        for kind in kinds:
            print(f"{kind}: {'a result' if check(computing, kind, arguments.file.read_bytes()) else 'none'}")
        computing.close()
        return 0
    folder = Path(tempfile.mkdtemp(prefix="barrage-computing-"))
    work = collect if arguments.collect else run
    return 1 if sum(work(kind, arguments.inputs, arguments.seed, folder) for kind in kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
