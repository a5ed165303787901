"""DECIMAL in a row's image: groups of nine digits in four bytes each, big-endian.

Source: ``decimal2bin`` in the server's strings/decimal.cc. The highest bit of the first byte is set
for a number that is not negative, and every bit of a negative one is inverted.
"""

from decimal import Decimal
from typing import Final

from protocol.errors import MalformedPacketError
from protocol.wire import Reader

_DIGITS: Final = 9
_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""How many bytes a group has, by its number of digits."""


def _groups(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """How many digits each group has, before and after the point."""
    whole = precision - scale
    front = [whole % _DIGITS] * bool(whole % _DIGITS) + [_DIGITS] * (whole // _DIGITS)
    behind = [_DIGITS] * (scale // _DIGITS) + [scale % _DIGITS] * bool(scale % _DIGITS)
    return front, behind


def parse(reader: Reader, precision: int, scale: int) -> Decimal:
    """Takes one value.

    Raises:
        MalformedPacketError: its bytes end too early, or a group has too many digits.
    """
    front, behind = _groups(precision, scale)
    data = bytearray(reader.take(sum(_BYTES[digits] for digits in front + behind)))
    if not data:
        raise MalformedPacketError("DECIMAL(0) does not exist")
    negative = not data[0] & 0x80
    data[0] ^= 0x80
    if negative:
        data = bytearray([byte ^ 0xFF for byte in bytes(data)])
    text = ""
    at = 0
    for digits in front + behind:
        group = int.from_bytes(data[at : at + _BYTES[digits]], "big")
        at += _BYTES[digits]
        if group >= 10**digits:
            raise MalformedPacketError(f"{group} has more than {digits} digits")
        text += f"{group:0{digits}d}"
    number = int(text) * (-1 if negative else 1)
    return Decimal(f"{number}E-{scale}") if scale else Decimal(number)
