"""What the commands refuse, how they say it, and what they say of themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import trustme

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_FAILURE, EXIT_USAGE
from barrage_server.cli.text import sentence
from barrage_server.demo import DemoOptions
from barrage_server.engine import KeyedTable

from .conftest import Command, Program


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["tables"], EXIT_USAGE, "Missing argument 'URI'. Try 'barrage-server tables --help'."),
        (["watch", "{uri}", "quotes", "--viewport", "9:3"], EXIT_USAGE, "'9:3' is not a viewport"),
        (["watch", "{uri}", "quotes", "--viewport", "0:3", "--full"], EXIT_USAGE, "exclude each other"),
        (["watch", "{uri}", "quotes", "--columns", "a,,b"], EXIT_USAGE, "separated by commas"),
        (["tables", "{uri}", "--token", ""], EXIT_USAGE, "--token is empty"),
        (["tables", "{uri}", "--token", " "], EXIT_USAGE, "--token is empty"),
        (["create", "{uri}", "", "a:int8"], EXIT_USAGE, "A table's name must not be empty."),
        (["watch", "{uri}", " ", "--once"], EXIT_USAGE, "A table's name must not be empty."),
        (["snapshot", "{uri}", "", "-o", "x.csv"], EXIT_USAGE, "A table's name must not be empty."),
        (["publish", "{uri}", "", "{file}"], EXIT_USAGE, "A table's name must not be empty."),
        (["drop", "{uri}", "quotes", ""], EXIT_USAGE, "A table's name must not be empty."),
        (["create", "{uri}", "made", "a:int8", "--kind", "keyed"], EXIT_USAGE, "needs a key"),
        (["publish", "{uri}", "made", "{file}", "--kind", "ring"], EXIT_FAILURE, "needs a capacity"),
        (["publish", "{uri}", "made", "{file}", "--kind", "keyed"], EXIT_FAILURE, "needs a key"),
        (["nonsense"], EXIT_USAGE, "No such command 'nonsense'. Try 'barrage-server --help'."),
        (["--nonsense"], EXIT_USAGE, "Try 'barrage-server --help'."),
        (["tables", "--nonsense"], EXIT_USAGE, "No such option: --nonsense. Try 'barrage-server tables --help'."),
        (["watch", "{uri}", "quotes", "--once", "--updates", "3"], EXIT_USAGE, "--once and --updates exclude each"),
        (
            ["create", "{uri}", "made", "price"],
            EXIT_USAGE,
            "'price' is not a column: write NAME:TYPE, as in price:double.",
        ),
        (["create", "{uri}", "made", "a:int8", "a:int8"], EXIT_USAGE, "There are two columns 'a'."),
        (["create", "{uri}", "made", "a:int8", "--kind", "heap"], EXIT_USAGE, "--kind is one of append, ring"),
        (["create", "{uri}", "made", "a:int8", "--kind", "ring"], EXIT_USAGE, "needs a capacity"),
        (["create", "{uri}", "made", "a:int8", "--key", "a", "--capacity", "5"], EXIT_USAGE, "takes no capacity"),
        (
            ["create", "{uri}", "made", "a:int8", "--key", "b"],
            EXIT_USAGE,
            "The key 'b' is not a column; there are 'a'.",
        ),
        (["create", "{uri}", "quotes", "a:int8"], EXIT_FAILURE, "exists and differs"),
        (["create", "{uri}", "made", "a:int9"], EXIT_USAGE, "'int9' is not an Arrow type"),
        (["drop", "{uri}"], EXIT_USAGE, "Missing argument 'TABLE...'"),
        (["publish", "{uri}", "quotes", "-"], EXIT_USAGE, "add --format"),
        (["snapshot", "{uri}", "quotes", "-o", "-"], EXIT_USAGE, "add --format"),
        (["snapshot", "{uri}", "quotes", "-o", "x", "--format", "xml"], EXIT_USAGE, "'xml' is not a format"),
        (["snapshot", "{uri}", "quotes", "-o", "nowhere/x.csv"], EXIT_USAGE, "There is no folder 'nowhere'"),
        (["tables", "http://127.0.0.1:1"], EXIT_USAGE, "write grpc://"),
        (["tables", "grpc://127.0.0.1:99999"], EXIT_USAGE, "ports are 1 to 65535. Try 'barrage-server tables --help'."),
        (["serve", "--log-level", "loud"], EXIT_USAGE, "--log-level: "),
        (["serve", "--tls-key", "k.pem", "--insecure"], EXIT_USAGE, "TLS needs both"),
        (["serve", "--tls-key", "k.pem", "--tls-certificate", "c", "--insecure"], EXIT_USAGE, "'c' cannot be read"),
        (["serve", "--port", "0", "--allow-anonymous", "--follow", "nonsense://x"], EXIT_USAGE, "nonsense"),
        (["serve", "--port", "0"], EXIT_USAGE, "or allow every caller with --allow-anonymous"),
        (["serve", "--port", "70000"], EXIT_USAGE, "--port: "),
        (["serve", "--host", "nohost.invalid", "--insecure"], EXIT_FAILURE, "'nohost.invalid' cannot be resolved"),
        (["serve", "--host", "127.0.0.1:1", "--insecure"], EXIT_USAGE, "The port is an argument of its own"),
        (["serve", "--host", "192.0.2.1", "--insecure"], EXIT_FAILURE, "Set host= (--host on the command line) to one"),
        (
            ["serve", "--front", "pyarrow", "--allow-anonymous", "--tls-key", "{pem}", "--tls-certificate", "{pem}"],
            EXIT_USAGE,
            "do not fit each other",
        ),
        (["demo", "--cores", "0"], EXIT_USAGE, "at least one core"),
        (["demo", "--rate", "0"], EXIT_USAGE, "--rate must be more than nothing"),
        (["demo", "--data", "none.csv"], EXIT_USAGE, "There is no file 'none.csv'."),
        (
            ["watch", "{uri}", "quote", "--once"],
            EXIT_FAILURE,
            "There is no table 'quote' on this server. Did you mean 'quotes'?",
        ),
        (["watch", "{uri}", "quotes", "--once", "--columns", "x"], EXIT_FAILURE, "'x'"),
        (["snapshot", "{uri}", "quotes", "-o", "out.xlsx"], EXIT_USAGE, "use one of .parquet, .arrow"),
        (["snapshot", "{uri}", "none", "-o", "out.csv"], EXIT_FAILURE, "There is no table 'none'"),
        (["publish", "{uri}", "quotes", "missing.csv"], EXIT_USAGE, "There is no file 'missing.csv'."),
        (["publish", "{uri}", "quotes", "{file}", "--mode", "merge"], EXIT_USAGE, "--mode is one of append"),
        (["publish", "{uri}", "quotes", "{file}", "--kind", "heap"], EXIT_USAGE, "--kind is one of append"),
        (["publish", "{uri}", "quotes", "{file}", "--kind", "ring", "--key", "sym"], EXIT_USAGE, "has no key"),
        (
            ["publish", "{uri}", "quotes", "{file}", "--mode", "delete", "--capacity", "5"],
            EXIT_USAGE,
            "takes no delete",
        ),
        (["publish", "{uri}", "quotes", "{file}", "--batch", "1"], EXIT_USAGE, "--publisher and --batch belong"),
        (["publish", "{uri}", "quotes", "{file}", "--publisher", "a"], EXIT_USAGE, "--publisher and --batch belong"),
        (["publish", "{uri}", "quotes", "{file}", "--publisher", "", "--batch", "1"], EXIT_USAGE, "must not be empty"),
        (["publish", "{uri}", "quotes", "{file}", "--publisher", "a", "--batch", "-1"], EXIT_USAGE, "--batch must be"),
        (["publish", "{uri}", "quotes", "{file}", "--allow-gap"], EXIT_USAGE, "name --publisher and --batch too"),
        (["publish", "{uri}", "quotes", "{file}", "--epoch", "a"], EXIT_USAGE, "name --publisher and --batch too"),
        (["publish", "{uri}", "quotes", "{file}", "--key", "price"], EXIT_FAILURE, "sym"),
        (["publish", "{uri}", "quotes", "{file}"], EXIT_FAILURE, "size"),
        (["tables", "grpc://127.0.0.1:1"], EXIT_FAILURE, "No connection to grpc://127.0.0.1:1"),
        (
            ["tables", "{uri}", "--tls-root-certs", "none.pem"],
            EXIT_USAGE,
            "--tls-root-certs takes PEM text or the path of a PEM file; 'none.pem' cannot be read",
        ),
        (["serve", "--config", "none.toml"], EXIT_USAGE, "There is no configuration file 'none.toml'."),
        (["serve", "--host", "0.0.0.0", "--example"], EXIT_USAGE, "Set a token"),
        (["serve", "--port", "0", "--example", "--data-dir", "data"], EXIT_USAGE, "caller with --allow-anonymous"),
        (
            ["serve", "--port", "0", "--example", "--deephaven-port", "0", "--console"],
            EXIT_USAGE,
            "or allow every caller with --allow-anonymous",
        ),
        (["serve", "--host", "0.0.0.0", "--token", "x"], EXIT_USAGE, "--allow-plaintext"),
        (["serve", "--token-file", "none"], EXIT_USAGE, "The token file 'none' cannot be read"),
        (["serve", "--credentials", "none"], EXIT_USAGE, "cannot be read"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(
    server: bs.Server,
    quotes: KeyedTable,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    code: int,
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rows.csv"
    file.write_text("sym,price\nA,5\n")
    pem = tmp_path / "junk.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\njunk\n-----END CERTIFICATE-----\n")
    before = quotes.to_arrow()
    found, out, err = command(*(arg.format(uri=server.uri, file=file, pem=pem) for arg in args))
    assert (found, out) == (code, "")
    assert re.match(r"barrage-server: (--[a-z]|[^a-z]|grpc://|[a-z]+_[a-z])", err), "an error begins with a capital"
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1
    assert (" Try 'barrage-server" in err) == (code == EXIT_USAGE)
    assert text in err
    assert quotes.to_arrow() == before


def test_the_debug_variable_brings_the_traceback(
    server: bs.Server, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARRAGE_DEBUG", "1")
    code, _, err = command("watch", server.uri, "none", "--once")
    assert code == EXIT_FAILURE
    assert "Traceback" in err
    assert "UnknownTableError" in err


def test_tokens_let_in_and_keep_out(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with bs.Server(token="right") as server:
        for args, problem in (((), "requires a token"), (("--token", "wrong"), "does not accept this token")):
            code, _, err = command("tables", server.uri, *args)
            assert code == EXIT_FAILURE
            assert f"{server.uri} {problem}: pass it with --token, or better as BARRAGE_TOKEN" in err
            assert "token=" not in err
        assert command("tables", server.uri, "--token", "right")[0] == 0
        monkeypatch.setenv("BARRAGE_TOKEN", "right")
        assert command("tables", server.uri)[0] == 0


@pytest.mark.parametrize("code", [0, 1])
def test_demo_passes_its_options_on_and_its_verdict_back(
    command: Command, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    seen: list[DemoOptions] = []

    def run(options: DemoOptions) -> int:
        seen.append(options)
        return code

    monkeypatch.setattr("barrage_server.demo.run", run)
    words = "--rate 100 --seconds 2.5 --flights 7 --quick --keep-serving --port 1234 --plain --cores 1 --memory 2g"
    assert command("demo", *words.split())[0] == code
    assert command("demo")[0] == code
    assert seen == [
        DemoOptions(
            rate=100.0,
            seconds=2.5,
            flights=7,
            quick=True,
            keep_serving=True,
            port=1234,
            plain=True,
            cores=1,
            memory="2g",
        ),
        DemoOptions(),
    ]


def test_demo_refuses_what_cannot_be(command: Command) -> None:
    code, _, err = command("demo", "--seconds", 0)
    assert code == EXIT_USAGE
    assert "seconds must be more than nothing" in err


def test_bare_it_prints_its_help_and_ends_as_every_typer_program_does(command: Command) -> None:
    code, out, err = command()
    assert (code, out) == (EXIT_USAGE, "")
    assert err.startswith("Usage: barrage-server [OPTIONS] COMMAND [ARGS]...\n")
    for name in ("serve", "watch", "stats", "drop", "create"):
        assert f"\n  {name} " in err
    assert command("--help")[0] == 0


def test_version_as_an_option_is_one_line(command: Command) -> None:
    assert command("--version") == (0, f"barrage-server {bs.__version__}\n", "")


def test_the_package_is_the_program_too(command: Command) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barrage_server", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert (0, done.stdout, done.stderr) == command("--version")


def test_version_names_what_it_stands_on(command: Command) -> None:
    code, out, _ = command("version")
    assert code == 0
    assert out.startswith(f"barrage-server {bs.__version__}\n")
    assert f"pyarrow {pa.__version__}\n" in out


@pytest.mark.parametrize("args", [["tables"], ["stats"], ["watch", "odd", "--once"]], ids=["tables", "stats", "watch"])
def test_names_that_others_have_chosen_send_nothing_to_the_terminal(
    server: bs.Server, command: Command, args: list[str]
) -> None:
    """A column may be called anything, and a user names itself."""
    name = "a\x1b[2J\nforged: line"
    table = server.keyed_table("odd", pa.schema([(name, pa.int64()), ("v", pa.int64())]), key=[name])
    table.upsert({name: [1], "v": [1]})
    with bs.connect(server.uri, user="\x1b[31muser", password="x") as client, client.subscribe("odd"):
        verb, *rest = args
        code, out, err = command(verb, server.uri, *rest)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert not any(line.startswith("forged") for line in out.splitlines())
    assert "\\x1b" in out


@pytest.mark.parametrize("shown", [("--token", "wrong"), ()], ids=["wrong", "none"])
def test_one_command_without_the_token_is_one_warning_in_the_log(
    command: Command, caplog: pytest.LogCaptureFixture, shown: tuple[str, ...]
) -> None:
    with bs.Server(token="right") as server:
        assert command("tables", server.uri, *shown)[0] == EXIT_FAILURE
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "authentication of 127.0.0.1:" in warning.getMessage()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("no such file", "No such file."),
        ("There is none.", "There is none."),
        ("grpc://h:1 is away", "grpc://h:1 is away."),
        ("ship_threshold must be more", "ship_threshold must be more."),
        ("'x' is no\n  column; did you mean 'y'?", "'x' is no column; did you mean 'y'?"),
        ("environment: unknown", "Environment: unknown."),
        ("", "."),
    ],
)
def test_texts_of_libraries_are_written_as_this_program_writes(text: str, written: str) -> None:
    assert sentence(text) == written


@pytest.mark.parametrize("flags", [("--example",), ()], ids=["example", "none"])
def test_the_log_says_what_is_served(program: Program, flags: tuple[str, ...]) -> None:
    process = program("serve", "--port", 0, *flags)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("grpc://")
    process.terminate()
    log = process.communicate(timeout=60)[1]
    assert ("serving 3 tables of the example; Ctrl-C ends" in log) == bool(flags)
    assert ("serving no tables yet; Ctrl-C ends" in log) == (not flags)
    assert " 0 " not in log.replace("port", "")


def test_a_certificate_that_is_not_trusted_is_told_in_the_words_of_the_command_line(
    command: Command, tmp_path: Path
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    with bs.Server(tls_certificate=chain, tls_key=issued.private_key_pem.bytes()) as server:
        code, _, err = command("tables", server.uri)
        assert code == EXIT_FAILURE
        assert err.endswith("pass its authority's certificate as --tls-root-certs.\n")
        assert "tls_root_certs" not in err
        roots = tmp_path / "roots.pem"
        authority.cert_pem.write_to_path(str(roots))
        assert command("tables", server.uri, "--tls-root-certs", roots)[0] == 0
