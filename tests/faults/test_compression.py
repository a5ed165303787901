"""Clients that compress, well and badly; errors are those of the protocol, and counted."""

import asyncio
import tracemalloc
import zlib

import pytest
import zstandard

from protocol.compression import CAPABILITY, Algorithm
from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response_stream import SIMPLE
from tests.faults.client import MODERN, change_user, finish_change, query
from tests.faults.compressed_client import CompressedClient, OddClient
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture

BOTH = (Algorithm.ZLIB, Algorithm.ZSTD)


async def session(
    running: ProxyFixture, algorithm: Algorithm = Algorithm.ZLIB, *, tls: bool = False
) -> CompressedClient:
    client = await CompressedClient.connect(running.port)
    # A level of 0 is refused, and the test client of logins sends no other.
    end = await client.log_in(capabilities=MODERN | CAPABILITY[algorithm], tls=tls, zstd_level=3)
    assert end[0] == 0x00, end
    client.begin()
    return client


def compressed(body: bytes, size: int = 0, sequence_id: int = 0) -> bytes:
    return (
        len(body).to_bytes(3, "little") + bytes((sequence_id,)) + size.to_bytes(3, "little") + body
    )


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("algorithm", BOTH)
async def test_statements(algorithm: Algorithm, tls: bool) -> None:
    async with proxy_fixture() as running, await session(running, algorithm, tls=tls) as client:
        for text in ("tide", "tide" * 1000):
            assert (await client.query(f"SELECT '{text}'")).value == text.encode()
        assert (await client.ping()).ok
        assert client.heard()[-1] == 1


async def test_commands_in_one_segment_are_answered_each_with_its_own_ids() -> None:
    async with proxy_fixture() as running, await session(running) as client:
        client.send_bytes(b"".join(frame(query(f"SELECT {n}"), 0) for n in range(20)))
        for n in range(20):
            assert (await client.answer()).value == b"%d" % n
            heard = client.heard()
            assert heard == list(range(1, len(heard) + 1))


async def test_a_command_in_single_bytes_over_several_compressed_packets() -> None:
    async with proxy_fixture() as running, await session(running) as client:
        command = frame(query("SELECT 'tide'"), 0)
        data = compressed(command[:2]) + compressed(b"", sequence_id=1)
        data += compressed(command[2:9], sequence_id=2) + compressed(command[9:], sequence_id=3)
        for n in range(len(data)):
            client.send_raw(data[n : n + 1])
            await asyncio.sleep(0)
        assert (await client.answer()).value == b"tide"
        assert client.heard()[0] == 4


async def test_ids_inside_of_compressed_packets_are_of_no_account() -> None:
    async with proxy_fixture() as running:
        async with await OddClient.connect(running.port) as client:
            end = await client.log_in(capabilities=MODERN | Capability.CLIENT_COMPRESS)
            assert end[0] == 0x00
            client.begin()
            for _ in range(2):
                assert (await client.query("SELECT 'tide'")).value == b"tide"
                assert (await client.query("CREATE TEMPORARY TABLE t (id INT)")).ok
                client.send(change_user("other"))
                assert (await finish_change(client, "word"))[0] == 0x00
            assert (await client.command(b"\x1f", SIMPLE)).ok
        assert running.count("tidegate_protocol_errors_total") == 0


@pytest.mark.parametrize("algorithm", BOTH)
async def test_change_user(algorithm: Algorithm) -> None:
    async with proxy_fixture() as running, await session(running, algorithm) as client:
        client.send(change_user("other"))
        assert (await finish_change(client, "word"))[0] == 0x00
        assert (await client.query("SELECT 'tide'")).value == b"tide"
        client.send(change_user("other"))
        assert (await finish_change(client, "wrong"))[0] == 0xFF
        assert await client.rest() == b""


COMMAND = frame(query("SELECT 'a long tide of words that are the same, the same, the same'"), 0)
BOMB = zlib.compress(frame(query("SELECT '" + "tide" * (17 << 18)), 0))
BROKEN = {
    "a wrong id": (compressed(COMMAND, sequence_id=3), 1156),
    "garbage": (compressed(b"garbage", len(COMMAND)), 1157),
    "claims more": (compressed(zlib.compress(COMMAND), len(COMMAND) + 1), 1157),
    "claims less": (compressed(zlib.compress(COMMAND), len(COMMAND) - 1), 1157),
    "a bomb": (compressed(BOMB, 0xFFFFFF), 1157),
    "a bomb that claims little": (compressed(BOMB, 5), 1157),
    "a wrong id within": (compressed(COMMAND[:9]) + compressed(COMMAND[9:], sequence_id=2), 1156),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_what_cannot_be_read_is_an_error_and_counted(case: str) -> None:
    data, code = BROKEN[case]
    async with proxy_fixture() as running, await session(running) as client:
        assert (await client.query("SELECT 1")).value == b"1"
        client.send_raw(data + compressed(COMMAND))
        client.heard()
        assert (await client.read_error()).code == code
        assert code == 1156 or client.heard() == [1]
        assert await client.rest() == b""
        assert running.count("tidegate_protocol_errors_total", "client") == 1


@pytest.mark.parametrize("case", ["a wrong id", "garbage"])
async def test_what_cannot_be_read_amid_change_user(case: str) -> None:
    data, code = BROKEN[case]
    async with proxy_fixture() as running, await session(running) as client:
        client.send(change_user("other"))
        assert (await client.read_packet())[0] == 0xFE
        client.send_raw(data)
        assert (await client.read_error()).code == code
        assert await client.rest() == b""
        assert running.count("tidegate_protocol_errors_total", "client") == 1


LONG = frame(query("SELECT '" + "tide" * (1 << 20) + "'"), 0)
LONG_BODY = {
    Algorithm.ZLIB: zlib.compress(LONG),
    Algorithm.ZSTD: zstandard.ZstdCompressor().compress(LONG),
}


@pytest.mark.parametrize("algorithm", BOTH)
async def test_2_kb_cost_little_memory_in_a_session(algorithm: Algorithm) -> None:
    body = LONG_BODY[algorithm]
    assert len(body) < 20_000
    async with (
        proxy_fixture(max_allowed_packet=1 << 20) as running,
        await session(running, algorithm) as client,
    ):
        tracemalloc.start()
        client.send_raw(compressed(body, len(LONG)))
        error = await client.read_error()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert error.code == 1153
        assert peak < 2 << 20


@pytest.mark.parametrize("algorithm", BOTH)
async def test_who_is_logging_in_may_claim_no_more_than_a_login_needs(algorithm: Algorithm) -> None:
    body = LONG_BODY[algorithm]
    async with proxy_fixture() as running, await session(running, algorithm) as client:
        client.send(change_user("other"))
        assert (await client.read_packet())[0] == 0xFE
        tracemalloc.start()
        client.send_raw(compressed(body, len(LONG), sequence_id=2))
        error = await client.read_error()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert error.code == 1153
        assert peak < 1 << 20
        assert await client.rest() == b""
        assert running.count("tidegate_protocol_errors_total", "client") == 1


async def test_who_has_not_logged_in_cannot_compress() -> None:
    body = LONG_BODY[Algorithm.ZLIB]
    async with proxy_fixture() as running:
        client = await CompressedClient.connect(running.port)
        await client.greet()
        tracemalloc.start()
        client.send_raw(compressed(body, len(LONG), sequence_id=1))
        error = await client.read_error()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert error.code == 1043
        assert peak < 1 << 20


async def test_millions_of_empty_commands_in_16_kb_are_refused_one_by_one() -> None:
    async with proxy_fixture() as running, await session(running) as client:
        client.send_raw(compressed(zlib.compress(bytes(0xFFFFFF)), 0xFFFFFF))
        for _ in range(1000):
            assert (await client.read_error()).code == 1047
        async with await session(running) as other:
            await other.query("SELECT 1")  # nobody waits until all are refused


async def test_a_client_that_leaves_with_its_result_half_read() -> None:
    async with proxy_fixture() as running, await session(running) as client:
        await client.query("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        client.send(bytes((Command.COM_QUERY,)) + b"SELECT REPEAT('x', 1000000)")
        client.abort()
        await eventually(lambda: not running.shared.sessions)


async def test_who_may_not_choose_is_told_what_a_server_says() -> None:
    async with proxy_fixture(client_compression=(Algorithm.ZSTD,)) as running:
        for capabilities, level, code in (
            (MODERN, 0, 3922),
            (MODERN | Capability.CLIENT_COMPRESS, 0, 3922),
            (MODERN | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM, 0, 3923),
            (MODERN | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM, 23, 3923),
        ):
            client = await running.connect()
            await client.greet()
            assert client.greeting is not None
            assert not client.greeting.capabilities & Capability.CLIENT_COMPRESS
            client = await running.connect()
            end = await client.log_in(capabilities=capabilities, zstd_level=level)
            assert int.from_bytes(end[1:3], "little") == code
        assert running.count("tidegate_clients_refused_total", "compression") == 4
