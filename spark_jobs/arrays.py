"""Names for the types of arrays, and array operations that NumPy lacks."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
"""Unsigned 64-bit words, for computing hashes."""
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

NEVER: Final = 2**62
"""Greater than any time or number."""


def ragged(begins: Numbers, which: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Go through lists of different lengths in step: all first items, then all second ones.

    Args:
        begins: the place of each list's first item, and the end of the last list.
        which: numbers of lists.

    Yields:
        Places in `which`, and the places of those lists' next items.
    """
    rows = np.arange(len(which))
    at, end = begins[which], begins[which + 1]
    while True:
        left = at < end
        if not left.all():
            rows, at, end = rows[left], at[left], end[left]
        if not len(rows):
            return
        yield rows, at
        at = at + 1


def alike(*columns: npt.NDArray[Any]) -> tuple[Numbers, int]:
    """Number the rows so that rows have the same number if they agree in all columns.

    Returns:
        The number of each row, from 0 on, and how many numbers there are.
    """
    codes, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        encoded = pa.array(column).dictionary_encode()
        mixed = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        found = pa.array(mixed).dictionary_encode()
        codes, count = found.indices.to_numpy().astype(np.int64), len(found.dictionary)
    return codes, count


def in_order(codes: Numbers, count: int) -> Numbers:
    """Sort rows by the numbers that `alike` returned; rows of one number keep their order."""
    # For 16-bit numbers, NumPy uses radix sort.
    return np.argsort(codes.astype(np.int16) if count < 1 << 15 else codes, kind="stable")


def starts(keys: npt.NDArray[Any]) -> Flags:
    """Whether each of some sorted keys is the first with its value."""
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return first
