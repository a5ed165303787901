"""A column of text as its distinct values and a code for each row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Flags, Numbers


@dataclass(frozen=True)
class Text:
    """A column of text: `codes` has the place of each row's value in `held`, -1 for null."""

    codes: Numbers
    held: pa.Array

    @cached_property
    def values(self) -> Sequence[str]:
        """The distinct values as Python strings."""
        values: list[str] = self.held.to_pylist()
        return values

    def each(self, of: Callable[[str], bool], *, null: bool = False) -> Flags:
        """Apply a predicate to each row's text; `null` is the result for null."""
        return np.array([*(of(value) for value in self.values), null])[self.codes]

    def isin(self, *values: str) -> Flags:
        """Whether each row's text is one of these."""
        return self.each(lambda it: it in values)

    @cached_property
    def filled(self) -> Flags:
        """Whether each row's text is neither null nor empty."""
        size = pc.utf8_length(self.held).to_numpy(zero_copy_only=False)
        return np.append(size > 0, False)[self.codes]

    @property
    def known(self) -> Flags:
        """Whether each row's text is not null."""
        return self.codes >= 0

    def at(self, row: int) -> str | None:
        """The text of one row; None for null."""
        code = self.codes[row]
        return None if code < 0 else str(self.held[int(code)])

    def array(self, rows: Numbers | Flags | slice = slice(None)) -> pa.DictionaryArray:
        """The column, or some of its rows, as an Arrow array."""
        codes = self.codes[rows]
        indices = pa.array(codes, pa.int32(), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, self.held)
