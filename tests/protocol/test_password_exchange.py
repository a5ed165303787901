"""Learning clients' passwords."""

import pytest

from protocol.authentication import (
    CACHING_SHA2,
    CLEAR,
    NATIVE,
    SHA256,
    ClientAuthentication,
    PasswordExchange,
    RsaKey,
    encrypt_password,
    scramble_caching_sha2,
)
from protocol.errors import (
    AuthenticationFailedError,
    AuthenticationUnsupportedError,
    MalformedPacketError,
)
from protocol.handshake import AuthSwitchRequest

NONCE = b"abcdefghijklmnopqrst"
SCRAMBLE = scramble_caching_sha2(b"ebb", NONCE)
FULL = b"\x01\x04"
KEY = b"\x02"


@pytest.fixture(scope="module")
def rsa_key() -> RsaKey:
    return RsaKey.generate()


@pytest.fixture
def plain(rsa_key: RsaKey) -> PasswordExchange:
    exchange = PasswordExchange(CACHING_SHA2, SCRAMBLE, NONCE, secure=False, rsa_key=rsa_key)
    assert exchange.start() == FULL
    return exchange


@pytest.fixture
def over_tls(rsa_key: RsaKey) -> PasswordExchange:
    exchange = PasswordExchange(CACHING_SHA2, SCRAMBLE, NONCE, secure=True, rsa_key=rsa_key)
    assert exchange.start() == FULL
    return exchange


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("plugin", [CACHING_SHA2, NATIVE, SHA256, CLEAR, "dialog"])
@pytest.mark.parametrize("password", [b"", b"ebb", b"Ebbe \xff und Flut, " * 6])
def test_both_sides_understand_each_other(
    plugin: str, password: bytes, secure: bool, rsa_key: RsaKey
) -> None:
    client = ClientAuthentication(password, plugin, NONCE, secure)
    response = client.initial_response()
    server = PasswordExchange(client.plugin, response, NONCE, secure, rsa_key)
    request = server.start()
    while server.password is None:
        assert request is not None
        answer = client.receive(request)
        assert answer is not None
        request = server.receive(answer)
    assert request is None
    assert server.password == password


def test_a_client_with_the_key_need_not_ask(plain: PasswordExchange, rsa_key: RsaKey) -> None:
    assert plain.receive(encrypt_password(b"ebb", NONCE, rsa_key.public_pem())) is None
    assert plain.password == b"ebb"


def test_the_key_is_given_once(plain: PasswordExchange, rsa_key: RsaKey) -> None:
    assert plain.receive(KEY) == b"\x01" + rsa_key.public_pem()
    with pytest.raises(MalformedPacketError):
        plain.receive(KEY)
    assert plain.password is None


@pytest.mark.parametrize("response", [b"", b"\0"])
def test_an_empty_password_is_known_at_once(response: bytes, rsa_key: RsaKey) -> None:
    for plugin in (CACHING_SHA2, None):
        exchange = PasswordExchange(plugin, response, NONCE, secure=False, rsa_key=rsa_key)
        assert exchange.start() is None
        assert exchange.password == b""


@pytest.mark.parametrize("response", [b"", b"\0"])
def test_an_empty_password_after_a_switch(response: bytes, rsa_key: RsaKey) -> None:
    exchange = PasswordExchange(NATIVE, b"", NONCE, secure=False, rsa_key=rsa_key)
    assert exchange.start() == AuthSwitchRequest(CACHING_SHA2, NONCE).serialise()
    assert exchange.password is None
    assert exchange.receive(response) is None
    assert exchange.password == b""


def test_a_client_that_cannot_switch_is_refused(rsa_key: RsaKey) -> None:
    exchange = PasswordExchange(None, b"x" * 20, NONCE, secure=True, rsa_key=rsa_key)
    with pytest.raises(AuthenticationUnsupportedError):
        exchange.start()


def test_a_scramble_has_32_bytes(rsa_key: RsaKey) -> None:
    exchange = PasswordExchange(CACHING_SHA2, SCRAMBLE[1:], NONCE, secure=True, rsa_key=rsa_key)
    with pytest.raises(MalformedPacketError):
        exchange.start()
    switched = PasswordExchange(NATIVE, b"", NONCE, secure=True, rsa_key=rsa_key)
    switched.start()
    with pytest.raises(MalformedPacketError):
        switched.receive(SCRAMBLE + b"x")


def test_a_password_in_the_clear_is_refused_without_tls(plain: PasswordExchange) -> None:
    with pytest.raises(AuthenticationFailedError):
        plain.receive(b"ebb\0")
    assert plain.password is None


def test_a_password_under_another_nonce_is_refused(
    plain: PasswordExchange, rsa_key: RsaKey
) -> None:
    with pytest.raises(AuthenticationFailedError):
        plain.receive(encrypt_password(b"ebb", NONCE[::-1], rsa_key.public_pem()))
    assert plain.password is None


def test_over_tls_a_password_ends_with_its_only_nul(over_tls: PasswordExchange) -> None:
    for payload in (b"", b"ebb"):
        with pytest.raises(MalformedPacketError):
            over_tls.receive(payload)
    with pytest.raises(AuthenticationFailedError):
        over_tls.receive(b"eb\0b\0")
    assert over_tls.password is None
    assert over_tls.receive(b"\0") is None
    assert over_tls.password == b""


def test_nothing_follows_the_password(over_tls: PasswordExchange) -> None:
    over_tls.receive(b"ebb\0")
    with pytest.raises(MalformedPacketError):
        over_tls.receive(b"flow\0")
    assert over_tls.password == b"ebb"


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("plugin", [CACHING_SHA2, NATIVE])
def test_who_shows_that_it_knows_the_password_need_not_tell_it(
    plugin: str, secure: bool, rsa_key: RsaKey
) -> None:
    first = SCRAMBLE if plugin == CACHING_SHA2 else b"x" * 20
    exchange = PasswordExchange(plugin, first, NONCE, secure, rsa_key, b"ebb")
    reply = exchange.start()
    if plugin == NATIVE:
        assert reply == AuthSwitchRequest(CACHING_SHA2, NONCE).serialise()
        reply = exchange.receive(SCRAMBLE)
    assert reply is None
    assert exchange.fast
    assert exchange.password == b"ebb"
    assert exchange.success() == b"\x01\x03"
    with pytest.raises(MalformedPacketError):
        exchange.receive(b"ebb\0")


@pytest.mark.parametrize("known", [None, b"", b"flow"])
def test_a_scramble_of_another_password_shows_nothing(known: bytes | None, rsa_key: RsaKey) -> None:
    exchange = PasswordExchange(CACHING_SHA2, SCRAMBLE, NONCE, True, rsa_key, known)
    assert exchange.start() == FULL
    assert not exchange.fast
    assert exchange.password is None


def test_a_password_that_is_known_no_more_has_to_be_told(rsa_key: RsaKey) -> None:
    exchange = PasswordExchange(CACHING_SHA2, SCRAMBLE, NONCE, True, rsa_key, b"ebb")
    assert exchange.start() is None
    assert exchange.insist() == FULL
    assert not exchange.fast
    assert exchange.password is None
    assert exchange.receive(b"ebb\0") is None
    assert exchange.password == b"ebb"


def test_a_client_of_sha256_password_is_not_switched(rsa_key: RsaKey) -> None:
    over_tls = PasswordExchange(SHA256, b"ebb\0", NONCE, True, rsa_key)
    assert over_tls.start() is None
    assert over_tls.password == b"ebb"
    plain = PasswordExchange(SHA256, b"\x01", NONCE, False, rsa_key)
    assert plain.start() == b"\x01" + rsa_key.public_pem()
    assert plain.receive(encrypt_password(b"ebb", NONCE, rsa_key.public_pem())) is None
    assert plain.password == b"ebb"
