"""The program as a process: start, signals, pipes, terminals, and how long ``--help`` takes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import argon2
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_INTERRUPTED, EXIT_SUCCESS, EXIT_TERMINATED
from barrage_server.engine import KeyedTable

from .conftest import Program

SOON = 30.0
LATIN = {**os.environ, "PYTHONIOENCODING": "latin-1"}


def uri_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    uri = process.stdout.readline().strip()
    assert re.fullmatch(r"grpc(\+tls)?://[^ ]+:\d+", uri), uri
    return uri


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, EXIT_INTERRUPTED), (signal.SIGTERM, EXIT_SUCCESS)], ids=["int", "term"]
)
def test_serve_prints_its_uri_and_ends_when_told(
    program: Program, number: signal.Signals, code: int, front: str
) -> None:
    process = program("serve", "--port", 0, "--front", front)
    with bs.connect(uri_of(process)) as client:
        assert client.tables() == []
        client.publish("numbers", {"n": [1, 2, 3]})
        with client.subscribe("numbers") as live:
            assert live.size == 3
            started = time.monotonic()
            process.send_signal(number)
            assert process.wait(SOON) == code
            assert time.monotonic() - started < 10
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_serve_opens_the_ports_for_deephavens_clients(program: Program) -> None:
    process = program("serve", "--port", 0, "--deephaven-port", 0, "--deephaven-web-port", 0)
    with bs.connect(uri_of(process)) as client:
        client.publish("numbers", {"n": [1, 2, 3]})
    assert process.stdout is not None
    uri, web_uri = process.stdout.readline().strip(), process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", web_uri)
    with bs.connect(uri) as client, client.subscribe("numbers") as live:
        assert live.to_arrow().to_pydict() == {"n": [1, 2, 3]}
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == EXIT_SUCCESS


def test_serve_lets_clients_run_scripts_when_asked(program: Program) -> None:
    process = program("serve", "--port", 0, "--deephaven-port", 0, "--console")
    uri_of(process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=SOON)
    assert process.returncode == EXIT_SUCCESS
    assert "the console is on: EVERY PROGRAM OF THIS MACHINE may run any Python" in err


def test_serve_refuses_a_console_that_strangers_could_use(program: Program) -> None:
    flags = ("--host", "0.0.0.0", "--port", 0, "--deephaven-port", 0, "--insecure", "--console")
    _, err = (process := program("serve", *flags)).communicate(timeout=SOON)
    assert process.returncode == 2
    assert "Set a token, or listen on 127.0.0.1" in err


def test_serve_warns_of_what_it_goes_without(program: Program, tmp_path: Path) -> None:
    """Credentials, TLS, or both, at the address that it listens on."""
    (tmp_path / "token").write_text("secret")
    anonymous = "no credentials are required: every program that reaches {} may connect"
    plaintext = "there is no TLS: credentials and tables can be read and changed in transit to {}"
    for host, flags, warned in (
        ("0.0.0.0", ("--insecure",), {anonymous, plaintext}),
        ("0.0.0.0", ("--allow-plaintext", "--token-file", "token"), {plaintext}),
        ("127.0.0.1", ("--allow-plaintext", "--token-file", "token"), set()),
        ("127.0.0.1", ("--allow-anonymous",), {anonymous}),
    ):
        process = program("serve", "--host", host, "--port", 0, "--no-web", *flags)
        uri = uri_of(process)
        assert uri.startswith("grpc://127.0.0.1:")  # which a client can connect to
        place = uri if host == "127.0.0.1" else f"{uri.replace('127.0.0.1', host)} (all addresses)"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SOON)
        assert {text for text in (anonymous, plaintext) if text.format(place) in err} == warned
        assert err.count("no credentials are") + err.count("no TLS") == len(warned)
        assert f"serving on {place}\n" in err


def test_serve_reads_its_file_under_the_environment_under_the_flags(program: Program, tmp_path: Path) -> None:
    config = tmp_path / "barrage.toml"
    config.write_text(
        """
        host = "localhost"
        port = 1
        token = "from-the-file"
        [limits]
        subscriptions = 0
        [[tables]]
        name = "quotes"
        key = ["sym"]
        columns = { sym = "string", price = "double" }
        [[tables]]
        name = "recent"
        capacity = 10
        columns = { at = "timestamp[us, tz=UTC]" }
        """
    )
    process = program(
        "serve", "--config", config, "--port", 0, BARRAGE_TOKEN="from-the-environment", BARRAGE_HOST="127.0.0.1"
    )
    uri = uri_of(process)
    assert uri.startswith("grpc://127.0.0.1:")
    with pytest.raises(bs.AuthenticationError):
        bs.connect(uri, token="from-the-file")
    with bs.connect(uri, token="from-the-environment") as client:
        assert {info.name: info.key_columns for info in client.tables()} == {"quotes": ("sym",), "recent": ()}
        with pytest.raises(bs.LimitError):
            client.subscribe("quotes")
    process.send_signal(signal.SIGINT)
    assert process.wait(SOON) == EXIT_INTERRUPTED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_stops_at_once(program: Program, server: bs.Server, quotes: KeyedTable, number: signal.Signals) -> None:
    process = program("watch", server.uri, "quotes")
    assert process.stdout is not None
    assert process.stdout.readline() == "quotes: 3 rows, 3 rows in view\n"
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=SOON)
    assert time.monotonic() - started < 10
    assert process.returncode in {EXIT_INTERRUPTED, EXIT_TERMINATED}
    assert "Traceback" not in out + err


def test_a_closed_pipe_ends_watch_without_a_word(program: Program, server: bs.Server, quotes: KeyedTable) -> None:
    process = program("watch", server.uri, "quotes", "--interval-ms", 1)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("quotes:")
    process.stdout.close()
    stop = threading.Event()

    def tick() -> None:
        price = 0.0
        while not stop.wait(0.05):
            price += 1
            quotes.upsert({"sym": ["A"], "price": [price], "size": [1]})

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        assert process.wait(SOON) == 1
    finally:
        stop.set()
        ticker.join(SOON)
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stdout = None


@pytest.mark.parametrize("end", ["q", "interrupt", "terminate"])
def test_a_terminal_gets_a_live_view(server: bs.Server, quotes: KeyedTable, end: str) -> None:
    """In a terminal of 80 columns and 24 lines, which is as it was before when the program has ended."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-c", "from barrage_server.cli import main; main()", "watch", server.uri, "quotes"],
        env={**env, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    try:
        first = read_until(ours, "q ends")
        assert "quotes" in first
        assert "live" in first
        assert "rows 1-3 of 3" in first

        def are_in_colour(number: int) -> bool:
            """Whether a changed cell and a new row come in colours; a late view may show them when these are over."""
            quotes.upsert({"sym": ["A", f"Z{number}"], "price": [1.25 + number, 9.0], "size": [10, 90]})
            seen = read_until(ours, f"Z{number}")
            changed = re.search(rf"\x1b\[[\d;]*33[\d;]*m *{1 + number}\.25", seen)
            return changed is not None and re.search(rf"\x1b\[[\d;]*32[\d;]*mZ{number}", seen) is not None

        assert any(are_in_colour(number) for number in range(9))
        os.write(ours, b"?")
        read_until(ours, "Ctrl-C")
        match end:
            case "q":
                os.write(ours, b"q")
            case "interrupt":
                os.write(ours, b"\x03")
            case _:
                process.send_signal(signal.SIGTERM)
        rest = read_until(ours, "\x1b[?1049l")  # the screen as it was
        assert "Traceback" not in rest
        assert process.wait(SOON) == {"q": 0, "interrupt": EXIT_INTERRUPTED, "terminate": EXIT_TERMINATED}[end]
        assert termios.tcgetattr(theirs) == before
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(SOON)
        os.close(ours)
        os.close(theirs)


def read_until(descriptor: int, text: str) -> str:
    """What a terminal was sent, up to and including ``text``."""
    seen = b""
    deadline = time.monotonic() + SOON
    while text not in seen.decode("utf-8", "replace"):
        left = deadline - time.monotonic()
        assert left > 0, f"{text!r} did not come; there was {seen!r}"
        if select.select([descriptor], [], [], left)[0]:
            seen += os.read(descriptor, 65536)
    return seen.decode("utf-8", "replace")


def test_several_tokens_are_good_at_a_time(program: Program) -> None:
    process = program("serve", "--port", 0, "--token", "old", "--token", "new")
    uri = uri_of(process)
    for token in ("old", "new"):
        with bs.connect(uri, token=token) as client:
            assert client.tables() == []
    for wrong in (None, "neither"):
        with pytest.raises(bs.AuthenticationError):
            bs.connect(uri, token=wrong)


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "arrows", "parquet"])
def test_pipes_carry_a_table_from_server_to_server(
    program: Program, server: bs.Server, quotes: KeyedTable, form: str
) -> None:
    """``snapshot -o -`` into ``publish -``, as a shell would."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as sink:
        writer = program("snapshot", server.uri, "quotes", "-o", "-", "--format", form, stdout=sink)
        sink.close()
        reader = program("publish", server.uri, "copy", "-", "--format", form, "--key", "sym", stdin=source)
        source.close()
        assert writer.communicate(timeout=SOON)[1] == ""
        err = reader.communicate(timeout=SOON)[1]
    assert (writer.returncode, reader.returncode) == (0, 0), err
    assert "3 rows of standard input published to copy" in err
    assert server.table("copy").to_arrow().to_pylist() == quotes.to_arrow().to_pylist()


def test_json_lines_survive_a_pipe(program: Program, server: bs.Server, quotes: KeyedTable) -> None:
    out, err = program("tables", server.uri, "--json").communicate(timeout=SOON)
    assert json.loads(out)["name"] == "quotes"
    assert err == ""


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from barrage_server.cli.boundary import run; run(['--help']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=True,
    )
    modules = done.stdout.rsplit("[", 1)[1]
    assert "serve" in done.stdout
    for heavy in (pa.__name__, "numpy", "pydantic", "pyspark", "prompt_toolkit"):
        assert f"'{heavy}'" not in modules


STUCK = """
import threading
from barrage_server.cli import boundary
boundary.GRACE_SECONDS = {grace}
def run(args):
    try:
        print("working", flush=True)
        threading.Event().wait()
    finally:
        while True:  # a clean-up that never ends, whatever interrupts it
            try:
                print("cleaning", flush=True)
                threading.Event().wait()
            except KeyboardInterrupt:
                continue
boundary.run = run
boundary.main()
"""


DROPPING = """
import select
import threading
from barrage_server.cli import boundary
turns = threading.Semaphore(0)  # of the thread that raises signals again, which begin with a select
ready = select.select
def counted(*arguments):
    turns.release()
    return ready(*arguments)
select.select = counted
def run(args):
    dropped = 0
    try:
        with boundary.raising_again():
            while dropped < {drops}:
                try:
                    print("working", flush=True)
                    threading.Event().wait()
                except BaseException:  # a library that drops what is raised within it
                    dropped += 1
            {then}
    except boundary.Terminated:
        code = boundary.EXIT_SUCCESS
    except KeyboardInterrupt:
        code = boundary.EXIT_INTERRUPTED
    while turns.acquire(blocking=False):
        pass
    for _ in range(3):  # a clean-up, which nothing interrupts
        turns.acquire()
    print(dropped, flush=True)
    return code
boundary.run = run
boundary.main()
"""


@pytest.mark.parametrize("then", ["threading.Event().wait()", "pass"], ids=["within", "at the end"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, EXIT_SUCCESS), (signal.SIGINT, EXIT_INTERRUPTED)], ids=["SIGTERM", "Ctrl-C"]
)
def test_a_signal_whose_exception_a_library_drops_is_raised_again(number: int, code: int, then: str) -> None:
    """As pyarrow drops it while it imports pandas, within the start of a server."""
    process = subprocess.Popen(
        [sys.executable, "-c", DROPPING.format(drops=3 if then != "pass" else 1, then=then)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "working"
        process.send_signal(number)
        assert process.wait(SOON) == code
        assert process.stdout.read().split()[-1] == ("1" if then == "pass" else "3")
    finally:
        process.kill()
        process.communicate(timeout=SOON)


@pytest.mark.parametrize(("grace", "signals"), [(0.2, 1), (600, 2)], ids=["grace", "second"])
def test_nothing_outlives_the_grace_or_a_second_interrupt(grace: float, signals: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK.format(grace=grace)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in ["working", "cleaning"][:signals]:
            assert process.stdout.readline().strip() == line
            process.send_signal(signal.SIGINT)
        assert process.wait(SOON) == EXIT_INTERRUPTED
    finally:
        process.kill()
        process.communicate(timeout=SOON)


def test_credentials_and_roles_are_read_again_on_sighup(program: Program, tmp_path: Path) -> None:
    """Wrong ones change nothing, and the log says so; the settings' other parts stay."""
    config, token = tmp_path / "barrage.toml", tmp_path / "token"
    settings = """
        token_file = "{token}"
        default_roles = ["guest"]
        [roles.guest]
        tables = ["{tables}"]
        rights = ["list", "read"]
        [[tables]]
        name = "one"
        columns = {{ n = "int64" }}
        [[tables]]
        name = "two"
        columns = {{ n = "int64" }}
        """
    token.write_text("first\n")
    config.write_text(settings.format(token=token, tables="one"))
    process = program("serve", "--port", 0, "--config", config)
    uri = uri_of(process)

    def names(secret: str) -> list[str]:
        with bs.connect(uri, token=secret) as client:
            return [table.name for table in client.tables()]

    def seen(secret: str) -> list[str] | None:
        try:
            return names(secret)
        except bs.AuthenticationError:
            return None

    assert seen("first") == ["one"]
    assert process.stderr is not None
    whole = config.read_text()
    for wrong in (
        "nonsense = 1",
        "nonsense = " + "9" * 5000,
        f'token_file = "{token}"',  # no roles: everything would be allowed
        whole.replace("token_file", "# token_file"),
    ):
        config.write_text(wrong)
        process.send_signal(signal.SIGHUP)
        while "stay as they were" not in (line := process.stderr.readline()):
            assert line, "the process ended"
            assert "replaced" not in line
        assert seen("first") == ["one"]
    token.write_text("second")
    config.write_text(settings.format(token=token, tables="t*"))
    process.send_signal(signal.SIGHUP)
    while "replaced" not in (line := process.stderr.readline()):
        assert line, "the process ended"
    assert seen("first") is None
    assert seen("second") == ["two"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) == EXIT_SUCCESS


def test_a_damaged_hash_and_pipes_change_nothing_on_sighup(program: Program, tmp_path: Path) -> None:
    config, token, credentials, pipe = (tmp_path / name for name in ("barrage.toml", "token", "users.toml", "pipe"))
    os.mkfifo(pipe)
    token.write_text("first\n")
    hashed = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("open sesame")
    user = "[[users]]\nname = 'anna'\npassword = '{}'\nroles = ['guest']\n"
    credentials.write_text(user.format(hashed))
    settings = f"""
        token_file = "{token}"
        credentials = "{credentials}"
        default_roles = ["guest"]
        roles.guest.tables = ["*"]
        roles.guest.rights = ["list", "read"]
        """
    config.write_text(settings)
    process = program("serve", "--port", 0, "--config", config)
    uri = uri_of(process)
    log = process.stderr
    assert log is not None

    def ask(words: str) -> None:
        process.send_signal(signal.SIGHUP)
        while words not in (line := log.readline()):
            assert line, "the process ended"
            assert "replaced" not in line

    credentials.write_text(user.format(hashed.rsplit("$", 1)[0] + "$AAAA"))
    ask("stay as they were")
    credentials.write_text(user.format(hashed))
    for changed in (
        settings.replace(str(token), str(pipe)),
        settings.replace(str(credentials), str(pipe)),
        f'tls_certificate = "{pipe}"\ntls_key = "{pipe}"\n{settings}',
        f'{settings}\n[web_tokens]\nkeys = "{pipe}"\naudience = "a"\nissuer = "i"\n',
    ):
        config.write_text(changed)
        ask("is no regular file")
    with bs.connect(uri, user="anna", password="open sesame") as client:
        assert client.tables() == []
    link = tmp_path / "link"
    link.symlink_to(token)
    config.write_text(settings.replace(str(token), str(link)))
    process.send_signal(signal.SIGHUP)
    while "replaced" not in (line := log.readline()):
        assert line, "the process ended"


def test_a_token_out_of_a_pipe_is_read_at_the_start(program: Program, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = program("serve", "--port", 0, "--token-file", pipe)
    with pipe.open("w") as file:
        file.write("first\n")
    with bs.connect(uri_of(process), token="first") as client:
        assert client.tables() == []


@pytest.mark.parametrize("command", ["check", "tables"])
def test_letters_that_the_encoding_of_the_output_lacks_are_escaped(tmp_path: Path, command: str) -> None:
    with bs.Server(data_dir=tmp_path / "data") as server:
        server.append_table("preise_\u20ac", {"n": "int64"})
        place = server.uri
        if command == "check":
            server.close()
            place = str(tmp_path / "data")
        asked = subprocess.run(
            [sys.executable, "-m", "barrage_server", command, place], capture_output=True, env=LATIN, timeout=120
        )
    assert (asked.returncode, asked.stderr) == (0, b"")
    assert b"preise_\\u20ac" in asked.stdout
