"""Greetings, responses and the packets of authentication plugins."""

import dataclasses

import pytest

from protocol.constants import Capability
from protocol.errors import MalformedPacketError
from protocol.handshake import (
    AuthMoreData,
    AuthSwitchRequest,
    HandshakeResponse41,
    HandshakeV10,
    SSLRequest,
    is_ssl_request,
)
from tests.support import vectors

SMALL = Capability.CLIENT_PROTOCOL_41 | Capability.CLIENT_SECURE_CONNECTION
GREETING = HandshakeV10(
    server_version="9.7.4",
    thread_id=7,
    nonce=b"abcdefghijklmnopqrst",
    capabilities=Capability(0xDFFFFFFF),
    character_set=255,
    status=2,
    auth_plugin="caching_sha2_password",
)
RESPONSE = HandshakeResponse41(
    capabilities=SMALL | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA,
    max_packet_size=1 << 24,
    character_set=45,
    username="tide",
    auth_response=b"secret response",
    database=None,
    auth_plugin=None,
    attributes={},
    zstd_level=0,
)


def response(name: str) -> HandshakeResponse41:
    [payload] = vectors.load(name).payloads("HandshakeResponse41")
    return HandshakeResponse41.parse(payload)


def test_the_greeting_of_a_server() -> None:
    [payload] = vectors.load("login_with_database").payloads("HandshakeV10")
    greeting = HandshakeV10.parse(payload)
    assert greeting.server_version == "9.7.4-2"
    assert greeting.thread_id > 0
    assert len(greeting.nonce) == 20
    assert b"\0" not in greeting.nonce
    assert greeting.capabilities == 0xDFFFFFFF
    assert greeting.character_set == 255
    assert greeting.status == 2
    assert greeting.auth_plugin == "caching_sha2_password"


def test_a_greeting_that_is_cut_off_is_refused() -> None:
    payload = GREETING.serialise()
    plugin = payload.index(b"caching_sha2_password")
    for size in range(plugin):
        with pytest.raises(MalformedPacketError):
            HandshakeV10.parse(payload[:size])
    # Some servers leave out the NUL behind the plugin's name.
    assert HandshakeV10.parse(payload[:-1]) == GREETING
    assert HandshakeV10.parse(payload + b"more") == GREETING


def test_a_greeting_without_plugins_means_the_native_one() -> None:
    greeting = dataclasses.replace(GREETING, capabilities=SMALL, auth_plugin="not sent")
    payload = greeting.serialise()
    assert payload.endswith(greeting.nonce[8:] + b"\0")
    assert HandshakeV10.parse(payload).auth_plugin == "mysql_native_password"


def test_a_longer_nonce_is_skipped() -> None:
    payload = GREETING.serialise().replace(b"\x15" + bytes(10), b"\x19" + bytes(10))
    payload = payload.replace(b"ijklmnopqrst\0", b"ijklmnopqrst\0wxyz")
    assert HandshakeV10.parse(payload) == GREETING


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x09" + GREETING.serialise()[1:],
        b"\xff\x10\x04Too many connections",
        dataclasses.replace(GREETING, capabilities=Capability(0)).serialise(),
    ],
)
def test_what_is_no_greeting_of_today_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        HandshakeV10.parse(payload)


def test_the_response_of_the_command_line_client() -> None:
    found = response("client_mysql_cli")
    assert found.username == "c"
    assert found.database == "t"
    assert found.auth_plugin == "caching_sha2_password"
    assert len(found.auth_response) == 32
    assert found.max_packet_size == 1 << 24
    assert found.attributes["program_name"] == "mysql"
    assert found.attributes["_client_version"] == "9.7.4"
    assert found.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES


def test_the_response_of_pymysql() -> None:
    found = response("client_pymysql")
    assert (found.username, found.database, found.character_set) == ("c", "t", 45)
    assert found.attributes["_client_name"] == "pymysql"


def test_a_response_with_everything() -> None:
    found = response("login_with_database")
    assert found.database == "t"
    assert found.attributes == {"_client_name": "tide", "program_name": "gate"}
    assert found.zstd_level == 3


def test_a_response_with_a_short_length() -> None:
    found = response("login_short_auth_response")
    assert not found.capabilities & Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    assert len(found.auth_response) == 32


def test_a_response_with_a_nul_terminated_secret() -> None:
    old = dataclasses.replace(RESPONSE, capabilities=Capability.CLIENT_PROTOCOL_41)
    assert old.serialise().endswith(b"tide\0secret response\0")
    assert HandshakeResponse41.parse(old.serialise()) == old


@pytest.mark.parametrize(
    ("database", "auth_plugin"), [(None, None), ("", ""), ("t", None), (None, "p"), ("t", "p")]
)
def test_the_flags_follow_database_and_plugin(
    database: str | None, auth_plugin: str | None
) -> None:
    sent = dataclasses.replace(
        RESPONSE,
        capabilities=RESPONSE.capabilities | Capability.CLIENT_CONNECT_WITH_DB,
        database=database,
        auth_plugin=auth_plugin,
    )
    found = HandshakeResponse41.parse(sent.serialise())
    assert (found.database, found.auth_plugin) == (database, auth_plugin)
    flags = found.capabilities
    assert bool(flags & Capability.CLIENT_CONNECT_WITH_DB) == (database is not None)
    assert bool(flags & Capability.CLIENT_PLUGIN_AUTH) == (auth_plugin is not None)


def test_attributes_can_be_long() -> None:
    sent = dataclasses.replace(
        RESPONSE,
        capabilities=RESPONSE.capabilities | Capability.CLIENT_CONNECT_ATTRS,
        attributes={"tide": "x" * 70_000, "": "", "gate": "ebb"},
    )
    assert HandshakeResponse41.parse(sent.serialise()) == sent


def test_a_name_need_not_be_utf8() -> None:
    payload = RESPONSE.serialise().replace(b"tide", b"t\xefde")
    found = HandshakeResponse41.parse(payload)
    assert found.serialise() == payload


def test_a_name_cannot_bring_in_another_field() -> None:
    for changed in ({"username": "ti\0de"}, {"database": "t\0p"}, {"auth_plugin": "p\0"}):
        with pytest.raises(MalformedPacketError):
            dataclasses.replace(RESPONSE, **changed).serialise()  # type: ignore[arg-type]


def test_a_response_that_is_cut_off_is_refused() -> None:
    [payload] = vectors.load("login_with_database").payloads("HandshakeResponse41")
    for size in range(len(payload)):
        with pytest.raises(MalformedPacketError):
            HandshakeResponse41.parse(payload[:size])


def test_an_old_client_is_refused() -> None:
    with pytest.raises(MalformedPacketError):
        HandshakeResponse41.parse(b"\x05\x00\x00\x00" + bytes(40))


def test_an_auth_response_must_fit_its_length() -> None:
    long = dataclasses.replace(RESPONSE, auth_response=b"x" * 256)
    assert HandshakeResponse41.parse(long.serialise()) == long
    with pytest.raises(MalformedPacketError):
        dataclasses.replace(long, capabilities=SMALL).serialise()


def test_attributes_may_be_left_out() -> None:
    capabilities = SMALL | Capability.CLIENT_CONNECT_ATTRS
    whole = dataclasses.replace(RESPONSE, capabilities=capabilities, attributes={}).serialise()
    assert whole.endswith(b"\0")
    parsed = HandshakeResponse41.parse(whole[:-1])
    assert parsed == HandshakeResponse41.parse(whole)


def test_no_secret_is_shown() -> None:
    assert "secret" not in repr(RESPONSE)


def test_unknown_flags_are_kept() -> None:
    flags = Capability(int(SMALL) | 1 << 29 | 1 << 31)
    request = SSLRequest(flags, 1 << 24, 255)
    assert SSLRequest.parse(request.serialise()).capabilities == flags | Capability.CLIENT_SSL


def test_a_request_for_tls_is_told_from_a_response() -> None:
    vector = vectors.load("login_tls_full")
    [request] = vector.payloads("SSLRequest")
    [full] = vector.payloads("HandshakeResponse41")
    assert is_ssl_request(request)
    assert not is_ssl_request(full)
    assert not is_ssl_request(b"\0" * 32)
    assert full.startswith(request)
    with pytest.raises(MalformedPacketError):
        SSLRequest.parse(full)


def test_a_request_for_tls_may_be_the_capabilities_alone() -> None:
    flags = SMALL | Capability.CLIENT_SSL
    short = int(flags).to_bytes(4, "little")
    assert is_ssl_request(short)
    assert SSLRequest.parse(short).capabilities == flags
    for other in (short[:3], short + b"\0", int(SMALL).to_bytes(4, "little")):
        assert not is_ssl_request(other)
        with pytest.raises(MalformedPacketError):
            SSLRequest.parse(other)


def test_a_switch_of_plugin() -> None:
    [payload] = vectors.load("login_auth_switch").payloads("AuthSwitchRequest")
    switch = AuthSwitchRequest.parse(payload)
    assert switch.plugin == "caching_sha2_password"
    assert len(switch.data) == 20
    assert AuthSwitchRequest.parse(b"\xfeclear\0") == AuthSwitchRequest("clear", b"")
    for malformed in (b"", b"\xfe", b"\xfeclear", b"\x00clear\0"):
        with pytest.raises(MalformedPacketError):
            AuthSwitchRequest.parse(malformed)


def test_more_data_of_a_plugin() -> None:
    assert AuthMoreData.parse(b"\x01\x04") == AuthMoreData(b"\x04")
    for malformed in (b"", b"\x04"):
        with pytest.raises(MalformedPacketError):
            AuthMoreData.parse(malformed)
