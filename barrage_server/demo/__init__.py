"""The demo: a year of real flights, replayed through Spark into live tables, and every cell checked at the end.

::

    from barrage_server.demo import DemoOptions, run

    code = run(DemoOptions(seconds=30))      # 0: the tables are what a batch job makes of the same input

What runs: this process has the server, a subscriber per table, and the screen; a process of its own has Spark, with
four streaming queries that read the flights from a folder and publish. The replay puts files into that folder. From the
flights the server computes a fifth table: joined, aggregated and sorted.
"""

from __future__ import annotations

from barrage_server.demo.options import DemoOptions

__all__ = ["DemoOptions", "run"]


def run(options: DemoOptions | None = None) -> int:
    """Run the demo, and return the exit code for the process.

    0: every table agrees cell by cell with the batch job. 1: one differs. 130: stopped by Ctrl-C.

    DependencyError when Spark, Java or the flights are missing, PublishError when Spark fails; both with a text of one
    line that says what to do.
    """
    from barrage_server.demo.runner import run as run_demo

    return run_demo(options or DemoOptions())
