"""How the worker that reads the primary's log tells the others what is in it: a ring of bytes.

Theory of operation
===================

One worker writes records, and counts the bytes that it has written (`_WRITTEN`). Any number of
workers read, each from where it was, when they need what is there: no message has to arrive. Before
it overwrites anything the writer says how far it will have written (`_RESERVED`), so who was too
slow notices, and so does who reads what is not there yet: each record has a checksum of itself and
its place. Either forgets what it had, and goes on with the next SYNC.

A SYNC says through which transactions the log has been read, and in which incarnation of which
primary. Who knows nothing begins with that, as if the log were read from there (`TransactionTables`
then requires of every replica what came before); who has read all records compares it.

The log is read while replicas are late. The others say when they found that (`_LATE_AT`); where two
say so at once, either moment will do.

This file only has the bytes; `proxy.state.transaction_memory` shares them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from protocol.errors import ProtocolError
from protocol.gtid import Gtid, GtidSet
from protocol.wire import Reader, decode_text, encode_text
from routing.servers.topology import RESTART_SLACK_S
from routing.servers.transaction_tables import TableName, TransactionTables

if TYPE_CHECKING:
    from routing.servers.topology import Topology

_ROOM: Final = 4 << 20
"""Bytes of records: enough for some 40,000 transactions."""
_LONGEST: Final = _ROOM // 4
_WRITTEN, _RESERVED, _LATE_AT = range(3)  # in words
_RECORDS: Final = 64  # in bytes
SIZE: Final = _RECORDS + _ROOM
"""Bytes of the memory."""
_HEAD: Final = struct.Struct("=II")
"""Of a record: its length, and its checksum."""
_PRIMARY: Final = struct.Struct("=Bdd")
_SYNC, _FORGET, _ROWS, _OPAQUE = range(4)


class _Ring:
    """The memory, as bytes and as words; at first it is zero.

    Raises:
        ValueError: it is no ring.
    """

    def __init__(self, memory: memoryview) -> None:
        if len(memory) != SIZE:
            raise ValueError(f"{len(memory)} bytes are no ring")
        self._words = memory.cast("Q")
        self._records = memory[_RECORDS:]

    @property
    def written(self) -> int:
        return self._words[_WRITTEN]

    @property
    def reserved(self) -> int:
        return self._words[_RESERVED]

    @property
    def late_at(self) -> int:
        """When other workers last found a replica late, monotonic ms; 0 if none has."""
        return self._words[_LATE_AT]

    @late_at.setter
    def late_at(self, late_at: int) -> None:
        self._words[_LATE_AT] = late_at

    def write(self, record: bytes) -> None:
        at = self.written
        data = _HEAD.pack(len(record), _checksum(at, record)) + record
        self._words[_RESERVED] = at + len(data)
        begin = at % _ROOM
        first = data[: _ROOM - begin]
        self._records[begin : begin + len(first)] = first
        self._records[: len(data) - len(first)] = data[len(first) :]
        self._words[_WRITTEN] = at + len(data)

    def read(self, at: int, end: int) -> bytes:
        begin = at % _ROOM
        data = bytes(self._records[begin : begin + end - at])
        return data + bytes(self._records[: end - at - len(data)])


class SharedTransactionTables(TransactionTables):
    """Those of the worker that reads the log: what is entered is written for the others.

    Args:
        limit: as in the base class.
        memory: the ring.

    Raises:
        ValueError: it is no ring.
    """

    def __init__(self, limit: int, memory: memoryview) -> None:
        super().__init__(limit)
        self._ring = _Ring(memory)
        self._ring.write(_forget("the worker that reads the log began anew"))

    @property
    def late_at(self) -> float:
        """When other workers last found a replica late, monotonic s; 0 if none has."""
        return self._ring.late_at / 1000

    def forget(self, cause: str) -> None:
        """As the base class does."""
        super().forget(cause)
        self._ring.write(_forget(cause or "the log is read anew"))

    def add_rows(self, gtid: Gtid, tables: frozenset[TableName]) -> None:
        """As the base class does."""
        super().add_rows(gtid, tables)
        record = b"".join((
            bytes((_ROWS,)), _gtid(gtid),
            *(_text(schema) + _text(table) for schema, table in tables),
        ))  # fmt: skip
        self._ring.write(record if len(record) <= _LONGEST else _opaque(gtid))

    def add_opaque(self, gtid: Gtid) -> None:
        """As the base class does."""
        super().add_opaque(gtid)
        self._ring.write(_opaque(gtid))

    def sync(self, uuid: str, started: tuple[float, float]) -> None:
        """Let others begin here, if the log is read.

        Args:
            uuid: the primary's.
            started: between when and when it started, s since the epoch.
        """
        record = b"".join((
            bytes((_SYNC,)), _PRIMARY.pack(self.lower_case_table_names, *started), _text(uuid),
            encode_text(self.read_through.text),
        ))  # fmt: skip
        if self.begun and len(record) <= _LONGEST:
            self._ring.write(record)


class RingReader:
    """Another worker's view of the ring: enters what is there into the tables of its topology.

    Raises:
        ValueError: the memory is no ring.
    """

    def __init__(self, memory: memoryview, topology: Topology) -> None:
        self._ring = _Ring(memory)
        self._topology = topology
        self._at = self._ring.written

    def refresh(self) -> None:
        """Take the records that have come."""
        end = self._ring.written
        if end == self._at:
            return
        tables = self._topology.transaction_tables
        at, self._at = self._at, end
        if end - at > _ROOM:
            tables.forget("this worker was too slow to take what the log says")
            return
        data = self._ring.read(at, end)
        if self._ring.reserved - at > _ROOM:
            tables.forget("this worker was too slow to take what the log says")
            return
        try:
            self._take_all(at, data)
        except (ProtocolError, ValueError) as error:
            tables.forget(f"what another worker says of the log cannot be read: {error}")

    def tell_late(self, at: float) -> None:
        """Say that a replica was late, monotonic s: then the log is to be read."""
        if at * 1000 > self._ring.late_at:
            self._ring.late_at = int(at * 1000)

    def _take_all(self, at: int, data: bytes) -> None:
        reader = Reader(data)
        while reader.remaining:
            length, checksum = _HEAD.unpack(reader.take(_HEAD.size))
            record = reader.take(length)
            if checksum != _checksum(at, record):
                raise ValueError("a checksum is wrong")
            at += _HEAD.size + length
            self._take(Reader(record))

    def _take(self, record: Reader) -> None:
        tables = self._topology.transaction_tables
        kind = record.u8()
        if kind == _SYNC:
            self._sync(record)
        elif kind == _FORGET:
            tables.forget(decode_text(record.rest()))
        elif tables.begun:
            gtid = Gtid(_read_text(record), record.u64())
            if kind == _ROWS:
                names: list[TableName] = []
                while record.remaining:
                    names.append(TableName(_read_text(record), _read_text(record)))
                tables.add_rows(gtid, frozenset(names))
            else:
                tables.add_opaque(gtid)

    def _sync(self, record: Reader) -> None:
        """Compare, or begin if that is the primary as this worker knows it."""
        topology = self._topology
        tables = topology.transaction_tables
        lower_case, earliest, latest = _PRIMARY.unpack(record.take(_PRIMARY.size))
        uuid = _read_text(record)
        read_through = GtidSet.parse(record.rest())
        if tables.term == topology.term and tables.read_through == read_through:
            return
        primary = topology.primary
        if (
            uuid == primary.uuid
            and earliest - primary.started[1] <= RESTART_SLACK_S
            and primary.started[0] - latest <= RESTART_SLACK_S
        ):
            tables.begin(topology.term, read_through, lower_case)
        else:
            tables.forget("the log that is read is another primary's")


def _checksum(at: int, record: bytes) -> int:
    return crc32(record, crc32(at.to_bytes(8, "little")))


def _text(text: str) -> bytes:
    data = encode_text(text)
    return len(data).to_bytes(2, "little") + data


def _read_text(reader: Reader) -> str:
    return decode_text(reader.take(reader.u16()))


def _gtid(gtid: Gtid) -> bytes:
    return _text(gtid.tsid) + gtid.number.to_bytes(8, "little")


def _opaque(gtid: Gtid) -> bytes:
    return bytes((_OPAQUE,)) + _gtid(gtid)


def _forget(cause: str) -> bytes:
    return bytes((_FORGET,)) + encode_text(cause)[: _LONGEST // 2]
