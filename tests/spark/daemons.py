"""The processes of a standalone cluster of Spark: a master, and workers that start executors."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import Final

import pyspark

from barrage_server.spark import find_java

SPARK: Final = Path(pyspark.__file__).parent
_SECONDS: Final = 300.0


class Daemon:
    """A master or worker of Spark, until it is closed."""

    def __init__(self, name: str, *arguments: str, **environment: str) -> None:
        java = find_java().home / "bin" / "java"
        options = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dspark.master.rest.enabled=false")
        command = [str(java), *options, "-cp", f"{SPARK}/jars/*", f"org.apache.spark.deploy.{name}"]
        # What Spark's own scripts would set.
        own = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
        environ = os.environ | own | environment
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process, whose children are executors."""
        return self._process.pid

    def line_with(self, text: str) -> str:
        """The first line of its log from here on that has ``text``."""
        while True:
            line = self._lines.get(timeout=_SECONDS)
            if text in line:
                return line

    def close(self) -> None:
        """End it, and with it what it has started."""
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.put(line)
