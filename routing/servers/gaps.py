"""Gaps in what a replica has: what it lacks although it has something newer of the same source.

Parallel workers without a commit order (WL#6813) leave them, and fill them later. Numbers that no
transaction ever had are no gaps: only what the primary has counts.
"""

from protocol.gtid import GtidSet


def gaps(applied: GtidSet, primary: GtidSet) -> GtidSet:
    """What `primary` has of each source before the newest that is in `applied`, but this lacks."""
    upto = GtidSet({tsid: [(1, applied.intervals(tsid)[-1][1])] for tsid in applied.tsids})
    return (primary & upto) - applied
