"""What follows a login goes out in one write: each answer is judged, whatever the others are."""

import asyncio

import pytest

from protocol.packet import frame
from protocol.response import ErrPacket
from tests.faults.peers import GREETING, OK, Script, err, identity, peer, read_packet
from tests.faults.proxy_fixture import ProxyFixture, before, eventually

EXPIRED = err(1820, "You must reset your password")
MADE = frame(OK, 1)
"""The settings' answer."""


def answers(*later: bytes | None, then: bytes = b"") -> Script:
    """A primary whose first login tells how long packets may be, and takes its settings.

    In later ones it says nothing to what follows the login before it has two packets of it. Then it
    says each of `later`, closes at None, and answers further packets with `then`.
    """
    settled = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal settled
        writer.write(GREETING)
        await read_packet(reader)
        writer.write(frame(OK, 2))
        await read_packet(reader)
        if settled == 0:
            writer.write(identity())
            await read_packet(reader)
            writer.write(MADE)
        else:
            await read_packet(reader)
            for part in later:
                if part is None:
                    return
                writer.write(part)
                await asyncio.sleep(0)
        settled += 1
        while await read_packet(reader):
            writer.write(then)

    return script


async def after_one_login(proxy: ProxyFixture) -> ErrPacket | None:
    """The error of the second client's login; None if it got in."""
    await proxy.session()
    client = await proxy.connect()
    end = await client.log_in()
    return ErrPacket.parse(end) if end[0] == 0xFF else None


async def test_the_settings_do_not_wait_for_the_identity() -> None:
    async with peer(answers(identity(), MADE)) as primary, before(primary.address) as proxy:
        assert await after_one_login(proxy) is None


CUT = {
    "all at once": [identity() + MADE],
    "in the midst of the first": [identity()[:300], identity()[300:] + MADE],
    "in the midst of the second": [identity() + MADE[:5], MADE[5:]],
}


@pytest.mark.parametrize("cut", CUT)
async def test_answers_in_any_portions(cut: str) -> None:
    async with peer(answers(*CUT[cut])) as primary, before(primary.address) as proxy:
        assert await after_one_login(proxy) is None


DIES: dict[str, tuple[list[bytes | None], int]] = {
    "before the first": ([None], 2003),
    "between them": ([identity(), None], 2003),
    "within the second": ([identity(), MADE[:6], None], 2003),
    "saying so first": ([err(1053, "Server shutdown in progress"), None], 1053),
    "saying so between them": ([identity(), err(1053, "Server shutdown in progress"), None], 1053),
    "killed in the first": ([err(1317, "Query execution was interrupted"), MADE], 1317),
    "after a sandbox's first no": ([EXPIRED, None], 2003),
    "with a sandbox's first no, and another": ([EXPIRED, err(1053, "Server shutdown")], 1053),
}


@pytest.mark.parametrize("how", DIES)
async def test_a_primary_that_dies_between_its_answers(how: str) -> None:
    parts, code = DIES[how]
    async with peer(answers(*parts)) as primary, before(primary.address) as proxy:
        error = await after_one_login(proxy)
        assert error is not None
        assert error.code == code
        await eventually(lambda: primary.connected == 1)


async def test_a_client_leaves_between_the_answers() -> None:
    async with peer(answers(identity())) as primary, before(primary.address) as proxy:
        await proxy.session()
        client = await proxy.connect()
        login = asyncio.ensure_future(client.log_in())
        await eventually(lambda: primary.connected == 2)
        login.cancel()
        client.abort()
        await eventually(lambda: primary.connected == 1)


async def test_a_sandbox_s_answers_are_not_taken_for_later_ones() -> None:
    refusal = err(1820, "what the client was told")
    async with (
        peer(answers(EXPIRED + EXPIRED, then=refusal)) as expired,
        before(expired.address) as proxy,
    ):
        assert await after_one_login(proxy) is None
        client = await proxy.session()
        assert (await client.query("SELECT 1")).error.message == "what the client was told"


async def test_the_first_login_of_all_asks_how_long_packets_may_be() -> None:
    """The settings are longer than the least that max_allowed_packet can be."""
    order: list[bytes] = []

    async def primary(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        await read_packet(reader)
        writer.write(frame(OK, 2))
        for part in (identity(), MADE):
            order.append(await read_packet(reader))
            await asyncio.sleep(0.05)
            assert not reader._buffer  # type: ignore[attr-defined] nothing was sent ahead
            writer.write(part)
        while await reader.read(1 << 16):
            pass

    async with peer(primary) as first, before(first.address) as proxy:
        await proxy.session()
        assert b"@@server_uuid" in order[0]
        assert b"session_track" in order[1]


async def test_behind_a_broken_login_the_next_one_asks_first() -> None:
    """The server may have been sent more than it takes, and said so too late to be heard."""
    async with peer(answers(None)) as primary, before(primary.address) as proxy:
        error = await after_one_login(proxy)
        assert error is not None
        assert error.code == 2003
        assert proxy.shared.topology.primary.max_packet == 0
