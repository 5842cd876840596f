"""The demo: a year of real flights, replayed through Spark into live tables.

::

    from barrage_server.demo import DemoOptions, run

    code = run(DemoOptions(seconds=30))      # 0: the tables equal those of a batch job

This process has the server, a subscriber per table, and the screen. Another process has Spark, with four streaming
queries that read the flights from a folder and publish. The replay puts files into that folder. From the flights the
server computes a fifth table: joined, aggregated and sorted. At the end every cell is checked.
"""

from __future__ import annotations

from barrage_server.demo.options import DemoOptions

__all__ = ["DemoOptions", "run"]


def run(options: DemoOptions | None = None) -> int:
    """Run the demo, and return the exit code for the process.

    The code is 0 when every table agrees cell by cell with the batch job, 1 when one differs, and 130 after Ctrl-C.

    Raises:
        DependencyError: Spark, Java or the flights are missing.
        PublishError: Spark failed.
    """
    from barrage_server.demo.runner import run as run_demo

    return run_demo(options or DemoOptions())
