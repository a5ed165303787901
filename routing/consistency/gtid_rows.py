"""A GTID set as rows, in the shape of `mysql.gtid_executed` (WL#6559, tags as in 9.x).

A row is an interval, closed at both ends: (source UUID, tag, first number, last number). Rows may
be added one at a time; `rows` gives as few rows as possible for a set, which is what the server's
compression thread does.
"""

from collections.abc import Iterable

from protocol.gtid import GtidSet

GtidRow = tuple[str, str, int, int]
"""source_uuid, tag (empty for none), interval_start, interval_end."""


def rows(gtids: GtidSet) -> list[GtidRow]:
    """The rows of a set, in the order of the table's key."""
    found = []
    for tsid in gtids.tsids:
        uuid, _, tag = tsid.partition(":")
        found += [(uuid, tag, start, end - 1) for start, end in gtids.intervals(tsid)]
    return found


def from_rows(found: Iterable[GtidRow]) -> GtidSet:
    """The set of rows, in any order, overlapping or not.

    Raises:
        MalformedGtidSetError: a UUID, a tag or an interval that a server would refuse.
    """
    intervals: dict[str, list[tuple[int, int]]] = {}
    for uuid, tag, start, end in found:
        tsid = f"{uuid}:{tag}" if tag else uuid
        intervals.setdefault(tsid, []).append((start, end + 1))
    return GtidSet(intervals)
