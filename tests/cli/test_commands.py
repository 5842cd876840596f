"""The commands against a server: what they print, what they write, what they refuse."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_FAILURE, EXIT_USAGE
from barrage_server.demo import DemoOptions
from barrage_server.engine import KeyedTable

from .conftest import Command


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
    for _ in range(2000):
        if server.statistics().subscriptions:
            break
        threading.Event().wait(0.01)
    change()


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["tables"], EXIT_USAGE, "Missing argument 'URI'. Try 'barrage-server tables --help'."),
        (["watch", "{uri}", "quotes", "--viewport", "9:3"], EXIT_USAGE, "'9:3' is not a viewport"),
        (["watch", "{uri}", "quotes", "--viewport", "0:3", "--full"], EXIT_USAGE, "exclude each other"),
        (["watch", "{uri}", "quotes", "--columns", "a,,b"], EXIT_USAGE, "separated by commas"),
        (["nonsense"], EXIT_USAGE, "nonsense"),
        (
            ["watch", "{uri}", "quote", "--once"],
            EXIT_FAILURE,
            "There is no table 'quote' on this server. Did you mean 'quotes'?",
        ),
        (["watch", "{uri}", "quotes", "--once", "--columns", "x"], EXIT_FAILURE, "'x'"),
        (["snapshot", "{uri}", "quotes", "-o", "out.xlsx"], EXIT_FAILURE, "use one of .parquet, .arrow, .csv"),
        (["snapshot", "{uri}", "none", "-o", "out.csv"], EXIT_FAILURE, "There is no table 'none'"),
        (["publish", "{uri}", "quotes", "missing.csv"], EXIT_FAILURE, "there is no file 'missing.csv'"),
        (["publish", "{uri}", "quotes", "{file}", "--mode", "merge"], EXIT_FAILURE, "mode is one of append"),
        (["publish", "{uri}", "quotes", "{file}", "--key", "price"], EXIT_FAILURE, "sym"),
        (["publish", "{uri}", "quotes", "{file}"], EXIT_FAILURE, "size"),
        (["tables", "grpc://127.0.0.1:1"], EXIT_FAILURE, "no connection to grpc://127.0.0.1:1"),
        (
            ["tables", "{uri}", "--tls-ca", "none.pem"],
            EXIT_FAILURE,
            "--tls-ca takes PEM text or the path of a PEM file; 'none.pem' cannot be read",
        ),
        (["serve", "--config", "none.toml"], EXIT_FAILURE, "there is no configuration file 'none.toml'"),
        (["serve", "--host", "0.0.0.0"], EXIT_FAILURE, "Set a token"),
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
    assert err.startswith("barrage-server: ")
    assert err.count("\n") == 1
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
        assert command("tables", server.uri)[0] == EXIT_FAILURE
        assert command("tables", server.uri, "--token", "wrong")[0] == EXIT_FAILURE
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
    assert code == EXIT_FAILURE
    assert "seconds must be more than nothing" in err


def test_version_names_what_it_stands_on(command: Command) -> None:
    code, out, _ = command("version")
    assert code == 0
    assert out.startswith(f"barrage-server {bs.__version__}\n")
    assert f"pyarrow {pa.__version__}\n" in out
