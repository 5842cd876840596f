"""Formulas that are functions of Python, row by row, and count what they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.storage import from_storage
from barrage_server.formula import Text
from barrage_server.operations.formula_view import Lookup


class Fake:
    """A compiled formula.

    Attributes:
        rows: how many rows it was evaluated for.

    """

    calls_users = False
    comparison = None

    def __init__(
        self,
        function: Callable[..., Any],
        columns: tuple[str, ...] = (),
        data_type: pa.DataType | None = None,
        *,
        column: str | None = None,
        arrays: tuple[str, ...] = (),
        is_pure: bool = True,
        positions: bool = False,
    ) -> None:
        self.type = data_type or pa.float64()
        self.columns = columns
        self.column = column
        self.arrays = arrays
        self.positions = positions or bool(arrays)
        self.is_pure = is_pure
        self.rows = 0
        self.most = 0
        self._function = function

    def evaluate(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: npt.NDArray[Any] | None = None,
        lookup: Lookup | None = None,
    ) -> pa.Array:
        self.rows += rows
        self.most = max(self.most, rows)
        assert tuple(inputs) == tuple(dict.fromkeys(self.columns))
        assert all(len(array) == rows for array in inputs.values())
        values = [array.to_pylist() for array in inputs.values()]
        if self.positions:
            assert positions is not None and lookup is not None and len(positions) == rows
            values.append(positions.tolist())
            for name in self.arrays:
                values.append(lookup(name, np.asarray(positions) - 1).to_pylist())
        results = [self._function(*row) for row in zip(*values, strict=True)] if values else [self._function()] * rows
        return from_storage(pa.array(results, self.type), self.type)

    def flags(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: npt.NDArray[Any] | None = None,
        lookup: Lookup | None = None,
    ) -> npt.NDArray[np.bool_]:
        answer: npt.NDArray[np.bool_] = self.evaluate(inputs, rows, positions, lookup).to_numpy(zero_copy_only=False)
        return answer


class Language:
    """Compiles texts by looking them up; a text without an entry is the name of a column."""

    def __init__(self, **known: Fake) -> None:
        self.known = known

    def __call__(self, formula: Text, types: Mapping[str, pa.DataType]) -> Fake:
        text = formula.text
        if text in self.known:
            return self.known[text]
        return Fake(lambda value: value, (text,), types[text], column=text)
