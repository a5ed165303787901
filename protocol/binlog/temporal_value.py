"""DATE, TIME, DATETIME and TIMESTAMP in a row's image, as the text that the server prints.

Source: ``my_time_packed_to_binary`` and similar functions in the server's mysys_time. A TIMESTAMP
is printed in UTC.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from protocol.binlog.column import Column, ColumnType
from protocol.errors import MalformedPacketError
from protocol.wire import Reader

_DATETIME_OFFSET: Final = 0x8000000000
_TIME_OFFSET: Final = 0x800000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO: Final = "0000-00-00 00:00:00"
_TEXT: Final = re.compile(
    r"(?:(\d{4})-(\d\d)-(\d\d))?(?:^|\s|$)(?:(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def parse(column: Column, reader: Reader) -> str:
    """Takes one value.

    Raises:
        MalformedPacketError: its bytes end too early, or its column has too many decimals.
    """
    decimals = column.length
    if column.type == ColumnType.DATE:
        packed = reader.u24()
        return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}"
    if decimals > 6:
        raise MalformedPacketError(f"a time has {decimals} decimals")
    if column.type == ColumnType.TIMESTAMP2:
        seconds = int.from_bytes(reader.take(4), "big")
        fraction = _fraction(reader, decimals)
        shown = _ZERO
        if seconds or fraction.strip(".0"):
            shown = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")
        return shown + fraction
    if column.type == ColumnType.DATETIME2:
        packed = int.from_bytes(reader.take(5), "big") - _DATETIME_OFFSET
        if packed < 0:
            raise MalformedPacketError("a DATETIME is negative")
        day, clock = packed >> 17, packed & 0x1FFFF
        year, month = divmod(day >> 5, 13)
        return f"{year:04d}-{month:02d}-{day & 31:02d} {_clock(clock)}{_fraction(reader, decimals)}"
    return _time(reader, decimals)


def _time(reader: Reader, decimals: int) -> str:
    # One integer with the fraction in its lowest bytes: a negative one borrows from the seconds.
    size = (decimals + 1) // 2
    packed = int.from_bytes(reader.take(3 + size), "big") - (_TIME_OFFSET << 8 * size)
    sign = "-" if packed < 0 else ""
    packed = abs(packed)
    clock, tail = packed >> 8 * size, packed & (1 << 8 * size) - 1
    return f"{sign}{_clock(clock)}{_decimals(tail, size, decimals)}"


def _clock(packed: int) -> str:
    return f"{packed >> 12:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


def _fraction(reader: Reader, decimals: int) -> str:
    size = (decimals + 1) // 2
    return _decimals(int.from_bytes(reader.take(size), "big"), size, decimals)


def _decimals(tail: int, size: int, decimals: int) -> str:
    if not decimals:
        return ""
    digits = f"{tail:0{2 * size}d}"
    if len(digits) > 2 * size:
        raise MalformedPacketError(f"a fraction of a second is {tail}")
    return "." + digits[:decimals]
