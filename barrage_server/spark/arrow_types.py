"""Spark types as Arrow types of a live table.

Field nullability, names of list children and the session's time zone differ between the ways that rows leave Spark;
a table has one schema. So there is one form: every field may be null (except map keys), list children are called
``item``, and instants are microseconds in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as every Spark program calls it
from pyspark.sql import types as st

from barrage_server.errors import SchemaMismatchError, UnsupportedTypeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["arrow_schema", "conform", "with_nullable_fields"]

_PLAIN: Final[dict[type[st.DataType], pa.DataType]] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.CharType: pa.string(),
    st.VarcharType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", tz="UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
    st.DayTimeIntervalType: pa.duration("us"),
}

# By name, because older Spark versions lack some of the classes.
_NAMED: Final[dict[str, pa.DataType]] = {"TimeType": pa.time64("ns")}

_REFUSED: Final[dict[str, str]] = {
    "NullType": "give the column a type, as in cast(null as string)",
    "YearMonthIntervalType": "Arrow for Python has no such type; cast it to int (months) or string",
    "CalendarIntervalType": "it has no fixed length; cast it to string",
    "VariantType": "its binary form is Spark's own; use to_json, or cast it to the type it holds",
    "GeometryType": "use its well-known binary form (st_asbinary)",
    "GeographyType": "use its well-known binary form (st_asbinary)",
}


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The schema of the live table for rows of the Spark schema ``schema``.

    Raises:
        UnsupportedTypeError: a column has a type that a table cannot hold: year-month and calendar intervals, variant,
            geometry and geography, and columns of nulls alone. The text names the column, and a type to cast it to.
        SchemaMismatchError: two columns have the same name.
    """
    names = schema.fieldNames()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaMismatchError(f"There is more than one column called {', '.join(twice)}; rename them.")
    return pa.schema([pa.field(field.name, _arrow_type(field.dataType, field.name)) for field in schema.fields])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch of Spark to ``schema``. Names and zones change without a copy."""
    return batch if batch.schema.equals(schema, check_metadata=True) else batch.cast(schema)


def with_nullable_fields(frame: DataFrame) -> DataFrame:
    """Declare every field within the columns of ``frame`` as nullable.

    ``DataFrame.toArrow`` fails on a null struct whose fields are declared as never null. Spark declares most structs of
    a query so.
    """
    columns = []
    for field in frame.schema.fields:
        column = F.col("`" + field.name.replace("`", "``") + "`")
        loose = _nullable(field.dataType)
        columns.append(column if loose == field.dataType else column.cast(loose).alias(field.name))
    return frame.select(columns)


def _nullable(spark: st.DataType) -> st.DataType:
    if isinstance(spark, st.ArrayType):
        return st.ArrayType(_nullable(spark.elementType), True)
    if isinstance(spark, st.MapType):
        return st.MapType(_nullable(spark.keyType), _nullable(spark.valueType), True)
    if isinstance(spark, st.StructType):
        return st.StructType([st.StructField(field.name, _nullable(field.dataType), True) for field in spark.fields])
    return spark


def _arrow_type(spark: st.DataType, path: str) -> pa.DataType:
    if isinstance(spark, st.UserDefinedType):
        return _arrow_type(spark.sqlType(), path)
    if isinstance(spark, st.DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    if isinstance(spark, st.ArrayType):
        return pa.list_(pa.field("item", _arrow_type(spark.elementType, f"{path}.element")))
    if isinstance(spark, st.MapType):
        return pa.map_(_arrow_type(spark.keyType, f"{path}.key"), _arrow_type(spark.valueType, f"{path}.value"))
    if isinstance(spark, st.StructType):
        if len(set(spark.fieldNames())) < len(spark.fieldNames()):
            raise SchemaMismatchError(f"Column {path!r} has two fields of the same name; rename one of them.")
        fields = [pa.field(field.name, _arrow_type(field.dataType, f"{path}.{field.name}")) for field in spark.fields]
        return pa.struct(fields)
    name = type(spark).__name__
    found = _PLAIN.get(type(spark)) or _NAMED.get(name)
    if found is None:
        advice = _REFUSED.get(name, "cast it to a type that Arrow has")
        raise UnsupportedTypeError(f"Column {path!r} is of type {spark.simpleString()}: {advice}.")
    return found
