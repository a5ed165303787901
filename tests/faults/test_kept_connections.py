"""Connections that are kept for the next login, which the server judges: nothing depends on them.

Logins that it is not asked about are `test_lent_logins`'s.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from protocol.authentication import CACHING_SHA2
from protocol.constants import Capability, Command
from protocol.handshake import AuthSwitchRequest
from protocol.packet import frame
from protocol.response import ErrPacket
from proxy.drain import drain
from proxy.monitor.primary_election import promote
from proxy.shared.client_profile import ALIKE
from tests.faults.client import MODERN, Client
from tests.faults.peers import GREETING, OK, Script, err, identity, peer, read_packet
from tests.faults.proxy_fixture import ProxyFixture, before, eventually
from tests.faults.proxy_fixture import proxy_fixture as lending_fixture

CHANGE_USER = bytes([Command.COM_CHANGE_USER])
KEPT = "tidegate_kept_connections"
TAKEN = "tidegate_kept_connections_taken_total"
DROPPED = "tidegate_kept_connections_dropped_total"
OPENED = "tidegate_server_connections_opened_total"


def keeping_fixture(**options: Any) -> AbstractAsyncContextManager[ProxyFixture]:
    return lending_fixture(login_age=0.0, **options)


def kept(proxy: ProxyFixture) -> float:
    return proxy.count(KEPT, proxy.shared.topology.primary.name)


def taken(proxy: ProxyFixture) -> float:
    return proxy.count(TAKEN, proxy.shared.topology.primary.name)


async def leave(proxy: ProxyFixture, client: Client) -> None:
    before_it = kept(proxy)
    client.send(bytes([Command.COM_QUIT]))
    assert await client.rest() == b""
    await eventually(lambda: kept(proxy) > before_it)


async def alike(proxy: ProxyFixture, times: int = ALIKE) -> None:
    """So many clients, one after the other."""
    for _ in range(times):
        await leave(proxy, await proxy.session())


async def test_the_next_client_is_greeted_with_the_connection_that_was_kept() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        opened = proxy.count(OPENED)
        client = await proxy.session()
        assert client.greeting is not None
        assert (await client.query("SELECT CONNECTION_ID()")).value == (
            b"%d" % client.greeting.thread_id
        )
        assert (proxy.count(OPENED), taken(proxy), kept(proxy)) == (opened, 1, ALIKE - 1)


async def test_what_is_kept_for_nobody_is_off() -> None:
    async with keeping_fixture(kept_connections=0) as proxy:
        client = await proxy.session()
        client.abort()
        await eventually(lambda: proxy.cluster.primary.connections == 0)


async def test_what_is_not_needed_closes() -> None:
    async with keeping_fixture(kept_connection_age=0.05) as proxy:
        await leave(proxy, await proxy.session())
        await eventually(lambda: proxy.cluster.primary.connections == 0)
        assert proxy.count(DROPPED, "age") == 1


async def test_no_more_are_kept_than_are_wanted() -> None:
    async with keeping_fixture(kept_connections=2) as proxy:
        clients = [await proxy.session() for _ in range(4)]
        for client in clients:
            client.abort()
        await eventually(lambda: proxy.count(DROPPED, "full") == 2)
        await eventually(lambda: proxy.cluster.primary.connections == 2)


async def test_a_server_that_ends_as_the_client_leaves() -> None:
    """Its end is heard by nobody: the session that had the connection is no more."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with keeping_fixture() as proxy:
        client = await proxy.session()
        (session,) = proxy.shared.sessions
        assert session._servers.primary is not None
        transport = session._servers.primary._transport
        assert transport is not None
        transport.close()  # as when the server's end has come, and is told of next
        session.client_lost()
        client.abort()
        await eventually(lambda: proxy.cluster.primary.connections == 0)
        assert kept(proxy) == 0
    assert unhandled == []


async def test_a_client_that_does_not_log_in_takes_none() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        client = await proxy.connect()
        greeting = await client.greet()
        client.abort()
        await eventually(lambda: not proxy.shared.sessions.accepting)
        again = await proxy.session()
        assert again.greeting is not None
        assert again.greeting.thread_id == greeting.thread_id


async def test_a_connection_that_is_not_clean_in_time_is_not_waited_for() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy, ALIKE - 1)
        last = await proxy.session()
        gate = proxy.cluster.primary.faults.hold_reply(bytes([Command.COM_RESET_CONNECTION]))
        await leave(proxy, last)  # as while a large transaction is rolled back
        client = await proxy.session()
        assert (await client.ping()).ok
        assert proxy.count(DROPPED, "unfit") == 1
        gate.open()


async def test_two_clients_never_have_one() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        clients = [await proxy.connect() for _ in range(3)]
        ids = [(await client.greet()).thread_id for client in clients]
        assert len(set(ids)) == 3


async def test_other_capabilities_have_another_connection() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        other = await proxy.session(capabilities=MODERN | Capability.CLIENT_FOUND_ROWS)
        assert (await other.ping()).ok
        assert taken(proxy) == 0
        assert proxy.count(DROPPED, "unfit") == 1  # its id was told to the wrong client


@pytest.mark.parametrize("how", ["drops", "says nothing", "talks nonsense", "shuts down"])
async def test_a_kept_connection_that_fails_is_not_missed(how: str) -> None:
    async with keeping_fixture(connect_timeout=0.2) as proxy:
        await alike(proxy)
        faults = proxy.cluster.primary.faults
        gate = None
        if how == "drops":
            faults.drop_connection_after(0, CHANGE_USER + b"app")
        elif how == "says nothing":
            gate = faults.hold_reply(CHANGE_USER + b"app", raw=b"")
        elif how == "talks nonsense":
            faults.raw_reply(frame(b"\x09nonsense", 1), CHANGE_USER + b"app")
        else:
            faults.raw_reply(err(1053, "Server shutdown in progress"), CHANGE_USER + b"app")
        opened = proxy.count(OPENED)
        client = await proxy.session()
        assert (await client.ping()).ok
        assert proxy.count(OPENED) == opened + 1
        if gate is not None:
            gate.open()


async def test_a_connection_that_the_server_closes_is_not_kept() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        await proxy.cluster.primary.restart()
        await eventually(lambda: kept(proxy) == 0)
        assert proxy.count(DROPPED, "lost") == ALIKE
        await proxy.session()


async def test_a_server_that_does_not_clean_up_is_left() -> None:
    async with keeping_fixture() as proxy:
        client = await proxy.session()
        reset = frame(bytes([Command.COM_RESET_CONNECTION]), 0)[4:]
        proxy.cluster.primary.faults.raw_reply(err(1105, "no"), reset)
        client.abort()
        await eventually(lambda: proxy.count(DROPPED, "refused") == 1)


async def test_the_word_of_the_server_on_the_account_is_the_last() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        proxy.cluster.primary.accounts["app"] = "changed"
        client = await proxy.connect()
        end = await client.log_in()
        assert ErrPacket.parse(end).code == 1045
        # The first attempt knew the password from before; behind the second the client was asked.
        proxy.cluster.primary.accounts["app"] = "secret"
        await proxy.session()


async def test_another_user_gets_the_connection_and_no_more() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        first = await proxy.session()
        await first.query("SET @x = 5")
        await first.query("CREATE TEMPORARY TABLE mine (id INT)")
        await leave(proxy, first)
        second = await proxy.session(user="other", password="word", database="second")
        assert taken(proxy) == 2
        assert first.greeting is not None
        assert second.greeting is not None
        assert second.greeting.thread_id == first.greeting.thread_id
        assert (await second.query("SELECT @x")).value is None
        assert (await second.query("SELECT DATABASE()")).value == b"second"
        assert (await second.query("SELECT * FROM test.mine")).error.code == 1146


async def test_what_is_under_way_is_not_kept() -> None:
    async with keeping_fixture() as proxy:
        gate = proxy.cluster.primary.faults.hold_reply(b"CREATE TABLE t")
        client = await proxy.session()
        client.send(b"\x03CREATE TABLE t (id INT)")
        await eventually(
            lambda: any("CREATE" in sql for _, sql in proxy.cluster.primary.statements)
        )
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        gate.open()
        assert kept(proxy) == 0


async def test_a_promotion_leaves_none_of_either_server() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        client = await proxy.session()
        await client.query("SELECT 1")
        await leave(proxy, client)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        assert proxy.count(KEPT) == 0
        await eventually(lambda: sum(server.connections for server in proxy.cluster.servers) == 0)


async def test_a_stop_closes_all() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        staying = await proxy.session()
        second = await proxy.session()
        await leave(proxy, second)
        await drain(proxy.shared)
        assert proxy.count(KEPT) == 0
        await staying.rest()
        await eventually(lambda: proxy.cluster.primary.connections == 0)


async def test_init_connect_needs_a_new_connection() -> None:
    async with keeping_fixture() as proxy:
        await alike(proxy)
        proxy.cluster.primary.set_variable("init_connect", "SET @begun = 1")
        opened = proxy.count(OPENED)
        client = await proxy.session()
        assert proxy.count(OPENED) == opened + 1
        client.abort()
        await eventually(lambda: proxy.cluster.primary.connections == 0)


def counted(limit: bytes) -> bytes:
    """What a server says of itself to an account that may have so many connections."""
    return identity().replace(
        b"\x01" + b"0" + b"\x00" + b"\x04NONE",
        b"\x01" + limit + b"\x00" + b"\x04NONE",
    )


def serves(*, most: int = 100, limit: bytes = b"0") -> Script:
    """A primary that has room for so many connections, and limits the account."""
    open_now = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        if open_now >= most:
            writer.write(err(1040, "Too many connections", 0))
            return
        open_now += 1
        try:
            writer.write(GREETING)
            await read_packet(reader)
            writer.write(frame(OK, 2))
            while packet := await read_packet(reader):
                if packet[0] == Command.COM_QUIT:
                    return
                if packet[0] == Command.COM_CHANGE_USER:
                    switch = AuthSwitchRequest(CACHING_SHA2, b"m" * 20)
                    writer.write(frame(switch.serialise(), 1))
                    await read_packet(reader)
                    writer.write(frame(OK, 3))
                elif b"SELECT @@server_uuid" in packet:
                    writer.write(counted(limit))
                else:
                    writer.write(frame(OK, 1))
        finally:
            open_now -= 1

    return script


async def test_an_account_that_is_counted_keeps_none() -> None:
    script = serves(limit=b"1")
    async with peer(script) as primary, before(primary.address, kept_connections=4) as proxy:
        client = await proxy.session()
        client.abort()
        await eventually(lambda: primary.connected == 0)


async def test_a_full_server_is_given_room() -> None:
    script = serves(most=2)
    async with peer(script) as primary, before(primary.address, kept_connections=4) as proxy:
        await leave(proxy, await proxy.session())
        await proxy.session(capabilities=MODERN | Capability.CLIENT_FOUND_ROWS)
        await proxy.session(capabilities=MODERN | Capability.CLIENT_LOCAL_FILES)
        assert proxy.count(DROPPED, "room") == 1
        late = await proxy.connect()
        end = await late.log_in()
        assert ErrPacket.parse(end).code == 1040
