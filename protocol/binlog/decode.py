"""Decodes events: the one place that knows which class reads which type."""

from collections.abc import Callable
from typing import Final

from protocol.binlog.event import Event, EventType
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent, parse_gtid_event
from protocol.binlog.heartbeat import HeartbeatEvent
from protocol.binlog.query_event import QueryEvent
from protocol.binlog.rotate import RotateEvent
from protocol.binlog.statement_context import IntvarEvent, RandEvent, UserVariableEvent
from protocol.binlog.table_map import TableMap
from protocol.binlog.transaction_payload import TransactionPayload
from protocol.errors import MalformedBinlogError, ProtocolError
from protocol.gtid import GtidSet
from protocol.wire import Reader

Decoded = (
    FormatDescription
    | GtidEvent
    | GtidSet  # PREVIOUS_GTIDS
    | HeartbeatEvent
    | IntvarEvent
    | QueryEvent
    | RandEvent
    | RotateEvent
    | TableMap
    | TransactionPayload
    | UserVariableEvent
    | int  # XID
    | None  # types whose content is not read, and types that are not known
)


def _xid(body: bytes) -> int:
    return Reader(body).u64()


_READERS: Final[dict[int, Callable[[bytes], Decoded]]] = {
    EventType.QUERY: QueryEvent.parse,
    EventType.ROTATE: RotateEvent.parse,
    EventType.INTVAR: IntvarEvent.parse,
    EventType.RAND: RandEvent.parse,
    EventType.USER_VAR: UserVariableEvent.parse,
    EventType.XID: _xid,
    EventType.TABLE_MAP: TableMap.parse,
    EventType.PREVIOUS_GTIDS: GtidSet.from_binary,
    EventType.TRANSACTION_PAYLOAD: TransactionPayload.parse,
    # A format description is parsed with its checksum, which Event.body no longer has.
    EventType.FORMAT_DESCRIPTION: lambda body: FormatDescription.parse(body + bytes(4)),
}
_READERS_BY_KIND: Final[dict[int, Callable[[int, bytes], Decoded]]] = {
    EventType.GTID: parse_gtid_event,
    EventType.ANONYMOUS_GTID: parse_gtid_event,
    EventType.GTID_TAGGED: parse_gtid_event,
    EventType.HEARTBEAT: HeartbeatEvent.parse,
    EventType.HEARTBEAT_V2: HeartbeatEvent.parse,
}
_UNREAD: Final = frozenset(
    {EventType.STOP, EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS}
)


def is_known(event: Event) -> bool:
    """Whether this is a type whose meaning is known, read or not."""
    kind = event.type
    return kind in _READERS or kind in _READERS_BY_KIND or kind in _UNREAD


def decode(event: Event) -> Decoded:
    """What an event says; None for rows, STOP, and a type that is not known.

    Raises:
        MalformedBinlogError: its body is malformed.
    """
    try:
        if (reader := _READERS.get(event.type)) is not None:
            return reader(event.body)
        if (reader_by_kind := _READERS_BY_KIND.get(event.type)) is not None:
            return reader_by_kind(event.type, event.body)
    except ProtocolError as error:
        raise MalformedBinlogError(event.position, f"{event.type_name}: {error}") from error
    return None
