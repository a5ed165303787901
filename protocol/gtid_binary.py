"""Binary forms of GTID sets: COM_BINLOG_DUMP_GTID, Previous_gtids_log_event (facts 3.2 and 3.3).

There are two forms; the most significant byte of the leading u64 tells which. The server uses the
older one until a set has a tag. Like the server's decoder, this one requires that the intervals of
a TSID ascend and do not touch; and it refuses a TSID without intervals, which no server writes.
"""

import struct
from typing import Final

from protocol.errors import MalformedGtidSetError
from protocol.gtid_intervals import END_OF_NUMBERS, FIRST_NUMBER, Boundaries, union
from protocol.gtid_text import UUID_LENGTH, parse_tsid

_UNTAGGED: Final = 0
_TAGGED: Final = 1
_COUNT_MASK: Final = 2**48 - 1
_UUID_BYTES: Final = 16
_INTERVAL_BYTES: Final = 16
_SMALLEST_TSID: Final = _UUID_BYTES + 8 + _INTERVAL_BYTES  # UUID, interval count, one interval

_read_u64 = struct.Struct("<Q").unpack_from
_write_u64 = struct.Struct("<Q").pack


def encode(boundaries: dict[str, Boundaries]) -> bytes:
    """The form that the server chooses: untagged unless the set has a tag."""
    tagged = any(len(tsid) > UUID_LENGTH for tsid in boundaries)
    header = len(boundaries)
    if tagged:
        header = _TAGGED << 56 | len(boundaries) << 8 | _TAGGED
    parts = [_write_u64(header)]
    for tsid, numbers in boundaries.items():
        parts.append(uuid_to_bytes(tsid[:UUID_LENGTH]))
        if tagged:
            tag = tsid[UUID_LENGTH + 1 :].encode()
            # A variable-length integer below 128 is one byte, its lowest bit 0 (fact 5.3).
            parts.append(bytes((len(tag) << 1,)) + tag)
        parts.append(_write_u64(len(numbers) // 2))
        parts.append(struct.pack(f"<{len(numbers)}Q", *numbers))
    return b"".join(parts)


def decode(data: bytes) -> dict[str, Boundaries]:
    """Reads either form; all of `data` must belong to it.

    Raises:
        MalformedGtidSetError: truncated, trailing bytes, another form, or intervals out of order.
    """
    if len(data) < 8:
        raise MalformedGtidSetError("a binary GTID set begins with eight bytes")
    (header,) = _read_u64(data, 0)
    form = header >> 56
    if form == _UNTAGGED:
        count = header
    elif form == _TAGGED and header & 0xFF == _TAGGED:
        count = header >> 8 & _COUNT_MASK
    else:
        raise MalformedGtidSetError(f"unknown form of a binary GTID set: {header:#018x}")
    at = 8
    if count * _SMALLEST_TSID > len(data) - at:
        raise MalformedGtidSetError(f"{count} TSIDs do not fit into {len(data)} bytes")
    boundaries: dict[str, Boundaries] = {}
    for _ in range(count):
        tsid = uuid_from_bytes(_take(data, at, _UUID_BYTES))
        at += _UUID_BYTES
        if form == _TAGGED:
            tag, at = _tag(data, at)
            if tag:
                tsid = parse_tsid(f"{tsid}:{tag}")
        numbers, at = _intervals(data, at)
        known = boundaries.get(tsid)
        boundaries[tsid] = numbers if known is None else union(known, numbers)
    if at != len(data):
        raise MalformedGtidSetError(f"{len(data) - at} bytes after a binary GTID set")
    return {tsid: boundaries[tsid] for tsid in sorted(boundaries)}


def uuid_from_bytes(data: bytes) -> str:
    """Sixteen bytes as ``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``."""
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid_to_bytes(uuid: str) -> bytes:
    """The inverse of `uuid_from_bytes`."""
    return bytes.fromhex(uuid.replace("-", ""))


def _take(data: bytes, at: int, length: int) -> bytes:
    if length > len(data) - at:
        raise MalformedGtidSetError(f"a binary GTID set ends at byte {len(data)} within an item")
    return data[at : at + length]


def _tag(data: bytes, at: int) -> tuple[str, int]:
    # Longer forms of the length exist, but no tag needs one.
    mark = _take(data, at, 1)[0]
    if mark & 1:
        raise MalformedGtidSetError(f"a tag is too long at byte {at}")
    length = mark >> 1
    at += 1
    try:
        return _take(data, at, length).decode("ascii"), at + length
    except UnicodeDecodeError as error:
        raise MalformedGtidSetError(f"a tag is not ASCII at byte {at}") from error


def _intervals(data: bytes, at: int) -> tuple[Boundaries, int]:
    (count,) = _read_u64(_take(data, at, 8))
    at += 8
    if count == 0 or count * _INTERVAL_BYTES > len(data) - at:
        raise MalformedGtidSetError(f"{count} intervals announced, {len(data) - at} bytes left")
    numbers: Boundaries = struct.unpack_from(f"<{2 * count}Q", data, at)
    last = FIRST_NUMBER - 1
    for number in numbers:
        if number <= last:
            raise MalformedGtidSetError(f"{number} follows {last} in a binary GTID set")
        last = number
    if last > END_OF_NUMBERS:
        raise MalformedGtidSetError(f"number out of range: {last}")
    return numbers, at + count * _INTERVAL_BYTES
