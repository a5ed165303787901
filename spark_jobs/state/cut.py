"""Up to where the records of a day are condensed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spark_jobs.columns.arrays import NEVER, Flags, Numbers
from spark_jobs.columns.chunk import Rules
from spark_jobs.columns.numbers import Runs
from spark_jobs.columns.piece import Piece, read
from spark_jobs.columns.survey import Run
from spark_jobs.day import DAY_US, HOUR_US
from spark_jobs.primary_history import Term
from spark_jobs.schema import RUN

TAIL_US: Final = HOUR_US
"""How long before a day's end no record is condensed, at least."""

_MARGIN_US: Final = 10_000_000
"""How long before a change of the primary nothing is condensed, if that is not long ago."""


def until(
    begin_us: int,
    end_us: int,
    terms: Iterable[Term],
    bound_us: int,
    since_us: int,
    tail_us: int = TAIL_US,
) -> int:
    """Choose the moment by which what is condensed had ended.

    An earlier primary may still say something, so a change of this day is left as it is.

    Args:
        begin_us: the day's begin.
        end_us: its end.
        terms: of primaries.
        bound_us: the largest of the day's bounds.
        since_us: the moment of the state before: what is older is condensed already.
        tail_us: how long before the end nothing is condensed.
    """
    young = (it.until_us for it in terms if it.until_us >= begin_us)
    margin_us = min(tail_us, _MARGIN_US)
    moment = min([end_us - tail_us - bound_us, *(us - margin_us for us in young)])
    return max(moment, begin_us - tail_us, since_us)


@dataclass(slots=True)
class Late:
    """Of each run, the `seq` from which on its records stay as they are.

    Attributes:
        runs: they.
    """

    runs: dict[Run, int] = field(default_factory=dict)

    def add(self, other: "Late") -> None:
        """Take another piece's."""
        for run, seq in other.runs.items():
            self.runs[run] = min(seq, self.runs.get(run, seq))


def late(piece: Piece, rules: Rules, until_us: int, end_us: int) -> Late:
    """Find the first record of each run that ended after a moment.

    Args:
        piece: of records.
        rules: which of them are read.
        until_us: the moment.
        end_us: the day's end. Who ended a day after it had a wrong clock, and is not looked at.
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
    """Which records are condensed.

    Args:
        its: their runs.
        seq: their numbers.
        runs: as `Late` has them.
    """
    keys = its.keys()
    late_from = np.array([runs.get(run, NEVER) for run in keys], np.int64)
    flags: Flags = seq < late_from[its.each]
    return flags
