"""Logging in to servers: what is sent is what a real server accepted."""

import hashlib

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.authentication import (
    CACHING_SHA2,
    CLEAR,
    NATIVE,
    SHA256,
    ClientAuthentication,
    RsaKey,
    encrypt_password,
    scramble_caching_sha2,
    scramble_native,
)
from protocol.errors import (
    AuthenticationFailedError,
    AuthenticationUnsupportedError,
    MalformedPacketError,
)
from protocol.handshake import AuthMoreData, AuthSwitchRequest, HandshakeResponse41, HandshakeV10
from tests.support import vectors

NONCE = b"abcdefghijklmnopqrst"
FULL = b"\x01\x04"
FAST = b"\x01\x03"


@pytest.fixture(scope="module")
def rsa_key() -> RsaKey:
    return RsaKey.generate()


def begin(
    plugin: str = CACHING_SHA2, password: bytes = b"ebb", secure: bool = False
) -> ClientAuthentication:
    return ClientAuthentication(password, plugin, NONCE, secure)


# (vector, password, the plugin that the client begins with, TLS)
LOGINS = [
    ("login_caching_sha2_full", b"Ebb and flow", None, False),
    ("login_caching_sha2_fast", b"Ebb and flow", None, False),
    ("login_caching_sha2_wrong_password", b"flow", None, False),
    ("login_empty_password", b"", None, False),
    ("login_auth_switch", b"Ebb and flow", NATIVE, False),
    ("login_auth_switch_empty_password", b"", NATIVE, False),
    ("login_sha256_password", b"neap", None, False),
    ("login_tls_full", b"Ebb and flow", None, True),
    ("client_mysql_cli", b"Ebb and flow", None, False),
    ("client_pymysql", b"Ebb and flow", None, False),
    ("client_connector_python", b"Ebb and flow", None, False),
]


@pytest.mark.parametrize(("name", "password", "plugin", "secure"), LOGINS)
def test_a_login_is_what_the_server_accepted(
    name: str, password: bytes, plugin: str | None, secure: bool
) -> None:
    vector = vectors.load(name)
    greeting = HandshakeV10.parse(vector.payloads("HandshakeV10")[0])
    response = HandshakeResponse41.parse(vector.payloads("HandshakeResponse41")[0])
    client = ClientAuthentication(password, plugin or greeting.auth_plugin, greeting.nonce, secure)
    assert client.initial_response() == response.auth_response
    assert client.plugin == response.auth_plugin
    answer: bytes | None = None
    for packet in vector.packets:
        if packet.kind in ("AuthSwitchRequest", "AuthMoreData"):
            assert answer is None
            answer = client.receive(packet.payload)
        elif packet.kind == "AuthResponse":
            assert answer is not None
            if len(packet.payload) == 256:
                assert len(answer) == 256  # RSA with random padding
            else:
                assert answer == packet.payload
            answer = None
    assert answer is None


@pytest.mark.parametrize("name", ["change_user", "change_user_plain"])
def test_a_change_of_user_is_what_the_server_accepted(name: str) -> None:
    vector = vectors.load(name)
    client = ClientAuthentication(b"Ebb and flow", CACHING_SHA2, NONCE, secure=False)
    [switch] = vector.payloads("AuthSwitchRequest")
    assert [client.receive(switch)] == vector.payloads("AuthResponse")
    assert client.receive(vector.payloads("AuthMoreData")[0]) is None


def test_a_native_scramble_passes_the_servers_test() -> None:
    stage1 = hashlib.sha1(b"ebb", usedforsecurity=False).digest()
    stored = hashlib.sha1(stage1, usedforsecurity=False).digest()
    mask = hashlib.sha1(NONCE + stored, usedforsecurity=False).digest()
    scramble = scramble_native(b"ebb", NONCE)
    unmasked = bytes(a ^ b for a, b in zip(scramble, mask, strict=True))
    assert hashlib.sha1(unmasked, usedforsecurity=False).digest() == stored
    assert begin(NATIVE).initial_response() == scramble


def test_an_empty_password_has_no_scramble() -> None:
    assert scramble_native(b"", NONCE) == b""
    assert scramble_caching_sha2(b"", NONCE) == b""


@pytest.mark.parametrize("plugin", [CACHING_SHA2, NATIVE, SHA256])
def test_an_empty_password_needs_no_key(plugin: str) -> None:
    client = begin(password=b"")
    assert client.receive(AuthSwitchRequest(plugin, NONCE).serialise()) == b""


@pytest.mark.parametrize("plugin", [CACHING_SHA2, SHA256])
def test_the_password_goes_under_the_servers_key(plugin: str, rsa_key: RsaKey) -> None:
    client = begin(NATIVE)
    other = b"ABCDEFGHIJKLMNOPQRST"
    response = client.receive(AuthSwitchRequest(plugin, other).serialise())
    if plugin == CACHING_SHA2:
        assert response == scramble_caching_sha2(b"ebb", other)
        response = client.receive(FULL)
    assert response == (b"\x02" if plugin == CACHING_SHA2 else b"\x01")
    sealed = client.receive(AuthMoreData(rsa_key.public_pem()).serialise())
    assert sealed is not None
    assert rsa_key.decrypt(sealed, other) == b"ebb"


@pytest.mark.parametrize("plugin", [CACHING_SHA2, SHA256, CLEAR])
def test_over_tls_the_password_goes_as_it_is(plugin: str) -> None:
    client = begin(CACHING_SHA2, secure=True)
    answer = client.receive(AuthSwitchRequest(plugin, NONCE).serialise())
    if plugin == CACHING_SHA2:
        answer = client.receive(FULL)
    assert answer == b"ebb\0"
    assert client.plugin == plugin


def test_without_tls_the_password_is_never_shown(rsa_key: RsaKey) -> None:
    for plugin in (CACHING_SHA2, NATIVE, SHA256, CLEAR, "dialog"):
        assert b"ebb" not in begin(plugin).initial_response()
    with pytest.raises(AuthenticationUnsupportedError):
        begin().receive(AuthSwitchRequest(CLEAR, NONCE).serialise())
    client = ClientAuthentication(
        b"ebb", CACHING_SHA2, NONCE, secure=False, allow_public_key_retrieval=False
    )
    with pytest.raises(AuthenticationUnsupportedError):
        client.receive(FULL)


def test_a_greeting_alone_does_not_make_the_password_clear() -> None:
    client = begin(CLEAR, secure=True)
    assert client.plugin == CACHING_SHA2
    assert client.initial_response() == scramble_caching_sha2(b"ebb", NONCE)


def test_an_unknown_plugin_is_refused() -> None:
    for request in (AuthSwitchRequest("dialog", b"").serialise(), b"\x02webauthn\0", b""):
        with pytest.raises(AuthenticationUnsupportedError):
            begin(secure=True).receive(request)


def test_a_key_that_nobody_asked_for_is_refused(rsa_key: RsaKey) -> None:
    pem = AuthMoreData(rsa_key.public_pem()).serialise()
    for client in (begin(), begin(NATIVE), begin(secure=True)):
        with pytest.raises(MalformedPacketError):
            client.receive(pem)
    client = begin()
    client.receive(FULL)
    client.receive(pem)
    with pytest.raises(MalformedPacketError):
        client.receive(pem)


def test_success_needs_no_answer() -> None:
    assert begin().receive(FAST) is None
    with pytest.raises(MalformedPacketError):
        begin(NATIVE).receive(FAST)


def test_a_key_that_is_none_is_refused(rsa_key: RsaKey) -> None:
    elliptic = ec.generate_private_key(ec.SECP256R1()).public_key()
    pems = [
        b"",
        b"-----BEGIN PUBLIC KEY-----\n",
        rsa_key.public_pem()[:200],
        elliptic.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    ]
    for pem in pems:
        with pytest.raises(MalformedPacketError):
            encrypt_password(b"ebb", NONCE, pem)
    with pytest.raises(MalformedPacketError):
        encrypt_password(b"x" * 300, NONCE, rsa_key.public_pem())
    with pytest.raises(MalformedPacketError):
        encrypt_password(b"ebb", b"", rsa_key.public_pem())


def test_a_password_needs_its_key_and_its_nonce(rsa_key: RsaKey) -> None:
    sealed = encrypt_password(b"a password longer than the nonce", NONCE, rsa_key.public_pem())
    assert rsa_key.decrypt(sealed, NONCE) == b"a password longer than the nonce"
    with pytest.raises(AuthenticationFailedError):
        rsa_key.decrypt(sealed, NONCE[::-1])
    for garbage in (b"", sealed[:-1], bytes(256), RsaKey.generate().public_pem()):
        with pytest.raises(AuthenticationFailedError):
            rsa_key.decrypt(garbage, NONCE)


def test_a_key_is_read_from_a_file() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    no_rsa = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    locked = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"tide"),
    )
    for pem in (b"", b"tide", no_rsa, locked):
        with pytest.raises(ValueError, match=r"."):
            RsaKey.from_pem(pem)
