"""Every Spark type that Arrow has, nested ones included, by both ways; the others are refused with the way out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import barrage_server as bs
from barrage_server.spark import BarrageSink, register
from barrage_server.spark.arrow_types import arrow_schema, conform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = """
    true as a_boolean, 1y as a_byte, 2s as a_short, 3 as an_int, 4l as a_long, 1.5f as a_float, 2.5d as a_double,
    cast(12.345 as decimal(20, 3)) as a_decimal, 'text' as a_string, cast('chars' as varchar(9)) as a_varchar,
    X'00FF' as a_binary, date'2013-01-01' as a_date,
    timestamp'2013-07-01 12:00:00.000001' as a_timestamp, timestamp_ntz'2013-07-01 12:00:00' as a_local_timestamp,
    interval '1 02:03:04.5' day to second as a_duration,
    array(1, null, 3) as an_array, map('x', 1, 'y', null) as a_map, named_struct('p', 1, 'q', 'z') as a_struct,
    array(named_struct('times', array(timestamp'2013-01-01 00:00:00'), 'by', map(1, array('u', 'v')))) as a_nest
"""

# New York's summer time is four hours behind UTC, its winter time five.
EXPECTED: dict[str, Any] = {
    "a_boolean": True,
    "a_byte": 1,
    "a_short": 2,
    "an_int": 3,
    "a_long": 4,
    "a_float": 1.5,
    "a_double": 2.5,
    "a_decimal": Decimal("12.345"),
    "a_string": "text",
    "a_varchar": "chars",
    "a_binary": b"\x00\xff",
    "a_date": dt.date(2013, 1, 1),
    "a_timestamp": dt.datetime(2013, 7, 1, 16, 0, 0, 1, dt.UTC),
    "a_local_timestamp": dt.datetime(2013, 7, 1, 12),
    "a_duration": dt.timedelta(days=1, hours=2, minutes=3, seconds=4.5),
    "an_array": [1, None, 3],
    "a_map": [("x", 1), ("y", None)],
    "a_struct": {"p": 1, "q": "z"},
    "a_nest": [{"times": [dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)], "by": [(1, ["u", "v"])]}],
}

TYPES: dict[str, pa.DataType] = {
    "a_boolean": pa.bool_(),
    "a_byte": pa.int8(),
    "a_short": pa.int16(),
    "an_int": pa.int32(),
    "a_long": pa.int64(),
    "a_float": pa.float32(),
    "a_double": pa.float64(),
    "a_decimal": pa.decimal128(20, 3),
    "a_string": pa.string(),
    "a_varchar": pa.string(),
    "a_binary": pa.binary(),
    "a_date": pa.date32(),
    "a_timestamp": pa.timestamp("us", "UTC"),
    "a_local_timestamp": pa.timestamp("us"),
    "a_duration": pa.duration("us"),
    "an_array": pa.list_(pa.int32()),
    "a_map": pa.map_(pa.string(), pa.int32()),
    "a_struct": pa.struct([("p", pa.int32()), ("q", pa.string())]),
    "a_nest": pa.list_(
        pa.struct([("times", pa.list_(pa.timestamp("us", "UTC"))), ("by", pa.map_(pa.int32(), pa.list_(pa.string())))])
    ),
}


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """The session's own time zone must not show in a table."""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
def test_all_types_by_every_way(new_york: SparkSession, server: bs.Server, client: bs.Client) -> None:
    full = new_york.sql(f"select 0 as id, {ALL}")
    empty = new_york.sql("select 1 as id").join(full.drop("id").limit(0), how="left")
    rows = full.unionByName(empty).coalesce(1)
    register(new_york)
    for ship in ("driver", "executors"):
        BarrageSink(server.uri, table=ship, key=["id"], ship=ship)(rows, 0)
    rows.write.format("barrage").options(uri=server.uri, table="format", key="id").mode("append").save()
    for name in ("driver", "executors", "format"):
        found = client.snapshot(name).sort_by("id")
        assert {field.name: field.type for field in found.schema} == {"id": pa.int32(), **TYPES}
        assert found.to_pylist() == [{"id": 0, **EXPECTED}, {"id": 1, **dict.fromkeys(EXPECTED)}]


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (st.NullType(), "cast\\(null as string\\)"),
        (st.YearMonthIntervalType(), "cast it to int"),
        (st.CalendarIntervalType(), "cast it to string"),
        (st.VariantType(), "to_json"),
        (st.ArrayType(st.YearMonthIntervalType()), "'c.element'"),
        (st.MapType(st.StringType(), st.VariantType()), "'c.value'"),
        (st.StructType([st.StructField("inner", st.NullType())]), "'c.inner'"),
    ],
)
def test_types_that_no_table_holds_are_refused_by_column(kind: st.DataType, advice: str) -> None:
    with pytest.raises(bs.UnsupportedTypeError, match=advice):
        arrow_schema(st.StructType([st.StructField("c", kind)]))


def test_a_type_of_the_user_is_what_it_is_stored_as() -> None:
    class Point(st.UserDefinedType):  # type: ignore[misc]  # PySpark has no types
        @classmethod
        def sqlType(cls) -> st.DataType:  # noqa: N802
            return st.ArrayType(st.DoubleType(), False)

        @classmethod
        def module(cls) -> str:
            return __name__

    schema = arrow_schema(st.StructType([st.StructField("c", Point(), False)]))
    assert schema.field("c").type == pa.list_(pa.float64())


def test_columns_of_the_same_name_are_refused() -> None:
    field = st.StructField("c", st.LongType())
    with pytest.raises(bs.SchemaMismatchError, match="more than one column called c"):
        arrow_schema(st.StructType([field, field]))
    with pytest.raises(bs.SchemaMismatchError, match="two fields of the same name"):
        arrow_schema(st.StructType([st.StructField("s", st.StructType([field, field]))]))


def test_one_schema_whatever_spark_says_of_nulls_names_and_zones() -> None:
    strict = st.StructType([st.StructField("c", st.ArrayType(st.TimestampType(), False), False)])
    schema = arrow_schema(strict)
    assert schema == pa.schema([("c", pa.list_(pa.timestamp("us", "UTC")))])
    moment = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    as_spark = pa.list_(pa.field("element", pa.timestamp("us", "Asia/Tokyo"), nullable=False))
    batch = pa.record_batch([pa.array([[moment]], as_spark)], schema=pa.schema([pa.field("c", as_spark, False)]))
    found = conform(batch, schema)
    assert found.schema.equals(schema, check_metadata=True)
    assert found.schema.field("c").type.value_field.name == "item"
    assert found.to_pylist() == [{"c": [moment]}]
