"""Logins that go wrong: what the client is told, and that nothing of them stays."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from protocol.authentication import CACHING_SHA2, NATIVE
from protocol.constants import Capability
from protocol.errors import ServerErrorCode
from protocol.handshake import HandshakeResponse41, HandshakeV10, SSLRequest
from protocol.packet import frame
from protocol.response import ErrPacket
from tests.faults.client import BASE, MODERN, Client, change_user, finish_change
from tests.faults.peers import GREETING, OK, err, identity, peer, says, unused_address
from tests.faults.proxy_fixture import ProxyFixture, before, eventually, proxy_fixture

# Passwords and users.


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("user", "password"), [("app", "wrong"), ("nobody", "secret"), ("app", "")]
)
async def test_who_the_primary_refuses_hears_so_from_the_primary(
    user: str, password: str, tls: bool
) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.connect()
        end = await client.log_in(user, password, tls=tls)
        error = ErrPacket.parse(end)
        assert (error.code, error.sqlstate) == (1045, "28000")
        assert "Access denied for user" in error.message
        assert await client.rest() == b""
        assert (await (await proxy.session(tls=tls)).ping()).ok
        assert proxy.count("tidegate_clients_refused_total", "login") == 1


async def test_unknown_schema() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.connect()
        error = ErrPacket.parse(await client.log_in(database="nowhere"))
        assert error.code == 1049
        assert await client.rest() == b""


@pytest.mark.parametrize("tls", [False, True])
async def test_an_empty_password(tls: bool) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(user="empty", password="", tls=tls)
        assert (await client.query("SELECT 1")).value == b"1"


async def test_a_server_that_lacks_a_variable_is_named() -> None:
    """No client, and no statement of its own, is to blame."""
    unknown = err(ServerErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE, "Unknown system variable 'lc_time'")
    async with (
        peer(says(GREETING, frame(OK, 2), unknown, then_waits=True)) as newer,
        before(newer.address) as proxy,
    ):
        client = await proxy.connect()
        error = ErrPacket.parse(await client.log_in())
        assert (error.code, error.sqlstate) == (1193, "HY000")
        for part in (f"server {newer.address} (MySQL 9.7.4)", "variable 'lc_time'", "Tidegate"):
            assert part in error.message
        assert await client.rest() == b""


async def test_mariadb_is_refused_with_a_sentence() -> None:
    unknown = err(
        ServerErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE, "Unknown system variable 'server_uuid'"
    )
    greeting = GREETING.replace(b"9.7.4", b"5.5.5-10.11.6-MariaDB")
    greeting = frame(greeting[4:], greeting[3])
    async with (
        peer(says(greeting, frame(OK, 2), unknown, then_waits=True)) as other,
        before(other.address) as proxy,
    ):
        client = await proxy.connect()
        error = ErrPacket.parse(await client.log_in())
        assert (error.code, error.sqlstate) == (1193, "HY000")
        assert f"server {other.address} is MariaDB (5.5.5-10.11.6-MariaDB)" in error.message
        assert error.message.endswith("Tidegate serves MySQL")


# A primary that cannot be used.


async def expect_2003(proxy: ProxyFixture, *words: str) -> None:
    client = await proxy.connect()
    error = ErrPacket.parse(await client.log_in())
    assert (error.code, error.sqlstate) == (2003, "HY000")
    for word in ("Tidegate cannot reach its primary", *words):
        assert word in error.message
    assert await client.rest() == b""
    assert proxy.count("tidegate_clients_refused_total", "primary_unreachable") >= 1


async def test_nobody_listens_at_the_primarys_address() -> None:
    address = unused_address()
    async with before(address) as proxy:
        await expect_2003(proxy, address)


async def test_the_primarys_name_is_unknown() -> None:
    async with before("no-such-host.invalid:3306") as proxy:
        await expect_2003(proxy, "no-such-host.invalid")


async def test_the_primary_accepts_and_never_answers() -> None:
    async with peer(says(b"", then_waits=True)) as silent:
        async with before(silent.address, connect_timeout=0.2) as proxy:
            await expect_2003(proxy, "no answer within 0.2 s (connect-timeout)")
        await eventually(lambda: silent.connected == 0)


async def test_a_login_that_the_primary_does_not_answer_in_time_names_it() -> None:
    """The client has done what it had to."""
    async with proxy_fixture(handshake_timeout=0.3, kept_connections=0) as proxy:
        primary = proxy.cluster.primary
        gate = primary.faults.hold_reply(b"session_track", 100)
        await expect_2003(proxy, primary.address, "no answer within 0.3 s (handshake-timeout)")
        assert proxy.count("tidegate_clients_refused_total", "timeout") == 0
        gate.open()
        assert (await (await proxy.session()).ping()).ok


async def test_a_primary_that_does_not_greet_within_the_time_of_a_login_is_named() -> None:
    async with peer(says(b"", then_waits=True)) as silent:
        async with before(silent.address, connect_timeout=1.0, handshake_timeout=0.3) as proxy:
            client = await proxy.connect()
            packet = await client.read_packet()
            # No client knows of SQLSTATEs before the greeting.
            assert packet[:1] == b"\xff"
            assert int.from_bytes(packet[1:3], "little") == 2003
            assert packet[3:].startswith(b"Can't connect to MySQL server on ")
            assert silent.address.encode() in packet
            assert proxy.count("tidegate_clients_refused_total", "primary_unreachable") == 1
        await eventually(lambda: silent.connected == 0)


async def test_a_change_of_user_that_the_primary_does_not_answer_names_it() -> None:
    async with proxy_fixture(handshake_timeout=0.3, kept_connections=0) as proxy:
        client = await proxy.session()
        gate = proxy.cluster.primary.faults.hold_reply(b"session_track", 100)
        client.send(change_user("other"))
        error = ErrPacket.parse(await finish_change(client, "word"))
        assert error.code == 2003
        assert proxy.cluster.primary.address in error.message
        assert await client.rest() == b""
        gate.open()


BROKEN_LOGINS: dict[str, list[bytes | None]] = {
    "closes at once": [None],
    "closes within the greeting": [GREETING[:20]],
    "greets with garbage": [b"\xde\xad\xbe\xef" * 100],
    "greets with an HTTP answer": [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
    "greets with an empty packet": [b"\0\0\0\0"],
    "greets with the wrong sequence id": [GREETING[:3] + b"\x05" + GREETING[4:]],
    "greets with a packet of 16 MiB": [b"\xff\xff\xff\x00" + bytes(100)],
    "closes after the response": [GREETING, None],
    "answers the response with garbage": [GREETING, b"\x03\0\0\x02abc"],
    "answers the response with an empty packet": [GREETING, b"\0\0\0\x02"],
    "answers out of order": [GREETING, frame(OK, 3)],
    "wants an unknown plugin": [GREETING, frame(b"\xfestrange\0" + b"n" * 20 + b"\0", 2)],
    "wants the old password": [GREETING, frame(b"\xfe", 2)],
    "wants a clear password without TLS": [GREETING, frame(b"\xfemysql_clear_password\0", 2)],
    "sends a bad public key": [GREETING, frame(b"\x01\x04", 2), frame(b"\x01no key", 4)],
    "closes instead of saying who it is": [GREETING, frame(OK, 2), None],
    "says OK instead of who it is": [GREETING, frame(OK, 2), frame(OK, 1)],
    "says nothing of who it is": [GREETING, frame(OK, 2), b"\0\0\0\x01"],
    "closes instead of the settings' answer": [GREETING, frame(OK, 2), identity(), None],
    "answers the settings with garbage": [GREETING, frame(OK, 2), identity(), b"\1\0\0\1\xab"],
    "answers the settings with an empty packet": [GREETING, frame(OK, 2), identity(), b"\0\0\0\1"],
    "asks for a local file": [GREETING, frame(OK, 2), frame(b"\xfb/etc/passwd", 1)],
}  # fmt: skip


@pytest.mark.parametrize("script", BROKEN_LOGINS)
async def test_the_primary_breaks_the_login(script: str) -> None:
    async with peer(says(*BROKEN_LOGINS[script])) as broken:
        async with before(broken.address) as proxy:
            await expect_2003(proxy, broken.address)
        await eventually(lambda: broken.connected == 0)


@pytest.mark.parametrize("script", BROKEN_LOGINS)
async def test_a_replica_that_breaks_the_login_costs_nobody_a_read(script: str) -> None:
    async with (
        proxy_fixture(replicas=0) as behind,
        peer(says(*BROKEN_LOGINS[script])) as broken,
    ):
        async with before(behind.cluster.primary.address, [broken.address]) as proxy:
            for _ in range(3):
                client = await proxy.session()
                for _ in range(3):
                    assert (await client.query("SELECT 1")).value == b"1"
            assert proxy.statements("primary", "ok") == 9
            assert proxy.count("tidegate_fallbacks_total", "replica_lost") >= 1
        await eventually(lambda: broken.connected == 0)


NUMBERS = {"uptime": b"9" * 400, "uuid": b"\xff" * 36, "gtids": b"no set"}


@pytest.mark.parametrize("field", NUMBERS)
async def test_the_primary_says_nonsense_of_itself(field: str) -> None:
    values = {"uptime": b"5", "uuid": b"u", "gtids": b"", field: NUMBERS[field]}
    row = identity(values["uuid"], values["uptime"], values["gtids"])
    async with (
        peer(says(GREETING, frame(OK, 2), row, frame(OK, 1))) as strange,
        before(strange.address) as proxy,
    ):
        client = await proxy.connect()
        end = await client.log_in()
        if field == "uuid":
            assert end[0] == 0x00
        else:
            assert ErrPacket.parse(end).code == 2003


@pytest.mark.parametrize("stage_of_login", [0, 1, 2, 3])
async def test_the_primary_refuses_in_its_own_words(stage_of_login: int) -> None:
    parts = [GREETING, frame(OK, 2), identity()][:stage_of_login]
    sequence_id = [0, 2, 1, 1][stage_of_login]
    async with (
        peer(says(*parts, err(1040, "Too many connections", sequence_id))) as full,
        before(full.address) as proxy,
    ):
        client = await proxy.connect()
        error = ErrPacket.parse(await client.log_in())
        assert (error.code, error.message) == (1040, "Too many connections")
        assert await client.rest() == b""


async def test_the_primary_lacks_what_tracking_needs() -> None:
    greeting = HandshakeV10.parse(GREETING[4:])
    poor = replace(greeting, server_version="5.6.51", capabilities=BASE, auth_plugin=NATIVE)
    async with peer(says(frame(poor.serialise(), 0))) as server, before(server.address) as proxy:
        client = await proxy.connect()
        error = ErrPacket.parse(await client.log_in(capabilities=BASE))
        assert error.code == 2003
        assert "CLIENT_SESSION_TRACK" in error.message


# Clients that do not behave.


def response(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "capabilities": MODERN,
        "max_packet_size": 1 << 24,
        "character_set": 255,
        "username": "app",
        "auth_response": b"s" * 32,
        "database": None,
        "auth_plugin": CACHING_SHA2,
        "attributes": {},
        "zstd_level": 0,
        **changes,
    }
    return HandshakeResponse41(**fields).serialise()


SSL_REQUEST = SSLRequest(MODERN, 1 << 24, 255).serialise()

BAD_RESPONSES = {
    "garbage": (b"GET / HTTP/1.1\r\n\r\n", 1156),
    "one empty packet": (b"\0\0\0\x01", 1043),
    "a wrong sequence id": (frame(response(), 7), 1156),
    "more than a login can be": (b"\xff\xff\xff\x01", 1153),
    "protocol 4.0": (frame(b"\x05\x00" + bytes(30), 1), 1043),
    "a truncated response": (frame(response()[:40], 1), 1043),
    "a length beyond the end": (frame(response()[:36] + b"\xfd\xff\xff\xff", 1), 1043),
    "a scramble of a wrong length": (frame(response(auth_response=b"short"), 1), 1043),
    "an SSLRequest twice": (frame(SSL_REQUEST, 1) + b"\0" * 400, None),
    "an SSLRequest and garbage": (frame(SSL_REQUEST, 1) + b"garbage, no ClientHello" * 20, None),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_RESPONSES)
async def test_a_bad_response_to_the_greeting(case: str) -> None:
    data, code = BAD_RESPONSES[case]
    async with proxy_fixture() as proxy:
        client = await proxy.connect()
        await client.greet()
        client.send_bytes(data)
        if code is None:
            await client.rest()  # TLS has words of its own
        else:
            error = await client.last_error()
            assert error.code == code
            assert error.message.startswith("Bad handshake: ")
        await eventually(lambda: proxy.count("tidegate_clients_refused_total", "protocol") == 1)
        assert (await (await proxy.session()).ping()).ok


BAD_PASSWORDS = {
    "an empty packet": (b"", 1045),
    "garbage for the RSA answer": (b"x" * 256, 1045),
    "an unasked length": (b"x" * 7, 1045),
    "the public key twice": (b"\x02", None),
}


@pytest.mark.parametrize("case", BAD_PASSWORDS)
async def test_a_bad_answer_to_the_question_for_the_password(case: str) -> None:
    data, code = BAD_PASSWORDS[case]
    async with proxy_fixture() as proxy:
        client = await proxy.connect()
        await client.greet()
        client.send(response(), 1)
        assert await client.read_packet() == b"\x01\x04"
        client.send(data, 3)
        if code is None:
            assert (await client.read_packet()).startswith(b"\x01-----BEGIN PUBLIC KEY")
            client.send(data, 5)
            code = 1043
        error = await client.last_error()
        assert error.code == code
        assert (await (await proxy.session()).ping()).ok


@pytest.mark.parametrize("sent", [0, 2, 10, "response", "ssl"])
async def test_half_a_handshake_ends_with_an_error(sent: int | str) -> None:
    async with proxy_fixture(handshake_timeout=0.3) as proxy:
        client = await proxy.connect()
        await client.greet()
        data = {"response": frame(response(), 1), "ssl": frame(SSL_REQUEST, 1)}.get(str(sent))
        client.send_bytes(frame(response(), 1)[: int(sent)] if data is None else data)
        if sent == "response":
            assert await client.read_packet() == b"\x01\x04"
        if sent == "ssl":
            await client.rest()
        else:
            error = await client.last_error()
            assert (error.code, error.sqlstate) == (1159, "08S01")
            assert "handshake-timeout" in error.message
        await eventually(
            lambda: (
                proxy.count("tidegate_clients_refused_total", "timeout")
                + proxy.count("tidegate_clients_refused_total", "protocol")
                == 1
            )
        )


async def test_clients_that_leave_during_the_login() -> None:
    async with proxy_fixture() as proxy:
        for step in range(5):
            client = await proxy.connect()
            if step > 0:
                await client.greet()
            if step == 2:
                client.send_bytes(frame(response(), 1)[:30])
            if step == 3:
                client.send(response(), 1)
                await client.read_packet()
            if step == 4:
                client.send(SSL_REQUEST, 1)
            client.abort()
        await eventually(lambda: proxy.count("tidegate_clients_refused_total") == 5)
        assert (await (await proxy.session()).ping()).ok


async def test_a_client_leaves_while_the_primary_is_slow_to_log_it_in() -> None:
    async with proxy_fixture() as proxy:
        primary = proxy.cluster.primary
        primary.faults.delay_reply(0.3, matching=b"session_track")
        client = await proxy.connect()
        login = asyncio.ensure_future(client.log_in())
        await eventually(lambda: primary.connections == 1)
        login.cancel()
        client.abort()
        await eventually(lambda: primary.connections == 0)
        primary.faults.clear()
        assert (await (await proxy.session()).ping()).ok


async def test_client_tls_required() -> None:
    async with proxy_fixture(client_tls="required") as proxy:
        client = await proxy.connect()
        error = ErrPacket.parse(await client.log_in())
        assert (error.code, error.sqlstate) == (3159, "HY000")
        assert "client-tls" in error.message
        assert await client.rest() == b""
        assert (await (await proxy.session(tls=True)).ping()).ok


async def test_too_many_connections_and_room_again() -> None:
    async with proxy_fixture(max_connections=2) as proxy:
        first, second = await proxy.session(), await proxy.session()
        third = await proxy.connect()
        payload = await third.read_packet()
        # Before the greeting no capabilities are known, and so a server sends no SQLSTATE.
        assert payload[:3] == b"\xff\x10\x04"
        assert payload[3:].startswith(b"Too many connections")
        assert b"max-connections is 2" in payload
        assert await third.rest() == b""
        assert (await second.ping()).ok
        first.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        assert (await (await proxy.session()).ping()).ok


async def test_clients_in_their_handshake_count_as_connections() -> None:
    async with proxy_fixture(max_connections=2) as proxy:
        for _ in range(2):
            await (await proxy.connect()).greet()
        refused = await proxy.connect()
        assert (await refused.read_packet())[:3] == b"\xff\x10\x04"


async def test_a_capability_that_was_not_offered_is_not_agreed_on() -> None:
    async with proxy_fixture() as proxy:
        strange = MODERN | Capability.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS
        strange |= Capability.MULTI_FACTOR_AUTHENTICATION | Capability.CLIENT_REMEMBER_OPTIONS
        client = await proxy.session(capabilities=strange)
        assert (await client.query("SELECT 1")).value == b"1"


async def test_a_login_in_single_bytes() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.connect()
        send = client.writer.write

        def drip(data: bytes) -> None:
            for k in range(len(data)):
                send(data[k : k + 1])

        client.writer.write = drip  # type: ignore[method-assign, assignment]
        assert (await client.log_in())[0] == 0x00
        assert (await client.query("SELECT 1")).value == b"1"


async def test_a_command_right_behind_the_login_waits_for_it() -> None:
    async with proxy_fixture() as proxy:
        client: Client = await proxy.connect()
        greeting = await client.greet()
        assert greeting.auth_plugin == CACHING_SHA2
        client.capabilities = MODERN
        login = frame(response(username="empty", auth_response=b"", database="test"), 1)
        client.send_bytes(login + frame(b"\x03SELECT 42", 0) + frame(b"\x0e", 0))
        assert (await client.read_packet())[0] == 0x00
        assert (await client.answer()).value == b"42"
        assert (await client.answer()).ok


async def test_the_connection_id_is_the_primary_s() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.connect()
        assert (await client.log_in())[0] == 0x00
        assert client.greeting is not None
        identity = (await client.query("SELECT CONNECTION_ID()")).value
        assert identity == str(client.greeting.thread_id).encode()


async def test_clients_that_say_nothing_hold_few_connections_to_the_primary() -> None:
    async with proxy_fixture() as proxy:
        silent = [await proxy.connect() for _ in range(100)]
        for client in silent:
            await client.greet()
        assert proxy.cluster.primary.connections < 80
        assert (await (await proxy.session()).ping()).ok


async def test_the_connection_id_outlives_a_change_of_user() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        before = (await client.query("SELECT CONNECTION_ID()")).value
        client.send(change_user("other"))
        assert (await finish_change(client, "word"))[0] == 0x00
        assert (await client.query("SELECT CONNECTION_ID()")).value == before
        assert (await client.query("SELECT CURRENT_USER()")).value == b"other@%"
        assert proxy.cluster.primary.connections == 1
