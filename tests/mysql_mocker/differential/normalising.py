"""What two servers may legitimately answer otherwise, taken out of an answer."""

import re
from dataclasses import dataclass, replace

from protocol.constants import CHARSET_BINARY, Capability, Command, FieldType, ServerStatus
from protocol.errors import ProtocolError
from protocol.resultset import ColumnDefinition41
from protocol.session_track import entries, entry
from tests.differential.comparison import ok_packet, without_statement_id
from tests.differential.player import Answer, Packet

_INDEX_FLAGS = int(
    ServerStatus.SERVER_QUERY_NO_GOOD_INDEX_USED | ServerStatus.SERVER_QUERY_NO_INDEX_USED
)
_NEAR = re.compile(rb"(version for the right syntax to use near ').*", re.S)
_TEXTS = frozenset(
    (FieldType.MYSQL_TYPE_VARCHAR, FieldType.MYSQL_TYPE_VAR_STRING, FieldType.MYSQL_TYPE_STRING,
     FieldType.MYSQL_TYPE_TINY_BLOB, FieldType.MYSQL_TYPE_BLOB, FieldType.MYSQL_TYPE_MEDIUM_BLOB,
     FieldType.MYSQL_TYPE_LONG_BLOB)
)  # fmt: skip
_STATEMENT_ID = b"\x0cstatement_id"
_UUID = b"00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Peer:
    """One of the two servers.

    Attributes:
        address: HOST:PORT.
        uuid: its server_uuid.
    """

    address: str
    uuid: str


def normalised(answer: Answer, capabilities: Capability, peer: Peer) -> Answer:
    """The answer without UUIDs, ids of statements, flags on the use of indexes, the places of
    syntax errors, the types that a statement with parameters is prepared with, and what the mocker
    does not tell of columns.

    MySQL takes a new id where it prepares a statement anew for other types of parameters. The
    mocker does not guess the types of parameters.
    """
    packets = [_packet(packet, capabilities, peer) for packet in _without_types(answer)]
    return tuple(without_statement_id(packet) for packet in packets)


def named_columns(answer: Answer) -> Answer:
    """The answer with its columns' names alone, since the mocker describes SHOW by its values."""
    return tuple(
        replace(packet, payload=ColumnDefinition41.parse(packet.payload).name.encode())
        if not packet.control and packet.payload.startswith(b"\x03def")
        else packet
        for packet in answer
    )


def _column(payload: bytes) -> bytes:
    """A column's definition without lengths, flags and tables, and with one type for all texts."""
    try:
        column = ColumnDefinition41.parse(payload)
    except ProtocolError:
        return payload  # a row
    text = column.type in _TEXTS
    return ColumnDefinition41(
        name=column.name,
        character_set=column.character_set if text else CHARSET_BINARY,
        type=FieldType.MYSQL_TYPE_VAR_STRING if text else column.type,
        decimals=0 if text else column.decimals,
    ).serialise()


def _without_types(answer: Answer) -> Answer:
    first = answer[0] if answer else None
    prepared = first is not None and first.command == Command.COM_STMT_PREPARE
    if first is None or not prepared or first.payload[0] != 0x00 or first.payload[7:9] == b"\0\0":
        return answer
    return tuple(
        packet if packet.control else replace(packet, payload=b"a definition") for packet in answer
    )


def _packet(packet: Packet, capabilities: Capability, peer: Peer) -> Packet:
    payload = packet.payload.replace(peer.uuid.encode(), _UUID)
    if not packet.control and payload.startswith(b"\x03def"):
        payload = _column(payload)
    payload = payload.replace(b"'@'127.0.0.1'", b"'@'localhost'")
    packet = replace(packet, payload=payload)
    ok = ok_packet(packet, capabilities)
    if ok is not None and ok.session_state:
        kept = [_entry(*found) for found in entries(ok.session_state)]
        ok = replace(ok, session_state=b"".join(kept))
    if ok is not None:
        return replace(
            packet, payload=replace(ok, status=ok.status & ~_INDEX_FLAGS).serialise(capabilities)
        )
    if packet.control and payload[0] == 0xFE and len(payload) == 5:
        return replace(
            packet, payload=payload[:3] + bytes((payload[3] & ~_INDEX_FLAGS,)) + payload[4:]
        )
    if packet.control and payload[0] == 0xFF:
        return replace(packet, payload=_NEAR.sub(rb"\1", payload))
    return packet


def _entry(kind: int, entity: bytes) -> bytes:
    """A tracker's entry; the number of a statement is the server's own."""
    return entry(kind, _STATEMENT_ID if entity.startswith(_STATEMENT_ID) else entity)
