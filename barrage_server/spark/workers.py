"""The check that Spark's workers have this package, before a job needs it.

``PYSPARK_PYTHON`` names the interpreter of the workers, on their machines. Where it lacks the package, a task fails
with a ``ModuleNotFoundError`` far from its cause, and so does the query.
"""

from __future__ import annotations

import logging
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import barrage_server
from barrage_server.errors import DependencyError
from barrage_server.spark.context import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Workers", "add_package", "missing_module"]

_log: Final = logging.getLogger("barrage_server.spark")

_REMEDY: Final = (
    "Install it for the Python that PYSPARK_PYTHON names on every worker, or ship it: "
    "barrage_server.spark.add_package(spark) where the workers have pyarrow, else spark.archives (docs/spark.md, "
    "'On a cluster')."
)
_MISSING: Final = re.compile(r"(?:ModuleNotFoundError|ImportError): [^\n]*\b(?:barrage_server|pyarrow)\b[^\n]*")

# By application: why its workers cannot run tasks of this package; empty when they can.
_found: Final[dict[str, str]] = {}


class Workers:
    """The Python workers of one Spark application."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def lack(self) -> str:
        """The reason why the workers cannot run this package's tasks; empty if they can.

        The first call per application asks one worker, by a job of one task. With Spark Connect no worker is asked.
        """
        if not is_classic(self._spark):
            return ""
        application = self._application
        if application not in _found:
            _found[application] = _asked(self._spark)
            if _found[application]:
                _log.warning("%s Meanwhile batches go through the driver.", self.text(_found[application]))
        return _found[application]

    def found_lacking(self, reason: str) -> None:
        """Note that a worker lacks the package, although the asked one has it."""
        if is_classic(self._spark):
            _found[self._application] = reason
        _log.warning("%s Meanwhile batches go through the driver.", self.text(reason))

    @staticmethod
    def text(reason: str) -> str:
        """The text of an error with its remedy, in one line."""
        return f"Spark's workers cannot import barrage_server ({reason}). {_REMEDY}"

    @property
    def _application(self) -> str:
        return str(self._spark.sparkContext.applicationId)


def missing_module(error: BaseException) -> DependencyError | None:
    """The error for a job whose worker lacks the package; None for other jobs."""
    found = _MISSING.search(str(error))
    return None if found is None else DependencyError(found[0])


def add_package(spark: SparkSession) -> None:
    """Ship this package to the workers of ``spark``, which need their own pyarrow.

    Once per application, before the first batch (``SparkContext.addPyFile``). It is enough for
    :class:`~barrage_server.spark.BarrageSink`. ``format("barrage")`` also runs in processes beside Spark's driver,
    which find the package where the driver has it.
    """
    root = Path(barrage_server.__file__).parent
    folder = Path(tempfile.mkdtemp(prefix="barrage-"))
    archive = folder / "barrage_server.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in sorted(root.rglob("*.py")):
            out.write(path, Path(root.name) / path.relative_to(root))
    spark.sparkContext.addPyFile(str(archive))
    _found.pop(str(spark.sparkContext.applicationId), None)


def _asked(spark: SparkSession) -> str:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        answers: list[str] = spark.sparkContext.parallelize([0], 1).mapPartitions(_question()).collect()
    except (PySparkException, Py4JError) as error:
        return next((line.strip() for line in str(error).splitlines() if "Error" in line or "Exception" in line), "")
    return answers[0]


def _question() -> Callable[[Iterator[int]], Iterator[str]]:
    def ask(_: Iterator[int]) -> Iterator[str]:
        # A nested function is pickled by value, so the worker needs no package to run it.
        import importlib
        import sys

        try:
            importlib.import_module("barrage_server.spark.tasks")
        except Exception as error:
            yield f"{sys.executable}: {type(error).__name__}: {error}"
        else:
            yield ""

    return ask
