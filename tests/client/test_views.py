"""What a view means for the columns of a table, some of which may have types that nothing here can hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barrage_server.arguments import optional_names
from barrage_server.client.view import View, tell_left_out, unreadable
from barrage_server.errors import InvalidRequestError, UnknownColumnError, UnsupportedTypeError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Window

ENCODED = pa.dictionary(pa.int8(), pa.string())
SCHEMA = pa.schema([("a", pa.int64()), ("u", ENCODED), ("b", pa.string()), ("l", pa.list_(ENCODED))])
ROWS = RowSet.flat(3)


def test_all_columns_are_those_that_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    assert unreadable(SCHEMA) == {1, 3}
    assert View(None, False, None).window(SCHEMA, "t") == Window((0, 2), None, False)
    tell_left_out(SCHEMA, "t")
    assert "table 't': left out, because their types cannot be read here: u, l" in caplog.text
    caplog.clear()
    tell_left_out(pa.schema([("a", pa.int64())]), "t")
    assert not caplog.text


def test_columns_come_in_the_order_of_the_table() -> None:
    assert View(ROWS, True, ("b", "a", "b")).window(SCHEMA, "t") == Window((0, 2), ROWS, True)
    assert View(None, True, ("b",)).window(SCHEMA, "t") == Window((2,), None, False)


def test_columns_that_are_not_there_or_cannot_be_read_are_told() -> None:
    with pytest.raises(UnknownColumnError, match="no column 'x'; it has: a, u, b, l"):
        View(None, False, ("a", "x")).window(SCHEMA, "t")
    with pytest.raises(UnsupportedTypeError, match=r"Column 'u' of table 't' has the type dictionary.*leave it out"):
        View(None, False, ("a", "u")).window(SCHEMA, "t")
    with pytest.raises(UnsupportedTypeError, match="no column whose type can be read"):
        View(None, False, None).window(pa.schema([("u", ENCODED)]), "t")


def test_names_are_checked() -> None:
    assert optional_names(None, "columns") is None
    assert optional_names(["b", "a"], "columns") == ("b", "a")
    with pytest.raises(InvalidRequestError, match=r"write \['a'\]"):
        optional_names("a", "columns")
    with pytest.raises(InvalidRequestError, match="at least one"):
        optional_names([], "columns")
