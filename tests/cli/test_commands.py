"""The commands against a server: what they print, and what they write."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from rich.console import Console

import barrage_server as bs
from barrage_server.cli import stats
from barrage_server.cli.boundary import EXIT_FAILURE
from barrage_server.engine import KeyedTable
from tests.waiting import until

from .conftest import Command, Program


def test_tables_lists_sizes_keys_and_columns(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    server.append_table("trades", pa.schema([("at", pa.timestamp("us", tz="UTC"))]))
    code, out, err = command("tables", server.uri)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["table", "rows", "durable", "key", "columns"],
        ["quotes", "3", "-", "sym", "sym", "string,", "price", "double,", "size", "int64"],
        ["trades", "0", "-", "-", "at", "timestamp[us,", "tz=UTC]"],
    ]


def test_tables_lists_what_is_computed_for_clients(server: bs.Server, quotes: KeyedTable, command: Command) -> None:
    with bs.connect(server.uri) as client, client.table("quotes").where("size > 0").subscribe():
        quotes.upsert({"sym": ["Z"], "price": [1.0], "size": [1]})
        code, out, err = command("tables", server.uri)
        assert (code, err) == (0, "")
        *_, title, headings, row = [line.split() for line in out.splitlines()]
        assert title == ["computed"]
        assert headings == ["table", "operation", "user", "rows", "bytes", "cycles", "changed", "ms", "failed"]
        assert row[-8] == "where"
        assert row[-6] == str(server.table("quotes").where("size > 0").size)
        assert row[-4] == "1"
        assert len(command("tables", server.uri, "--json")[1].splitlines()) == 1
    server.drop("quotes")
    until(lambda: "has no tables yet" in command("tables", server.uri)[1])


def test_tables_shows_what_derived_ones_cost_and_which_have_failed(
    server: bs.Server, quotes: KeyedTable, command: Command
) -> None:
    totals = quotes.where("size > 0").agg_by([bs.agg.sum_("size")])  # by way of a table that has no name
    server.add_table("totals", totals)
    names = server.keyed_table("names", {"id": "int64", "sym": "string"}, key="id")
    server.add_table("joined", quotes.natural_join(names, on="sym"))
    quotes.upsert({"sym": ["Z"], "price": [1.0], "size": [1]})
    names.upsert({"id": [1, 2], "sym": ["Z", "Z"]})  # two rows of one key
    figures = {entry.name: entry for entry in server.statistics().tables}
    assert (figures["totals"].cycles, figures["totals"].changed_rows, figures["totals"].failed) == (1, 1, False)
    assert figures["totals"].state_bytes > totals.state_bytes
    assert figures["totals"].seconds > 0
    assert (figures["joined"].failed, figures["quotes"].failed, figures["quotes"].cycles) == (True, False, 0)
    rows = {line.split()[0]: line.split() for line in reversed(command("tables", server.uri)[1].splitlines()) if line}
    assert rows["joined"][1:3] == ["4,", "failed"]
    assert rows["quotes"][1] == "4"
    shown = command("stats", server.uri)[1]
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("joined ")] == ["yes", "yes"]
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("totals ")] == ["-", "-"]


def test_storage_of_tables_without_a_name_is_counted_once(server: bs.Server, quotes: KeyedTable) -> None:
    kept = quotes.snapshot()
    merged = quotes.partition_by("sym").transform(lambda table: table.sort("price")).merge()
    clock = bs.time_table("PT1H", graph=server.graph)
    for name, table in (("kept", kept), ("sorted", kept.sort("price")), ("merged", merged), ("clock", clock)):
        server.add_table(name, table)
    found = {entry.name: entry.state_bytes for entry in server.statistics().tables}
    assert (found["kept"], found["clock"]) == (kept.state_bytes, clock.state_bytes)
    assert min(found["kept"], found["sorted"]) > 0
    keys, *sorted_parts = merged.parents
    constituents = [part.parents[0] for part in sorted_parts]
    below = [keys, *constituents, constituents[0].parents[0]]
    assert found["merged"] == merged.state_bytes + sum(table.state_bytes for table in below)


def test_figures_are_whole_in_a_narrow_terminal(
    server: bs.Server, quotes: KeyedTable, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that are cut look like smaller ones, and rows without their names say nothing."""
    narrow = Console(width=20, force_terminal=True, color_system=None, highlight=False)
    monkeypatch.setattr(stats, "report_console", lambda: narrow)
    quotes.upsert({"sym": [f"s{i}" for i in range(12_345)], "price": [1.0] * 12_345, "size": [1] * 12_345})
    code, out, _ = command("stats", server.uri)
    assert code == 0
    assert out.splitlines()[-1].split()[:3] == ["quotes", "keyed", f"{quotes.size:,}"]


def test_tables_of_a_caller_without_statistics_leaves_no_refusal_in_the_log(
    command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    roles = {"reader": bs.Role(["*"], ["list", "read"])}
    with bs.Server(token="t", roles=roles, default_roles=["reader"]) as server:
        server.append_table("trades", {"n": "int64"})
        with caplog.at_level(logging.INFO):
            assert "trades" in command("tables", server.uri, "--token", "t")[1]
            assert "refused" not in caplog.text
        with caplog.at_level(logging.DEBUG):
            assert command("stats", server.uri, "--token", "t")[0] == EXIT_FAILURE
        assert "refused: ForbiddenError: The right 'statistics' is missing" in caplog.text


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


def test_a_batch_of_a_publisher_applies_once(server: bs.Server, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text("sym,price\nA,1.5\nB,2.5\n")
    for batch in (0, 0, 1, 0):
        code, out, err = command("publish", server.uri, "trades", path, "--publisher", "feed", "--batch", batch)
        assert (code, out) == (0, "")
    assert err == "batch 0 of feed was published to trades before, and nothing changed; the last one is 1\n"
    assert server.table("trades").size == 4
    code, _, err = command("publish", server.uri, "trades", path, "--publisher", "feed", "--batch", 7)
    assert (code, "missing" in err, "--allow-gap" in err) == (1, True, True)
    assert server.table("trades").size == 4
    named = ("publish", server.uri, "trades", path, "--publisher", "feed")
    assert command(*named, "--batch", 7, "--allow-gap")[0] == 0
    assert server.table("trades").size == 6
    code, _, err = command(*named, "--epoch", "second", "--batch", 0)
    assert (code, "--takeover" in err) == (1, True)
    for takeover in ([], ["--takeover"], []):
        code, _, err = command(*named, "--epoch", "second", "--batch", 0, *takeover)
        assert code == (0 if takeover or "nothing changed" in err else 1)
    assert server.table("trades").size == 8


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
        streams = [line.split() for line in rest if line.startswith("subscription")]
        assert [line[:2] for line in streams] == [["subscription", "quotes"]]
        assert streams[0][3] == "anonymous"
        assert [line.split()[:3] for line in rest if line.startswith("quotes")] == [
            ["quotes", "keyed", "3"],
            ["quotes", *[line.split()[1:3] for line in rest if line.startswith("quotes")][1]],
        ]
        code, out, _ = command("stats", server.uri, "--json")
    figures = json.loads(out)
    assert [table["name"] for table in figures["tables"]] == ["quotes"]
    assert figures["subscriptions"][0]["viewport_rows"] == 2
    assert [(stream["kind"], stream["table"]) for stream in figures["streams"]] == [("subscription", "quotes")]


def test_stats_show_the_last_batch_of_each_publisher(server: bs.Server, command: Command) -> None:
    with bs.connect(server.uri) as client:
        for batch in range(2):
            client.publish("kept", {"n": [batch]}, publisher="feed", batch=batch)
        client.publish("other", {"n": [1]})  # a single write has no batches to follow
        code, out, err = command("stats", server.uri)
        assert (code, err) == (0, "")
        assert [line.split() for line in out.splitlines()[-2:]] == [
            ["publisher", "table", "batch"],
            ["feed", "kept", "1"],
        ]


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
    code, out, _ = command("watch", server.uri, "quotes", "--full", "--updates", 1, "--interval-ms", 1)
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
