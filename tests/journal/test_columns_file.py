"""Files with rows of a table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from barrage_server.journal.columns_file import read_rows, write_rows
from barrage_server.journal.files import OsDirectory

SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "price": pa.float64(),
        "at": pa.timestamp("ns", "UTC"),
        "text": pa.string(),
        "large text": pa.large_string(),
        "bytes": pa.binary(),
        "symbol": pa.dictionary(pa.int32(), pa.string()),
        "texts": pa.list_(pa.string()),
    }
)


def test_texts_alone_are_kept_in_dictionaries(tmp_path: Path) -> None:
    """A dictionary of numbers, which seldom repeat, takes time and memory, and makes the file larger."""
    rows = pa.table(
        [[1, 2], [1.5, 2.5], [3, 4], ["a", "a"], ["b", "b"], [b"c", b"c"], ["d", "d"], [["e"], ["e", "e"]]],
        schema=SCHEMA.set(6, pa.field("symbol", pa.string())),
    ).cast(SCHEMA)
    directory = OsDirectory(tmp_path)
    checksums, _ = write_rows(directory, "t", SCHEMA, [[column.combine_chunks() for column in rows.columns]])
    columns = pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0)
    encoded = [columns.column(number).has_dictionary_page for number in range(columns.num_columns)]
    assert encoded == [False, False, False, True, True, True, True, False]
    (read,) = read_rows(directory, "t", SCHEMA, checksums)
    assert pa.Table.from_arrays(read, schema=SCHEMA).equals(rows)
