"""Reduces the numbers of records to stretches, for `spark_jobs.records.numbering`.

Within a chunk, most records follow each other number by number, and in the order of their ends.
Only the first and the last record of such a stretch are kept. Spark puts the stretches of all
chunks together, which shows the gaps between them. The same is done with the statements of each
session.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Flags, Numbers, alike, in_order, starts
from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.text import Text
from spark_jobs.tables.schema import RUN

STRETCH: Final = pa.schema(
    [
        *((name, pa.string() if name != "worker" else pa.int64()) for name in RUN),
        *((name, pa.int64()) for name in ("seq", "last_seq", "ended_us", "last_ended_us")),
        ("arrived_us", pa.int64()),  # of the first record
        ("dropped", pa.int64()),  # how many records the first record reports as dropped
        ("statement_us", pa.int64()),  # end of its first statement; null if there is none
    ]
)
"""Consecutive records of a run."""

SESSION_STRETCH: Final = pa.schema(
    [
        *((name, pa.string() if name != "worker" else pa.int64()) for name in RUN),
        *((name, pa.int64()) for name in ("session", "seq", "last_seq", "ordinal", "last_ordinal")),
    ]
)
"""Consecutive statements of a session."""

COLUMNS: Final = (*RUN, "kind", "seq", "session", "ordinal", "ended_us", "arrived_us", "dropped")


class Runs:
    """The runs of a chunk.

    Attributes:
        each: for each record, the number of its run.
        first: for each run, the place of one of its records.
    """

    def __init__(self, chunk: Chunk) -> None:
        codes = (chunk.text("proxy").codes, chunk.number("worker"), chunk.text("run").codes)
        self.each, _ = alike(*codes)
        self.first: Numbers = np.unique(self.each, return_index=True)[1]
        self._chunk = chunk

    def __len__(self) -> int:
        return len(self.first)

    def keys(self) -> list[tuple[str, int, str]]:
        """The columns RUN of each run."""
        chunk = self._chunk
        return [
            (str(chunk.text("proxy").at(it)), int(chunk.number("worker")[it]),
             str(chunk.text("run").at(it)))
            for it in self.first
        ]  # fmt: skip

    def columns(self, of: Numbers) -> list[pa.Array]:
        """RUN of some records, as Arrow arrays."""
        proxy, run = self._chunk.text("proxy"), self._chunk.text("run")
        return [_plain(proxy, of), pa.array(self._chunk.number("worker")[of]), _plain(run, of)]


def _plain(text: Text, rows: Numbers) -> pa.Array:
    return text.array(rows).dictionary_decode()


class Numbering:
    """The records of a chunk in the order of their numbers.

    Attributes:
        order: the places of the records in this order.
        follows: whether each has the number right after that of the record before it, and ended no
            earlier.
    """

    def __init__(self, chunk: Chunk, runs: Runs) -> None:
        seq, run = chunk.number("seq"), runs.each
        order = np.arange(len(chunk))
        if len(runs) > 1:
            order = in_order(run, len(runs))
        same = run[order][1:] == run[order][:-1]
        if (same & (seq[order][1:] < seq[order][:-1])).any():
            order = np.lexsort((seq, run))
            same = run[order][1:] == run[order][:-1]
        self._chunk, self._runs, self.order = chunk, runs, order
        self._seq, self._ended = seq[order], chunk.number("ended_us")[order]
        self.follows: Flags = np.zeros(len(order), bool)
        rises = (self._seq[1:] == self._seq[:-1] + 1) & (self._ended[1:] >= self._ended[:-1])
        self.follows[1:] = same & rises

    def stretches(self) -> pa.Table:
        """The stretches of consecutive records: STRETCH."""
        chunk, first = self._chunk, np.flatnonzero(~self.follows)
        last = np.append(first[1:], len(self.order)) - 1
        at = self.order[first]
        is_statement = chunk.is_statement[self.order]
        ends = np.where(is_statement, self._ended, np.iinfo(np.int64).max)
        statement = np.minimum.reduceat(ends, first)
        return pa.table(
            [
                *self._runs.columns(at),
                *(self._seq[first], self._seq[last], self._ended[first], self._ended[last]),
                *(chunk.number("arrived_us")[at], chunk.number("dropped")[at]),
                pa.array(statement, mask=statement == np.iinfo(np.int64).max),
            ],
            schema=STRETCH,
        )

    def session_stretches(self) -> pa.Table:
        """The stretches of consecutive statements: SESSION_STRETCH."""
        chunk = self._chunk
        its = self.order[chunk.is_statement[self.order]]
        if not len(its):
            return SESSION_STRETCH.empty_table()
        session = pa.array(chunk.number("session")[its]).dictionary_encode()
        whose = session.indices.to_numpy().astype(np.int64) * len(self._runs) + self._runs.each[its]
        by_session = np.argsort(whose, kind="stable")
        its, whose = its[by_session], whose[by_session]
        ordinal, seq = chunk.number("ordinal")[its], chunk.number("seq")[its]
        begins = starts(whose)
        begins[1:] |= ordinal[1:] != ordinal[:-1] + 1
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(its)) - 1
        return pa.table(
            [
                *self._runs.columns(its[first]),
                chunk.number("session")[its[first]],
                *(seq[first], seq[last], ordinal[first], ordinal[last]),
            ],
            schema=SESSION_STRETCH,
        )
