"""The session trackers of OK packets: what ``session_state_info`` holds (facts 1.4 to 1.8).

There are two levels: `entries` splits a block by types and lengths alone; `decode` interprets one
entry. So an entry of an unknown type, from a fork or a future server, is skipped by its length, and
breaks no connection. GTIDs in an unknown encoding (WL#6128 leaves room for more than one) are
reported as `UnknownGtidEncoding`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from protocol.constants import SessionTrackType
from protocol.errors import MalformedGtidSetError, MalformedPacketError
from protocol.gtid import GtidSet
from protocol.wire import LONGER, Reader, decode_text, encode_text, lenenc_bytes, lenenc_int

# Plain numbers, since comparing with members of an IntEnum costs a call.
_SYSTEM_VARIABLES: Final = int(SessionTrackType.SESSION_TRACK_SYSTEM_VARIABLES)
_SCHEMA: Final = int(SessionTrackType.SESSION_TRACK_SCHEMA)
_STATE_CHANGE: Final = int(SessionTrackType.SESSION_TRACK_STATE_CHANGE)
_GTIDS: Final = int(SessionTrackType.SESSION_TRACK_GTIDS)
_CHARACTERISTICS: Final = int(SessionTrackType.SESSION_TRACK_TRANSACTION_CHARACTERISTICS)
_TRANSACTION_STATE: Final = int(SessionTrackType.SESSION_TRACK_TRANSACTION_STATE)


TEXT_ENCODING: Final = 0
"""The one encoding of GTIDs that servers use: a set's text."""


@dataclass(frozen=True, slots=True)
class SystemVariable:
    """A system variable, and its new value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Schema:
    """The current schema; "" for none."""

    name: str


@dataclass(frozen=True, slots=True)
class StateChange:
    """Whether something changed that a new connection would not have (fact 1.7)."""

    changed: bool


@dataclass(frozen=True, slots=True)
class Gtids:
    """The session's own GTIDs or all of the server's, as ``session_track_gtids`` says."""

    gtids: GtidSet


@dataclass(frozen=True, slots=True)
class UnknownGtidEncoding:
    """GTIDs in an encoding that cannot be read: it is unknown what was committed."""

    specification: int


@dataclass(frozen=True, slots=True)
class TransactionCharacteristics:
    """SQL that would start another transaction like this one; "" if there is none."""

    sql: str


@dataclass(frozen=True, slots=True)
class TransactionState:
    """Eight letters, one for each thing that happened in the transaction (fact 1.6)."""

    state: str


Change: TypeAlias = (
    SystemVariable
    | Schema
    | StateChange
    | Gtids
    | UnknownGtidEncoding
    | TransactionCharacteristics
    | TransactionState
)


@dataclass(frozen=True, slots=True)
class GtidEncoding:
    """One way to write GTIDs into a tracker, identified by its number on the wire.

    Attributes:
        specification: the number in front of the GTIDs.
        encode: the bytes after that number.
        decode: the inverse, given a set that is probably almost the same, or None. Raises
            `MalformedPacketError` or `MalformedGtidSetError`.
    """

    specification: int
    encode: Callable[[GtidSet], bytes]
    decode: Callable[[bytes, GtidSet | None], GtidSet]


GTID_ENCODINGS: Final[dict[int, GtidEncoding]] = {}
"""The encodings that can be read, by specification number."""


def register_gtid_encoding(encoding: GtidEncoding) -> None:
    """Registers an encoding.

    Raises:
        ValueError: its number is already registered.
    """
    if encoding.specification in GTID_ENCODINGS:
        raise ValueError(f"GTID encoding {encoding.specification} is registered already")
    GTID_ENCODINGS[encoding.specification] = encoding


def entries(block: bytes) -> list[tuple[int, bytes]]:
    """The entries of a block, in order: the type of each, and its entity.

    Raises:
        MalformedPacketError: a length goes beyond the end.
    """
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(block):
        kind, begin, at = _span(block, at)
        found.append((kind, block[begin:at]))
    return found


def decode(kind: int, entity: bytes, near: GtidSet | None = None) -> Change | None:
    """What an entry says; None if its type is not known.

    Args:
        kind: the entry's type, see `SessionTrackType`.
        entity: the bytes after its length.
        near: for GTIDs, a set that is probably almost the same: with ALL_GTIDS the last one from
            the same server. See `GtidSet.parse`.

    Raises:
        MalformedPacketError: the entity is not what its type demands.
    """
    if kind == _GTIDS:
        found = decode_gtids(entity, near)
        return UnknownGtidEncoding(found) if isinstance(found, int) else Gtids(found)
    reader = Reader(entity)
    if kind == _SYSTEM_VARIABLES:
        name, value = reader.lenenc_bytes(), reader.lenenc_bytes()
        reader.expect_end()
        return SystemVariable(decode_text(name), decode_text(value))
    if kind == _STATE_CHANGE:
        if entity not in (b"0", b"1"):
            raise MalformedPacketError(f"a state change is 0 or 1, not {entity[:8]!r}")
        return StateChange(entity == b"1")
    if kind not in (_SCHEMA, _CHARACTERISTICS, _TRANSACTION_STATE):
        return None
    text = decode_text(reader.lenenc_bytes())
    reader.expect_end()
    if kind == _SCHEMA:
        return Schema(text)
    return TransactionCharacteristics(text) if kind == _CHARACTERISTICS else TransactionState(text)


def gtids(block: bytes, near: GtidSet | None = None) -> GtidSet | None:
    """All GTIDs of a block that can be read; None if it has none.

    A caller that must not miss a GTID has to look for `UnknownGtidEncoding` with `entries` and
    `decode`.

    Args:
        block: ``session_state_info``.
        near: see `decode`.

    Raises:
        MalformedPacketError: the block or an entity is malformed.
    """
    union: GtidSet | None = None
    at = 0
    while at < len(block):
        kind, begin, at = _span(block, at)
        if kind == _GTIDS:
            found = decode_gtids(block[begin:at], near)
            if not isinstance(found, int):
                union = found if union is None else union | found
    return union


def chosen_schema(block: bytes) -> str | None:
    """The schema that a block reports; None if it reports none.

    Raises:
        MalformedPacketError: the block or the entity is malformed.
    """
    for kind, entity in entries(block):
        if kind == _SCHEMA:
            change = decode(kind, entity)
            return change.name if isinstance(change, Schema) else None
    return None


def names_gtids(block: bytes) -> bool:
    """Whether a block reports GTIDs, in any encoding.

    Raises:
        MalformedPacketError: a length goes beyond the end.
    """
    at = 0
    while at < len(block):
        kind, _, at = _span(block, at)
        if kind == _GTIDS:
            return True
    return False


def retain(block: bytes, types: frozenset[int], variables: frozenset[bytes] | None = None) -> bytes:
    """The block with only the entries of these types, which stay as they are, byte for byte.

    Args:
        block: ``session_state_info``.
        types: the types, see `SessionTrackType`.
        variables: names of the system variables whose entries are kept, whatever `types` says;
            None leaves that to `types`.

    Raises:
        MalformedPacketError: a length goes beyond the end.
    """
    kept: list[bytes] = []
    complete = True
    at = 0
    while at < len(block):
        first = at
        kind, begin, at = _span(block, first)
        if kind == _SYSTEM_VARIABLES and variables is not None:
            keep = Reader(block[begin:at]).lenenc_bytes() in variables
        else:
            keep = kind in types
        if keep:
            kept.append(block[first:at])
        else:
            complete = False
    return block if complete else b"".join(kept)


def entry(kind: int, entity: bytes) -> bytes:
    """One entry of any type."""
    return lenenc_int(kind) + lenenc_bytes(entity)


def system_variable_entry(name: str, value: str) -> bytes:
    """One SESSION_TRACK_SYSTEM_VARIABLES entry."""
    pair = lenenc_bytes(encode_text(name)) + lenenc_bytes(encode_text(value))
    return entry(_SYSTEM_VARIABLES, pair)


def schema_entry(name: str) -> bytes:
    """A SESSION_TRACK_SCHEMA entry; "" for no schema."""
    return entry(_SCHEMA, lenenc_bytes(encode_text(name)))


def state_change_entry(changed: bool) -> bytes:
    """A SESSION_TRACK_STATE_CHANGE entry."""
    return entry(_STATE_CHANGE, b"1" if changed else b"0")


def gtids_entry(gtids: GtidSet, specification: int = TEXT_ENCODING) -> bytes:
    """A SESSION_TRACK_GTIDS entry in a registered encoding.

    Raises:
        KeyError: no encoding has that number.
    """
    return entry(_GTIDS, lenenc_int(specification) + GTID_ENCODINGS[specification].encode(gtids))


def transaction_characteristics_entry(sql: str) -> bytes:
    """A SESSION_TRACK_TRANSACTION_CHARACTERISTICS entry."""
    return entry(_CHARACTERISTICS, lenenc_bytes(encode_text(sql)))


def transaction_state_entry(state: str) -> bytes:
    """A SESSION_TRACK_TRANSACTION_STATE entry."""
    return entry(_TRANSACTION_STATE, lenenc_bytes(encode_text(state)))


def _span(block: bytes, at: int) -> tuple[int, int, int]:
    """The type of the entry at `at`, where its entity begins, and where it ends."""
    begin = at + 2
    if begin <= len(block) and block[at] < LONGER and block[at + 1] < LONGER:
        kind, length = block[at], block[at + 1]
    else:
        reader = Reader(block[at:])
        kind, length = reader.lenenc_int(), reader.lenenc_int()
        begin = len(block) - reader.remaining
    if length > len(block) - begin:
        left = len(block) - begin
        raise MalformedPacketError(f"a tracker has {length} bytes, but only {left} follow")
    return kind, begin, begin + length


def decode_gtids(entity: bytes, near: GtidSet | None) -> GtidSet | int:
    """What a GTID entry says: a set, or the specification number of an unknown encoding.

    Args:
        entity: the bytes after its length.
        near: see `decode`.

    Raises:
        MalformedPacketError: the entity is not what its type demands.
    """
    # Nearly all are a short text in the one encoding that servers use.
    if len(entity) > 1 and entity[0] == TEXT_ENCODING and entity[1] == len(entity) - 2 < LONGER:
        return _parse_text(entity[2:], near)
    reader = Reader(entity)
    specification = reader.lenenc_int()
    encoding = GTID_ENCODINGS.get(specification)
    if encoding is None:
        return specification
    try:
        return encoding.decode(reader.rest(), near)
    except MalformedGtidSetError as error:
        raise _no_set(error) from error


def _parse_text(text: bytes, near: GtidSet | None) -> GtidSet:
    try:
        return GtidSet.parse(text, near)
    except MalformedGtidSetError as error:
        raise _no_set(error) from error


def _no_set(error: MalformedGtidSetError) -> MalformedPacketError:
    return MalformedPacketError(f"a GTID tracker holds no GTID set: {error}")


def _encode_text(gtids: GtidSet) -> bytes:
    return lenenc_bytes(str(gtids).encode("ascii"))


def _decode_text(data: bytes, near: GtidSet | None) -> GtidSet:
    reader = Reader(data)
    text = reader.lenenc_bytes()
    reader.expect_end()
    return GtidSet.parse(text, near)


register_gtid_encoding(GtidEncoding(TEXT_ENCODING, _encode_text, _decode_text))
