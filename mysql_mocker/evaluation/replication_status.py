"""What performance_schema says about a replica's replication, as rows."""

from datetime import UTC, datetime
from typing import Final

from mysql_mocker.replication.applier import Applier
from mysql_mocker.replication.binlog import Transaction
from mysql_mocker.sql.value import Row, Value
from mysql_mocker.state.instance import Instance

NO_TIME: Final = "0000-00-00 00:00:00.000000"

CONNECTION: Final = (
    *("CHANNEL_NAME", "GROUP_NAME", "SOURCE_UUID", "THREAD_ID", "SERVICE_STATE"),
    *("COUNT_RECEIVED_HEARTBEATS", "LAST_HEARTBEAT_TIMESTAMP", "RECEIVED_TRANSACTION_SET"),
    *("LAST_ERROR_NUMBER", "LAST_ERROR_MESSAGE", "LAST_ERROR_TIMESTAMP"),
    "LAST_QUEUED_TRANSACTION",
    "LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
    "LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
    "LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP",
    "LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP",
    "QUEUEING_TRANSACTION",
    "QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
    "QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
    "QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP",
)
"""Columns of `replication_connection_status`."""

WORKER: Final = (
    *("CHANNEL_NAME", "WORKER_ID", "THREAD_ID", "SERVICE_STATE"),
    *("LAST_ERROR_NUMBER", "LAST_ERROR_MESSAGE", "LAST_ERROR_TIMESTAMP"),
    "LAST_APPLIED_TRANSACTION",
    "LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
    "LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
    "LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP",
    "LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP",
    "APPLYING_TRANSACTION",
    "APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP",
    "APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP",
    "APPLYING_TRANSACTION_START_APPLY_TIMESTAMP",
    "LAST_APPLIED_TRANSACTION_RETRIES_COUNT",
    "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER",
    "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE",
    "LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP",
    "APPLYING_TRANSACTION_RETRIES_COUNT",
    "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER",
    "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE",
    "APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP",
)
"""Columns of `replication_applier_status_by_worker`."""


def connection(server: Instance) -> list[Row]:
    """Rows of `replication_connection_status`: all that the source has committed is received."""
    applier = server.applier
    if applier is None:
        return []
    source = applier.source
    newest = source.transactions[-1] if source.transactions else None
    found: dict[str, Value] = {
        "CHANNEL_NAME": "",
        "SOURCE_UUID": source.server_uuid,
        "SERVICE_STATE": "ON",
        "RECEIVED_TRANSACTION_SET": str(source.gtids),
        "LAST_ERROR_NUMBER": 0,
    }
    received_us = 0 if newest is None else newest.timestamps.immediate
    found |= _stamped("LAST_QUEUED_TRANSACTION", newest, "QUEUE", received_us, received_us)
    return [_row(CONNECTION, found)]


def worker(server: Instance) -> list[Row]:
    """Rows of `replication_applier_status_by_worker`; the first has the error of any worker."""
    applier = server.applier
    if applier is None:
        return []
    return [_worker(server, applier, number) for number in range(applier.settings.workers)]


def _worker(server: Instance, applier: Applier, number: int) -> Row:
    error = applier.error if number == 0 else None
    ahead = server.clock.ahead
    found: dict[str, Value] = {
        "CHANNEL_NAME": "",
        "WORKER_ID": number + 1,
        "SERVICE_STATE": "ON" if applier.running else "OFF",
        "LAST_ERROR_NUMBER": 0 if error is None else error.code,
        "LAST_ERROR_MESSAGE": "" if error is None else str(error),
    }
    for job in applier.jobs:
        if job.worker == number:
            found["APPLYING_TRANSACTION_RETRIES_COUNT"] = job.retries
            found |= _stamped(
                "APPLYING_TRANSACTION", job.transaction, "APPLY", job.began_us + ahead
            )
    applied = applier.applied.get(number)
    if applied is not None:
        found["LAST_APPLIED_TRANSACTION_RETRIES_COUNT"] = applied.retries
        began_us, ended_us = applied.began_us + ahead, applied.ended_us + ahead
        found |= _stamped(
            "LAST_APPLIED_TRANSACTION", applied.transaction, "APPLY", began_us, ended_us
        )
    return _row(WORKER, found)


def _stamped(
    name: str, transaction: Transaction | None, verb: str, began_us: int, ended_us: int = 0
) -> dict[str, Value]:
    if transaction is None:
        return {}
    return {
        name: str(transaction.gtid),
        f"{name}_ORIGINAL_COMMIT_TIMESTAMP": _time(transaction.timestamps.original),
        f"{name}_IMMEDIATE_COMMIT_TIMESTAMP": _time(transaction.timestamps.immediate),
        f"{name}_START_{verb}_TIMESTAMP": _time(began_us),
        f"{name}_END_{verb}_TIMESTAMP": _time(ended_us),
    }


def _time(microseconds: int) -> str:
    """A time in UTC, the time zone of the mocker's sessions; 0 means not known."""
    if not microseconds:
        return NO_TIME
    seconds, fraction = divmod(microseconds, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction:06d}"


def _row(columns: tuple[str, ...], found: dict[str, Value]) -> Row:
    return tuple(found.get(column, _default(column)) for column in columns)


def _default(column: str) -> Value:
    if column.endswith("_TIMESTAMP"):
        return NO_TIME
    if column.endswith(("_COUNT", "_NUMBER", "_HEARTBEATS")):
        return 0
    return None if column == "THREAD_ID" else ""
