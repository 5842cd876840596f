"""Readers and publishers at the same time: no version is ever seen half way."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.engine import AppendTable, KeyedTable, TableVersion, UpdateGraph

ACCOUNTS = 5000
SCHEMA = pa.schema([("account", pa.int64()), ("owner", pa.string()), ("balance", pa.int64())])


def batch(accounts: np.ndarray[tuple[int], np.dtype[np.int64]], balances: object, round_: int) -> pa.RecordBatch:
    owners = pa.array([f"owner {account} {round_}" for account in accounts.tolist()])
    return pa.record_batch([pa.array(accounts), owners, pa.array(balances)], schema=SCHEMA)


def check(version: TableVersion) -> None:
    table = version.to_table()
    assert table.num_rows == ACCOUNTS
    assert pc.sum(table["balance"]).as_py() == 0, "every cycle moves as much away as it brings"
    rounds = pc.cast(pc.replace_substring_regex(table["owner"], r"owner \d+ ", ""), pa.int64())
    assert pc.max(rounds).as_py() <= version.step, "no text of a later cycle"


def test_readers_see_whole_cycles_while_cells_are_overwritten() -> None:
    """Transfers keep the sum of all balances at zero: in every version, also in those held for long."""
    graph = UpdateGraph()
    table, log = KeyedTable(graph, "accounts", SCHEMA, ["account"]), AppendTable(graph, "log", SCHEMA)
    table.upsert(batch(np.arange(ACCOUNTS), np.zeros(ACCOUNTS, np.int64), 1))
    done = threading.Event()
    failures: deque[BaseException] = deque()

    def read() -> None:
        held: deque[TableVersion] = deque(maxlen=20)
        try:
            while not done.is_set():
                version, logged = graph.versions([table, log])
                assert logged.size == 2 * (max(version.step, 1) - 1), "both tables are of one cycle"
                held.append(version)
                check(version)
                check(held[0])
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    random = np.random.default_rng(5)
    balances = np.zeros(ACCOUNTS, np.int64)
    for round_ in range(2, 400):
        pair = np.sort(random.choice(ACCOUNTS, 2, replace=False))
        balances[pair] += np.array([7, -7])
        with graph.cycle():
            table.upsert(batch(pair, balances[pair], round_))
            log.append(batch(pair, balances[pair], round_))
        if failures:
            break
    done.set()
    for reader in readers:
        reader.join()
    if failures:
        raise failures[0]
    assert table.to_arrow()["balance"].to_pylist() == balances.tolist()


def test_the_cycles_of_many_threads_lose_nothing_and_tear_nothing() -> None:
    """Threads that wait share a cycle; the rows of one thread's cycle stay together."""
    graph = UpdateGraph()
    table = AppendTable(graph, "t", pa.schema([("thread", pa.int64()), ("n", pa.int64())]))

    def publish(number: int) -> None:
        for round_ in range(50):
            with graph.cycle():
                table.append({"thread": [number], "n": [2 * round_]})
                table.append({"thread": [number], "n": [2 * round_ + 1]})

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 50 <= graph.step <= 200
    rows = table.to_arrow().to_pylist()
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert (first["thread"], first["n"] + 1) == (second["thread"], second["n"])
    for number in range(4):
        assert [row["n"] for row in rows if row["thread"] == number] == list(range(100))
