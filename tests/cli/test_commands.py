"""The commands against a server: what they print, what they write, what they refuse."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
from pyarrow import csv, parquet

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_FAILURE, EXIT_USAGE
from barrage_server.cli.text import sentence
from barrage_server.demo import DemoOptions
from barrage_server.engine import KeyedTable
from tests.server.follower import until

from .conftest import Command, Program


def test_tables_lists_sizes_keys_and_columns(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    server.append_table("trades", pa.schema([("at", pa.timestamp("us", tz="UTC"))]))
    code, out, err = command("tables", server.uri)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["table", "rows", "key", "columns"],
        ["quotes", "3", "sym", "sym", "string,", "price", "double,", "size", "int64"],
        ["trades", "0", "-", "at", "timestamp[us,", "tz=UTC]"],
    ]


def test_tables_as_json(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    code, out, _ = command("tables", server.uri, "--json")
    described = json.loads(out)
    assert code == 0
    assert (described["name"], described["rows"], described["key"]) == ("quotes", 3, ["sym"])
    assert described["columns"] == {"sym": "string", "price": "double", "size": "int64"}


def test_watch_prints_every_change_so_that_it_can_be_seen(server: bs.Server, program: Program) -> None:
    long = "x" * 100
    table = server.keyed_table("t", {"k": "int64", "price": "float64", "text": "string"}, key="k")
    table.upsert({"k": [1], "price": [1234567.25], "text": [f"{long}a"]})
    watching = program("watch", server.uri, "t", "--updates", "1")
    assert watching.stdout is not None
    assert "1 row in view" in watching.stdout.readline()
    table.upsert({"k": [1], "price": [1234567.75], "text": [f"{long}b"]})
    out = watching.stdout.read()
    assert "price=1234567.25->1234567.75" in out
    assert "text=…xxxxxxxxxxa->…xxxxxxxxxxb" in out


@pytest.mark.parametrize("ending", ["jsonl", "csv", "arrows"])
def test_an_empty_table_goes_through_a_pipe(server: bs.Server, command: Command, tmp_path: Path, ending: str) -> None:
    typed = pa.schema([("k", pa.int32()), ("tags", pa.list_(pa.string()))])
    for name in ("from", "to"):
        server.keyed_table(name, typed, key="k")
    path = tmp_path / f"rows.{ending}"
    assert command("snapshot", server.uri, "from", "-o", path)[0] == 0
    for mode in ("upsert", "replace", "delete"):
        code, _, err = command("publish", server.uri, "to", path, "--mode", mode)
        assert (code, err[:14]) == (0, "0 rows of rows"), err
    assert server.table("to").size == 0


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@pytest.mark.parametrize("text", ["", "\n\n"], ids=repr)
def test_input_without_a_row_makes_no_table_and_changes_none(
    server: bs.Server, quotes: KeyedTable, command: Command, tmp_path: Path, ending: str, text: str
) -> None:
    path = tmp_path / f"rows.{ending}"
    path.write_text(text)
    code, _, err = command("publish", server.uri, "new", path)
    assert code == EXIT_FAILURE
    assert "to name the columns of a new table. Create the table first, with 'barrage-server create'" in err
    code, _, err = command("publish", server.uri, "quotes", path)
    assert (code, quotes.size) == (0, 3), err


def test_an_empty_server_says_what_to_do_next(server: bs.Server, command: Command) -> None:
    code, out, _ = command("tables", server.uri)
    assert code == 0
    assert "Publish one: barrage-server publish" in out


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_snapshot_writes_what_the_table_holds(
    server: bs.Server, quotes: KeyedTable, command: Command, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"out{ending}"
    code, out, err = command("snapshot", server.uri, "quotes", "-o", path)
    assert (code, out) == (0, "")
    assert "3 rows of quotes written to" in err
    match ending:
        case ".parquet":
            found = parquet.read_table(path)
        case ".csv":
            found = csv.read_csv(path)
        case _:
            found = pa.ipc.open_file(path).read_all()
    assert found.to_pylist() == quotes.to_arrow().to_pylist()


def test_snapshot_of_a_window(server: bs.Server, quotes: KeyedTable, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    args = ("--viewport", "0:2", "--reverse", "--columns", "size,sym")
    assert command("snapshot", server.uri, "quotes", "-o", path, *args)[0] == 0
    assert parquet.read_table(path).to_pydict() == {"sym": ["B", "C"], "size": [20, 30]}


def test_publish_makes_and_extends_a_table(server: bs.Server, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text("sym,price\nA,1.5\nB,2.5\n")
    for rows in (2, 4):
        code, out, err = command("publish", server.uri, "trades", path)
        assert (code, out) == (0, "")
        assert "2 rows of" in err
        assert server.table("trades").size == rows


def test_publish_with_a_key_upserts(server: bs.Server, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "quotes.jsonl"
    for price in (1.5, 2.5):
        path.write_text(f'{{"sym": "A", "price": {price}}}\n')
        assert command("publish", server.uri, "quotes", path, "--key", "sym")[0] == 0
    assert server.table("quotes").to_arrow().to_pylist() == [{"sym": "A", "price": 2.5}]


def test_publish_deletes_and_replaces(server: bs.Server, quotes: KeyedTable, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"sym": ["B"]}), path)
    assert command("publish", server.uri, "quotes", path, "--mode", "delete")[0] == 0
    assert quotes.to_arrow().column("sym").to_pylist() == ["A", "C"]
    parquet.write_table(pa.table({"sym": ["C", "D"], "price": [3.0, 4.0], "size": [30, 40]}), path)
    assert command("publish", server.uri, "quotes", path, "--mode", "replace")[0] == 0
    assert sorted(quotes.to_arrow().column("sym").to_pylist()) == ["C", "D"]


def test_a_large_file_travels_in_pieces_and_arrives_as_one_cycle(
    server: bs.Server, command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "numbers.parquet"
    numbers = pa.table({"n": pa.array(range(200_000), pa.int64())})
    parquet.write_table(numbers, path)
    code, _, err = command("publish", server.uri, "numbers", path)
    assert code == 0
    assert "200,000 rows of" in err
    assert "rows/s" in err
    assert server.table("numbers").to_arrow() == numbers
    assert server.table("numbers").version.step == 1


def test_publish_makes_a_ring(server: bs.Server, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n\n" + "\n".join(map(str, range(10))))
    assert command("publish", server.uri, "recent", path, "--kind", "ring", "--capacity", 4)[0] == 0
    assert server.table("recent").to_arrow().to_pydict() == {"n": [6, 7, 8, 9]}


def test_publish_reads_text_with_the_types_of_the_table(server: bs.Server, command: Command, tmp_path: Path) -> None:
    """Not with those that its values suggest."""
    schema = pa.schema([("code", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("tags", pa.list_(pa.int8()))])
    server.append_table("codes", schema)
    (tmp_path / "codes.csv").write_text('code,at,tags\n007,2024-01-31 09:30:00Z,"[1, 2]"\nNA,,\n')
    (tmp_path / "codes.jsonl").write_text('{"code": "0x1", "at": "2024-01-31T09:30:00Z", "tags": [3]}\n')
    for name in ("codes.csv", "codes.jsonl"):
        code, _, err = command("publish", server.uri, "codes", tmp_path / name)
        assert code == 0, err
    found = server.table("codes").to_arrow()
    assert found.schema == schema
    assert found.column("code").to_pylist() == ["007", "NA", "0x1"]
    assert found.column("tags").to_pylist() == [[1, 2], None, [3]]


def test_a_text_that_does_not_fit_publishes_nothing(server: bs.Server, command: Command, tmp_path: Path) -> None:
    server.append_table("prices", pa.schema([("price", pa.float64())]))
    path = tmp_path / "prices.csv"
    path.write_text("price\n" + "1.5\n" * 400_000 + "much\n")
    code, out, err = command("publish", server.uri, "prices", path)
    assert (code, out) == (EXIT_FAILURE, "")
    assert "prices.csv' cannot be read as csv: " in err
    assert "'much'" in err
    assert server.table("prices").size == 0


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow", ".arrows"])
def test_a_snapshot_of_any_format_can_be_published_again(
    server: bs.Server, quotes: KeyedTable, command: Command, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"quotes{ending}"
    before = quotes.to_arrow()
    assert command("snapshot", server.uri, "quotes", "-o", path)[0] == 0
    quotes.delete({"sym": ["A", "C"]})
    assert command("publish", server.uri, "quotes", path)[0] == 0
    assert quotes.to_arrow().sort_by("sym") == before


def test_create_drop_and_the_errors_between(server: bs.Server, command: Command) -> None:
    columns = ["sym:string", "price:double", "at:timestamp[us, tz=+02:00]", "book:struct<bid: double, ask: double>"]
    for _ in range(2):  # the second time it is there already
        code, out, err = command("create", server.uri, "made", *columns, "--key", "sym")
        assert (code, out, err) == (0, "", "made is there, with 4 columns\n")
    made = server.table("made")
    assert made.key_columns == ("sym",)
    assert made.schema.field("at").type == pa.timestamp("us", tz="+02:00")
    assert command("create", server.uri, "made", "sym:string")[0] == EXIT_FAILURE
    assert command("create", server.uri, "last", "n:int64", "--kind", "ring", "--capacity", 3)[0] == 0
    code, _, err = command("drop", server.uri, "made", "last", "none")
    assert code == EXIT_FAILURE
    assert err.splitlines()[:2] == ["made is dropped", "last is dropped"]
    assert "There is no table 'none'" in err
    assert server.tables() == ()


def test_stats_show_tables_and_subscribers(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    with bs.connect(server.uri) as client, client.subscribe("quotes", viewport=range(2)):
        code, out, err = command("stats", server.uri)
        assert (code, err) == (0, "")
        headline, *rest = out.splitlines()
        assert "1 table ·" in headline
        assert "1 subscription ·" in headline
        assert [line.split()[:3] for line in rest if line.startswith("quotes")] == [
            ["quotes", "keyed", "3"],
            ["quotes", *[line.split()[1:3] for line in rest if line.startswith("quotes")][1]],
        ]
        code, out, _ = command("stats", server.uri, "--json")
    figures = json.loads(out)
    assert [table["name"] for table in figures["tables"]] == ["quotes"]
    assert figures["subscriptions"][0]["viewport_rows"] == 2


def test_watch_once_prints_what_is_there(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    code, out, _ = command("watch", server.uri, "quotes", "--once", "--columns", "sym,price", "--viewport", "1:3")
    assert code == 0
    assert out.splitlines() == ["quotes: 3 rows, 2 rows in view", "  sym=B price=2", "  sym=C price=3"]


def test_watch_prints_every_kind_of_change(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    def change() -> None:
        with server.cycle():
            quotes.upsert({"sym": ["B", "D"], "price": [2.5, 4.0], "size": [20, 40]})
            quotes.delete({"sym": ["A"]})

    changer = threading.Thread(target=_when_subscribed, args=(server, change))
    changer.start()
    code, out, _ = command("watch", server.uri, "quotes", "--full", "--updates", 1, "--interval", 1)
    changer.join(30)
    assert code == 0
    headline, *changes = out.splitlines()[4:]
    assert headline == "step 2: +1 -1 ~1, 3 rows"
    assert sorted(changes) == ["+ sym=D price=4 size=40", "- sym=A price=1 size=10", "~ sym=B price=2->2.5"]


def test_watch_waits_for_a_table_that_is_still_to_come(server: bs.Server, command: Command) -> None:
    def publish() -> None:
        table = server.append_table("late", pa.schema([("n", pa.int64())]))
        table.append({"n": [1]})

    threading.Timer(0.3, publish).start()
    code, out, _ = command("watch", server.uri, "late", "--full", "--updates", 0, "--wait", 20)
    assert code == 0
    assert out.startswith("late: ")


def _when_subscribed(server: bs.Server, change: object) -> None:
    assert callable(change)
    until(lambda: server.statistics().subscriptions)
    change()


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
        (["serve", "--tls-key", "k.pem"], EXIT_USAGE, "TLS needs both"),
        (["serve", "--tls-key", "k.pem", "--tls-certificate", "c"], EXIT_USAGE, "'c' cannot be read"),
        (["serve", "--port", "0", "--follow", "nonsense://x"], EXIT_USAGE, "nonsense"),
        (["serve", "--port", "70000"], EXIT_USAGE, "--port: "),
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
        (["publish", "{uri}", "quotes", "{file}", "--key", "price"], EXIT_FAILURE, "sym"),
        (["publish", "{uri}", "quotes", "{file}"], EXIT_FAILURE, "size"),
        (["tables", "grpc://127.0.0.1:1"], EXIT_FAILURE, "No connection to grpc://127.0.0.1:1"),
        (
            ["tables", "{uri}", "--tls-root-certs", "none.pem"],
            EXIT_USAGE,
            "--tls-root-certs takes PEM text or the path of a PEM file; 'none.pem' cannot be read",
        ),
        (["serve", "--config", "none.toml"], EXIT_USAGE, "There is no configuration file 'none.toml'."),
        (["serve", "--host", "0.0.0.0"], EXIT_USAGE, "Set a token"),
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
    before = quotes.to_arrow()
    found, out, err = command(*(arg.format(uri=server.uri, file=file) for arg in args))
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
    with bs.Server(tls=(chain, issued.private_key_pem.bytes())) as server:
        code, _, err = command("tables", server.uri)
        assert code == EXIT_FAILURE
        assert err.endswith("pass its authority's certificate as --tls-root-certs.\n")
        assert "tls_root_certs" not in err
        roots = tmp_path / "roots.pem"
        authority.cert_pem.write_to_path(str(roots))
        assert command("tables", server.uri, "--tls-root-certs", roots)[0] == 0
