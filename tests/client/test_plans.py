"""Tables that a client has its server compute: the same methods and errors as for tables in the process."""

from __future__ import annotations

import copy
import gc
import pickle
import queue
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

import barrage_server as bs
from barrage_server.client import plan_calls
from barrage_server.engine import KeyedTable
from barrage_server.server import Limits
from barrage_server.wire.plan_messages import OperateResult, PlanOutput
from tests.client.test_reconnect import QUICK
from tests.ports import free_port
from tests.test_wrong_operations import operations
from tests.waiting import until
from tests.wrong_arguments import WRONG

SCHEMA = {"id": "int64", "sym": "string", "price": "float64"}
FRONTS = ("pyarrow", "grpc")


@pytest.fixture(params=FRONTS)
def server(request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    with bs.Server(front=request.param) as server:
        yield server


@pytest.fixture
def trades(server: bs.Server) -> KeyedTable:
    table = server.keyed_table("trades", SCHEMA, key="id")
    table.upsert({"id": [1, 2, 3], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    return table


def computed(server: bs.Server) -> list[str]:
    """The operations that the server holds results of."""
    return sorted(one.operation for one in server.statistics().results)


def test_a_table_without_columns_has_its_rows(client: bs.Client) -> None:
    rows = client.empty_table(5)
    assert rows.size == rows.to_arrow().num_rows == rows.flatten().to_arrow().num_rows == 5
    assert rows.to_arrow(viewport=range(1, 4)).num_rows == 3
    assert len(rows.to_pandas()) == 5
    rows.bind("rows")
    assert client.snapshot("rows").num_rows == 5
    with flight.connect(client.uri) as stock:
        assert stock.do_get(flight.Ticket(b"s/rows")).read_all().num_rows == 5
    assert rows.update("n = i").to_arrow()["n"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_plan_asks_the_server_for_nothing_until_content_is_asked_for(
    server: bs.Server, client: bs.Client, trades: KeyedTable
) -> None:
    plan = client.table("trades").where("price > 1").update("twice = price * 2").sort_descending("price")
    assert repr(plan) == "<RemoteTable 'trades.where.update.sort'>"
    assert computed(server) == []
    assert plan.to_arrow().to_pydict() == {
        "id": [3, 2],
        "sym": ["A", "B"],
        "price": [3.0, 2.0],
        "twice": [6.0, 4.0],
    }
    assert computed(server) == ["sort", "update", "where"]
    assert plan.schema == pa.schema([*trades.schema, ("twice", pa.float64())])
    assert (plan.key_columns, plan.is_static, plan.is_refreshing) == (("id",), False, True)
    assert plan.attributes == trades.where("price > 1").update("twice = price * 2").sort_descending("price").attributes
    assert plan.size == 2
    trades.upsert({"id": [4], "sym": ["C"], "price": [9.0]})
    assert plan.size == 3
    assert plan.to_pandas()["id"].tolist() == plan.to_polars()["id"].to_list() == [4, 3, 2]


def test_columns_are_renamed_by_a_mapping_of_old_to_new_names(client: bs.Client, trades: KeyedTable) -> None:
    plan = client.table("trades").rename_columns({"sym": "symbol", "price": "last"})
    assert plan.schema.names == trades.rename_columns({"sym": "symbol", "price": "last"}).schema.names
    assert plan.to_arrow(["last"]).to_pydict() == {"last": [1.0, 2.0, 3.0]}


def test_a_plan_without_content_says_how_to_get_it(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    for plan in (client.table("trades"), client.table("trades").where("price > 9")):
        assert plan
        asks: list[tuple[Callable[[Any], object], str]] = [
            (len, r"table\.size"),
            (list, r"table\.to_arrow\(\)"),
            (lambda one: one["price"], r"table\.to_arrow\(\['price'\]\)"),
            (lambda one: one[0], r"viewport=range\(0, 10\)"),
        ]
        for ask, text in asks:
            with pytest.raises(bs.InvalidRequestError, match=text):
                ask(plan)
    assert computed(server) == []


def test_a_part_is_read(client: bs.Client, trades: KeyedTable) -> None:
    plan = client.table("trades").reverse()
    assert plan.to_arrow(["id"], range(2)).to_pydict() == {"id": [3, 2]}
    assert plan.to_arrow(viewport=range(1), reverse=True)["id"].to_pylist() == [1]
    with pytest.raises(bs.UnknownColumnError, match=r"'trades.reverse' has no column 'nope'"):
        plan.to_arrow(["nope"])


@pytest.mark.parametrize("dialect", list(bs.Dialect))
def test_a_plan_is_followed(client: bs.Client, trades: KeyedTable, dialect: bs.Dialect) -> None:
    plan = client.table("trades").where("price > 1").sort("price")
    with plan.subscribe(interval_ms=1) as whole, plan.subscribe(viewport=range(2), dialect=dialect) as window:
        assert whole.to_arrow()["id"].to_pylist() == [2, 3]
        trades.upsert({"id": [4, 2], "sym": ["C", "B"], "price": [2.5, 9.0]})
        whole.wait_until(lambda view: view.to_arrow()["id"].to_pylist() == [4, 3, 2])
        window.wait_until(lambda view: view.to_arrow()["id"].to_pylist() == [4, 3])
        window.set_viewport(range(1), reverse=True)
        assert window.to_arrow()["id"].to_pylist() == [2]
        assert window.table_size == 3
        window.set_viewport(columns=["sym"])
        assert window.to_arrow().to_pydict() == {"sym": ["B"]}
        window.set_viewport(None, columns=None)
        window.wait_until(lambda view: view.size == 3)
        assert whole.name == "trades.where.sort"


def test_a_live_table_needs_its_plan_no_more(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    live = client.table("trades").where("price > 1").subscribe(viewport=range(5), interval_ms=1)
    gc.collect()
    trades.upsert({"id": [4], "sym": ["C"], "price": [2.5]})
    live.wait_until(lambda view: view.size == 3)
    live.set_viewport(range(1))
    assert live.size == 1
    assert computed(server) == ["where"]
    live.close()
    del live
    until(lambda: computed(server) == [])


@pytest.mark.parametrize("how", ["close", "with", "del", "client"])
def test_results_are_released(server: bs.Server, trades: KeyedTable, how: str) -> None:
    with bs.connect(server.uri) as client:
        plan = client.table("trades").where("price > 1").head(1)
        assert plan.size == 1
        assert server.statistics().exports == 1
        if how == "with":
            with plan:
                assert plan.size == 1
        elif how == "close":
            plan.close()
            plan.close()
        elif how == "del":
            del plan
            gc.collect()
        if how != "client":
            until(lambda: server.statistics().exports == 0)
    until(lambda: server.statistics().exports == 0)
    until(lambda: computed(server) == [])


def test_a_closed_plan_is_told(client: bs.Client, trades: KeyedTable) -> None:
    plan = client.table("trades").where("price > 1")
    further = plan.head(1)
    plan.close()
    for call in (plan.to_arrow, plan.subscribe, lambda: plan.size, lambda: plan.schema, lambda: plan.bind("t")):
        with pytest.raises(bs.InvalidRequestError, match=r"The table 'trades.where' was closed; make it again\."):
            call()
    assert further.size == 1


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_with_other_outputs_is_refused(
    client: bs.Client, trades: KeyedTable, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    answer = OperateResult((PlanOutput(error="LimitError", text="no"),) * count, 1).to_json()
    monkeypatch.setattr(plan_calls, "act", lambda *_: answer)
    with pytest.raises(bs.WireFormatError, match=f"the server tells of {count}"):
        client.table("trades").head(1).to_arrow()


def test_what_is_held_is_shared(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    """A plan that goes on from another one has the server compute nothing twice, while the other one is held."""
    dear = client.table("trades").where("price > 1")
    assert dear.size == 2
    first, second = dear.head(1), dear.tail(1)
    assert (first.size, second.size) == (1, 1)
    assert computed(server) == ["head", "tail", "where"]


def test_a_snapshot_is_of_the_moment_at_which_it_was_asked_for(client: bs.Client, trades: KeyedTable) -> None:
    then = client.table("trades").snapshot()
    assert then.size == 3
    trades.upsert({"id": [4], "sym": ["C"], "price": [2.5]})
    assert (then.size, then.to_arrow().num_rows, then.is_static) == (3, 3, True)
    with then.subscribe() as live:
        assert live.size == 3


def test_a_result_is_bound_to_a_name(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    with client.table("trades").where("price > 1").bind("dear") as dear:
        assert (dear.name, dear.size, dear.schema) == ("dear", 2, trades.schema)
        assert dear == client.table("dear")
        assert dear.where("price > 2").size == 1
    trades.upsert({"id": [4], "sym": ["C"], "price": [2.5]})
    assert server.table("dear").size == client.snapshot("dear").num_rows == 3
    with pytest.raises(bs.AlreadyExistsError):
        client.table("trades").head(1).bind("dear")
    with pytest.raises(bs.InvalidRequestError, match="has a name"):
        client.table("trades").bind("again")
    client.drop("dear")


def test_tables_are_merged_and_joined(client: bs.Client, trades: KeyedTable) -> None:
    table = client.table("trades")
    dear = table.where("price > 1")
    both = bs.merge([dear, table, dear])
    assert both.to_arrow()["id"].to_pylist() == [2, 3, 1, 2, 3, 2, 3]
    totals = table.agg_by([bs.agg.sum_("total = price"), bs.agg.count_("n")], by="sym")
    joined = dear.natural_join(totals, on="sym", joins="total")
    assert joined.to_arrow()["total"].to_pylist() == [2.0, 4.0]
    assert bs.merge([dear]).size == 2


def test_tables_of_nothing_and_of_time(client: bs.Client) -> None:
    squares = client.empty_table(4).update(["x = i", "y = x * x"])
    assert squares.to_arrow().to_pydict() == {"x": [0, 1, 2, 3], "y": [0, 1, 4, 9]}
    assert squares.is_static and repr(squares) == "<RemoteTable 'empty_table.update'>"
    with client.time_table(timedelta(milliseconds=10)).update("n = ii").subscribe(interval_ms=1) as live:
        live.wait_until(lambda view: view.size > 2)
        assert live.to_arrow()["n"].to_pylist()[:3] == [0, 1, 2]
    day, start = np.timedelta64(1, "D"), datetime(2024, 6, 15, 10, tzinfo=UTC)
    assert client.time_table(day, start).to_arrow(viewport=range(1))["Timestamp"].to_pylist() == [start]
    with pytest.raises(bs.InvalidRequestError, match="start_time must have a zone"):
        client.time_table(day, start.replace(tzinfo=None))
    with pytest.raises(bs.InvalidRequestError, match="period must be at most 4611686018427387903"):
        client.time_table(timedelta.max)
    with pytest.raises(bs.InvalidRequestError, match="start_time must be at least -4611686018427387903"):
        client.time_table(day, datetime(1, 1, 1, tzinfo=UTC))
    with pytest.raises(bs.InvalidRequestError, match="period"):
        assert client.time_table("nonsense").size
    with pytest.raises(bs.BarrageError):
        assert client.empty_table(1 << 40).size


def test_registered_functions_are_listed(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    assert not client.functions() and not server.functions.signatures
    server.functions.register("twice", lambda x: pc.multiply(x, 2.0), returns="float64")
    server.functions.register("word", str, returns="string", kind="scalar")
    twice, word = client.functions()
    assert twice == bs.FunctionSignature("twice", "batch", "double")
    assert word == bs.FunctionSignature("word", "scalar", "string")
    assert server.functions.signatures == (twice, word)
    plan = client.table("trades").view(f"y = {twice.name}(price)")
    assert plan.to_arrow().to_pydict() == {"y": [2.0, 4.0, 6.0]}


def test_a_long_plan_is_one_request(client: bs.Client, trades: KeyedTable) -> None:
    plan = client.table("trades").view("price")
    for _ in range(500):
        plan = plan.where("price > 0")
    assert plan.size == 3
    for _ in range(500):
        plan = plan.where("price > 0")
    with pytest.raises(bs.LimitError, match="1,000 operations"):
        assert plan.size


def test_errors_are_those_of_the_server(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    table = client.table("trades")
    with pytest.raises(bs.UnknownColumnError, match="nope"):
        assert table.where("nope > 1").size
    with pytest.raises(bs.UnknownColumnError, match=r"Operation 1 \(where\) failed: .*nope"):
        table.reverse().where("nope > 1").head(1).to_arrow()
    with pytest.raises(bs.InvalidRequestError, match=r"\(where\) failed"):
        table.reverse().where("price >").subscribe()
    with pytest.raises(bs.InvalidRequestError, match="num_rows must be at least 0"):
        table.head(-1)
    server.drop("trades")
    with pytest.raises(bs.UnknownTableError, match="trades"):
        table.head(1).to_arrow()
    with pytest.raises(bs.UnknownTableError, match="trades"):
        table.head(1).subscribe()


def test_tables_of_other_kinds_are_refused(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    table = client.table("trades")
    with bs.connect(server.uri) as another:
        for other in (another.table("trades"), trades, another.table("trades").head(1)):
            with pytest.raises(bs.InvalidRequestError, match=r"belongs to another client|tables of client\.table"):
                table.natural_join(other, on="id")  # type: ignore[arg-type]


def test_a_table_of_the_server_is_what_was_listed(client: bs.Client, trades: KeyedTable) -> None:
    table = client.table("trades")
    (listed,) = client.tables()
    assert isinstance(table, bs.TableInfo)
    assert table == listed and listed == table and repr(table) == repr(listed)
    assert table != table.head(1) and table.head(1) != table.head(1)
    assert table._repr_html_() == listed._repr_html_()
    assert "trades.head" in table.head(1)._repr_html_()
    for made in (copy.copy(table), pickle.loads(pickle.dumps(table))):
        assert made == listed
    with pytest.raises(AttributeError):
        table.name = "other"  # type: ignore[misc]
    trades.upsert({"id": [4], "sym": ["C"], "price": [2.5]})
    assert (table.size, client.table("trades").size) == (3, 4)
    with table.subscribe() as live:
        assert live.size == table.to_arrow().num_rows == 4


def test_a_result_that_has_run_out_is_computed_again() -> None:
    limits = Limits(session_seconds=1.0)
    with bs.Server(limits=limits) as server, bs.connect(server.uri) as client:
        server.add_table("t", bs.table({"x": [1, 2, 3]}))
        plan = client.table("t").where("x > 1")
        assert plan.size == 2
        until(lambda: server.statistics().exports == 0)
        assert plan.size == 2
        until(lambda: server.statistics().exports == 0)
        assert plan.to_arrow()["x"].to_pylist() == [2, 3]
        until(lambda: server.statistics().exports == 0)
        with plan.subscribe(viewport=range(1)) as live:
            until(lambda: server.statistics().exports == 0)
            live.set_viewport(range(1, 2))
            assert live.to_arrow()["x"].to_pylist() == [3]
            live.set_viewport(None)
            assert live.to_arrow()["x"].to_pylist() == [2, 3]
        until(lambda: server.statistics().exports == 0)
        assert plan.bind("bound").size == 2


@pytest.mark.parametrize("front", FRONTS)
def test_a_plan_is_followed_again_after_the_server_has_restarted(front: str) -> None:
    port = free_port()
    states: queue.Queue[bs.LiveState] = queue.Queue()

    def serve(*values: int) -> bs.Server:
        server = bs.Server(port=port, front=front)
        server.add_table("t", bs.table({"x": list(values)}))
        return server

    with serve(1, 2, 3) as first:
        client = bs.connect(first.uri, retry=QUICK, timeout=30)
        plan = client.table("t").where("x > 1")
        live = plan.subscribe(interval_ms=1)
        window = client.table("t").sort_descending("x").subscribe(viewport=range(2))
        live.on_state(states.put)
    assert states.get(timeout=20) is bs.LiveState.RECONNECTING
    assert live.size == 2
    with client, serve(2, 3, 4, 5):
        assert states.get(timeout=30) is bs.LiveState.LIVE
        live.wait_until(lambda view: view.to_arrow()["x"].to_pylist() == [2, 3, 4, 5])
        window.wait_until(lambda view: view.to_arrow()["x"].to_pylist() == [5, 4])
        assert plan.size == 4


class RemoteWorld:
    """Tables of a server, by the names that the cases of tables in the process have for theirs."""

    def __init__(self, origin: bs.Client | bs.Server | None) -> None:
        self.origin = origin

    def __getattr__(self, name: str) -> Any:
        if self.origin is None:
            return RemoteWorld(None)
        table: Any = self.origin.table("append" if name == "lists" else name)
        return table.group_by("k") if name == "lists" else table


def remote_cases(origin: bs.Client | bs.Server | None) -> dict[str, Any]:
    """The cases of the methods of tables: as a client has the tables, or as their server has them."""
    world = RemoteWorld(origin)
    found = operations(world)  # type: ignore[arg-type]
    return {name: case for name, case in found.items() if name.startswith("AppendTable.") or name == "merge"}


@pytest.fixture(scope="module")
def remote() -> Iterator[tuple[bs.Client, bs.Server]]:
    with bs.Server() as server, bs.connect(server.uri) as client:
        server.append_table("append", {"k": "string", "x": "float64"}).append({"k": ["a"], "x": [1.0]})
        server.keyed_table("keyed", {"k": "string", "x": "float64"}, key="k").upsert({"k": ["a"], "x": [1.0]})
        yield client, server


@pytest.mark.parametrize("name", remote_cases(None))
def test_methods_of_tables_work_remotely_and_wrong_arguments_are_refused(
    remote: tuple[bs.Client, bs.Server], name: str
) -> None:
    """What a method makes of the tables of a client has the rows of what it makes in the process of the server."""
    call: Callable[..., Any]
    (call, good, kinds), (here, same, _) = (remote_cases(origin)[name] for origin in remote)
    assert call(**good).size == here(**same).size
    faults = []
    for argument, kind in kinds.items():
        for wrong in WRONG[kind]:
            if wrong is None:
                continue
            try:
                size = call(**{**good, argument: wrong}).size
            except bs.BarrageError as error:
                if isinstance(error, bs.InternalError) or not str(error).strip():
                    faults.append(f"{argument}={wrong!r}: {error!r}")
            except BaseException as error:  # whatever it is, it is wrong
                faults.append(f"{argument}={wrong!r}: {type(error).__name__}: {error}")
            else:
                faults.append(f"{argument}={wrong!r} was taken: {size}")
    assert not faults, "\n".join(faults)


def test_a_plan_of_a_table_that_was_dropped_is_of_the_one_that_has_its_name_now(
    server: bs.Server, client: bs.Client, trades: KeyedTable
) -> None:
    plan = client.table("trades").where("price > 1")
    assert plan.to_arrow()["id"].to_pylist() == [2, 3]
    server.drop("trades")
    with pytest.raises(bs.UnknownTableError, match="trades"):
        plan.to_arrow()
    with pytest.raises(bs.UnknownTableError, match="trades"):
        plan.subscribe()
    server.keyed_table("trades", SCHEMA, key="id").upsert({"id": [7], "sym": ["C"], "price": [9.0]})
    assert trades.size == 3
    assert plan.to_arrow()["id"].to_pylist() == [7]
