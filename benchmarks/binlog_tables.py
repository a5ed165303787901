"""What it costs to read in a log which tables change: ``python -m benchmarks.binlog_tables``.

The log is made here: transactions with one row event each, of some sizes, in pieces as a socket
gives them. Only processor time counts, without the socket.
"""

import time
from typing import Final

import zstandard

from protocol import compiled
from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.binlog.event import EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent
from protocol.binlog.transaction_payload import ZSTD, TransactionPayload
from protocol.gtid import EMPTY, Gtid
from protocol.packet import frame
from routing.servers.transaction_log import TransactionLog
from routing.servers.transaction_tables import TransactionTables

_UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_PIECE: Final = 64 << 10
_SIZES: Final = (200, 2_000, 20_000, 200_000, 2_000_000)
_BYTES: Final = 20_000_000
_MOST: Final = 20_000  # transactions
_TABLES: Final = 40
_VERSION: Final = 90704


def _event(kind: int, body: bytes, *, checksum: bool = True) -> bytes:
    return encode_event(kind, body, timestamp=1, server_id=1, position=4, checksum=checksum)


def _transaction(number: int, size: int, *, compressed: bool) -> list[bytes]:
    """The events of one transaction, with so many bytes of rows."""
    table = f"table{number % _TABLES}".encode()
    names = b"\x03app\0" + bytes((len(table),)) + table + b"\0"
    rows = (number.to_bytes(4, "little") * (size // 4 + 1))[:size]
    parts = [
        (EventType.QUERY, QueryEvent("app", b"BEGIN").serialise()),
        (EventType.TABLE_MAP, number.to_bytes(6, "little") + b"\x01\0" + names + b"\x01\x03\0\0"),
        (EventType.WRITE_ROWS, rows),
        (EventType.XID, bytes(8)),
    ]
    if compressed:
        plain = b"".join(_event(kind, body, checksum=False) for kind, body in parts)
        payload = TransactionPayload(zstandard.compress(plain), ZSTD, len(plain))
        parts = [(EventType.TRANSACTION_PAYLOAD, payload.serialise())]
    events = [_event(kind, body) for kind, body in parts]
    length = 0
    for _ in range(4):  # until the length of the length is right
        gtid = GtidEvent(
            Gtid(_UUID, number), 1, 2, CommitTimestamps(5, 5), length, _VERSION
        ).serialise()
        length = sum(map(len, events)) + len(_event(EventType.GTID, gtid))
    return [_event(EventType.GTID, gtid), *events]


def stream(size: int, *, compressed: bool) -> tuple[bytes, int]:
    """The answer to COM_BINLOG_DUMP_GTID, and how many transactions are in it."""
    count = max(10, min(_MOST, _BYTES // size))
    events = [_event(EventType.FORMAT_DESCRIPTION, FormatDescription("9.7.4").serialise())]
    for number in range(1, count + 1):
        events += _transaction(number, size, compressed=compressed)
    packets = [frame(b"\0" + event, number % 256) for number, event in enumerate(events)]
    return b"".join(packets), count


def measure(data: bytes) -> float:
    """The processor time to read it, s: the least of some times."""
    least = float("inf")
    for _ in range(3):
        tables = TransactionTables(16 << 20)
        log = TransactionLog(tables, 1, EMPTY, 0)
        before = time.process_time()
        for at in range(0, len(data), _PIECE):
            log.receive_data(data[at : at + _PIECE])
        least = min(least, time.process_time() - before)
    return least


def main() -> int:
    """Prints the table."""
    print("compiled" if compiled() else "plain Python")
    print(f"{'rows, bytes':>12}  {'compressed':>10}  {'µs/transaction':>14}  {'ms/MB of log':>12}")
    for compressed in (False, True):
        for size in _SIZES:
            data, count = stream(size, compressed=compressed)
            taken = measure(data)
            print(
                f"{size:>12}  {'zstd' if compressed else 'no':>10}"
                f"  {taken / count * 1e6:>14.1f}  {taken / len(data) * 1e9:>12.2f}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
