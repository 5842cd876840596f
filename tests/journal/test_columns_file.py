"""Files with rows of a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barrage_server.journal.columns_file import GROUP_ROWS, read_rows, write_rows
from barrage_server.journal.files import OsDirectory

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "price": pa.float64(),
        "at": pa.timestamp("ns", "UTC"),
        "text": pa.string(),
        "large text": pa.large_string(),
        "bytes": pa.binary(),
        "amount": pa.decimal128(9, 2),
        "texts": pa.list_(pa.string()),
    }
)


def test_texts_alone_are_kept_in_dictionaries(tmp_path: Path) -> None:
    """A dictionary of numbers, which seldom repeat, takes time and memory, and makes the file larger."""
    rows = pa.table(
        [[1, 2], [1.5, 2.5], [3, 4], ["a", "a"], ["b", "b"], [b"c", b"c"], [4, 5], [["e"], ["e", "e"]]], schema=SCHEMA
    )
    directory = OsDirectory(tmp_path)
    checksums, _ = write_rows(directory, "t", SCHEMA, lambda: [[column.combine_chunks() for column in rows.columns]])
    columns = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    encoded = [columns.column(number).has_dictionary_page for number in range(columns.num_columns)]
    assert encoded == [False, False, False, True, True, True]
    (read,) = read_rows(directory, "t", SCHEMA, checksums)
    assert pa.Table.from_arrays(read, schema=SCHEMA).equals(rows)


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_few_texts_come_with_dictionaries_and_many_without(tmp_path: Path, data_type: pa.DataType) -> None:
    """In parts that do not end with row groups, too. The first rows decide."""
    schema = pa.schema({"few": data_type, "many": data_type, "key": data_type, "number": pa.int64()})
    count = 3 * GROUP_ROWS // 2
    few = pa.array([None, *(f"word {number}" for number in range(99))]).cast(data_type)
    many = pa.array([f"a longer text, number {number}" for number in range(2 * count)]).cast(data_type)
    batches = [
        [
            few.take(pa.array([row % 100 for row in rows])),
            many.take(pa.array(rows)),
            few.slice(1, 1).take(pa.array([0] * len(rows))),
            pa.array(rows),
        ]
        for rows in (range(count), range(count, 2 * count), range(2 * count - 9))
    ]
    directory = OsDirectory(tmp_path)
    checksums, _ = write_rows(directory, "t", schema, lambda: batches)
    read = list(read_rows(directory, "t", schema, checksums, ["few", "many", "number"]))
    assert {pa.types.is_dictionary(part[0].type) for part in read} == {data_type in {pa.string(), pa.binary()}}
    assert {tuple(values.type for values in part[1:]) for part in read} == {(data_type, data_type, pa.int64())}
    for number in range(4):
        values = [value for part in read for value in part[number].to_pylist()]
        assert values == [value for batch in batches for value in batch[number].to_pylist()]
