"""64-bit hashes of texts and of several numbers; two agree by chance with probability 2**-64."""

from hashlib import blake2b

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Numbers, Words

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def of(text: str | None) -> int:
    """The hash of a text; 0 for None."""
    if text is None:
        return 0
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def of_texts(texts: pa.Array) -> Numbers:
    """The hashes of some texts, and at the end that of None, which index -1 finds."""
    return np.array([*map(of, texts.to_pylist()), 0], np.int64)


def of_column(texts: pa.ChunkedArray) -> Numbers:
    """The hashes of a column of text."""
    encoded = texts.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
    numbers: Numbers = of_texts(encoded.dictionary)[codes]
    return numbers


def mixed(first: Numbers | int, *others: Numbers | int) -> Numbers:
    """One hash of several numbers, which depends on their order."""
    found = np.atleast_1d(np.asarray(first, np.int64)).view(np.uint64)
    for other in others:
        found = _scattered(found * _GOLDEN + np.asarray(other, np.int64).view(np.uint64))
    return found.view(np.int64)


def _scattered(word: Words) -> Words:
    """The final mixing steps of SplitMix64."""
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    word ^= word >> np.uint64(31)
    return word
