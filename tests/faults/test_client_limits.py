"""Limits of clients: who is refused, with which error, and that nobody's place is lost."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from ipaddress import ip_network

import pytest

from protocol.constants import Capability
from protocol.errors import ProtocolError
from protocol.handshake import HandshakeResponse41, SSLRequest
from protocol.response import ErrPacket
from tests.faults.client import MODERN, PASSWORD, Client, change_user, finish_change
from tests.faults.peers import unused_address
from tests.faults.proxy_fixture import ProxyFixture, before, eventually, proxy_fixture

# Who is refused.


async def refusal(proxy: ProxyFixture, user: str = "app", password: str = PASSWORD) -> ErrPacket:
    client = await proxy.connect()
    error = ErrPacket.parse(await client.log_in(user=user, password=password))
    assert await client.rest() == b""
    return error


async def test_one_account_cannot_lock_the_administrator_out() -> None:
    async with proxy_fixture(max_connections=2, admins=("other",)) as proxy:
        first, second = await proxy.session(), await proxy.session()
        error = await refusal(proxy)
        assert (error.code, error.sqlstate) == (1040, "08004")
        assert "max-connections is 2" in error.message
        admin = await proxy.session(user="other", password="word")
        assert (await admin.query("SELECT 1")).value == b"1"
        # There is one such connection, as at a server.
        assert (await refusal(proxy, "other", "word")).code == 1040
        assert proxy.count("tidegate_clients_refused_total", "max_connections") == 2
        first.abort()
        second.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        await proxy.session(user="other", password="word")
        assert (await refusal(proxy)).code == 1040
        admin.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        await proxy.session()


async def test_a_name_alone_is_no_administrator() -> None:
    """Clients that only claim to be one are refused, and hold no place meanwhile."""
    async with proxy_fixture(max_connections=0, admins=("other",)) as proxy:
        idle = [await proxy.connect() for _ in range(3)]
        for client in idle:
            await client.greet()
        assert (await refusal(proxy, "other", "wrong")).code == 1045
        await proxy.session(user="other", password="word")


async def test_clients_on_trial_are_few() -> None:
    async with proxy_fixture(max_connections=0, admins=("other",)) as proxy:
        for _ in range(64):
            await (await proxy.connect()).greet()
        late = await proxy.connect()
        assert (await late.read_packet())[:3] == b"\xff\x10\x04"


async def test_an_administrator_on_the_last_place_becomes_nobody_else() -> None:
    async with proxy_fixture(max_connections=1, admins=("other",)) as proxy:
        app = await proxy.session()
        admin = await proxy.session(user="other", password="word")
        admin.send(change_user("app"))
        error = ErrPacket.parse(await finish_change(admin, PASSWORD))
        assert error.code == 1040
        assert await admin.rest() == b""
        admin = await proxy.session(user="other", password="word")
        app.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        admin.send(change_user("app"))
        assert (await finish_change(admin, PASSWORD))[0] == 0x00
        assert (await refusal(proxy)).code == 1040


async def test_clients_of_one_user() -> None:
    async with proxy_fixture(max_user_connections=2, admins=("other",)) as proxy:
        first = await proxy.session()
        await proxy.session()
        error = await refusal(proxy)
        assert (error.code, error.sqlstate) == (1203, "42000")
        assert error.message.startswith(
            "User app already has more than 'max_user_connections' active connections"
        )
        # Who does not know the password hears of that.
        assert (await refusal(proxy, "app", "wrong")).code == 1045
        for _ in range(4):
            await proxy.session(user="other", password="word")
        first.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 5)
        await proxy.session()
        assert proxy.count("tidegate_clients_refused_total", "max_user_connections") == 1


async def test_a_user_with_a_number_of_its_own() -> None:
    limits = {"app": 3, "other": 1}
    async with proxy_fixture(
        max_user_connections=2, admins=("other",), user_limits=limits
    ) as proxy:
        for _ in range(3):
            await proxy.session()
        error = await refusal(proxy)
        assert (error.code, error.sqlstate) == (1226, "42000")
        assert error.message.startswith(
            "User 'app' has exceeded the 'max_user_connections' resource (current value: 3"
        )
        await proxy.session(user="other", password="word")
        assert (await refusal(proxy, "other", "word")).code == 1226


async def test_a_change_of_user_counts_for_the_new_one() -> None:
    async with proxy_fixture(max_user_connections=1) as proxy:
        client = await proxy.session()
        client.send(change_user("app"))  # the same
        assert (await finish_change(client, PASSWORD))[0] == 0x00
        client.send(change_user("other"))
        assert (await finish_change(client, "word"))[0] == 0x00
        await proxy.session()  # its place is free
        client.send(change_user("app"))
        error = ErrPacket.parse(await finish_change(client, PASSWORD))
        assert error.code == 1203
        assert await client.rest() == b""
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        await proxy.session(user="other", password="word")


async def test_clients_of_one_address() -> None:
    async with proxy_fixture(max_client_connections=2, admins=("other",)) as proxy:
        first = await proxy.session()
        await (await proxy.connect()).greet()
        error = await refusal(proxy)
        assert error.code == 1040
        assert "127.0.0.1 has already 2 (Tidegate's max-client-connections)" in error.message
        await proxy.session(user="other", password="word")
        first.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        assert (await refusal(proxy)).code == 1040  # the administrator's counts, too


async def behind_balancer(proxy: ProxyFixture, address: str) -> bytes:
    client = await proxy.connect()
    client.send_bytes(f"PROXY TCP4 {address} 10.0.0.9 4711 3306\r\n".encode())
    try:
        return await client.log_in()
    except asyncio.IncompleteReadError:
        return b""


@pytest.mark.parametrize(
    "limit", [{"max_client_connections": 1}, {"max_login_rate": 0.001}], ids=["count", "rate"]
)
async def test_the_address_is_the_one_that_a_balancer_names(limit: dict[str, float]) -> None:
    networks = (ip_network("127.0.0.0/8"),)
    async with proxy_fixture(proxy_protocol_networks=networks, **limit) as proxy:
        for address in ("10.0.0.1", "10.0.0.2"):
            assert (await behind_balancer(proxy, address))[0] == 0x00
            error = ErrPacket.parse(await behind_balancer(proxy, address))
            assert error.code == 1040
            assert address in error.message


async def test_the_rate_of_an_address() -> None:
    async with proxy_fixture(max_login_rate=0.001, admins=("other",)) as proxy:
        await proxy.session()
        error = await refusal(proxy)
        assert error.code == 1040
        assert "max-login-rate (0.001 per second)" in error.message
        await proxy.session(user="other", password="word")
        assert proxy.count("tidegate_clients_refused_total", "max_login_rate") == 1


# No place is lost, whichever way a client leaves.

Way = Callable[[ProxyFixture], Awaitable[None]]


async def before_the_greeting(proxy: ProxyFixture) -> None:
    (await proxy.connect()).abort()


async def after_the_greeting(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.greet()
    client.abort()


async def amid_the_response(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.greet()
    client.send_bytes(b"\x60\x00\x00\x01half")
    client.abort()


async def amid_the_password(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.greet()
    response = HandshakeResponse41(
        capabilities=MODERN, max_packet_size=1 << 24, character_set=255, username="app",
        auth_response=b"x" * 32, database=None, auth_plugin="caching_sha2_password",
        attributes={}, zstd_level=0,
    )  # fmt: skip
    client.send(response.serialise(), 1)
    await client.read_packet()
    client.abort()


async def with_garbage(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.greet()
    client.send(b"\xff" * 40, 1)
    await client.rest()


async def amid_tls(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.greet()
    client.send(SSLRequest(MODERN | Capability.CLIENT_SSL, 1 << 24, 255).serialise(), 1)
    client.send_bytes(b"this is no ClientHello")
    await client.rest()


async def with_a_wrong_password(proxy: ProxyFixture) -> None:
    await (await proxy.connect()).log_in(password="wrong")


async def with_an_unknown_schema(proxy: ProxyFixture) -> None:
    await (await proxy.connect()).log_in(database="nowhere")


async def with_a_wrong_setting(proxy: ProxyFixture) -> None:
    await (await proxy.connect()).log_in(attributes={"tidegate.consistency": "NONE"})


async def without_a_word(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.log_in()
    client.abort()


async def by_quit(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.log_in()
    client.send(b"\x01")
    await client.rest()


async def amid_a_statement(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.log_in()
    client.send(b"\x03SELECT SLEEP(0.05)")
    client.abort()


async def by_kill(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    if (await client.log_in())[0] == 0x00:
        assert client.greeting is not None
        await client.query(f"KILL {client.greeting.thread_id}")
    client.abort()


async def as_another_user(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    if (await client.log_in())[0] == 0x00:
        client.send(change_user("other"))
        await finish_change(client, "word")
    client.abort()


async def in_a_change_of_user(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    if (await client.log_in())[0] == 0x00:
        client.send(change_user("other"))
        await client.read_packet()
    client.abort()


async def in_a_refused_change_of_user(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    if (await client.log_in())[0] == 0x00:
        client.send(change_user("other"))
        await finish_change(client, "wrong")
    client.abort()


async def as_the_administrator(proxy: ProxyFixture) -> None:
    client = await proxy.connect()
    await client.log_in(user="other", password="word")
    client.abort()


WAYS: tuple[Way, ...] = (
    before_the_greeting, after_the_greeting, amid_the_response, amid_the_password, with_garbage,
    amid_tls, with_a_wrong_password, with_an_unknown_schema, with_a_wrong_setting, without_a_word,
    by_quit, amid_a_statement, by_kill, as_another_user, in_a_change_of_user,
    in_a_refused_change_of_user, as_the_administrator,
)  # fmt: skip

LIMITS = {
    "none": {},
    "all": {"max_connections": 2},
    "trial": {"max_connections": 2, "admins": ("other",)},
    "user": {"max_user_connections": 1},
    "address": {"max_client_connections": 2, "admins": ("other",)},
    "rate": {"max_login_rate": 3, "admins": ("other",)},
    "own": {"user_limits": {"app": 1, "other": 1}},
}


async def take(proxy: ProxyFixture, way: Way) -> None:
    """A client may be refused at any time, in the greeting's place, too."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ProtocolError):
        await way(proxy)


async def nobody_left(proxy: ProxyFixture) -> None:
    limits = proxy.shared.client_limits
    await eventually(lambda: not limits.counts and not limits.on_trial)
    assert not proxy.shared.sessions


@pytest.mark.parametrize("limit", LIMITS)
async def test_no_place_is_lost(limit: str) -> None:
    async with proxy_fixture(**LIMITS[limit]) as proxy:
        for way in WAYS:
            await take(proxy, way)
            await nobody_left(proxy)


@pytest.mark.parametrize("limit", LIMITS)
async def test_no_place_is_lost_where_many_leave_at_once(limit: str) -> None:
    ways = [way for way in WAYS for _ in range(2)]
    random.Random(4).shuffle(ways)
    async with proxy_fixture(**LIMITS[limit]) as proxy:
        for k in range(0, len(ways), 6):
            await asyncio.gather(*(take(proxy, way) for way in ways[k : k + 6]))
        await nobody_left(proxy)


async def test_no_place_is_lost_without_a_primary() -> None:
    async with before(unused_address(), max_user_connections=1) as proxy:
        for way in WAYS:
            await take(proxy, way)
            await nobody_left(proxy)


async def test_no_place_is_lost_where_a_login_takes_too_long() -> None:
    async with proxy_fixture(handshake_timeout=0.05, max_connections=2) as proxy:
        silent: list[Client] = []
        for _ in range(2):
            silent.append(await proxy.connect())
        for client in silent:
            await client.rest()
        await nobody_left(proxy)
