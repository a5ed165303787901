"""A binary log made by hand."""

from collections.abc import Sequence

from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.binlog.event import EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import MAGIC
from protocol.gtid import Gtid
from tests.spark_jobs.routing_log import UUID

P = UUID["primary"]


def binary_log(transactions: Sequence[tuple[int, int, int]]) -> bytes:
    """A file with transactions of the primary: number, original and immediate timestamps."""
    data = MAGIC
    described = FormatDescription("9.7.4").serialise()
    data += encode_event(
        EventType.FORMAT_DESCRIPTION, described, timestamp=1, server_id=2, position=len(data)
    )
    for number, original, immediate in transactions:
        said = GtidEvent(Gtid(P, number), timestamps=CommitTimestamps(original, immediate))
        data += encode_event(
            EventType.GTID, said.serialise(), timestamp=1, server_id=1, position=len(data)
        )
    return data
