"""What each transaction of a log changed: the tables that its row events name, or anything.

A transaction only changes rows if its events are BEGIN, table maps, rows, and XID or COMMIT, with
savepoints in between. Row events name every table that changed, also by triggers and through views
(facts 12). What a foreign key changed they name from version 9.6 on, unless the connection was
reset before: then they name its parent alone. Anything else may have changed anything.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from protocol.binlog.decode import decode
from protocol.binlog.event import ARTIFICIAL, Event, EventType, Header
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent
from protocol.binlog.table_map import TableMap
from protocol.binlog.transaction_payload import TransactionPayload
from protocol.errors import MalformedBinlogError, MalformedPacketError, ProtocolError
from protocol.gtid import Gtid

_KIB: Final = 1 << 10
LONGEST: Final[Mapping[int, int]] = {
    EventType.QUERY: 4 * _KIB,
    EventType.TABLE_MAP: 256 * _KIB,
    EventType.PREVIOUS_GTIDS: 1024 * _KIB,
    EventType.TRANSACTION_PAYLOAD: 1024 * _KIB,
}
"""How many bytes events may have that are read here (`EventStream`).

A transaction that is longer than that in one of them may have changed anything.
"""
_LARGEST_PAYLOAD: Final = 16 << 20
"""Bytes that a compressed transaction may have: it is decompressed in one go."""
_MOST_TABLES: Final = 1000

_ROWS: Final = frozenset({
    EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS,
    EventType.PARTIAL_UPDATE_ROWS, EventType.ROWS_QUERY,
})  # fmt: skip
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_BETWEEN: Final = frozenset({
    EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.ROTATE, EventType.STOP,
})  # fmt: skip
_SAVEPOINTS: Final = (b"SAVEPOINT ", b"ROLLBACK TO ")


class Changes(NamedTuple):
    """What a transaction changed.

    Attributes:
        gtid: its name.
        tables: schemas and names of tables; None if it may have changed anything.
    """

    gtid: Gtid
    tables: frozenset[tuple[str, str]] | None


class ChangeReader:
    """Takes the events of a log one after the other (`EventStream`, with `LONGEST`)."""

    def __init__(self) -> None:
        self._begin(None, 0)

    def _begin(self, gtid: Gtid | None, left: int) -> None:
        self._gtid = gtid
        self._left = left  # bytes of the transaction that are still to come
        self._tables: set[tuple[str, str]] = set()
        self._opened = False  # BEGIN has come
        self._closed = False  # XID or COMMIT has come
        self._opaque = False

    def take(self, event: Event | Header) -> Changes | None:
        """Takes the next event, or the header of one that was skipped.

        Returns:
            The transaction that ends with it, if one does.

        Raises:
            MalformedBinlogError: an event is malformed, a transaction has no GTID, or it is not as
                long as it says.
        """
        header = event if isinstance(event, Header) else event.header
        kind = header.type
        if kind in _HEARTBEATS or (kind == EventType.ROTATE and header.flags & ARTIFICIAL):
            return None
        if kind in GtidEvent.TYPES and isinstance(event, Event):
            self._take_gtid(event)
        elif self._gtid is not None and kind not in _BETWEEN:
            self._take_change(kind, event if isinstance(event, Event) else None)
            self._left -= header.length
        elif self._gtid is not None or kind not in _BETWEEN:
            raise _unexpected(header, f"an event of type {kind} comes there")
        return self._finished(header)

    def _take_gtid(self, event: Event) -> None:
        decoded = decode(event)
        if not isinstance(decoded, GtidEvent) or decoded.gtid is None:
            raise _unexpected(event.header, "a transaction has no GTID")
        if self._gtid is not None or decoded.transaction_length is None:
            raise _unexpected(event.header, "a transaction begins there")
        self._begin(decoded.gtid, decoded.transaction_length - event.header.length)

    def _finished(self, header: Header) -> Changes | None:
        gtid = self._gtid
        if gtid is None or self._left > 0:
            return None
        if self._left < 0:
            raise _unexpected(header, f"a transaction is {-self._left} bytes too long")
        opaque = self._opaque or not self._closed or not self._tables
        changes = Changes(gtid, None if opaque else frozenset(self._tables))
        self._begin(None, 0)
        return changes

    def _take_change(self, kind: int, event: Event | None) -> None:
        """Take an event of the transaction; None if it was skipped."""
        if kind == EventType.TRANSACTION_PAYLOAD and event is not None and not self._opened:
            self._take_payload(event)
        elif self._opaque or self._closed:
            self._opaque = True
        elif not self._opened:
            self._opened = event is not None and _sql(event) == b"BEGIN"
            self._opaque = not self._opened
        elif kind == EventType.TABLE_MAP and event is not None:
            decoded = decode(event)
            if isinstance(decoded, TableMap):
                self._tables.add((decoded.schema, decoded.table))
            self._opaque = len(self._tables) > _MOST_TABLES
        elif kind == EventType.XID:
            self._closed = True
        elif kind == EventType.QUERY and event is not None:
            sql = _sql(event)
            self._closed = sql == b"COMMIT"
            self._opaque = not self._closed and not sql.startswith(_SAVEPOINTS)
        else:
            self._opaque = kind not in _ROWS

    def _take_payload(self, event: Event) -> None:
        payload = decode(event)
        if not isinstance(payload, TransactionPayload) or payload.size > _LARGEST_PAYLOAD:
            self._opaque = True
            return
        try:
            events = payload.events(event.position)
        except ProtocolError as error:
            raise MalformedBinlogError(event.position, str(error)) from error
        for inner in events:
            if inner.type == EventType.TRANSACTION_PAYLOAD:
                self._opaque = True
            else:
                self._take_change(inner.type, inner)


def _sql(event: Event) -> bytes:
    """The statement of a QUERY event that succeeded; else nothing.

    Raises:
        MalformedBinlogError: its body is malformed.
    """
    if event.type != EventType.QUERY:
        return b""
    try:
        return QueryEvent.statement(event.body)
    except MalformedPacketError as error:
        raise MalformedBinlogError(event.position, f"{event.type_name}: {error}") from error


def _unexpected(header: Header, problem: str) -> MalformedBinlogError:
    return MalformedBinlogError(max(0, header.next_position - header.length), problem)
