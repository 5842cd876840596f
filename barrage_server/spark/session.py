"""A Spark session that works without settings.

Java is found, the workers run this Python, and the terminal stays quiet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barrage_server.extras import missing_extra
from barrage_server.spark.java import prepare_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]

_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
# A local Spark needs no other machines, and must not depend on the address of this machine's name.
_LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def spark_session(app_name: str, *, master: str = "local[*]", **conf: str) -> SparkSession:
    """A local Spark session for a notebook, a test or a small job.

    An existing session is returned.

    Args:
        app_name: shown in Spark's own user interface and log.
        master: where Spark runs; ``local[2,3]`` means two cores, and up to three attempts per task.
        conf: Spark settings by name, as in ``**{"spark.driver.memory": "2g"}``. By default the web interface and the
            console progress bar are off, and the session's time zone is UTC.

    Raises:
        DependencyError: PySpark, or a Java that it can run on, is missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise missing_extra("A Spark session needs", "spark", error) from error
    prepare_environment()
    builder = SparkSession.builder.appName(app_name).master(master)
    local = _LOCAL if master.startswith("local") else {}
    for name, value in (_DEFAULTS | local | conf).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
