"""The events that a transaction has in a binary log."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from mysql_mocker.replication.binlog import Transaction, Write
from mysql_mocker.replication.logged_statement import LoggedStatement
from mysql_mocker.sql.functions import rand_seeds
from mysql_mocker.sql.value import Value
from protocol.binlog.event import CHECKSUM_BYTES, HEADER_BYTES, SUPPRESS_USE, EventType
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent, StatusCode
from protocol.binlog.statement_context import (
    IntvarEvent,
    IntvarKind,
    RandEvent,
    ResultType,
    UserVariableEvent,
)
from protocol.gtid import Gtid

_UTF8MB4: Final = 255
_BINARY: Final = 63


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event without its place in a file.

    Attributes:
        type: its type.
        body: its body.
        timestamp: seconds since the epoch.
        flags: of its header.
    """

    type: int
    body: bytes
    timestamp: int
    flags: int = 0

    def length(self, *, checksum: bool) -> int:
        """How long it is in a file."""
        return HEADER_BYTES + len(self.body) + CHECKSUM_BYTES * checksum


def transaction_events(
    transaction: Transaction, sequence_number: int, version: int, *, checksum: bool
) -> list[LogEvent]:
    """All events of a transaction, its GTID first.

    Args:
        transaction: what was committed.
        sequence_number: its place among the file's transactions, from 1 on.
        version: of the server whose log this is, such as 90704.
        checksum: whether the file has checksums, which count for the transaction's length.

    Raises:
        ValueError: the MySQL statement of one of its writes is not known.
    """
    inside = list(_inside(transaction, sequence_number))
    length = sum(event.length(checksum=checksum) for event in inside)
    gtid = Gtid.parse(transaction.gtid.text)
    gtid_event = GtidEvent(
        gtid,
        sequence_number - 1,
        sequence_number,
        transaction.timestamps,
        0,
        version,
        transaction.server_version,
    )
    while True:
        # The length includes this event, which becomes longer with a larger length.
        first = LogEvent(gtid_event.type, gtid_event.serialise(), inside[0].timestamp)
        whole = length + first.length(checksum=checksum)
        if gtid_event.transaction_length == whole:
            return [first, *inside]
        gtid_event = replace(gtid_event, transaction_length=whole)


def _inside(transaction: Transaction, xid: int) -> Iterator[LogEvent]:
    seconds = transaction.timestamps.immediate // 1_000_000
    statements = [
        (statement, next(writes))
        for statement, writes in groupby(transaction.writes, key=_statement)
    ]
    if len(statements) == 1 and statements[0][0].defines:
        yield _query(*statements[0])
        return
    if not statements:
        yield from (_word(word, seconds) for word in (b"BEGIN", b"COMMIT"))
        return
    yield _word(b"BEGIN", int(statements[0][1].timestamp))
    for statement, write in statements:
        yield from _context(statement, write)
        yield _query(statement, write)
    body = xid.to_bytes(8, "little")
    yield LogEvent(EventType.XID, body, int(statements[-1][1].timestamp))


def _statement(write: Write) -> LoggedStatement:
    if write.statement is None:
        raise ValueError(f"no MySQL statement is known for {write.sql}")
    return write.statement


def _word(word: bytes, seconds: int) -> LogEvent:
    status: dict[int, bytes] = {StatusCode.FLAGS2: bytes(4), StatusCode.CATALOG_NZ: b"\x03std"}
    body = QueryEvent("", word, status=status).serialise()
    return LogEvent(EventType.QUERY, body, seconds, SUPPRESS_USE)


def _context(statement: LoggedStatement, write: Write) -> Iterator[LogEvent]:
    seconds = int(write.timestamp)
    for kind, number in (
        (IntvarKind.LAST_INSERT_ID, statement.last_insert_id),
        (IntvarKind.INSERT_ID, statement.insert_id),
    ):
        if number:
            yield LogEvent(EventType.INTVAR, IntvarEvent(kind, number).serialise(), seconds)
    if "RAND" in statement.sql.upper():
        seeds = RandEvent(*rand_seeds(write.seed))
        yield LogEvent(EventType.RAND, seeds.serialise(), seconds)
    for name, value in statement.user_variables.items():
        body = _user_variable(name, value).serialise()
        yield LogEvent(EventType.USER_VAR, body, seconds)


def _user_variable(name: str, value: Value) -> UserVariableEvent:
    if isinstance(value, int):
        unsigned = value >= 2**63
        data = value.to_bytes(8, "little", signed=not unsigned)
        return UserVariableEvent(name, data, ResultType.INT, _BINARY, unsigned)
    if isinstance(value, float):
        return UserVariableEvent(name, struct.pack("<d", value), ResultType.REAL, _BINARY)
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        return UserVariableEvent(name, text, ResultType.STRING, _UTF8MB4)
    return UserVariableEvent(name, value, ResultType.STRING, _BINARY)


def _query(statement: LoggedStatement, write: Write) -> LogEvent:
    moment = datetime.fromtimestamp(write.timestamp, UTC)  # rounded as NOW(6) rounds it
    user = statement.user.encode()[:255]
    status: dict[int, bytes] = {
        StatusCode.FLAGS2: bytes(4),
        StatusCode.SQL_MODE: statement.sql_mode.to_bytes(8, "little"),
        StatusCode.CATALOG_NZ: b"\x03std",
        StatusCode.CHARSET: 3 * _UTF8MB4.to_bytes(2, "little"),
        StatusCode.TIME_ZONE: b"\x06+00:00",  # that of all times in the mocker
        StatusCode.INVOKER: bytes((len(user),)) + user + b"\x01%",  # definer of what it creates
        StatusCode.MICROSECONDS: moment.microsecond.to_bytes(3, "little"),
        StatusCode.DEFAULT_COLLATION_FOR_UTF8MB4: _UTF8MB4.to_bytes(2, "little"),
    }
    sql = statement.sql.encode("utf-8", "surrogateescape")
    event = QueryEvent(statement.schema, sql, statement.thread_id, status=status)
    return LogEvent(EventType.QUERY, event.serialise(), int(moment.timestamp()))
