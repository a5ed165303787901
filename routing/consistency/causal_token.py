"""Tokens: the required set of a session, for the application to carry to other connections.

A token is base64url, without padding, of

    version    one byte, 1
    expiry     seconds since 1970, a varint
    set        for each UUID in order: its 16 bytes, then for it and each of its tags, in order:
               twice the number of intervals, plus 1 if another tag follows, a varint;
               for each interval the gap before it and the numbers in it, less 1 each, varints
               (before the first interval, the gap from 0); a tag begins with its length and bytes
    signature  HMAC-SHA256 of all before it, the first 16 bytes

A varint is unsigned LEB128, as short as it can be. A set has one token for each expiry and key.
The signature keeps clients from making reads wait for transactions that never existed; a token
gives no other right, and hides nothing.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from protocol.gtid import GtidSet, MalformedGtidSetError
from protocol.gtid_binary import uuid_from_bytes, uuid_to_bytes

MAX_TOKEN: Final = 4096
"""Characters of the longest token."""
MIN_KEY: Final = 16
"""Bytes of the shortest key."""

_VERSION: Final = 1
_DOMAIN: Final = b"tidegate token\0"
"""Signed before each token, so that no signature for another purpose passes for a token's."""
_SIGNATURE: Final = 16
_UUID_LENGTH: Final = 36
_VARINT_BITS: Final = 63
_END_OF_TIME: Final = 1 << _VARINT_BITS


class TokenError(ValueError):
    """A token cannot be used; the message never repeats the token."""


class TokenMalformedError(TokenError):
    """It is not a token, or one of an unknown version."""


class TokenForgedError(TokenError):
    """None of the keys has signed it."""


class TokenExpiredError(TokenError):
    """Its time is over."""


class TokenTooLargeError(TokenError):
    """It has, or would have, more than `MAX_TOKEN` characters."""


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """Keys: the first one signs, and signatures by all of them count, so that keys can be changed.

    Raises:
        ValueError: there is none, or one of less than `MIN_KEY` bytes.
    """

    keys: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("want at least one key for tokens")
        if min(map(len, self.keys)) < MIN_KEY:
            raise ValueError(f"want keys for tokens of at least {MIN_KEY} bytes")


def sign(required: GtidSet, expires: int, keys: TokenKeys) -> str:
    """Make a token.

    Args:
        required: the set that it carries.
        expires: when it is no longer good, seconds since 1970.
        keys: the first one signs.

    Raises:
        TokenTooLargeError: the set has too many intervals or UUIDs.
        ValueError: `expires` is before 1970.
    """
    if not 0 <= expires < _END_OF_TIME:
        raise ValueError(f"a token cannot expire at {expires}")
    if required.interval_count * 2 < MAX_TOKEN:  # no interval has less than two bytes
        signed = _written(required, expires)
        token = urlsafe_b64encode(signed + _signature(keys.keys[0], signed)).decode().rstrip("=")
        if len(token) <= MAX_TOKEN:
            return token
    raise TokenTooLargeError(f"a token of {required.interval_count} intervals would be too large")


def verify(text: str, now: int, keys: TokenKeys) -> GtidSet:
    """Read a token.

    Args:
        text: what `sign` gave.
        now: seconds since 1970.
        keys: one of them must have signed it.

    Raises:
        TokenTooLargeError: longer than any token.
        TokenMalformedError: it is none.
        TokenForgedError: it was signed with another key, or changed since.
        TokenExpiredError: it has expired.
    """
    if len(text) > MAX_TOKEN:
        raise TokenTooLargeError(f"a token has at most {MAX_TOKEN} characters")
    data = _decoded(text)
    signed, signature = data[:-_SIGNATURE], data[-_SIGNATURE:]
    if not signed or signed[0] != _VERSION:
        raise TokenMalformedError("not a token, or one of another version")
    if not any(hmac.compare_digest(signature, _signature(key, signed)) for key in keys.keys):
        raise TokenForgedError("a token that none of the keys here has signed")
    try:
        expires, required = _read(signed)
    except MalformedGtidSetError as error:
        raise TokenMalformedError(f"a token with a GTID set that is none: {error}") from error
    if _written(required, expires) != signed:
        raise TokenMalformedError("a token that is written in another way than tokens are")
    if now >= expires:
        raise TokenExpiredError(f"a token that expired {now - expires} s ago")
    return required


def _signature(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, _DOMAIN + signed, "sha256")[:_SIGNATURE]


def _decoded(text: str) -> bytes:
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError as error:
        raise TokenMalformedError("a token that is no base64url") from error
    # Python skips strange characters, and bits that belong to no byte.
    if urlsafe_b64encode(data).decode().rstrip("=") != text:
        raise TokenMalformedError("a token that is not as base64url is written")
    return data


def _written(required: GtidSet, expires: int) -> bytes:
    """All of a token that is signed."""
    out = bytearray((_VERSION,))
    _put(out, expires)
    tags: dict[str, list[str]] = {}
    for tsid in required.tsids:
        tags.setdefault(tsid[:_UUID_LENGTH], []).append(tsid[_UUID_LENGTH + 1 :])
    for uuid, own in tags.items():
        out += uuid_to_bytes(uuid)
        if own[0]:
            own.insert(0, "")  # no interval without a tag
        for following, tag in zip(range(len(own) - 1, -1, -1), own, strict=True):
            if tag:
                out.append(len(tag))
                out += tag.encode()
            intervals = required.intervals(f"{uuid}:{tag}" if tag else uuid)
            _put(out, len(intervals) << 1 | (following > 0))
            last = 0
            for start, end in intervals:
                _put(out, start - last - 1)
                _put(out, end - start - 1)
                last = end
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class _Reader:
    """Takes values off the front of what was signed."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, length: int) -> bytes:
        begin = self._at
        if length > len(self._data) - begin:
            raise TokenMalformedError("a token that ends too early")
        self._at = begin + length
        return self._data[begin : self._at]

    def number(self) -> int:
        found = 0
        for shift in range(0, _VARINT_BITS, 7):
            (byte,) = self.take(1)
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
        raise TokenMalformedError("a token with a number that is too large")


def _read(signed: bytes) -> tuple[int, GtidSet]:
    reader = _Reader(signed, 1)
    expires = reader.number()
    intervals: dict[str, list[tuple[int, int]]] = {}
    while not reader.is_at_end:
        tsid = uuid = uuid_from_bytes(reader.take(16))
        while True:
            count = reader.number()
            intervals.setdefault(tsid, []).extend(_intervals(reader, count >> 1))
            if not count & 1:
                break
            (length,) = reader.take(1)
            tsid = f"{uuid}:{reader.take(length).decode('latin-1')}"
    return expires, GtidSet(intervals)


def _intervals(reader: _Reader, count: int) -> Iterator[tuple[int, int]]:
    last = 0
    for _ in range(count):
        start = last + 1 + reader.number()
        last = start + 1 + reader.number()
        yield start, last
