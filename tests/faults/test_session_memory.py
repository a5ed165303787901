"""The ceiling of what one session makes the proxy keep, by everything that a client can repeat."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from protocol.command import ComStmtExecute
from protocol.constants import Capability, Command
from protocol.parameter import QueryAttribute
from protocol.response import ErrPacket
from proxy.client.connection import STREAM_ABOVE
from tests.faults.client import MODERN, Client, query
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import table_fixture
from tests.faults.test_prepared import number, prepare
from tests.faults.test_reload import change

ATTRIBUTES = MODERN | Capability.CLIENT_QUERY_ATTRIBUTES
CEILING = 1 << 18

Step = Callable[[Client, int], Awaitable[bytes]]
"""Sends one command of a series, by its number; gives the first packet of the answer, if any."""


def memory_of(proxy: ProxyFixture) -> Any:
    return next(iter(proxy.shared.sessions))._session_context.memory


async def first_packet(client: Client, payload: bytes, shape: int = 0) -> bytes:
    client.send(payload)
    packet = await client.read_packet()
    if packet[0] != 0xFF and shape:
        for _ in range(shape):
            await client.read_packet()
    return packet


async def prepared(client: Client, turn: int) -> bytes:
    """A statement without parameters and with one column: its definition, and an end."""
    return await first_packet(client, b"\x16" + f"SELECT {turn}".encode(), 1)


async def prepared_names(client: Client, turn: int) -> bytes:
    names = ",".join(f"{turn * 100 + index} AS n{turn}_{index}" for index in range(100))
    return await first_packet(client, f"\x16SELECT {names} FROM t".encode(), 100)


async def prepared_by_text(client: Client, turn: int) -> bytes:
    return await first_packet(client, query(f"PREPARE s{turn} FROM 'SELECT {turn}'"))


async def lock_names(client: Client, turn: int) -> bytes:
    return await first_packet(client, query(f"DO GET_LOCK('name{turn}', 0)"))


KINDS: dict[str, Step] = {
    "prepared": prepared,
    "names in prepared statements": prepared_names,
    "prepared by text": prepared_by_text,
    "names of locks": lock_names,
}


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_a_session_that_keeps_too_much_is_ended(kind: str) -> None:
    async with table_fixture(max_session_memory=CEILING, max_prepared_statements=1 << 20) as proxy:
        client, other = await proxy.session(), await proxy.session()
        memory = memory_of(proxy)
        most = 0
        for turn in count(1):
            answer = await KINDS[kind](client, turn)
            if answer[0] == 0xFF:
                break
            most = max(most, memory.used)
            assert turn < 10000, most
        error = ErrPacket.parse(answer)
        assert (error.code, error.sqlstate, client.sequence_id) == (4082, "HY000", 1)
        assert error.message.startswith(
            f"Connection closed. Connection memory limit {CEILING} bytes exceeded. Consumed "
        )
        assert await client.rest() == b""
        assert CEILING < most < CEILING * 1.1
        assert proxy.count("tidegate_clients_ended_total", "max_session_memory") == 1
        assert proxy.count("tidegate_errors_total", "proxy", "4082") == 1
        assert (await other.query("SELECT 1")).value == b"1"
        await eventually(lambda: len(proxy.shared.sessions) == 1)


def long_data(statement: int, content: bytes) -> bytes:
    head = bytes((Command.COM_STMT_SEND_LONG_DATA,)) + statement.to_bytes(4, "little")
    return head + b"\0\0" + content


@pytest.mark.parametrize("size", [1, 1000, STREAM_ABOVE - 100, 3 * STREAM_ABOVE])
async def test_long_data_is_not_kept_beyond_it(size: int) -> None:
    """In whatever pieces it comes; each may be small, and takes memory all the same."""
    async with proxy_fixture(max_session_memory=CEILING) as proxy:
        client = await proxy.session()
        memory = memory_of(proxy)
        statement = await prepare(client, "SELECT ?")
        ended = False
        for _ in range(2 + CEILING // (200 + size)):
            client.send(long_data(statement, b"x" * size))
            assert memory.used <= CEILING
            if ended := client.reader.at_eof():
                break
        assert not ended or proxy.count("tidegate_clients_ended_total", "max_session_memory")
        client.send(bytes((Command.COM_PING,)))
        error = await client.last_error()
        assert (error.code, client.sequence_id) == (4082, 1)
        assert memory.used <= CEILING


async def test_long_data_that_has_run_is_not_counted() -> None:
    async with proxy_fixture(max_session_memory=CEILING) as proxy:
        client = await proxy.session()
        statement = await prepare(client, "SELECT ?")
        before = memory_of(proxy).used
        for _ in range(4):
            client.send(long_data(statement, b"x" * (CEILING // 2)))
            client.send(bytes((Command.COM_STMT_RESET,)) + statement.to_bytes(4, "little"))
            assert (await client.answer()).ok
        assert memory_of(proxy).used == before
        client.send(long_data(statement, b"x" * (CEILING // 2)))
        client.send(bytes((Command.COM_STMT_CLOSE,)) + statement.to_bytes(4, "little"))
        assert (await client.ping()).ok
        assert memory_of(proxy).used == 0


async def test_long_data_of_many_statements_is_counted_as_it_goes() -> None:
    """Each ends its own way, and what the others keep is counted as before."""
    async with proxy_fixture(max_session_memory=1 << 24) as proxy:
        client = await proxy.session()
        memory = memory_of(proxy)
        statements = [await prepare(client, "SELECT ?") for _ in range(3)]
        prepared_only = memory.used
        size = 0
        for statement in statements:
            client.send(long_data(statement, b"x" * 1000))
            client.send(long_data(statement, b"x" * 1000))
            assert (await client.ping()).ok
            size = size or memory.used - prepared_only
        assert size > 2000
        assert memory.used == prepared_only + 3 * size
        reset, run, _ = statements
        client.send(bytes((Command.COM_STMT_RESET,)) + reset.to_bytes(4, "little"))
        assert (await client.answer()).ok
        assert memory.used == prepared_only + 2 * size
        client.send(ComStmtExecute.of(run, [number(1)], 8).serialise(True))
        await client.answer(text=False)
        assert memory.used < prepared_only + 2 * size
        assert (await client.command(bytes((Command.COM_RESET_CONNECTION,)))).ok
        assert memory.used == 0


async def test_names_of_attributes_are_counted_with_the_types() -> None:
    """A server is told them again, where it has not seen them."""
    async with proxy_fixture(max_session_memory=CEILING) as proxy:
        client = await proxy.session(capabilities=ATTRIBUTES)
        statement = await prepare(client, "SELECT ?")
        memory = memory_of(proxy)
        before = memory.used
        attributes = [
            replace(number(1), name=f"{index:0200}") if index else number(1) for index in range(50)
        ]
        for _ in range(2):
            await first_execution(client, statement, attributes)
        assert memory.used - before > 49 * 200


async def first_execution(client: Client, statement: int, values: list[QueryAttribute]) -> None:
    client.send(ComStmtExecute.of(statement, values, 8).serialise(True))
    await client.answer(text=False)


async def test_what_is_closed_or_reset_is_not_counted() -> None:
    async with proxy_fixture(max_session_memory=CEILING) as proxy:
        client = await proxy.session()
        memory = memory_of(proxy)
        for _ in range(3):
            numbers = [await prepare(client, f"SELECT {turn}") for turn in range(50)]
            for turn in range(50):
                await prepared_by_text(client, turn)
                await lock_names(client, turn)
            assert memory.used > 50 * 1000
            for statement in numbers:
                client.send(bytes((Command.COM_STMT_CLOSE,)) + statement.to_bytes(4, "little"))
            for turn in range(50):
                assert (await client.query(f"DEALLOCATE PREPARE s{turn}")).ok
            await client.query("DO RELEASE_ALL_LOCKS()")
            assert memory.used == 0
            await prepare(client, "SELECT 1")
            await prepared_by_text(client, 1)
            await lock_names(client, 1)
            assert (await client.command(bytes((Command.COM_RESET_CONNECTION,)))).ok
            assert memory.used == 0


async def test_the_ceiling_follows_the_configuration() -> None:
    async with proxy_fixture(max_session_memory=0) as proxy:
        client = await proxy.session()
        for turn in range(100):
            await prepared(client, turn)
        assert (await client.ping()).ok
        change(proxy, max_session_memory=1000)
        client.send(bytes((Command.COM_PING,)))
        assert (await client.last_error()).code == 4082
