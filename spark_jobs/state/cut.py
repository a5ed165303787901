"""Chooses up to where the records of a day are condensed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spark_jobs.arrays import NEVER, Flags, Numbers
from spark_jobs.columns.chunk import Rules
from spark_jobs.columns.numbers import Runs
from spark_jobs.columns.piece import Piece, read
from spark_jobs.columns.survey import Run
from spark_jobs.day import DAY_US, HOUR_US
from spark_jobs.primaries.primary_history import Term
from spark_jobs.tables.schema import RUN

TAIL_US: Final = HOUR_US
"""At least the records of so long before a day's end are not condensed."""

_MARGIN_US: Final = 10_000_000
"""Before a change of the primary on the day, the records of so long are not condensed."""


def until(
    begin_us: int,
    end_us: int,
    terms: Iterable[Term],
    bound_us: int,
    since_us: int,
    tail_us: int = TAIL_US,
) -> int:
    """Choose the moment by which everything that is condensed must have ended.

    Changes of the primary on this day are left to the tail, since answers of the earlier primary
    may still arrive.

    Args:
        begin_us: the day's begin.
        end_us: the day's end.
        terms: the terms of primaries.
        bound_us: the largest bound of the day's reads at BOUNDED_STALENESS.
        since_us: the same moment of the state before: what is older is condensed already.
        tail_us: the least length of the tail.
    """
    young = (it.until_us for it in terms if it.until_us >= begin_us)
    margin_us = min(tail_us, _MARGIN_US)
    moment = min([end_us - tail_us - bound_us, *(us - margin_us for us in young)])
    return max(moment, begin_us - tail_us, since_us)


@dataclass(slots=True)
class Late:
    """From which record on each run stays in the tail.

    Attributes:
        runs: by run, the `seq`.
    """

    runs: dict[Run, int] = field(default_factory=dict)

    def add(self, other: "Late") -> None:
        """Merge the runs of another piece."""
        for run, seq in other.runs.items():
            self.runs[run] = min(seq, self.runs.get(run, seq))


def late(piece: Piece, rules: Rules, until_us: int, end_us: int) -> Late:
    """Find the first record of each run that ended after a moment.

    Args:
        piece: the records.
        rules: which of them are read.
        until_us: the moment.
        end_us: the day's end. Records that ended a day after it had a wrong clock; they do not
            count.
    """
    found = Late()
    for chunk in read(piece, (*RUN, "seq", "arrived_us", "ended_us"), rules):
        runs, ended = Runs(chunk), chunk.number("ended_us")
        least = np.full(len(runs), NEVER)
        is_late = (ended > until_us) & (ended <= end_us + DAY_US)
        np.minimum.at(least, runs.each[is_late], chunk.number("seq")[is_late])
        its = dict(zip(runs.keys(), map(int, least), strict=True))
        found.add(Late({run: seq for run, seq in its.items() if seq < NEVER}))
    return found


def is_before(its: Runs, seq: Numbers, runs: Mapping[Run, int]) -> Flags:
    """Whether each record is condensed.

    Args:
        its: the records' runs.
        seq: the records' numbers.
        runs: see `Late`.
    """
    keys = its.keys()
    late_from = np.array([runs.get(run, NEVER) for run in keys], np.int64)
    flags: Flags = seq < late_from[its.each]
    return flags
