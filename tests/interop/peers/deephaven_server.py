"""A real Deephaven server in this process, which does what the test says.

Settings: ``port`` (0: a free one), ``cycle_ms`` (how often tables tick), ``interval_ms`` (how often subscribers hear of
it), ``heap``, ``jvm_args``. Log-in is anonymous unless there is a ``psk`` (a pre-shared key) or a ``user`` with a
``password``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import deephaven_server
from deephaven_server import Server

from .arrow_text import from_text, to_text
from .loop import Loop

loop = Loop()
_ticking: dict[str, Any] = {}
_PSK = "io.deephaven.authentication.psk.PskAuthenticationHandler"
_ANONYMOUS = "io.deephaven.auth.AnonymousAuthenticationHandler"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _login(settings: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Arguments of the Java machine for the ways to log in, and where their classes are."""
    handlers, arguments, classes = [], [], []
    if "psk" in settings:
        handlers.append(_PSK)
        arguments.append(f"-Dauthentication.psk={settings['psk']}")
    if "user" in settings:
        handlers.append("OneUser")
        arguments += [f"-Done.user={settings['user']}", f"-Done.password={settings['password']}"]
        classes.append(str(_compiled("OneUser")))
    return [f"-DAuthHandlers={','.join(handlers or [_ANONYMOUS])}", *arguments], classes


def _compiled(name: str) -> Path:
    """The folder with a class of ``java/``; Deephaven's server needs a Java that can compile in any case."""
    target = Path(sys.prefix) / "state" / "classes"
    target.mkdir(parents=True, exist_ok=True)
    home = os.environ.get("JAVA_HOME")
    javac = Path(home, "bin", "javac") if home else "javac"
    jars = Path(deephaven_server.__file__).parent / "jars" / "*"
    source = Path(__file__).parent / "java" / f"{name}.java"
    subprocess.run([javac, "-cp", jars, "-d", target, source], check=True, stdout=sys.stderr, timeout=60)
    return target


def _start(settings: dict[str, Any]) -> Server:
    login, classes = _login(settings)
    state = Path(sys.prefix) / "state"
    folders = [f"-Ddeephaven.{kind}Dir={state / kind}" for kind in ("cache", "config", "data")]
    server = Server(
        host="127.0.0.1",
        port=settings.get("port") or _free_port(),
        jvm_args=[
            f"-Xmx{settings.get('heap', '2g')}",
            f"-DPeriodicUpdateGraph.targetCycleDurationMillis={settings.get('cycle_ms', 5)}",
            f"-Dbarrage.minUpdateInterval={settings.get('interval_ms', 5)}",
            *folders,
            *login,
            *settings.get("jvm_args", ()),
        ],
        extra_classpath=classes,
    )
    server.start()
    return server


def _scope() -> dict[str, Any]:
    """The globals that clients see: those of ``__main__``, where this script runs."""
    return vars(sys.modules["__main__"])


@loop.function
def execute(code: str) -> None:
    """Run statements. Tables that they leave in global variables are visible to clients by those names."""
    exec(compile(code, "<test>", "exec"), _scope())


@loop.function
def evaluate(expression: str) -> Any:
    """The value of an expression, as far as JSON can say it."""
    return eval(expression, _scope())


@loop.function
def content(expression: str) -> str:
    """The present content of the table that an expression gives, by Deephaven's own conversion to Arrow."""
    from deephaven import arrow
    from deephaven.update_graph import shared_lock

    table = eval(expression, _scope())
    with shared_lock(table):  # between two cycles: what is read in one may be neither the old content nor the new one
        return to_text(arrow.to_arrow(table))


@loop.function
def upload(name: str, table: str) -> None:
    """Make a table of Arrow data a global variable."""
    from deephaven import arrow

    _scope()[name] = arrow.to_table(from_text(table))


@loop.function
def read(name: str) -> str:
    """What Deephaven's Python client reads of a global table of this server."""
    from pydeephaven import Session

    scope = _scope()
    if "_session" not in scope:
        psk = loop.settings.get("psk")
        login = {"auth_type": _PSK, "auth_token": psk} if psk else {}
        scope["_session"] = Session("127.0.0.1", scope["_server"].port, **login)
    table = scope["_session"].open_table(name)
    try:
        return to_text(table.to_arrow())
    finally:
        table.close()


@loop.function
def make_ticking(prefix: str, seed: int) -> list[str]:
    """Make the tables of ``ticking_tables.py``; their names, each with ``prefix``."""
    from .ticking_tables import TickingTables

    made = TickingTables(seed)
    _ticking[prefix] = made
    _scope().update({prefix + name: table for name, table in made.tables.items()})
    return [prefix + name for name in made.tables]


@loop.function
def change_ticking(prefix: str, times: int) -> dict[str, int]:
    """Change them ``times`` times at random; returns for each the step of its last change."""
    _ticking[prefix].change(times)
    return {prefix + name: step for name, step in _ticking[prefix].steps().items()}


if __name__ == "__main__":
    _server = _start(loop.settings)
    from importlib.metadata import version

    loop.run(port=_server.port, version=version("deephaven-server"))
