"""Clients that have left are forgotten at once: nothing of them waits for the garbage collector.

Every proxy fixture judges so when it ends (`tests.faults.garbage`); here are the ways to come and
go.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protocol.compression import CAPABILITY, Algorithm
from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import PREPARED
from proxy.drain import drain
from tests.faults import garbage
from tests.faults.client import MODERN, Client, change_user, finish_change, query
from tests.faults.compressed_client import CompressedClient
from tests.faults.peers import GREETING, OK, err, peer, says
from tests.faults.proxy_fixture import (
    ProxyFixture,
    before,
    eventually,
    proxy_fixture,
    statements_of,
)

Visit = Callable[[ProxyFixture], Awaitable[None]]


async def read_own_write(client: Client) -> None:
    assert (await client.query("REPLACE INTO t VALUES (1)")).ok
    assert (await client.query("SELECT id FROM t")).value == b"1"


async def session(proxy: ProxyFixture, **options: Any) -> Client:
    """One that the fixture does not keep."""
    client = await Client.connect(proxy.port)
    assert (await client.log_in(**options))[0] == 0x00
    return client


# Sessions.


async def leaves(proxy: ProxyFixture, *, tls: bool = False) -> None:
    async with await session(proxy, tls=tls) as client:
        await read_own_write(client)


async def leaves_tls(proxy: ProxyFixture) -> None:
    await leaves(proxy, tls=True)


async def says_goodbye(proxy: ProxyFixture, *, tls: bool = False) -> None:
    async with await session(proxy, tls=tls) as client:
        await read_own_write(client)
        client.send(bytes((Command.COM_QUIT,)))
        assert await client.rest() == b""


async def says_goodbye_tls(proxy: ProxyFixture) -> None:
    await says_goodbye(proxy, tls=True)


async def compressed(
    proxy: ProxyFixture, algorithm: Algorithm = Algorithm.ZLIB, *, tls: bool = False
) -> None:
    async with await CompressedClient.connect(proxy.port) as client:
        capabilities = MODERN | CAPABILITY[algorithm]
        assert (await client.log_in(capabilities=capabilities, tls=tls, zstd_level=3))[0] == 0x00
        client.begin()
        await read_own_write(client)
        client.send(change_user("app"))
        assert (await finish_change(client, "secret", tls=tls))[0] == 0x00
        await read_own_write(client)


async def compressed_zstd(proxy: ProxyFixture) -> None:
    await compressed(proxy, Algorithm.ZSTD)


async def compressed_tls(proxy: ProxyFixture) -> None:
    await compressed(proxy, tls=True)


async def leaves_amid_a_wait(proxy: ProxyFixture) -> None:
    proxy.cluster.replicas[0].apply_delay = 30.0
    async with await session(proxy) as client:
        await client.query("REPLACE INTO t VALUES (1)")
        client.send(query("SELECT id FROM t"))
        await eventually(
            lambda: any("WAIT_FOR" in sql for _, sql in proxy.cluster.replicas[0].statements)
        )
    await eventually(lambda: not proxy.shared.sessions)
    proxy.cluster.replicas[0].apply_delay = 0.0


async def leaves_amid_a_packet(proxy: ProxyFixture) -> None:
    async with await session(proxy) as client:
        client.send_bytes(frame(query("SELECT 1" + " " * 3_000_000), 0)[:2_000_000])
        await client.writer.drain()


async def prepares_and_probes(proxy: ProxyFixture) -> None:
    async with await session(proxy) as client:
        await client.command(b"\x16SELECT id FROM t", PREPARED)
        await client.query("SET tidegate_consistency = 'STRONG'")
        await client.query("SELECT id FROM t")
        await client.query("START TRANSACTION READ ONLY")
        await client.query("SELECT id FROM t")


async def breaks_the_protocol(proxy: ProxyFixture) -> None:
    async with await session(proxy) as client:
        client.send(query("SELECT 1"), sequence_id=7)
        assert (await client.last_error()).code == 1156


async def changes_user(proxy: ProxyFixture, *, tls: bool = False) -> None:
    async with await session(proxy, tls=tls) as client:
        await read_own_write(client)
        client.send(change_user("other"))
        assert (await finish_change(client, "word", tls=tls))[0] == 0x00
        assert (await client.query("SELECT id FROM t")).value == b"1"


async def changes_user_tls(proxy: ProxyFixture) -> None:
    await changes_user(proxy, tls=True)


async def changes_user_in_vain(proxy: ProxyFixture) -> None:
    async with await session(proxy) as client:
        await read_own_write(client)
        client.send(change_user("other"))
        assert (await finish_change(client, "wrong"))[0] == 0xFF


async def leaves_amid_change_user(proxy: ProxyFixture) -> None:
    async with await session(proxy) as client:
        client.send(change_user("other"))
        await client.read_packet()


async def breaks_change_user(proxy: ProxyFixture) -> None:
    async with await session(proxy) as client:
        client.send(change_user("other"))
        await client.read_packet()
        client.send(b"garbage", sequence_id=9)
        assert (await client.last_error()).code == 1156


# Logins that do not become sessions.


async def refused(proxy: ProxyFixture, *, tls: bool = False) -> None:
    async with await Client.connect(proxy.port) as client:
        assert (await client.log_in(password="wrong", tls=tls))[0] == 0xFF


async def refused_tls(proxy: ProxyFixture) -> None:
    await refused(proxy, tls=True)


async def refused_for_its_attribute(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        assert (await client.log_in(attributes={"tidegate.consistency": "NONE"}))[0] == 0xFF


async def refused_for_its_compression(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        capabilities = MODERN | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
        assert (await client.log_in(capabilities=capabilities, zstd_level=99))[0] == 0xFF


async def connects(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port):
        pass


async def hears_the_greeting(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()


async def begins_tls(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()
        client.send(b"\x05\xae\xff\x01" + bytes(28), 1)  # an SSLRequest, and no ClientHello
        await client.writer.drain()


async def breaks_tls(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()
        client.send(b"\x05\xae\xff\x01" + bytes(28), 1)
        client.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        await client.rest()


async def tls_and_no_more(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()
        await client.start_tls()


async def breaks_the_login(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()
        client.send(b"garbage", 1)
        assert (await client.last_error()).code == 1043


async def half_a_response(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()
        client.send_bytes(b"\x50\x00\x00\x01" + bytes(20))
        await client.writer.drain()


async def takes_too_long(proxy: ProxyFixture) -> None:
    async with await Client.connect(proxy.port) as client:
        await client.greet()
        assert (await client.last_error()).code == 1159


VISITS: tuple[Visit, ...] = (
    *(leaves, leaves_tls, says_goodbye, says_goodbye_tls),
    *(compressed, compressed_zstd, compressed_tls),
    *(leaves_amid_a_wait, leaves_amid_a_packet, prepares_and_probes, breaks_the_protocol),
    *(changes_user, changes_user_tls, changes_user_in_vain),
    *(leaves_amid_change_user, breaks_change_user),
    *(refused, refused_tls, refused_for_its_attribute, refused_for_its_compression),
    *(connects, hears_the_greeting, begins_tls, breaks_tls, tls_and_no_more),
    *(breaks_the_login, half_a_response, takes_too_long),
)


@pytest.mark.parametrize("visit", VISITS, ids=lambda visit: visit.__name__)
async def test_nothing_stays_of_a_client_that(visit: Visit) -> None:
    timeout = 0.5 if visit is takes_too_long else 10.0
    async with proxy_fixture(wait_budget=60.0, handshake_timeout=timeout) as proxy:
        async with await session(proxy) as client:
            await client.query("CREATE TABLE t (id INT PRIMARY KEY)")
        for _ in range(2):
            await visit(proxy)
        await nothing_stays(proxy)


async def nothing_stays(proxy: ProxyFixture) -> None:
    await eventually(lambda: not proxy.shared.sessions and not proxy.shared.sessions.accepting)
    proxy.shared.pool.close()  # what waits for the next client is no garbage
    await eventually(lambda: not garbage.living())


ROOM = {"max_connections": 1}
TLS = {"client_tls": "required"}


@pytest.mark.parametrize(("limits", "code"), [(ROOM, 1040), (TLS, 3159)])
async def test_nothing_stays_of_a_client_that_may_not_come(
    limits: dict[str, Any], code: int
) -> None:
    async with proxy_fixture(**limits) as proxy:
        async with await session(proxy, tls=True):
            if limits is ROOM:
                async with await Client.connect(proxy.port) as second:
                    assert (await second.last_error()).code == code
        async with await Client.connect(proxy.port) as plain:
            if limits is TLS:
                assert ErrPacket.parse(await plain.log_in()).code == code
        await nothing_stays(proxy)


BROKEN = {
    "refuses to be greeted": [err(1040, "Too many connections", 0)],
    "closes after the response": [GREETING, None],
    "answers out of order": [GREETING, frame(OK, 3)],
    "closes instead of saying who it is": [GREETING, frame(OK, 2), None],
    "lets an expired password in and leaves": [GREETING, frame(OK, 2), err(1820), None],
    "lets an expired password in and waits": [GREETING, frame(OK, 2), err(1820), b""],
}


@pytest.mark.parametrize("script", BROKEN)
async def test_nothing_stays_of_a_client_whose_primary(script: str) -> None:
    broken = says(*BROKEN[script], then_waits=script.endswith("waits"))
    async with peer(broken) as primary, before(primary.address) as proxy:
        for _ in range(2):
            async with await Client.connect(proxy.port) as client:
                if (await client.log_in())[0] == 0x00 and not script.endswith("waits"):
                    client.send(query("SELECT 1"))
                    await client.rest()
        # What errors tell of lives as long as the log's records, which pytest keeps.
        await eventually(lambda: not proxy.shared.sessions.accepting)


@pytest.mark.parametrize("role", ["replica", "primary"])
async def test_nothing_stays_of_a_client_that_loses_its(role: str) -> None:
    async with proxy_fixture(without_primary="refuse") as proxy:
        server = proxy.cluster.primary if role == "primary" else proxy.cluster.replicas[0]
        async with await session(proxy) as client:
            assert (await client.query("SELECT 1")).value == b"1"
            await server.stop()
            if role == "primary":
                await client.rest()
            else:
                assert (await client.query("SELECT 1")).value == b"1"
        await eventually(lambda: not proxy.shared.sessions)  # as above


async def test_nothing_stays_of_clients_that_a_stop_ends() -> None:
    async with proxy_fixture() as proxy:
        async with await session(proxy) as idle, await session(proxy) as busy:
            busy.send(query("SELECT SLEEP(0.2)"))
            await eventually(
                lambda: any("SLEEP" in sql for sql in statements_of(proxy.cluster.primary))
            )
            await drain(proxy.shared)
            assert (await idle.last_error()).code == 1053
        await nothing_stays(proxy)
