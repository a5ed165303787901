"""Session trackers: what a server sends both ways, what no server sends yet, and what is broken."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import SessionTrackType
from protocol.errors import MalformedPacketError
from protocol.gtid import GtidSet
from protocol.session_track import (
    GTID_ENCODINGS,
    TEXT_ENCODING,
    Change,
    GtidEncoding,
    Gtids,
    Schema,
    StateChange,
    SystemVariable,
    TransactionCharacteristics,
    TransactionState,
    UnknownGtidEncoding,
    decode,
    entries,
    entry,
    gtids,
    gtids_entry,
    names_gtids,
    register_gtid_encoding,
    retain,
    schema_entry,
    state_change_entry,
    system_variable_entry,
    transaction_characteristics_entry,
    transaction_state_entry,
)
from protocol.wire import lenenc_bytes, lenenc_int
from tests.support.json_vectors import load

U = "168066ae-e53d-11f1-b607-02fc00000001"

SYSTEM_VARIABLES = SessionTrackType.SESSION_TRACK_SYSTEM_VARIABLES
SCHEMA = SessionTrackType.SESSION_TRACK_SCHEMA
STATE_CHANGE = SessionTrackType.SESSION_TRACK_STATE_CHANGE
GTIDS = SessionTrackType.SESSION_TRACK_GTIDS
CHARACTERISTICS = SessionTrackType.SESSION_TRACK_TRANSACTION_CHARACTERISTICS
TRANSACTION_STATE = SessionTrackType.SESSION_TRACK_TRANSACTION_STATE

# Types that forks use, and two that nobody does; 255 is not below 251 and takes three bytes.
UNKNOWN_TYPES = [6, 12, 200, 255, 70_000]


def encode(change: Change) -> bytes:
    match change:
        case SystemVariable(name, value):
            return system_variable_entry(name, value)
        case Schema(name):
            return schema_entry(name)
        case StateChange(changed):
            return state_change_entry(changed)
        case Gtids(own):
            return gtids_entry(own)
        case TransactionCharacteristics(sql):
            return transaction_characteristics_entry(sql)
        case TransactionState(state):
            return transaction_state_entry(state)
    raise AssertionError(change)


def expected(kind: int, content: Any) -> Change:
    if kind == SYSTEM_VARIABLES:
        return SystemVariable(*content)
    if kind == STATE_CHANGE:
        return StateChange(content == "1")
    if kind == GTIDS:
        return Gtids(GtidSet.parse(content))
    if kind == SCHEMA:
        return Schema(content)
    if kind == CHARACTERISTICS:
        return TransactionCharacteristics(content)
    assert kind == TRANSACTION_STATE
    return TransactionState(content)


@pytest.mark.parametrize("vector", load("session_track"), ids=lambda v: ascii(v["statement"])[:50])
def test_reads_and_writes_what_the_server_sent(vector: dict[str, Any]) -> None:
    block = bytes.fromhex(vector["block"])
    changes = [decode(kind, entity) for kind, entity in entries(block)]
    assert changes == [expected(kind, content) for kind, content in vector["entries"]]
    assert b"".join([encode(change) for change in changes if change is not None]) == block


def test_the_captured_blocks_hold_every_type_and_a_long_entry() -> None:
    vectors = load("session_track")
    assert {kind for v in vectors for kind, _ in v["entries"]} == set(SessionTrackType)
    kinds_of_long_entries = {
        kind for v in vectors for kind, e in entries(bytes.fromhex(v["block"])) if len(e) > 250
    }
    assert kinds_of_long_entries >= {SYSTEM_VARIABLES, GTIDS}


@pytest.mark.parametrize("vector", load("session_track"), ids=lambda v: ascii(v["statement"])[:50])
def test_a_cut_block_is_malformed_or_ends_between_entries(vector: dict[str, Any]) -> None:
    block = bytes.fromhex(vector["block"])
    whole = entries(block)
    ends = {0: 0}
    for number, (kind, entity) in enumerate(whole, start=1):
        ends[max(ends) + len(entry(kind, entity))] = number
    for end in range(len(block)):
        if end in ends:
            assert entries(block[:end]) == whole[: ends[end]]
        else:
            for read in (entries, gtids, names_all, lambda cut: retain(cut, frozenset())):
                with pytest.raises(MalformedPacketError):
                    read(block[:end])


def names_all(block: bytes) -> bool:
    """Without stopping at the first entry that names GTIDs."""
    return names_gtids(retain(block, frozenset(range(256)) - {int(GTIDS)}))


@pytest.mark.parametrize("vector", load("session_track"), ids=lambda v: ascii(v["statement"])[:50])
def test_gtids_are_named_or_not(vector: dict[str, Any]) -> None:
    block = bytes.fromhex(vector["block"])
    assert names_gtids(block) == (GTIDS in [kind for kind, _ in entries(block)])
    others = retain(block, frozenset(range(256)) - {int(GTIDS)})
    assert not names_gtids(others)
    assert names_gtids(others + entry(GTIDS, b"whatever"))


def test_an_empty_block_has_no_entries() -> None:
    assert not names_gtids(b"")
    assert entries(b"") == []
    assert gtids(b"") is None
    assert retain(b"", frozenset({3})) == b""


# What is not known is passed over.


@pytest.mark.parametrize("kind", UNKNOWN_TYPES)
@pytest.mark.parametrize("length", [0, 1, 250, 251, 70_000])
def test_an_unknown_type_is_passed_over_by_its_length(kind: int, length: int) -> None:
    strange = entry(kind, b"\xff" * length)
    block = schema_entry("t") + strange + gtids_entry(GtidSet.parse(f"{U}:1")) + strange
    found = entries(block)
    assert [kind for kind, _ in found] == [SCHEMA, kind, GTIDS, kind]
    assert decode(*found[1]) is None
    assert gtids(block) == GtidSet.parse(f"{U}:1")


def test_an_unknown_gtid_encoding_is_reported_and_passed_over() -> None:
    strange = entry(GTIDS, lenenc_int(300) + b"\xff" * 9)
    block = strange + gtids_entry(GtidSet.parse(f"{U}:1"))
    assert [decode(*found) for found in entries(block)] == [
        UnknownGtidEncoding(300),
        Gtids(GtidSet.parse(f"{U}:1")),
    ]
    assert gtids(block) == GtidSet.parse(f"{U}:1")
    assert gtids(strange) is None
    assert decode(GTIDS, b"\x01") == UnknownGtidEncoding(1)


def test_a_second_gtid_encoding_can_be_added() -> None:
    def decode_binary(data: bytes, near: GtidSet | None) -> GtidSet:
        return GtidSet.from_binary(data)

    register_gtid_encoding(GtidEncoding(7, GtidSet.to_binary, decode_binary))
    try:
        own = GtidSet.parse(f"{U}:1-5:tag:7")
        block = gtids_entry(own, 7)
        assert block[2:] == b"\x07" + own.to_binary()
        assert [decode(*found) for found in entries(block)] == [Gtids(own)]
        assert gtids(block + gtids_entry(GtidSet.parse(f"{U}:9"))) == own | GtidSet.parse(f"{U}:9")
        with pytest.raises(MalformedPacketError):
            decode(GTIDS, b"\x07" + own.to_binary()[:-1])
    finally:
        del GTID_ENCODINGS[7]
    assert decode(GTIDS, b"\x07") == UnknownGtidEncoding(7)


def test_an_encoding_cannot_take_anothers_number() -> None:
    before = dict(GTID_ENCODINGS)
    with pytest.raises(ValueError, match="registered already"):
        register_gtid_encoding(before[TEXT_ENCODING])
    assert before == GTID_ENCODINGS


def test_an_unregistered_encoding_cannot_be_written() -> None:
    with pytest.raises(KeyError):
        gtids_entry(GtidSet.parse(f"{U}:1"), 9)


# GTIDs.


def test_the_gtids_of_several_entries_are_united() -> None:
    block = gtids_entry(GtidSet.parse(f"{U}:1-3")) + gtids_entry(GtidSet.parse(f"{U}:4:t:1"))
    assert str(gtids(block)) == f"{U}:1-4:t:1"


def test_an_empty_set_is_not_none() -> None:
    assert gtids(gtids_entry(GtidSet())) == GtidSet()


def test_a_set_that_was_near_is_found_again() -> None:
    known = GtidSet.parse(f"{U}:" + ":".join(str(number) for number in range(1, 400, 2)))
    block = gtids_entry(known)
    assert gtids(block, known) is known
    grown = known | GtidSet.parse(f"{U}:402")
    assert gtids(gtids_entry(grown), known) == grown
    ((kind, entity),) = entries(block)
    change = decode(kind, entity, known)
    assert isinstance(change, Gtids)
    assert change.gtids is known


# What is broken.


@pytest.mark.parametrize(
    ("kind", "entity"),
    [
        pytest.param(SYSTEM_VARIABLES, b"", id="no name"),
        pytest.param(SYSTEM_VARIABLES, b"\x01a", id="no value"),
        pytest.param(SYSTEM_VARIABLES, b"\x01a\x02b", id="a short value"),
        pytest.param(SYSTEM_VARIABLES, b"\x01a\x01bc", id="bytes after a value"),
        pytest.param(SYSTEM_VARIABLES, b"\xfb\x01b", id="NULL for a name"),
        pytest.param(SCHEMA, b"", id="no schema"),
        pytest.param(SCHEMA, b"\x02a", id="a short schema"),
        pytest.param(SCHEMA, b"\x01ab", id="bytes after a schema"),
        pytest.param(STATE_CHANGE, b"", id="no state change"),
        pytest.param(STATE_CHANGE, b"2", id="a third state"),
        pytest.param(STATE_CHANGE, b"\x011", id="a state change with a length"),
        pytest.param(GTIDS, b"", id="no encoding"),
        pytest.param(GTIDS, b"\0", id="no set"),
        pytest.param(GTIDS, b"\0\x05abc", id="a short set"),
        pytest.param(GTIDS, b"\0" + lenenc_bytes(f"{U}:1".encode()) + b"x", id="bytes after a set"),
        pytest.param(GTIDS, b"\0" + lenenc_bytes(U.encode()), id="a bare UUID"),
        pytest.param(GTIDS, b"\0" + lenenc_bytes(f"{U}:5-3".encode()), id="a reversed interval"),
        pytest.param(GTIDS, b"\0" + lenenc_bytes(f"{U}:1\xff".encode("latin1")), id="not ASCII"),
        pytest.param(GTIDS, b"\xff", id="no length-encoded encoding"),
        pytest.param(GTIDS, b"\0\xfe" + b"\xff" * 8, id="a set longer than memory"),
        pytest.param(CHARACTERISTICS, b"", id="no characteristics"),
        pytest.param(CHARACTERISTICS, b"\x01ab", id="bytes after characteristics"),
        pytest.param(TRANSACTION_STATE, b"\x08T______", id="a short transaction state"),
    ],
)
def test_a_broken_entity_is_malformed(kind: int, entity: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        decode(kind, entity)
    # Only its meaning is broken: it can still be passed over.
    assert entries(entry(kind, entity)) == [(kind, entity)]


@pytest.mark.parametrize(
    "block",
    [
        b"\x03",
        b"\x03\x01",
        b"\x03\xfc\x01",
        b"\x03\xfb",
        b"\x03\xff",
        b"\xff\x00",
        b"\xfb\x00",
        b"\x03\xfe" + b"\xff" * 8,
        b"\x03\xfd\xff\xff\xff" + bytes(20),
        schema_entry("t") + b"\x63\x09abc",
    ],
)
def test_a_broken_block_is_malformed(block: bytes) -> None:
    for read in (entries, gtids, lambda broken: retain(broken, frozenset({3}))):
        with pytest.raises(MalformedPacketError):
            read(block)


def test_bytes_that_are_not_utf8_survive() -> None:
    entity = lenenc_bytes(b"\xff\xfe")
    change = decode(SCHEMA, entity)
    assert isinstance(change, Schema)
    assert schema_entry(change.name) == entry(SCHEMA, entity)


# Any blocks.

changes = st.one_of(
    st.builds(SystemVariable, st.text(max_size=20), st.text(max_size=300)),
    st.builds(Schema, st.text(max_size=64)),
    st.builds(StateChange, st.booleans()),
    st.lists(st.integers(1, 200), min_size=1).map(
        lambda numbers: Gtids(GtidSet({U: [(number, number + 1) for number in numbers]}))
    ),
    st.builds(TransactionCharacteristics, st.text(max_size=300)),
    st.builds(TransactionState, st.text("TIrRwWsSL_", min_size=8, max_size=8)),
)
strangers = st.builds(entry, st.sampled_from(UNKNOWN_TYPES), st.binary(max_size=300))
blocks = st.lists(changes.map(encode) | strangers, max_size=8)


@given(st.lists(changes, max_size=8))
def test_changes_go_both_ways(sent: list[Change]) -> None:
    block = b"".join([encode(change) for change in sent])
    assert [decode(*found) for found in entries(block)] == sent


@given(blocks, st.frozensets(st.sampled_from([*SessionTrackType, *UNKNOWN_TYPES])))
def test_retain_keeps_entries_byte_for_byte(parts: list[bytes], types: frozenset[int]) -> None:
    block = b"".join(parts)
    kept = [part for part in parts if entries(part)[0][0] in types]
    assert retain(block, types) == b"".join(kept)
    assert b"".join([entry(*found) for found in entries(block)]) == block


def read_all(block: bytes) -> None:
    with contextlib.suppress(MalformedPacketError):
        gtids(block)
    with contextlib.suppress(MalformedPacketError):
        retain(block, frozenset({1, 3}))
    with contextlib.suppress(MalformedPacketError):
        for kind, entity in entries(block):
            with contextlib.suppress(MalformedPacketError):
                decode(kind, entity)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(block: bytes) -> None:
    read_all(block)


@given(st.integers(0, 7), st.binary(max_size=80))
def test_any_entity_is_read_or_malformed(kind: int, entity: bytes) -> None:
    with contextlib.suppress(MalformedPacketError):
        decode(kind, entity)


@given(blocks, st.data())
def test_changed_blocks_are_read_or_malformed(parts: list[bytes], data: st.DataObject) -> None:
    block = b"".join(parts)
    at = data.draw(st.integers(0, len(block)))
    removed = data.draw(st.integers(0, 3))
    read_all(block[:at] + data.draw(st.binary(max_size=3)) + block[at + removed :])


def test_system_variables_are_retained_by_name() -> None:
    zone = system_variable_entry("time_zone", "+01:00")
    mode = system_variable_entry("sql_mode", "ANSI")
    schema = schema_entry("app")
    block = zone + mode + schema
    types = frozenset({0, 1})
    assert retain(block, types, None) is block
    assert retain(block, types, frozenset({b"time_zone", b"sql_mode"})) is block
    assert retain(block, types, frozenset({b"sql_mode"})) == mode + schema
    assert retain(block, frozenset({0}), frozenset()) == b""
