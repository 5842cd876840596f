"""Wrong values by kind of argument, and what a call answers to them."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import barrage_server as bs

HALF = "\ud800"
"""Half of a surrogate pair, which no text in UTF-8 has."""

WRONG: dict[str, list[Any]] = {
    "text": [None, 3, 3.5, b"bytes", "", ["t"], object(), HALF],
    "optional text": [3, b"bytes", ["t"], object(), HALF],
    "schema": [
        None,
        3,
        "int64",
        [],
        ["a"],
        {"a": 3},
        {3: "int64"},
        {"a": "nonsense"},
        {},
        pa.int64(),
        object(),
        {HALF: "int64"},
        {"a": HALF},
    ],
    "names": [3, b"k", [3], [None], object(), ["nope"], [], "", [HALF]],
    "rows": [
        None,
        3,
        "rows",
        [1],
        [{"k": "a"}],
        {"k": 3},
        {"nope": [1]},
        {},
        object(),
        {3: [1]},
        {"k": [object()]},
        {HALF: [1]},
        {"k": [HALF], "x": [1.0]},
    ],
    "viewport": [3, True, 1.5, "abc", (0, 5), [0, 5], [-1], range(-3, 3), [None], object(), slice("a", "b"), {1: 1}],
    "columns": [3, "k", [], [3], ["nope"], object(), b"k", [None], [HALF]],
    "count": [None, "3", 3.5, -1, [], object(), True, 1 << 70],
    "positive": ["3", 3.5, -1, 0, [], object(), True, 1 << 70],
    "seconds": ["3", -1.0, 1 << 2_000, float("nan"), [], object(), float("inf")],
    "function": [None, 3, "f", []],
    "port": [-1, "nonsense", 3.5, True, 70_000, []],
    "token": [3, b"bytes", [3], [], " ", object(), [HALF], HALF],
    "roles": [3, "reader", ["reader"], {"r": "read"}, {3: bs.Role([], [])}, {HALF: bs.Role([], [])}],
    "role names": ["r", ["nope"], [HALF], 3, [3], object(), b"r"],
    "list of texts": [None, 3, "read", [3], [None], [""], object(), [HALF]],
    "column names": [3, "read", [], [3], [None], object(), [HALF]],
    "condition": [3, "", "x = 1", "x ==", "f(x) == 1", b"x == 1", [], object(), HALF],
    "path": [3, b"bytes", [], "", object(), HALF],
    "nanoseconds": [None, 3.5, [], b"PT1S", object(), True, np.timedelta64("NaT"), datetime(2024, 6, 15), HALF],
    "integer": [None, "3", 3.5, [], object()],
    "schema or none": [3, "int64", ["a"], {"a": 3}, {"a": "nonsense"}, {"k": "string"}, {HALF: "int64"}, {"a": HALF}],
    "any rows": [None, 3, "rows", [1], {"k": 3}, {}, object(), {3: [1]}, {"k": [object()]}, {HALF: [1]}, {"k": [HALF]}],
    "period": [
        None,
        3.5,
        "nonsense",
        "2024-06-15",
        b"PT1S",
        [],
        object(),
        True,
        0,
        -1,
        999,
        1 << 70,
        timedelta.max,
        HALF,
    ],
    "moment": [3.5, "nonsense", "PT1S", b"2024", [], object(), True, 1 << 70, datetime.max, pd.NaT, HALF],
    "choice": [3, "nonsense", b"append", [], HALF],
    "formulas": [
        None,
        3,
        b"y = x",
        "",
        [],
        [3],
        "y =",
        "y = nope",
        "y = x +",
        "y = __import__('os')",
        object(),
        HALF,
        f"`{HALF}` = x",
    ],
    "conditions": [None, 3, b"x > 1", "", [3], "x >", "nope > 1", "x + 1", object(), HALF],
    "pairs": [
        None,
        3,
        "",
        [],
        [3],
        "y",
        "y = nope",
        "y = x = k",
        f"{HALF} = x",
        object(),
        {},
        {"nope": "y"},
        {"x": 3},
        {"x": "k"},
        HALF,
        {HALF: "x"},
        {"y": HALF},
    ],
    "columns to choose": [3, "", [], [3], "nope", object(), HALF, [HALF]],
    "columns to join": [None, 3, "", [], [3], "nope", "k = nope", "x = k", object(), HALF],
    "columns to pair": [3, "", [], [3], "nope", "k = nope", "x = k", object(), HALF],
    "axis": [3, "", [], ["x"], "nope", "k", object(), HALF, [HALF]],
    "columns to plot": [None, 3, "", [], [3], "nope", "k", ["x"] * 9, object(), HALF],
    "place": ["", "PT1S", "now", [], object(), True, float("nan"), 1 << 70, HALF],
    "bits": [None, "3", -1, 1.5, 32, 1 << 70, [], object()],
    "keys of several": [None, 3, "", [], [3], "nope", "k = nope", object(), HALF],
    "match": [None, 3, "", "first", [], object(), HALF],
    "share": [None, "3", -0.1, 1.5, float("nan"), [], object(), True],
    "direction": [3, "up", ["asc", "desc"], [3], [], object(), HALF],
    "aggregations": [None, 3, "sum", [3], object(), bs.agg.sum_("nope"), bs.agg.sum_("k"), bs.Aggregation("f", ("x",))],
    "aggregation": [None, 3, "sum", [], object(), bs.agg.sum_("x"), bs.Aggregation("f")],
    "movements": [
        None,
        3,
        "cum_sum",
        [],
        [3],
        object(),
        bs.agg.sum_("x"),
        bs.updateby.cum_sum("nope"),
        bs.updateby.cum_sum("k"),
        bs.updateby.ema_time("x", 5, "x"),
        bs.updateby.rolling_wavg_tick("k", "x", 3),
        bs.updateby.rolling_formula_tick("sum(e", "e", "x", 3),
        bs.updateby.cum_count_where("n", "nope > 1"),
        bs.UpdateByOperation("f", ("x",)),
        bs.UpdateByOperation("ema", ("x",), decay=-1.0),
        bs.UpdateByOperation("rolling_sum", ("x",), before=-3),
    ],
    "tables": [None, 3, "t", [], [3], object()],
    "key": [3.5, [], ["a", "b"], object(), {"k": 1}],
    "height": ["tall", 0, -1, 3.5, True, [], 1 << 70, object(), None, HALF],
    "theme": [3, "nonsense", b"dark", [], object(), None, HALF],
    "plot": [
        3,
        b"x",
        [3],
        ["x"] * 9,
        {"y": "x"},
        {3: "x"},
        {"x": 3},
        {"range": 3},
        {"ys": 3},
        {"ys": b"x"},
        object(),
        HALF,
    ],
    "shown": [None, 3, "t", [1], object(), {}],
    "table": [None, 3, "t", {"k": ["a"]}, pa.table({"k": ["a"]}), object()],
    "row set": [3, "t", [1], object()],
    "row sets": [None, 3, "t", [3], object()],
    "column numbers": [3, "k", ["k"], [7], [None], [0.5], object()],
    "roles of callers": ["admin", 5, None, b"admin", [3], [HALF], object()],
    "headers": [
        *(3, "x", ["x"], object(), {3: "b"}, {"x": 3}, {"x": b"b"}),
        *({"x": "a\nb"}, {"x y": "b"}, {"": "b"}, {"x": "é"}, {"é": "b"}, {HALF: "b"}, {"x": HALF}, {"x-bin": HALF}),
        *({"authorization": "é"}, {"x": "a\x7f"}, {":path": "b"}),
    ],
    "pem": [3, [], object(), "", "nowhere.pem", HALF, b"", "-----BEGIN \ud800", ("a",)],
    "some names": [3, [3], [None], [HALF], object()],
    "some seconds": [None, "3", -1.0, float("nan"), [], object()],
    "type": [None, 3, "nonsense", [], object(), HALF],
    "file": [None, 3, 3.5, b"path", [], "", "nowhere", HALF, "a\0b", object()],
    "bearer": [3, b"bytes", [], object(), " ", HALF, "é", "a\nb"],
    "time": ["soon", [], object(), True, float("nan"), 1 << 2_000],
    "web keys": [
        *(
            None,
            3,
            b"path",
            [],
            "",
            "nowhere",
            HALF,
            f"https://{HALF}",
            "http://x",
            "https://",
            "https://a b/c",
            "https://x:abc/",
            "a\0b",
            object(),
        ),
    ],
    "boolean": [None, 3, "yes", [], object()],
}
SCHEMA = {"k": "string", "x": "float64"}
ROWS = {"k": ["a"], "x": [1.0]}

Case = tuple[Callable[..., Any], dict[str, Any], dict[str, str]]


class World:
    """A server with a table of every kind, a client and a live table."""

    def __init__(
        self, server: bs.Server, client: bs.Client, live: bs.LiveTable, upstream: bs.Server, token_file: Path
    ) -> None:
        self.server, self.client, self.live, self.upstream = server, client, live, upstream
        self.append = server.append_table("append", SCHEMA)
        self.keyed = server.keyed_table("keyed", SCHEMA, key="k")
        self.replaced = server.replaced_table("replaced", SCHEMA)
        self.parted = self.append.partition_by("k")
        self.grouped = self.append.agg_by(bs.agg.partition("rows"), "k")
        self.lists = self.append.group_by("k")
        self.ring = server.ring_table("ring", SCHEMA, capacity=3)
        self.publication = client.publish_live("published", bs.table(ROWS))
        self.followed = server.follow(f"{upstream.uri}/up")
        self.remote = client.table("t").where("x > 0")
        self.remote_parted = client.table("t").partition_by("k")
        self.token_file = token_file
        updates = live.updates(20)
        live.set_viewport(0, 1)
        server.append_table("t", SCHEMA).append(ROWS)
        live.set_viewport(0, 5)
        self.update = next(updates)


@contextmanager
def opened_world(folder: Path) -> Iterator[World]:
    """The world, until the end of the block; ``folder`` is for its files."""
    token_file = folder / "token"
    token_file.write_text("secret")
    with bs.Server() as upstream, bs.Server() as server, bs.connect(server.uri, timeout=20) as client:
        upstream.append_table("up", SCHEMA)
        server.append_table("t", SCHEMA).append(ROWS)
        with client.subscribe("t", viewport=range(5)) as live:
            yield World(server, client, live, upstream, token_file)


def names_of(cases: Callable[[Any], dict[str, Case]]) -> list[str]:
    """The names of cases, without a world."""

    class _Any:
        def __getattr__(self, name: str) -> Any:
            return _Any()

        uri = ""

    return list(cases(_Any()))


def faults(case: Case) -> str:
    """The wrong arguments that ``case`` accepts, or that end in an error from the inside."""
    call, good, kinds = case
    found = []
    defaults = inspect.signature(call).parameters
    for argument, kind in kinds.items():
        for wrong in WRONG[kind]:
            if wrong is None and argument in defaults and defaults[argument].default is None:
                continue
            try:
                made = call(**{**good, argument: wrong})
            except bs.BarrageError as error:
                text = traceback.format_exc()
                if text.count("Traceback (most recent call last)") > 1:
                    found.append(f"{argument}={wrong!r}: several tracebacks: {error}")
                if not str(error).strip() or isinstance(error, bs.InternalError):
                    found.append(f"{argument}={wrong!r}: {type(error).__name__}, not in words: {error}")
            except BaseException as error:  # whatever it is, it is wrong
                found.append(f"{argument}={wrong!r}: {type(error).__name__}: {error}")
            else:
                found.append(f"{argument}={wrong!r} was taken: {made!r}")
                if isinstance(made, bs.Server | bs.Client | bs.LiveTable | bs.FollowedTable):
                    made.close()
    return "\n".join(found)


def untried(classes: Iterable[type], cases: Iterable[str], inner: Iterable[str]) -> list[str]:
    """The public methods of ``classes`` with arguments that are neither among ``cases`` nor ``inner``."""
    known = {name.split(" ")[0].partition(".")[2] for name in cases} | set(inner)
    return [
        f"{kind.__name__}.{name}"
        for kind in classes
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in known
        if any(entry != "self" for entry in inspect.signature(method).parameters)
    ]
