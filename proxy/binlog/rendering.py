"""A transaction's commit timestamps as text and as JSON.

They are UTC in the log; a person reads them in the system's time zone (WL#7319, F5).
"""

import json
import time

from protocol.binlog.commit_timestamps import CommitTimestamps
from proxy.binlog.transactions import Transaction

_NEVER = CommitTimestamps(0, 0)  # as mysqlbinlog shows an event without timestamps


def moment(timestamp: int) -> str:
    """Microseconds since the epoch as ``YYYY-MM-DD HH:MM:SS.UUUUUU ZONE``."""
    seconds, microseconds = divmod(timestamp, 1_000_000)
    local = time.localtime(seconds)
    return time.strftime(f"%Y-%m-%d %H:%M:%S.{microseconds:06d} %Z", local)


def text(transaction: Transaction) -> str:
    """Lines as ``mysqlbinlog`` of MySQL 9.7 prints them, and the time between both commits."""
    event = transaction.gtid_event
    times = event.timestamps or _NEVER
    lag = "unknown" if times.lag is None else f"{times.lag} microseconds"
    return "\n".join(
        (
            f"# at {transaction.event.position}",
            f"# {transaction.event.type_name} last_committed={event.last_committed}"
            f" sequence_number={event.sequence_number}"
            f" transaction_length={event.transaction_length or 0}",
            f"# original_commit_timestamp={times.original} ({moment(times.original)})",
            f"# immediate_commit_timestamp={times.immediate} ({moment(times.immediate)})",
            f"# commit_lag={lag}",
            f"/*!80001 SET @@session.original_commit_timestamp={times.original}*//*!*/;",
            "/*!80014 SET @@session.original_server_version="
            f"{event.original_server_version or 0}*//*!*/;",
            "/*!80014 SET @@session.immediate_server_version="
            f"{event.immediate_server_version or 0}*//*!*/;",
            f"SET @@SESSION.GTID_NEXT= '{event.gtid or 'ANONYMOUS'}'/*!*/;",
        )
    )


def json_line(transaction: Transaction) -> str:
    """One JSON object in one line; values that the log does not have are null."""
    event, times = transaction.gtid_event, transaction.gtid_event.timestamps
    return json.dumps(
        {
            "file": transaction.file,
            "position": transaction.event.position,
            "type": transaction.event.type_name,
            "gtid": None if event.gtid is None else str(event.gtid),
            "server_id": transaction.event.header.server_id,
            "last_committed": event.last_committed,
            "sequence_number": event.sequence_number,
            "original_commit_timestamp": None if times is None else times.original,
            "original_commit_time": None if times is None else moment(times.original),
            "immediate_commit_timestamp": None if times is None else times.immediate,
            "immediate_commit_time": None if times is None else moment(times.immediate),
            "commit_lag_us": None if times is None else times.lag,
            "transaction_length": event.transaction_length,
            "original_server_version": event.original_server_version,
            "immediate_server_version": event.immediate_server_version,
        }
    )
