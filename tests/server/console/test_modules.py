"""The modules of scripts: Deephaven's names over this project's operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.server import Server
from tests.server.deephaven.scripting import Scripting, place

SCRIPTS = {
    "new_table of a mapping": "from deephaven import new_table\nt = new_table({'x': [3, 1, 2]})\nr = t.sort('x')",
    "new_table of columns": (
        "from deephaven import new_table\nfrom deephaven.column import long_col, string_col\n"
        "r = new_table([long_col('x', [1, 2, 3]), string_col('s', ['a', 'b', None])]).view('x')"
    ),
    "merge": (
        "import deephaven as dh\nt = dh.empty_table(3).update('x = ii + 1')\nr = dh.merge([t.head(1), None, t.tail(2)])"
    ),
    "merge_sorted": (
        "from deephaven import *\nt = empty_table(3).update('x = ii + 1')\n"
        "r = merge_sorted([t.tail(1), t.head(2)], 'x')"
    ),
    "directions": (
        "from deephaven.table import SortDirection\nfrom deephaven import new_table\n"
        "r = new_table({'x': [2, 3, 1]}).sort(['x'], [SortDirection.ASCENDING])"
    ),
    "agg": (
        "from deephaven import agg, new_table\n"
        "r = new_table({'k': [1, 1, 2, 3], 'v': [0, 1, 2, 3]}).agg_by(agg.max_('x = v'), by='k').view('x')"
    ),
    "updateby": (
        "import deephaven.updateby as ub\nfrom deephaven import new_table\n"
        "r = new_table({'x': [1, 1, 1]}).update_by(ub.cum_sum('x'))"
    ),
    "multi_join": (
        "from deephaven.table import multi_join, MultiJoinInput\nfrom deephaven import new_table\n"
        "t = new_table({'x': [1, 2, 3]})\nr = multi_join([MultiJoinInput(t, 'x')])"
    ),
    "arrow": (
        "from deephaven import new_table\nfrom deephaven.arrow import to_arrow, to_table\n"
        "r = to_table(to_arrow(new_table({'x': [1, 2, 3]})))"
    ),
    "pandas": (
        "from deephaven import new_table\nfrom deephaven.pandas import to_pandas, to_table\n"
        "r = to_table(to_pandas(new_table({'x': [1, 2, 3]})))"
    ),
    "input_table": (
        "from deephaven import dtypes, input_table, new_table\nr = input_table({'x': dtypes.int64})\n"
        "r.add({'x': [1, 2]})\nr.add(new_table({'x': [3]}))"
    ),
    "input_table of a table": (
        "from deephaven import input_table, new_table\n"
        "r = input_table(init_table=new_table({'x': [1, 2, 3, 4]}), key_cols=['x'])\nr.delete({'x': [4]})"
    ),
    "an annotated function": (
        "from deephaven import empty_table\ndef more(n: int) -> int:\n    return n + 1\n\n"
        "r = empty_table(3).update('x = more(ii)')"
    ),
    "a function that is defined anew": (
        "from deephaven import empty_table\ndef more(n: int) -> int:\n    return n\n\n"
        "empty_table(3).update('x = more(ii)')\ndef more(n: int) -> int:\n    return n + 1\n\n"
        "r = empty_table(3).update('x = more(ii)')"
    ),
    "functions of numpy": (
        "import numpy as np\nfrom deephaven import empty_table\nsqrt = np.sqrt\n"
        "empty_table(3).update('y = sqrt(ii)')\n"
        "class Typed:\n    types = ['l->l']\n    def __call__(self, n):\n        return n + 1\n\n"
        "next_of = Typed()\nr = empty_table(3).update('x = next_of(ii)')"
    ),
    "a constituent": (
        "from deephaven import input_table, new_table\n"
        "t = input_table(init_table=new_table({'k': ['a', 'b', 'a', None], 'x': [1, 9, 2, 8]}))\n"
        "parts = t.partition_by('k', drop_keys=True)\nr, nulls = map(parts.get_constituent, ['a', [None]])\n"
        "assert nulls.to_arrow()['x'].to_pylist() == [8] and parts.get_constituent('z') is None\n"
        "t.add({'k': ['c', 'a'], 'x': [7, 3]})\n"
        "assert parts.keys().to_arrow()['k'].to_pylist() == ['a', 'b', None, 'c'] and parts.key_columns == ['k']\n"
        "assert [each.size for each in parts.constituent_tables] == [3, 1, 1, 1] and parts.is_refreshing"
    ),
    "merged constituents": (
        "from deephaven import new_table\nfrom deephaven.table import PartitionedTable\nnan = float('nan')\n"
        "t = new_table({'x': [1, 3, 2, 2], 'k': [1.5, nan, 1.5, nan]})\nparts = t.partition_by(['k'])\n"
        "assert isinstance(parts, PartitionedTable) and 'keys=2' in repr(parts)\n"
        "assert parts.merge().to_arrow()['x'].to_pylist() == [1, 2, 3, 2]\n"
        "last = parts.transform(lambda each: each.tail(1)).merge()\nassert last.to_arrow()['x'].to_pylist() == [2, 2]\n"
        "r = parts.merge().select_distinct('x').sort('x')"
    ),
    "a snapshot": (
        "from datetime import timedelta\nfrom deephaven import time_table\n"
        "t = time_table(timedelta(seconds=0.01))\nassert t.is_refreshing and not t.is_blink\n"
        "assert t.await_update(20) and not time_table('PT1H').await_update(0.01)\n"
        "from deephaven import new_table\nr = new_table({'x': [1, 2, 3]}).snapshot()"
    ),
    "words of a table": (
        "from deephaven import new_table\nr = new_table({'x': [1, 2, 3]})\n"
        "assert len(r) == r.size == 3 and r.column_names == ['x'] == r.schema.names and r.is_flat in (True, False)\n"
        "assert new_table({'x': [1]}).head(0) and '1' in r.to_string() and 'x' in repr(r)"
    ),
}


@pytest.fixture(scope="module")
def client() -> Iterator[tuple[Server, Scripting]]:
    with Server(deephaven_port=0, console=True) as server:
        client = Scripting(place(server))
        yield server, client
        client.disconnect()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_a_table(client: tuple[Server, Scripting], name: str) -> None:
    """Each makes the table ``r`` with one column ``x`` of 1, 2, 3."""
    server, scripting = client
    assert scripting.run(SCRIPTS[name]).error == ""
    assert server.table("r").to_arrow().to_pydict() == {"x": [1, 2, 3]}
    scripting.run("del r")


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("from deephaven import input_table\ninput_table()", "either col_defs or init_table"),
        ("from deephaven import input_table\ninput_table({'x': 'int64'}, key_cols='x', blink_table=True)", "blink"),
        ("from deephaven import new_table\nnew_table({'x': [1]}).add({'x': [2]})", "no input table"),
        ("from deephaven import new_table\nnew_table({'x': [1]}).where_in(5, 'x')", "must be tables of this console"),
        ("from deephaven.column import int_col\nint_col('x', ['a'])", "do not fit its type"),
        ("from deephaven import empty_table\nempty_table(-1)", "size"),
        ("from deephaven import empty_table\nempty_table(1).await_update(-1)", "timeout"),
        ("from deephaven import nothing", "nothing"),
        ("from deephaven import empty_table\nempty_table(1).update('x = ii').partition_by('y')", "no column 'y'"),
        (
            "from deephaven import empty_table\nempty_table(1).update('x = ii').partition_by('y = x')",
            "no column 'y = x'",
        ),
        ("from deephaven import new_table\nnew_table({'x': [1]}).partition_by(' x')", "no column ' x'"),
        ("from deephaven import new_table\nnew_table({'x': [1]}).partition_by('x', True)", "keep them"),
        ("from deephaven import new_table\nnew_table({'x': [1]}).partition_by('x').get_constituent('a')", "'x'"),
        (
            "from deephaven import new_table\nnew_table({'x': [1]}).partition_by('x').transform(len).merge()",
            "func must return a table, not 1",
        ),
        (
            "from deephaven import time_table\nt = time_table('PT1H').update('x = ii').partition_by('x')\n"
            "assert t.merge().is_refreshing\nt.transform(lambda each: each.head(1)).merge()",
            "would be left out",
        ),
    ],
)
def test_wrong_arguments_are_told(client: tuple[Server, Scripting], script: str, text: str) -> None:
    assert text in client[1].run(script).error


def test_the_modules_are_those_of_scripts_alone(client: tuple[Server, Scripting]) -> None:
    assert client[1].run("import deephaven, sys\nassert 'deephaven' not in sys.modules").error == ""
    with pytest.raises(ModuleNotFoundError):
        __import__("deephaven")


def test_a_function_without_a_type_is_unknown_to_formulas(client: tuple[Server, Scripting]) -> None:
    script = (
        "from deephaven import empty_table\ndef untyped(n):\n    return n\n\nempty_table(1).update('x = untyped(ii)')"
    )
    assert "untyped" in client[1].run(script).error


def values(server: Server, formula: str) -> list[Any]:
    """What a formula of the server itself says for the numbers -1 and 2."""
    found: list[Any] = server.table("numbers").update(f"y = {formula}").to_arrow()["y"].to_pylist()
    return found


def test_functions_of_the_server_and_of_formulas_keep_their_names() -> None:
    with Server(deephaven_port=0, console=True) as server:
        server.functions.register("score", lambda n: n * 2, returns=pa.int64(), kind="scalar")
        server.append_table("numbers", {"x": "int64"}).append({"x": [-1, 2]})
        client = Scripting(place(server))
        for name, owner in (("score", "the server"), ("abs", "formulas"), ("nth", "formulas")):
            error = client.run(
                f"def {name}(n: int) -> int:\n    return 99\n\nr = numbers.update('y = {name}(x)')"
            ).error
            assert f"the function '{name}' of a script: a function of {owner} has that name" in error
        assert client.run("r = numbers.update('y = `abs(` + x')").error == ""  # no call
        assert client.run("r = numbers.update('y = Math.abs(x)')").error == ""
        assert client.run("del score, abs, nth\nr = numbers.update('y = score(x) + abs(x)')").error == ""
        assert values(server, "score(x)") == [-2, 4]
        assert values(server, "abs(x)") == [1, 2]
        client.disconnect()


def test_functions_of_scripts_may_be_replaced_until_the_server_has_the_name() -> None:
    with Server(deephaven_port=0, console=True) as server:
        server.append_table("numbers", {"x": "int64"}).append({"x": [-1, 2]})
        client = Scripting(place(server))
        script = "def own(n: int) -> int:\n    return n + {}\n\nr = numbers.update('y = own(x)')"
        for more in (10, 20):
            assert client.run(script.format(more)).error == ""
            assert values(server, "own(x)") == [more - 1, more + 2]
        server.functions.register("own", lambda n: 0, returns=pa.int64(), kind="scalar")
        assert "a function of the server has that name" in client.run(script.format(30)).error
        assert values(server, "own(x)") == [0, 0]
        client.disconnect()


@pytest.mark.parametrize(
    ("later", "told"),
    [
        ("def pick(x):\n    return x * 100", "'pick' of a script does not say what it returns"),
        ("pick = 5", "'pick' that a script has defined is not there any more"),
        ("del pick", "'pick' that a script has defined is not there any more"),
    ],
)
def test_formulas_do_not_go_on_with_a_function_that_is_another_now(later: str, told: str) -> None:
    with Server(deephaven_port=0, console=True) as server:
        server.append_table("numbers", {"x": "int64"}).append({"x": [1]})
        client = Scripting(place(server))
        assert client.run("def pick(x: int) -> int:\n    return x + 1\n\nr = numbers.update('y = pick(x)')").error == ""
        assert told in client.run(f"{later}\ns = numbers.update('y = pick(x)')").error
        assert client.run("def pick(x: int) -> int:\n    return x * 9").error == ""
        assert values(server, "pick(x)") == [9]  # no formula of a script has called it yet
        client.disconnect()


def test_a_function_without_a_type_is_told_how_it_gets_one() -> None:
    with Server(deephaven_port=0, console=True) as server:
        server.append_table("numbers", {"x": "int64"}).append({"x": [1]})
        client = Scripting(place(server))
        error = client.run("def double(x):\n    return 2 * x\n\nr = numbers.update('y = double(x)')").error
        assert "write 'def double(...) -> float:'" in error
        client.disconnect()


def test_a_variable_that_hides_a_table_is_told_once() -> None:
    with Server(deephaven_port=0, console=True) as server:
        server.append_table("numbers", {"x": "int64"})
        client = Scripting(place(server))
        hides = "'numbers' hides the table of that name from all scripts until 'del numbers'"
        assert hides in client.run("numbers = 3").error
        assert client.run("other = 1").error == ""
        assert client.run("del numbers").error == ""
        assert client.run("assert numbers.size == 0").error == ""
        client.disconnect()
