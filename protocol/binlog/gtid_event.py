"""The event in front of each transaction: GTID, ANONYMOUS_GTID and GTID_TAGGED.

The first two have a fixed part and a body that grew with the server's versions: in 5.7 it ends
before the timestamps, 8.0.1 has them; the transaction's length, both server versions (8.0.14) and
the commit group ticket were added later. GTID_TAGGED (8.3) is a message of numbered fields.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from protocol import wire
from protocol.binlog.commit_timestamps import UNDEFINED, CommitTimestamps
from protocol.binlog.event import EventType
from protocol.binlog.serialization import (
    read_message,
    read_signed,
    read_unsigned,
    write_message,
    write_signed,
    write_unsigned,
)
from protocol.errors import MalformedPacketError
from protocol.gtid import Gtid
from protocol.gtid_binary import uuid_from_bytes, uuid_to_bytes
from protocol.gtid_text import UUID_LENGTH, parse_tsid

_MAY_HAVE_SBR: Final = 1
_LOGICAL_TIMESTAMPS: Final = 2
_VERSION_DIFFERS: Final = 1 << 31
_NO_UUID: Final = bytes(16)

(
    _FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE_NUMBER, _IMMEDIATE, _ORIGINAL,
    _LENGTH, _IMMEDIATE_VERSION, _ORIGINAL_VERSION, _TICKET, _FIELDS,
) = range(13)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GtidEvent:
    """What a log says about a transaction before its changes.

    Attributes:
        gtid: None for an anonymous transaction.
        last_committed: sequence number of the newest transaction that must be committed before
            this one may run.
        sequence_number: this transaction's own, within the file.
        timestamps: None in logs of 5.7 and older.
        transaction_length: bytes of the whole transaction with this event; None where unknown.
        immediate_server_version: of the server whose log this is, such as 90704.
        original_server_version: of the server that committed it first.
        ticket: the commit group ticket, which Group Replication uses.
        may_have_statements: False if all its changes are rows.
    """

    TYPES: ClassVar = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})

    gtid: Gtid | None
    last_committed: int = 0
    sequence_number: int = 0
    timestamps: CommitTimestamps | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    ticket: int | None = None
    may_have_statements: bool = True

    @property
    def type(self) -> EventType:
        """The event type that carries it."""
        if self.gtid is None:
            return EventType.ANONYMOUS_GTID
        return EventType.GTID_TAGGED if len(self.gtid.tsid) > UUID_LENGTH else EventType.GTID

    def serialise(self) -> bytes:
        """The body; it ends before the first optional part that is None."""
        if self.type == EventType.GTID_TAGGED:
            return self._serialise_tagged()
        flags = _MAY_HAVE_SBR if self.may_have_statements else 0
        uuid = _NO_UUID if self.gtid is None else uuid_to_bytes(self.gtid.tsid)
        number = 0 if self.gtid is None else self.gtid.number
        parts = [bytes((flags,)), uuid, number.to_bytes(8, "little")]
        parts += [bytes((_LOGICAL_TIMESTAMPS,)), self.last_committed.to_bytes(8, "little")]
        parts.append(self.sequence_number.to_bytes(8, "little"))
        if self.timestamps is None:
            return b"".join(parts)
        parts.append(self.timestamps.serialise())
        if self.transaction_length is None:
            return b"".join(parts)
        parts.append(wire.lenenc_int(self.transaction_length))
        if self.immediate_server_version is None:
            return b"".join(parts)
        if self.original_server_version in (None, self.immediate_server_version):
            parts.append(self.immediate_server_version.to_bytes(4, "little"))
        else:
            first = self.immediate_server_version | _VERSION_DIFFERS
            parts.append(first.to_bytes(4, "little"))
            parts.append((self.original_server_version or 0).to_bytes(4, "little"))
        if self.ticket is not None:
            parts.append(self.ticket.to_bytes(8, "little"))
        return b"".join(parts)

    def _serialise_tagged(self) -> bytes:
        if self.gtid is None:
            raise ValueError("an anonymous transaction has no tag")
        tsid = self.gtid.tsid
        tag = tsid[UUID_LENGTH + 1 :].encode("ascii")
        times = self.timestamps or CommitTimestamps(0, 0)
        version = self.immediate_server_version or 0
        fields = [
            (_FLAGS, write_unsigned(_MAY_HAVE_SBR if self.may_have_statements else 0)),
            (_UUID, b"".join(map(write_unsigned, uuid_to_bytes(tsid[:UUID_LENGTH])))),
            (_NUMBER, write_signed(self.gtid.number)),
            (_TAG, write_unsigned(len(tag)) + tag),
            (_LAST_COMMITTED, write_signed(self.last_committed)),
            (_SEQUENCE_NUMBER, write_signed(self.sequence_number)),
            (_IMMEDIATE, write_unsigned(times.immediate)),
        ]
        if times.original != times.immediate:
            fields.append((_ORIGINAL, write_unsigned(times.original)))
        fields.append((_LENGTH, write_unsigned(self.transaction_length or 0)))
        fields.append((_IMMEDIATE_VERSION, write_unsigned(version)))
        if self.original_server_version not in (None, version):
            fields.append((_ORIGINAL_VERSION, write_unsigned(self.original_server_version or 0)))
        if self.ticket is not None:
            fields.append((_TICKET, write_unsigned(self.ticket)))
        return write_message(b"".join(write_unsigned(n) + value for n, value in fields))


def parse_gtid_event(kind: int, body: bytes) -> GtidEvent:
    """Reads the body of one of the three types.

    Raises:
        MalformedPacketError: it ends within a field, or a value is out of range.
        MalformedGtidSetError: the tag is malformed.
    """
    if kind == EventType.GTID_TAGGED:
        return _parse_tagged(body)
    reader = wire.Reader(body)
    flags = reader.u8()
    uuid = reader.take(16)
    number = reader.u64()
    gtid = None
    if kind == EventType.GTID:
        gtid = _gtid(uuid_from_bytes(uuid), number)
    last_committed = sequence_number = 0
    timestamps: CommitTimestamps | None = None
    length: int | None = None
    immediate: int | None = None
    original: int | None = None
    ticket: int | None = None
    if reader.remaining and reader.u8() == _LOGICAL_TIMESTAMPS:
        last_committed, sequence_number = reader.u64(), reader.u64()
        if reader.remaining:
            timestamps = CommitTimestamps.parse(reader)
        if reader.remaining:
            length = reader.lenenc_int()
        if reader.remaining:
            first = reader.u32()
            immediate = first & (_VERSION_DIFFERS - 1)
            original = reader.u32() if first & _VERSION_DIFFERS else immediate
        if reader.remaining:
            ticket = reader.u64()
    return GtidEvent(
        gtid, last_committed, sequence_number, timestamps, length, immediate, original, ticket,
        bool(flags & _MAY_HAVE_SBR),
    )  # fmt: skip


def _parse_tagged(body: bytes) -> GtidEvent:
    reader = read_message(body, _FIELDS)
    uuid, tag = b"", b""
    signed: dict[int, int] = {}
    values: dict[int, int] = {}
    last = -1
    while reader.remaining:
        field = read_unsigned(reader)
        if field <= last:
            raise MalformedPacketError(f"field {field} follows field {last}")
        last = field
        if field >= _FIELDS:
            break  # of a newer server, which says that it may be skipped
        if field == _UUID:
            uuid = bytes([_byte(read_unsigned(reader)) for _ in range(16)])
        elif field == _TAG:
            tag = reader.take(read_unsigned(reader))
        elif field in (_NUMBER, _LAST_COMMITTED, _SEQUENCE_NUMBER):
            signed[field] = read_signed(reader)
        else:
            values[field] = read_unsigned(reader)
    if not uuid or _IMMEDIATE not in values:
        raise MalformedPacketError("a tagged GTID event lacks its UUID or its commit timestamp")
    try:
        tsid = parse_tsid(f"{uuid_from_bytes(uuid)}:{tag.decode('ascii')}".removesuffix(":"))
    except UnicodeDecodeError as error:
        raise MalformedPacketError("a tag is not ASCII") from error
    immediate = values[_IMMEDIATE]
    times = CommitTimestamps(values.get(_ORIGINAL, immediate), immediate)
    if not (times.original < UNDEFINED and times.immediate < UNDEFINED):
        raise MalformedPacketError("a commit timestamp is out of range")
    version = values.get(_IMMEDIATE_VERSION)
    return GtidEvent(
        _gtid(tsid, signed.get(_NUMBER, 0)),
        signed.get(_LAST_COMMITTED, 0),
        signed.get(_SEQUENCE_NUMBER, 0),
        times,
        values.get(_LENGTH),
        version,
        values.get(_ORIGINAL_VERSION, version),
        values.get(_TICKET),
        bool(values.get(_FLAGS, 0) & _MAY_HAVE_SBR),
    )


def _byte(value: int) -> int:
    if value > 0xFF:
        raise MalformedPacketError(f"a byte of a UUID is {value}")
    return value


def _gtid(tsid: str, number: int) -> Gtid:
    if not 0 < number < 2**63 - 1:
        raise MalformedPacketError(f"a GTID's number is out of range: {number}")
    return Gtid(tsid, number)
