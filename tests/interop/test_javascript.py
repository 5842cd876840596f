"""Deephaven's JavaScript API, unmodified: a page does the same with a server of ours and a real one, and sees the same.

Every test here runs against both, so that what it expects is what the API shows its users elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from barrage_server import Server
from barrage_server.subscription import SubscriptionLimits
from tests.waiting import until

from .deephaven import DeephavenServer
from .javascript import Cells, JavaScript, Page, nothing_left
from .javascript import Table as PageTable

pytestmark = pytest.mark.interop

Row = dict[str, Any]
SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("lots", pa.int64())])
COLUMNS = [("sym", "java.lang.String"), ("price", "double"), ("lots", "long")]
_names = (f"js_{number}" for number in itertools.count())


class Place:
    """A server with one keyed table, and what the table must contain: rows in the order in which they came."""

    url: str

    def __init__(self) -> None:
        self.name = next(_names)
        self.rows: dict[str, Row] = {}

    def set(self, **rows: tuple[float | None, int | None]) -> None:
        """Add rows, or set cells of those there are."""
        columns: dict[str, list[Any]] = {
            "sym": [*rows],
            "price": [price for price, _ in rows.values()],
            "lots": [lots for _, lots in rows.values()],
        }
        self.rows.update({sym: {"sym": sym, "price": price, "lots": lots} for sym, (price, lots) in rows.items()})
        self.upsert(columns)

    def remove(self, *keys: str) -> None:
        """Take rows away. They must not come back: where they would, is for each server to say."""
        for key in keys:
            del self.rows[key]
        self.delete([*keys])

    def cells(self, first: int = 0, last: int = 1_000, columns: tuple[str, ...] = ("sym", "price", "lots")) -> Cells:
        """What a page shows of some rows."""
        rows = [*self.rows.values()][first : last + 1]
        return {name: [_shown(row[name]) for row in rows] for name in columns}

    def upsert(self, columns: dict[str, list[Any]]) -> None:
        raise AssertionError("every place changes its table")

    def delete(self, keys: list[str]) -> None:
        raise AssertionError("every place changes its table")


class Ours(Place):
    """A server of this project."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        assert server.deephaven_web_uri is not None
        self.url = server.deephaven_web_uri
        self._table = server.keyed_table(self.name, SCHEMA, key=["sym"])

    def upsert(self, columns: dict[str, list[Any]]) -> None:
        self._table.upsert(columns)

    def delete(self, keys: list[str]) -> None:
        self._table.delete({"sym": keys})


class Deephavens(Place):
    """A Deephaven server."""

    def __init__(self, server: DeephavenServer) -> None:
        super().__init__()
        self.url = f"http://127.0.0.1:{server.port}"
        self._server = server
        server.execute(
            "from deephaven import dtypes, input_table, new_table\n"
            "from deephaven.column import double_col, long_col, string_col\n"
            "from deephaven.constants import NULL_DOUBLE, NULL_LONG\n"
            "types = {'sym': dtypes.string, 'price': dtypes.double, 'lots': dtypes.long}\n"
            f"{self.name} = input_table(col_defs=types, key_cols='sym')"
        )

    def upsert(self, columns: dict[str, list[Any]]) -> None:
        self._server.execute(
            f"{self.name}.add(new_table([string_col('sym', {columns['sym']}), "
            f"double_col('price', [NULL_DOUBLE if x is None else x for x in {columns['price']}]), "
            f"long_col('lots', [NULL_LONG if x is None else x for x in {columns['lots']}])]))"
        )

    def delete(self, keys: list[str]) -> None:
        self._server.execute(f"{self.name}.delete(new_table([string_col('sym', {keys})]))")


def _shown(value: Any) -> Any:
    return {"text": str(value)} if isinstance(value, int) else value


@pytest.fixture(params=["ours", "deephaven"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "deephaven":
        yield Deephavens(request.getfixturevalue("deephaven"))
        return
    with Server(deephaven_web_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1)) as server:
        yield Ours(server)
        until(lambda: nothing_left(server))


@pytest.fixture
def page(javascript: JavaScript, place: Place) -> Iterator[Page]:
    with javascript.connect(place.url) as page:
        yield page


@pytest.fixture
def table(page: Page, place: Place) -> PageTable:
    """The table in the page; it has ten rows, one with nulls."""
    place.set(**{f"s{number}": (number / 2, number * 10**15) for number in range(9)}, s9=(None, None))
    return page.open(place.name)


def test_a_page_logs_in_and_finds_its_tables(javascript: JavaScript, place: Place, page: Page) -> None:
    assert "AnonymousAuthenticationHandler" in javascript.settings_of(place.url)["AuthHandlers"]
    assert int(page.settings()["http.session.durationMs"]) > 1000
    page.watch()
    while place.name not in page.fields()["created"]:
        pass  # Deephaven's server may tell of nothing first; an event that does not come is an error


def test_a_table_says_what_it_is(table: PageTable) -> None:
    assert table.columns == COLUMNS
    assert (table.size, table.refreshing, table.blink) == (10, True, False)


@pytest.mark.parametrize("options", [False, True], ids=["older", "newer"])
def test_a_viewport_follows_what_happens_in_it_and_moves(place: Place, table: PageTable, options: bool) -> None:
    view = table.look(2, 5, options=options)
    view.until(place.cells(2, 5), size=10, offset=2)
    # a row of it, and one that is not
    place.set(s3=(33.0, None), s8=(88.0, 8))
    view.until(place.cells(2, 5), size=10, offset=2)
    # rows before it, within it and after it go: it shows others
    place.remove("s0", "s4", "s7")
    view.until(place.cells(2, 5), size=7, offset=2)
    place.set(new=(-1.0, -1))
    view.until(place.cells(2, 5), size=8, offset=2)

    view.move(0, 3, ["sym", "lots"])
    view.until(place.cells(0, 3, ("sym", "lots")), size=8)
    place.set(s1=(1.0, 17))
    view.until(place.cells(0, 3, ("sym", "lots")), size=8)
    view.move(2, 6, ["price"])
    view.until(place.cells(2, 6, ("price",)), size=8, offset=2)
    view.move(2, 6)
    view.until(place.cells(2, 6), size=8, offset=2)

    # beyond the end, where rows come
    view.move(6, 20)
    view.until(place.cells(6, 20), size=8, offset=6)
    place.set(newer=(None, 5), newest=(2.5, None))
    view.until(place.cells(6, 20), size=10, offset=6)
    view.close()


def test_all_rows_of_a_table_in_a_viewport_that_are_taken_away(place: Place, table: PageTable) -> None:
    view = table.look(0, 100)
    view.until(place.cells(), size=10)
    place.remove(*place.rows)
    view.until(place.cells(), size=0)
    place.set(again=(1.0, 1))
    view.until(place.cells(), size=1)


@pytest.mark.parametrize("options", [False, True], ids=["older", "newer"])
def test_a_subscription_hears_of_rows_added_removed_and_modified(place: Place, table: PageTable, options: bool) -> None:
    whole = table.subscribe(options=options)
    [first] = whole.until(place.cells())
    assert len(first["added"]) == len(first["index"]) == 10
    assert first["removed"] == first["modified"] == []
    keys = dict(zip(first["cells"]["sym"], first["index"], strict=True))

    place.set(s3=(33.0, 30))
    [update] = whole.until(place.cells())
    assert (update["added"], update["removed"], update["modified"]) == ([], [], [keys["s3"]])

    place.set(new=(None, None), newer=(1.0, 1))
    [update] = whole.until(place.cells())
    assert update["added"] == update["index"][-2:]
    assert (update["removed"], update["modified"]) == ([], [])

    place.remove("s0", "s5")
    [update] = whole.until(place.cells())
    assert (update["added"], update["removed"], update["modified"]) == ([], [keys["s0"], keys["s5"]], [])
    whole.close()


def test_a_subscription_to_some_columns(place: Place, table: PageTable) -> None:
    some = table.subscribe(["lots", "sym"])
    some.until(place.cells(columns=("lots", "sym")))
    place.set(s1=(5.0, 5), more=(7.0, 7))
    some.until(place.cells(columns=("lots", "sym")))


def test_several_viewports_and_subscriptions_of_one_table_at_a_time(page: Page, place: Place, table: PageTable) -> None:
    other = page.open(place.name)
    first, second, whole = table.look(0, 1), other.look(8, 12, ["sym"]), other.subscribe()
    for count in range(10):
        place.set(s0=(count * 1.5, count), **{f"t{count}": (None, count)})
        size = 11 + count
        first.until(place.cells(0, 1), size=size)
        second.until(place.cells(8, 12, ("sym",)), size=size, offset=8)
        whole.until(place.cells())
    first.close()
    place.remove("s1")
    whole.until(place.cells())
    second.until(place.cells(8, 12, ("sym",)), size=19, offset=8)


def test_a_snapshot(place: Place, table: PageTable) -> None:
    assert table.snapshot(0, 100) == place.cells()
    assert table.snapshot(3, 5, ["price", "sym"]) == place.cells(3, 5, ("price", "sym"))
    place.set(s4=(44.0, 44))
    assert table.snapshot(4, 4) == place.cells(4, 4)


def test_an_empty_table_that_gets_rows(page: Page, place: Place) -> None:
    table = page.open(place.name)
    assert table.size == 0
    view, whole = table.look(0, 10), table.subscribe()
    whole.until(place.cells())
    view.until(place.cells(), size=0)
    assert table.snapshot(0, 10) == place.cells()
    place.set(one=(1.0, 1), two=(None, 2))
    whole.until(place.cells())
    view.until(place.cells(), size=2)


def test_a_table_can_be_closed_and_opened_again(page: Page, place: Place, table: PageTable) -> None:
    for _ in range(3):
        view = table.look(0, 2)
        view.until(place.cells(0, 2), size=10)
        view.close()
        table.close()
        table = page.open(place.name)
