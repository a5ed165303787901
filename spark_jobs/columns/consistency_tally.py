"""Counts how often each verdict was given."""

from typing import Final

from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.tally import COUNT, Tally, tally
from spark_jobs.tables.schema import VERDICTS
from spark_jobs.verdict import Verdict

COLUMNS: Final = ("level", "scope", "verdict", "finding", "understated")
"""The columns of reads that are looked at."""

_KEYS: Final = COLUMNS[:4]


def tallies(reads: Chunk) -> dict[str, Tally]:
    """Count the verdicts of some reads.

    Args:
        reads: JUDGED.
    """
    verdict = reads.text("verdict")
    return {
        "verdicts": tally({name: reads.text(name) for name in _KEYS}),
        "understated": tally({"verdict": verdict}, reads.flag("understated")),
    }


def verdicts(found: Tally) -> list[dict[str, object]]:
    """List the verdicts with their counts, the most frequent first.

    Args:
        found: the tally "verdicts".

    Returns:
        VERDICTS.
    """
    rows = [
        {**{name: row[name] for name in _KEYS}, VERDICTS.names[-1]: row[COUNT]}
        for row in found.rows()
    ]
    return sorted(rows, key=lambda row: (-int(str(row["reads"])), *(str(row[it]) for it in _KEYS)))


def understated(found: Tally) -> int:
    """Count reads that are ok although the proxy required less than they had to see.

    Args:
        found: the tally "understated".
    """
    ok = (row[COUNT] for row in found.rows() if row["verdict"] == Verdict.OK.value)
    return sum(int(str(count)) for count in ok)
