"""The end of a process in which something is still open: it comes at once, with the user's exit code and stderr."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.server import Server

SCHEMA = pa.schema([("n", pa.int64())])
pytestmark = pytest.mark.timeout(300)
SOON = 120.0
"""Seconds; far more than needed on a shared machine."""

BEGIN = """
import os, sys, threading, time
import pyarrow as pa
import barrage_server as bs
SCHEMA = pa.schema([("n", pa.int64())])
"""
SERVER = """
server = bs.Server()
table = server.append_table("numbers", SCHEMA)
table.append({"n": [1, 2, 3]})
"""
LIVE = """
client = bs.connect(os.environ["URI"])
live = client.subscribe("numbers")
"""
OWN_LIVE = """
client = bs.connect(server.uri)
live = client.subscribe("numbers")
"""
# Short sleeps: Python sees a signal that comes right before one only after it.
REST = "rest = lambda: [time.sleep(0.1) for _ in range(6000)]\n"

OPEN = {
    "server": SERVER + REST,
    "client": LIVE + REST,
    "both": SERVER + OWN_LIVE + REST,
    "client without a reference": 'live = bs.connect(os.environ["URI"]).subscribe("numbers")\n' + REST,
    "iteration": SERVER + OWN_LIVE + "rest = lambda: list(live.updates())\n",
    "iteration on a thread": SERVER + OWN_LIVE + REST + "threading.Thread(target=lambda: list(live.updates())).start()",
    "iteration on a daemon": SERVER
    + OWN_LIVE
    + REST
    + "threading.Thread(target=lambda: list(live.updates()), daemon=True).start()",
    "iteration in a pool": SERVER
    + OWN_LIVE
    + REST
    + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()
pool.submit(lambda: list(live.updates()))
""",
    "iteration in a coroutine": SERVER
    + OWN_LIVE
    + REST
    + """
import asyncio
async def follow():
    async for update in live:
        pass
threading.Thread(target=lambda: asyncio.run(follow())).start()
""",
    "relay": """
relay = bs.Server()
followed = relay.follow(os.environ["URI"] + "/numbers")
client = bs.connect(relay.uri)
live = client.subscribe("numbers")
"""
    + REST,
    "relay of its own": SERVER
    + """
relay = bs.Server()
followed = relay.follow(server.uri + "/numbers")
live = bs.connect(relay.uri).subscribe("numbers")
"""
    + REST,
    "publication": LIVE + 'publication = client.publish_live("copy of %d" % os.getpid(), live)\n' + REST,
    "feeding thread": SERVER
    + OWN_LIVE
    + REST
    + """
def feed():
    while True:
        table.append({"n": [1]})
threading.Thread(target=feed, daemon=True).start()
""",
    "upstream that is away": SERVER
    + """
gone = bs.Server()
gone.append_table("other", SCHEMA)
server.follow(gone.uri + "/other")
live = bs.connect(gone.uri).subscribe("other")
gone.close()
"""
    + REST,
    "Deephaven's endpoints": """
server = bs.Server(deephaven_port=0, deephaven_web_port=0)
server.append_table("numbers", SCHEMA).append({"n": [1]})
live = bs.connect(server.deephaven_uri).subscribe("numbers")
"""
    + REST,
    "callback that never returns": SERVER
    + OWN_LIVE
    + REST
    + """
entered = threading.Event()
live.on_update(lambda update: (entered.set(), threading.Event().wait()))
table.append({"n": [4]})
entered.wait()
""",
}

END = "print('ready', flush=True)\n"
RAISE = END + "raise RuntimeError('of the user')\n"
WAIT = END + "rest()\n"


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with Server() as server:
        server.append_table("numbers", SCHEMA).append({"n": [1]})
        yield server.uri


def start(held: ExitStack, script: str | Path, **settings: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, *(["-c", script] if isinstance(script, str) else [str(script)])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    held.callback(process.communicate)
    held.callback(process.kill)
    return process


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal, once the process is ready."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = process.communicate(timeout=SOON)
    return process.returncode, out, err


@pytest.mark.parametrize("opened", OPEN.values(), ids=OPEN)
def test_a_process_ends_with_what_it_has_open(opened: str, upstream: str) -> None:
    """At the end of the script, and by Ctrl-C."""
    with ExitStack() as held:
        ways = [start(held, BEGIN + opened + "\n" + last, URI=upstream) for last in (END, WAIT)]
        interrupt(ways[1], signal.SIGINT)
        plain, interrupted = map(ended, ways)
    assert plain == (0, "ready\n", "")
    assert interrupted[0] == -signal.SIGINT
    assert interrupted[2].splitlines()[-1] == "KeyboardInterrupt"
    assert interrupted[2].count("Traceback") == 1


@pytest.mark.parametrize("name", ["server", "client", "both", "relay", "iteration on a thread"])
def test_a_process_ends_with_the_exit_code_and_the_words_of_the_user(name: str, upstream: str) -> None:
    """By an uncaught exception, and by SIGTERM."""
    with ExitStack() as held:
        ways = [start(held, BEGIN + OPEN[name] + "\n" + last, URI=upstream) for last in (RAISE, WAIT)]
        interrupt(ways[1], signal.SIGTERM)
        raised, terminated = map(ended, ways)
    assert raised[0] == 1
    assert raised[2].splitlines()[0] == "Traceback (most recent call last):"
    assert raised[2].splitlines()[-1] == "RuntimeError: of the user"
    assert raised[2].count("Traceback") == 1
    assert terminated == (-signal.SIGTERM, "", "")


def test_a_process_ends_whose_clients_stand_still() -> None:
    """Uploads and streams at both endpoints, of clients that say nothing more and do not hang up."""
    script = """
    server = bs.Server(deephaven_port=0, deephaven_web_port=0)
    server.append_table("numbers", SCHEMA)
    print(server.port, server.deephaven_uri.rpartition(":")[2], flush=True)
    sys.stdin.readline()
    """
    with ExitStack() as held:
        process = start(held, BEGIN + textwrap.dedent(script))
        assert process.stdout is not None
        assert process.stdin is not None
        kept = []
        for port in process.stdout.readline().split():
            client = fl.connect(f"grpc://127.0.0.1:{port}")
            put = client.do_put(fl.FlightDescriptor.for_path("numbers"), SCHEMA)
            put[0].write_batch(pa.record_batch({"n": [1]}))
            kept.append((client, put, client.do_exchange(fl.FlightDescriptor.for_command(b"dphn"))))
        process.stdin.write("\n")
        process.stdin.close()
        process.stdin = None
        assert ended(process) == (0, "", "")


def test_what_was_published_last_has_arrived_when_the_process_has_ended(upstream: str) -> None:
    script = """
    from barrage_server.engine import AppendTable, UpdateGraph
    source = AppendTable(UpdateGraph(), "source", SCHEMA)
    publication = bs.connect(os.environ["URI"]).publish_live("last", source)
    source.append({"n": list(range(100_000))})
    """
    with ExitStack() as held:
        assert ended(start(held, BEGIN + textwrap.dedent(script), URI=upstream)) == (0, "", "")
        with bs.connect(upstream) as client:
            assert client.snapshot("last").num_rows == 100_000


CHILD = """
def child():
    server = bs.Server(deephaven_port=0)
    server.append_table("numbers", SCHEMA).append({"n": [1]})
    global live
    live = bs.connect(server.uri).subscribe("numbers")
    threading.Thread(target=lambda: list(live.updates())).start()
    print("child", flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_ends_with_what_it_has_open(method: str, upstream: str, tmp_path: Path) -> None:
    script = (
        BEGIN
        + CHILD
        + f"""
if __name__ == "__main__":
    import multiprocessing
    process = multiprocessing.get_context("{method}").Process(target=child)
    process.start()
    process.join()
    print(process.exitcode)
"""
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    with ExitStack() as held:
        assert ended(start(held, path, URI=upstream)) == (0, "child\n0\n", "")


def test_a_forked_child_leaves_to_its_parent_what_that_has_open() -> None:
    """It ends with its own exit code, whether it closes its copies or not; the parent's go on."""
    script = """
    pids = []
    for closes in (True, False):
        pid = os.fork()
        if not pid:
            if closes:
                live.close(), client.close(), server.close()
            sys.exit(3)
        pids.append(pid)
    print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
    table.append({"n": [4]})
    live.wait_until(lambda live: live.size == 4)
    """
    with ExitStack() as held:
        process = start(held, BEGIN + SERVER + OWN_LIVE + textwrap.dedent(script))
        assert ended(process) == (0, "[3, 3]\n", "")


def test_a_forked_child_does_not_keep_the_data_directory_of_a_closed_server(tmp_path: Path) -> None:
    """The child has the locked file open, until it ends; and its own closing does not release the lock."""
    script = """
    server = bs.Server(data_dir="data")
    told, tells = os.pipe()
    waits, held = os.pipe()
    if not os.fork():
        os.close(held)
        server.close()
        os.write(tells, b"closed")
        os.read(waits, 1)  # until the parent has ended
        os._exit(0)
    os.read(told, 6)
    try:
        bs.Server(data_dir="data")
    except bs.AlreadyExistsError:
        print("locked")
    server.close()
    with bs.Server(data_dir="data"):
        print("opened again")
    """
    with ExitStack() as held:
        process = start(held, f"{BEGIN}os.chdir({str(tmp_path)!r})\n{textwrap.dedent(script)}")
        assert ended(process) == (0, "locked\nopened again\n", "")


def test_a_thread_that_serves_outlives_the_main_thread() -> None:
    """What threads that are no daemons work with stays open until they have ended."""
    script = """
    def work():
        threading.main_thread().join()
        table.append({"n": [4]})
        print(client.snapshot("numbers").num_rows, live.state)
        live.wait_until(lambda live: live.size == 4)
        print(live.size)
    threading.Thread(target=work).start()
    """
    with ExitStack() as held:
        process = start(held, BEGIN + SERVER + OWN_LIVE + textwrap.dedent(script))
        assert ended(process) == (0, "4 live\n4\n", "")


def test_a_test_run_ends_that_has_left_everything_open(tmp_path: Path) -> None:
    path = tmp_path / "test_open.py"
    body = textwrap.indent(SERVER + OWN_LIVE + "global kept\nkept = live\n", "    ")
    path.write_text(BEGIN + "def test_nothing():\n" + body)
    with ExitStack() as held:
        process = start(
            held, f"import sys, pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {str(path)!r}]))"
        )
        code, out, err = ended(process)
        assert (code, err) == (0, "")
        assert "1 passed" in out
