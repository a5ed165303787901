"""Values as ``mysql::serialization`` writes them: integers of variable length, numbered fields.

A message is its format's version, its own length in bytes, one more than the number of the last
field that a reader must know (0 if there is none), and then fields with ascending numbers. A reader
stops at the first field that it does not know.
"""

from protocol.errors import MalformedPacketError
from protocol.wire import Reader


def read_unsigned(reader: Reader) -> int:
    """An integer of one to nine bytes: the first byte's trailing ones say how many follow it.

    Raises:
        MalformedPacketError: the bytes end before it does.
    """
    first = reader.u8()
    more = (~first & (first + 1)).bit_length() - 1  # trailing ones
    if more == 8:
        return reader.u64()
    return (first | int.from_bytes(reader.take(more), "little") << 8) >> (more + 1)


def write_unsigned(value: int) -> bytes:
    """The shortest form of 0 to 2**64 - 1."""
    more = max(0, (value.bit_length() - 1) // 7)
    if more >= 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << (more + 1) | (1 << more) - 1).to_bytes(more + 1, "little")


def read_signed(reader: Reader) -> int:
    """A signed integer; its sign is the lowest bit.

    Raises:
        MalformedPacketError: the bytes end before it does.
    """
    value = read_unsigned(reader)
    return value >> 1 if value & 1 == 0 else ~(value >> 1)


def write_signed(value: int) -> bytes:
    """The inverse of `read_signed`, for -2**63 to 2**63 - 1."""
    return write_unsigned(value << 1 if value >= 0 else ~value << 1 | 1)


def read_message(data: bytes, known_fields: int) -> Reader:
    """Fields of a message: pairs of a number and a value.

    Args:
        data: all of the message.
        known_fields: how many fields the caller knows.

    Raises:
        MalformedPacketError: another version, another length, or a field that must be known.
    """
    reader = Reader(data)
    version = read_unsigned(reader)
    if version != 1:
        raise MalformedPacketError(f"version {version} of the serialization is not known")
    length = read_unsigned(reader)
    if length != len(data):
        raise MalformedPacketError(f"a message claims {length} bytes, but has {len(data)}")
    if (needed := read_unsigned(reader)) > known_fields:
        raise MalformedPacketError(f"the message has a field {needed - 1} that must be known")
    return reader


def write_message(fields: bytes) -> bytes:
    """A message with `fields`, none of which a reader must know."""
    size = 1
    while True:
        length = 2 + size + len(fields)
        written = write_unsigned(length)
        if len(written) == size:
            return b"\x02" + written + b"\x00" + fields
        size = len(written)
