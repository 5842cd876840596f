"""How tests are written: they use public names, and wait for conditions and never for a time."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ANYONES = {"_exit", "_current_frames", "_repr_html_", "_jsc"}
"""Names with an underscore that other makers have made public: of Python, of notebooks, and of Spark."""
PRIVATE: dict[str, tuple[set[str], str]] = {
    "rowset/forms.py": ({"_held", "_of", "_segments"}, "makes and tells the forms that the room chooses by itself"),
    "interop/peers/pydeephaven_client.py": ({"_thread"}, "reads what the peer has no public name for"),
    "notebook/test_widget.py": ({"_instances"}, "takes a widget from those that ipywidgets keeps"),
    "client/test_table_service.py": (
        {"_asks_health"},
        "logs in as Deephaven's clients do, where ours finds out that it is a server of ours",
    ),
    "faults/test_strangers.py": ({"_endpoints"}, "counts handshakes, which no figure of the server shows"),
    "publish/test_drop_beside_commit.py": (
        {"_run"},
        "puts a step of another thread between what stages a cycle and the cycle",
    ),
    "server/test_access.py": (
        {"_deephaven", "_endpoints", "_server_state", "_methods", "_service"},
        "compares its list of calls with the handlers of an endpoint",
    ),
    "server/test_access_parts.py": ({"_server_state"}, "lets the time pass for which parts of tables are kept"),
    "server/test_credentials.py": (
        {"_fits", "_server_state", "_waiting"},
        "counts how often a password is compared, and who waits for it",
    ),
    "server/test_metrics.py": (
        {"_http", "_metrics", "_phase", "_readiness"},
        "reads the figures without a port, and puts a server into a phase that is short",
    ),
    "server/test_web_tokens.py": ({"_NoPlainRedirect"}, "has the redirects followed that its opener makes"),
    "server/web/test_results_of_pages.py": ({"_opened"}, "has a page leave while it is told of what it opens"),
    "spark/test_waiting.py": (
        {"_Parts"},
        "takes a part of the rows before it takes them again, as a repeated call does",
    ),
    "subscription/test_resume.py": ({"_is_cheap"}, "has an update sent where a snapshot would be smaller"),
    "subscription/test_viewport_group_options.py": ({"_message"}, "tells in which way a message was made"),
    "wire/test_one_list.py": ({"_unwrap"}, "compares the short way into a stream with the general one"),
    "server/durable.py": ({"_server_state"}, "has a checkpoint made now, which a server does when it sees fit"),
    "server/test_durability.py": ({"_server_state", "_show"}, "interrupts a cycle when its rows become visible"),
}
"""The private members that a file reaches for, and why."""
PAUSES = {
    "faults/clients.py": "has processes that do nothing until they are killed, and end if they are forgotten",
    "faults/guarded.py": "samples the memory of a process",
    "faults/test_process_end.py": "has processes that do nothing until a signal comes, as programs of users",
    "faults/rounds.py": "disturbs at instants that are drawn, whatever happens until then",
    "spark/test_keeping.py": "waits in a process of Spark, which has none of the modules here",
}
"""Files that wait for a time, and why."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(TESTS.rglob("*.py")):
        yield path.relative_to(TESTS).as_posix(), ast.parse(path.read_text())


def with_programs(tree: ast.Module) -> Iterator[tuple[int, ast.Module]]:
    """A file, and the programs for other processes that it holds as texts; each with the line before its first one."""
    yield 0, tree
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(text)):
                pass
            case ast.JoinedStr(parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in parts)
            case _:
                continue
        try:
            yield node.lineno - 1, ast.parse(textwrap.dedent(text))
        except (SyntaxError, ValueError):  # not a program
            continue


def is_own(value: ast.expr) -> bool:
    """Whether an expression is the object, or the class, whose method is read."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "other")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in ANYONES


def is_module(node: ast.ImportFrom, name: str) -> bool:
    """Whether what is imported is a module of this repository: tests/test_rooms.py says which ones may be."""
    return (ROOT / (node.module or "").replace(".", "/") / f"{name}.py").exists()


def named(node: ast.AST) -> list[str]:
    """The members that a node names: an attribute, imported names, or what a call sets or reads by its name.

    A call may name constants: tests may make them small.
    """
    match node:
        case ast.Attribute(value, name):
            return [] if is_own(value) else [name]
        case ast.ImportFrom(names=aliases):
            return [each.name for each in aliases if not is_module(node, each.name)]
        case ast.Call(ast.Name("setattr" | "getattr") | ast.Attribute(attr="setattr" | "delattr"), arguments):
            texts = [each.value for each in arguments[:2] if isinstance(each, ast.Constant)]
            return [name for text in texts for name in str(text).split(".") if not name.isupper()]
    return []


def reached_for(tree: ast.Module) -> dict[str, str]:
    """The private members of others that a file reaches for, each with a place."""
    return {
        name: f"{node.lineno} {ast.unparse(node)}"  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        for name in named(node)
        if is_private(name)
    }


def test_private_members_are_found_in_whatever_names_them() -> None:
    texts = {
        "_a": "it._a",
        "_b": "from barrage_server.room import _b",
        "_c": "from .room import _c as c",
        "_d": "setattr(it, '_d', 1)",
        "_e": "getattr(it, '_e', None)",
        "_f": "monkeypatch.setattr(module, '_f', f)",
        "_g": "patch.setattr('barrage_server.room._g', g)",
    }
    assert [list(reached_for(ast.parse(text))) for text in texts.values()] == [[name] for name in texts]
    for text in ("self._a", "it.__doc__", "patch.setattr(it, '_LIMIT', 3)", "from barrage_server.rowset import _part"):
        assert not reached_for(ast.parse(text))


def pauses(call: ast.Call) -> bool:
    """Whether a call waits for a time."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return isinstance(function, ast.Name) and function.id == "sleep"
    if function.attr == "sleep":
        return [ast.unparse(argument) for argument in call.args] != ["0"]
    made_here = isinstance(function.value, ast.Call) and ast.unparse(function.value.func).endswith("Event")
    return function.attr == "wait" and made_here and bool(call.args)


def test_private_members_are_not_reached_for() -> None:
    found = [
        f"{name}:{place}"
        for name, tree in trees()
        for member, place in reached_for(tree).items()
        if name not in PRIVATE or member not in PRIVATE[name][0]
    ]
    assert found == []


def test_what_files_may_reach_for_is_what_they_do() -> None:
    every = dict(trees())
    assert {name: members for name, (members, _) in PRIVATE.items()} == {
        name: set(reached_for(every[name])) for name in PRIVATE
    }


def test_pauses_are_found_in_programs_held_as_texts() -> None:
    texts = (
        "PROGRAM = 'import time\\ntime.sleep(0.3)'",
        'PROGRAM = """\nfor each in {drops}:\n    {then}\n    threading.Event().wait(0.3)\n"""',
        "run(f'sleep({SECONDS})')",
    )
    for text in texts:
        programs = [program for _, program in with_programs(ast.parse(text))]
        assert [node for each in programs for node in ast.walk(each) if isinstance(node, ast.Call) and pauses(node)], (
            text
        )


def test_nothing_waits_for_a_time() -> None:
    """A number that ``wait`` is given bounds it: it is for an event that some code sets, and not for one made here."""
    found = [
        f"{name}:{before + node.lineno} {ast.unparse(node)}"
        for name, tree in trees()
        for before, program in with_programs(tree)
        for node in ast.walk(program)
        if isinstance(node, ast.Call) and pauses(node)
    ]
    assert [place for place in found if place.partition(":")[0] not in PAUSES] == []
    assert {place.partition(":")[0] for place in found} == set(PAUSES)


def test_all_objects_are_told_apart_by_their_type() -> None:
    """``isinstance`` asks a weak proxy for the class of its object, which may be gone: a proxy of any test before."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp)
        and any("get_objects" in ast.unparse(part.iter) for part in node.generators)
        and any(isinstance(each, ast.Name) and each.id == "isinstance" for each in ast.walk(node))
    ]
    assert not found
