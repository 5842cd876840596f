"""One run of the demo, from the flights to the verdict."""

from __future__ import annotations

import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console

from barrage_server.demo.counting import CountingClient
from barrage_server.demo.destinations import serve_destinations
from barrage_server.demo.feeder import Feeder, rows_per_file
from barrage_server.demo.flights import find_airports, find_flights, read_airports, read_flights, split_flights
from barrage_server.demo.options import DemoOptions
from barrage_server.demo.screen import LineScreen, LiveScreen, Scene, Screen, program
from barrage_server.demo.spark_process import SparkProcess
from barrage_server.demo.tables import DESTINATIONS, PUBLISHED
from barrage_server.demo.verdict import Verdict, compare
from barrage_server.errors import PublishError
from barrage_server.extras import missing_extra
from barrage_server.server import Server
from barrage_server.spark.java import find_java

__all__ = ["run"]

_POLL_SECONDS: Final = 0.1
_SECONDS_TO_ARRIVE: Final = 30.0
_SECONDS_TO_WORK_OFF: Final = 300.0
_SECONDS_WITHOUT_PROGRESS: Final = 180.0
_INTERRUPTED: Final = 130


def run(options: DemoOptions) -> int:
    """Run the demo; returns the exit code of :func:`barrage_server.demo.run`."""
    # Missing packages and files are reported before anything starts.
    if find_spec("pyspark") is None:
        raise missing_extra("The demo needs", "spark", ModuleNotFoundError("no module pyspark", name="pyspark"))
    find_java()
    data = options.data or find_flights()
    airports = find_airports(data)
    console = Console()
    plain = not console.is_terminal if options.plain is None else options.plain
    screen: Screen = LineScreen(console) if plain else LiveScreen(console)
    folder = Path(tempfile.mkdtemp(prefix="barrage-demo-"))
    keep = False
    try:
        with Server(host=options.host, port=options.port, web_port=0) as server:
            serve_destinations(server, read_airports(airports))
            agreed = _Run(options, data, airports, folder, server, screen).replay_and_check()
            if options.keep_serving:
                screen.say(f"Serving on at {server.uri} until Ctrl-C: {program()} tables {server.uri}")
                server.serve_forever()
            return 0 if agreed else 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PublishError:
        keep = True  # the text of the error names Spark's log
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class _Run:
    def __init__(
        self, options: DemoOptions, data: Path, airports: Path, folder: Path, server: Server, screen: Screen
    ) -> None:
        self._options = options
        self._folder = folder
        self._server = server
        self._screen = screen
        self._data = data
        self._airports = airports
        # A slow replay has long pauses between files.
        self._timeout = _SECONDS_WITHOUT_PROGRESS + (0 if options.rate is None else 1_000 / options.rate)
        self._input = folder / "input"
        self._expected = folder / "expected"
        for path in (self._input, self._expected):
            path.mkdir()

    def replay_and_check(self) -> bool:
        """Replay the flights; returns whether every table agrees with the batch job."""
        options, began = self._options, time.monotonic()
        files, orders = self._prepare()
        total = sum(file.rows for file in files)
        self._screen.say(f"Serving at {self._server.uri}. Replaying {total:,} flights through Spark into four tables.")
        self._screen.say(f"Watch them in a browser: {self._server.web_uri}")
        self._screen.say(f"The server computes {DESTINATIONS.name} from them: joined, aggregated and sorted.")
        feeder = Feeder(files, self._input, options.rate)
        with SparkProcess(orders, self._folder / "spark.log") as spark, CountingClient(self._server.uri) as client:
            scene = Scene(total, client.all, self._server.uri, began=began)
            with self._screen:
                self._replay(spark, feeder, client, scene)
                self._finish(spark, client, scene)
                client.wait_for(self._steps(), _SECONDS_TO_ARRIVE)
                if options.before_verdict is not None:
                    options.before_verdict(self._server.uri)
                    client.wait_for(self._steps(), _SECONDS_TO_ARRIVE)
                self._screen.show(scene)
            verdicts = self._verdicts(client)
        self._summarize(scene, client, verdicts)
        return all(verdict.agrees for verdict in verdicts)

    def _prepare(self) -> tuple[Any, dict[str, object]]:
        """The files of the replay, and the orders for Spark."""
        flights = read_flights(self._data, self._options.limit)
        files = split_flights(flights, self._folder / "waiting", rows_per_file(flights.num_rows, self._options.rate))
        sample = self._folder / "sample"
        sample.mkdir()
        shutil.copy2(files[0].path, sample)
        return files, {
            "uri": self._server.uri,
            "input": str(self._input),
            "sample": str(sample),
            "airports": str(self._airports.absolute()),
            "expected": str(self._expected),
            "checkpoints": str(self._folder / "checkpoints"),
            "cores": self._options.cores,
            "memory": self._options.memory,
        }

    def _replay(self, spark: SparkProcess, feeder: Feeder, client: CountingClient, scene: Scene) -> None:
        """Feed Spark until all files are released, or the time is up."""
        processed = dict.fromkeys((table.name for table in PUBLISHED), 0)
        moved, state = time.monotonic(), (0, 0)
        while not feeder.is_done or scene.replayed < feeder.rows:
            for report in spark.reports(_POLL_SECONDS):
                if report["event"] == "ready":
                    scene.doing, scene.replay_began = "replaying", time.monotonic()
                elif report["event"] == "progress":
                    processed[report["table"]] = feeder.rows_of(report["files"])
            if state != (state := (feeder.rows, sum(processed.values()))):
                moved = time.monotonic()
            elif time.monotonic() > moved + self._timeout:
                raise PublishError(f"Spark has done nothing for {self._timeout:g} s (its log: {spark.log}).")
            if scene.replay_began is not None:
                scene.replay_seconds = time.monotonic() - scene.replay_began
                scene.replayed = min(processed.values())
                feeder.feed(scene.replay_seconds, scene.replayed)
                scene.until = feeder.until
                if self._options.seconds is not None and scene.replay_seconds >= self._options.seconds:
                    break
                client.follow_new()
            self._screen.show(scene)
        scene.total = feeder.rows

    def _finish(self, spark: SparkProcess, client: CountingClient, scene: Scene) -> None:
        """Let Spark process the remaining files, and compute the tables as a batch."""
        scene.doing = "working off the last files"
        spark.finish()
        deadline = time.monotonic() + _SECONDS_TO_WORK_OFF
        recomputed = False
        while not recomputed:
            for report in spark.reports(_POLL_SECONDS):
                if report["event"] == "drained":
                    scene.replayed = scene.total
                    scene.replay_seconds = time.monotonic() - (scene.replay_began or scene.began)
                    scene.doing = "computing the same tables as a batch job"
                if report["event"] == "recomputed":
                    recomputed = True
                    break
            if time.monotonic() > deadline:
                raise PublishError(f"Spark did not finish in {_SECONDS_TO_WORK_OFF:g} s (its log: {spark.log}).")
            self._screen.show(scene)
        client.follow_new()

    def _steps(self) -> dict[str, int]:
        return {table.name: table.version.step for table in self._server.tables()}

    def _verdicts(self, client: CountingClient) -> list[Verdict]:
        verdicts = []
        for counted in client.all:
            table = counted.table
            with pa.memory_map(str(self._expected / f"{table.name}.arrow")) as file:
                expected = pa.ipc.open_file(file).read_all()
                received = counted.live.to_arrow() if counted.live is not None else expected.schema.empty_table()
                verdicts.append(compare(table.name, expected, received, table.key, in_order=table.is_sorted))
        return verdicts

    def _summarize(self, scene: Scene, client: CountingClient, verdicts: list[Verdict]) -> None:
        say = self._screen.say
        say(f"Replayed {scene.replayed:,} flights in {scene.replay_seconds:.1f} s: {scene.rate:,.0f} rows/s.")
        for counted in client.all:
            counts = counted.counts
            say(
                f"  {counted.table.name}: {counts.updates:,} updates received, with {counts.added:,} rows added, "
                f"{counts.modified:,} modified, {counts.removed:,} removed"
            )
        say("What the subscribers received, beside a Spark batch job over the same input:")
        for verdict in verdicts:
            say(f"  {verdict}", "green" if verdict.agrees else "bold red")
        cells = sum(verdict.cells for verdict in verdicts)
        if all(verdict.agrees for verdict in verdicts):
            say(f"All {cells:,} cells agree. Done in {time.monotonic() - scene.began:.1f} s.", "bold green")
        else:
            say("The tables DIFFER from the batch job.", "bold red")
