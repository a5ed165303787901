"""Arrays by the names that this folder has for them, and what numpy has no word for."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
"""64 bits each, such as `hashes.mixed` gives."""
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

NEVER: Final = 2**62
"""Later, and more, than anything."""


def ragged(begins: Numbers, which: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Go through the items of lists of different lengths: all first ones, all second ones.

    Args:
        begins: of each list, the place of its first item; one more for the end.
        which: lists, by number.

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
    """Number the rows so that those have one number that agree in some columns.

    Returns:
        Of each row its number, from 0 on, and how many numbers there are.
    """
    codes, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        its = pa.array(column).dictionary_encode()
        mixed = codes * len(its.dictionary) + its.indices.to_numpy()
        found = pa.array(mixed).dictionary_encode()
        codes, count = found.indices.to_numpy().astype(np.int64), len(found.dictionary)
    return codes, count


def in_order(codes: Numbers, count: int) -> Numbers:
    """The rows by their numbers, as `alike` gives them; those of one number as they come."""
    # Of short numbers the sort is one by digits.
    return np.argsort(codes.astype(np.int16) if count < 1 << 15 else codes, kind="stable")


def starts(keys: npt.NDArray[Any]) -> Flags:
    """Whether each of some sorted keys is the first of its kind."""
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return first
