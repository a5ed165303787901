"""Whatever a peer sends, a decoder returns a value or raises a ProtocolError."""

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.authentication import (
    CACHING_SHA2,
    NATIVE,
    SHA256,
    ClientAuthentication,
    PasswordExchange,
    RsaKey,
)
from protocol.binlog.event import EventType
from protocol.constants import Capability
from protocol.errors import MalformedBinlogError, ProtocolError
from tests.fuzz.decoders import DECODERS, EVENT_DECODERS
from tests.support import binlogs, vectors
from tests.support.codecs import CODECS

PACKETS = [packet for name in vectors.names() for packet in vectors.load(name).packets]
NASTY = (b"\x00", b"\xfa", b"\xfb", b"\xfc\xff\xff", b"\xfd\xff\xff\xff", b"\xfe" + b"\xff" * 8)
RSA_KEY = RsaKey.generate()
NONCE = b"abcdefghijklmnopqrst"


def mutated(data: bytes, randomness: random.Random) -> bytes:
    """Some of `data`'s bytes changed, removed, doubled, or overwritten by lengths that lie."""
    changed = bytearray(data)
    for _ in range(randomness.randint(1, 4)):
        begin = randomness.randint(0, len(changed))
        end = min(len(changed), begin + randomness.randint(0, 8))
        match randomness.randrange(5):
            case 0:
                del changed[begin:end]
            case 1:
                changed[begin:begin] = changed[begin:end]
            case 2:
                changed[begin:end] = randomness.choice(NASTY)
            case 3:
                changed[begin:end] = randomness.randbytes(end - begin)
            case _:
                del changed[begin:]
    return bytes(changed)


MUTATIONS = st.builds(
    lambda packet, randomness: mutated(packet.payload, randomness),
    st.sampled_from(PACKETS),
    st.randoms(use_true_random=False),
)
PAYLOADS = st.binary(max_size=80) | MUTATIONS

EVENTS = [
    event
    for name in binlogs.NAMES
    for event in binlogs.events(binlogs.load(name))
    if event.type in list(EventType)
]


@pytest.mark.parametrize("name", DECODERS)
@given(payload=PAYLOADS)
def test_a_decoder_raises_nothing_but_protocol_errors(name: str, payload: bytes) -> None:
    with suppress(ProtocolError):
        DECODERS[name](payload)


BODIES = st.builds(
    lambda event, randomness: (event.type_name, mutated(event.body, randomness)),
    st.sampled_from(EVENTS),
    st.randoms(use_true_random=False),
)


@given(BODIES | st.tuples(st.sampled_from(sorted(EVENT_DECODERS)), st.binary(max_size=80)))
@settings(max_examples=500)
def test_an_event_raises_nothing_but_protocol_errors(event: tuple[str, bytes]) -> None:
    kind, body = event
    with suppress(ProtocolError):
        EVENT_DECODERS[kind](body)


@given(st.sampled_from(binlogs.NAMES), st.randoms(use_true_random=False))
def test_a_damaged_log_is_refused_with_a_position(name: str, randomness: random.Random) -> None:
    log = mutated(binlogs.load(name), randomness)
    position = 0
    try:
        DECODERS["binary log"](log)
    except MalformedBinlogError as error:
        position = error.position
    assert 0 <= position <= len(log)


@pytest.mark.parametrize("kind", CODECS)
@given(data=st.data())
def test_what_was_read_is_written_in_one_way(kind: str, data: st.DataObject) -> None:
    own = [packet for packet in PACKETS if packet.kind == kind]
    packet = data.draw(st.sampled_from(own))
    payload = mutated(packet.payload, data.draw(st.randoms(use_true_random=False)))
    codec = CODECS[kind]
    capabilities = data.draw(
        st.sampled_from([Capability(0xFFFFFFFF), Capability.CLIENT_PROTOCOL_41])
    )
    try:
        value = codec.parse(payload, capabilities)
    except ProtocolError:
        return
    written = codec.serialise(value, capabilities)
    again = codec.parse(written, capabilities)
    assert codec.serialise(again, capabilities) == written


@given(
    st.sampled_from([CACHING_SHA2, NATIVE, SHA256, "dialog"]),
    st.booleans(),
    st.lists(PAYLOADS, max_size=4),
)
def test_a_server_cannot_break_a_login(plugin: str, secure: bool, payloads: list[bytes]) -> None:
    client = ClientAuthentication(b"ebb", plugin, NONCE, secure)
    client.initial_response()
    for payload in payloads:
        try:
            answer = client.receive(payload)
        except ProtocolError:
            return
        if not secure:
            assert b"ebb" not in (answer or b"")


@given(
    st.sampled_from([CACHING_SHA2, NATIVE, None]),
    st.binary(max_size=1) | st.binary(min_size=32, max_size=32),
    st.booleans(),
    st.lists(st.just(b"\x02") | st.binary(min_size=256, max_size=256) | PAYLOADS, max_size=4),
)
def test_a_client_cannot_break_a_login(
    plugin: str | None, response: bytes, secure: bool, payloads: list[bytes]
) -> None:
    exchange = PasswordExchange(plugin, response, NONCE, secure, RSA_KEY)
    with suppress(ProtocolError):
        exchange.start()
        for payload in payloads:
            exchange.receive(payload)
