"""Each name is looked up by a thread of its own, and connections go to one of its addresses."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from proxy.server.connect.greeting import connect
from proxy.server.connect.lookup import look_up
from routing.servers.topology import Role, Server

FIRST, SECOND, NOBODY = "127.0.0.1", "127.0.0.2", "127.0.0.3"


class Resolver:
    """Stands for the system's.

    Attributes:
        addresses: what every name leads to.
        asked: how many times it was asked.
        began: it was asked.
        free: it answers as long as this is set.
    """

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.asked = 0
        self.began, self.free = threading.Event(), threading.Event()
        self.free.set()

    def getaddrinfo(self, host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        self.asked += 1
        self.began.set()
        self.free.wait()
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 0)) for a in self.addresses]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    found = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", found.getaddrinfo)
    yield found
    found.free.set()


@asynccontextmanager
async def listening(*addresses: str) -> AsyncIterator[int]:
    """Somebody accepts connections at these addresses; gives their port."""

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    first = await asyncio.start_server(accept, addresses[0], 0)
    port: int = first.sockets[0].getsockname()[1]
    others = [await asyncio.start_server(accept, address, port) for address in addresses[1:]]
    try:
        yield port
    finally:
        for server in (first, *others):
            server.close()


async def test_who_asks_meanwhile_waits_for_the_same_answer(resolver: Resolver) -> None:
    server = Server("db:3306", Role.REPLICA)
    resolver.addresses = [FIRST, SECOND]
    resolver.free.clear()
    lookups = [asyncio.ensure_future(look_up(server)) for _ in range(5)]
    await asyncio.sleep(0)
    lookups.pop().cancel()
    resolver.free.set()
    assert set(await asyncio.gather(*lookups)) == {(FIRST, SECOND)}
    assert resolver.asked == 1
    await look_up(server)
    assert resolver.asked == 2


async def test_a_name_that_is_not_known(resolver: Resolver) -> None:
    with pytest.raises(socket.gaierror):
        await look_up(Server("db:3306", Role.REPLICA))
    with pytest.raises(socket.gaierror):
        await connect(Server("db:3306", Role.REPLICA))


async def test_a_resolver_that_hangs_holds_up_no_other_name(resolver: Resolver) -> None:
    resolver.free.clear()
    hanging = Server("db1:3306", Role.REPLICA)
    lookups = [asyncio.ensure_future(look_up(hanging)) for _ in range(2)]
    await asyncio.to_thread(resolver.began.wait)
    async with listening(FIRST) as port:
        channel = await connect(Server(f"{FIRST}:{port}", Role.REPLICA))
        channel.abort()
    resolver.addresses = [SECOND]
    resolver.free.set()
    assert await asyncio.gather(*lookups) == [(SECOND,), (SECOND,)]
    assert resolver.asked == 1


async def test_a_connection_goes_to_the_first_address_that_takes_it(resolver: Resolver) -> None:
    resolver.addresses = [NOBODY, SECOND, FIRST]
    async with listening(FIRST, SECOND) as port:
        server = Server(f"db:{port}", Role.REPLICA)
        for _ in range(3):
            (await connect(server)).abort()
            assert server.addresses.current == SECOND
        assert resolver.asked == 1
        server.addresses.add([FIRST, SECOND])
        (await connect(server)).abort()
        assert server.addresses.current == SECOND


async def test_another_address_is_used_where_the_current_one_is_dead(resolver: Resolver) -> None:
    resolver.addresses = [FIRST]
    async with listening(SECOND) as port:
        server = Server(f"db:{port}", Role.REPLICA)
        server.addresses.add([FIRST])
        server.addresses.use(FIRST, "")
        with pytest.raises(ConnectionRefusedError):
            await connect(server)
        server.addresses.add([SECOND])
        (await connect(server)).abort()
        assert server.addresses.current == SECOND
