"""Clients behind a load balancer that tells whose connections it passes on."""

from ipaddress import ip_network

import pytest

from protocol.response import ErrPacket
from tests.faults.client import Client
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture, statements_of
from tests.protocol.test_proxy_header import HEADERS, binary

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("127.0.0.1/32"))
TEXT = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 3306\r\n"


async def connect(proxy: ProxyFixture, header: bytes, portion: int = 1 << 20) -> Client:
    """A balancer sends its header at once, before it is greeted."""
    client = await proxy.connect()
    for at in range(0, len(header), portion):
        client.send_bytes(header[at : at + portion])
        await client.writer.drain()
    return client


def peers(proxy: ProxyFixture) -> list[str]:
    return [session.peer for session in proxy.shared.sessions]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(("header", "source"), HEADERS)
async def test_the_address_is_the_clients(
    header: bytes, source: tuple[str, int] | None, tls: bool
) -> None:
    async with proxy_fixture(proxy_protocol_networks=TRUSTED) as proxy:
        client = await connect(proxy, header, 7)
        assert (await client.log_in(tls=tls))[0] == 0x00
        assert (await client.query("SELECT 1")).value == b"1"
        (peer,) = peers(proxy)
        if source is None:
            assert peer.startswith("127.0.0.1:")
        else:
            host, port = source
            assert peer == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


async def test_a_connection_without_one_is_taken_as_it_is() -> None:
    async with proxy_fixture(proxy_protocol_networks=TRUSTED) as proxy:
        await proxy.session()
        assert peers(proxy)[0].startswith("127.0.0.1:")


@pytest.mark.parametrize("header", [TEXT, binary(0x20, 0, b"")])
@pytest.mark.parametrize("networks", [(), (ip_network("10.0.0.0/8"),)])
async def test_nobody_else_may_say_who_it_is(
    header: bytes, networks: tuple[object, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_fixture(proxy_protocol_networks=networks) as proxy:
        client = await connect(proxy, header)
        error = ErrPacket.parse(await client.log_in())
        assert error.code == 1156
        assert "proxy-protocol-networks" in error.message
        assert not proxy.shared.sessions


async def test_what_is_no_header_is_refused() -> None:
    async with proxy_fixture(proxy_protocol_networks=TRUSTED) as proxy:
        client = await connect(proxy, b"PROXY TCP4 nowhere 10.0.0.1 1 2\r\n")
        error = ErrPacket.parse(await client.log_in())
        assert (error.code, error.sqlstate) == (1043, "08S01")
        assert "wrong address or port" in error.message


async def test_a_check_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture(proxy_protocol_networks=TRUSTED) as proxy:
        for header in (b"", binary(0x20, 0, b""), b"PROXY UNKNOWN\r\n"):
            check = await connect(proxy, header)
            await check.greet()
            check.writer.close()
        await eventually(lambda: proxy.count("tidegate_clients_refused_total", "closed") == 3)
        assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_the_log_and_the_servers_know_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture(proxy_protocol_networks=TRUSTED) as proxy:
        client = await connect(proxy, TEXT)
        assert (await client.log_in(password="wrong"))[0] == 0xFF
        assert "client 192.0.2.7:56324 as 'app' was refused" in caplog.text
        client = await connect(proxy, TEXT)
        assert (await client.log_in())[0] == 0x00
        (session,) = proxy.shared.sessions
        own = session._servers.login.own_attributes  # type: ignore[attr-defined] # not a Member's
        assert own["tidegate_client"] == "192.0.2.7:56324"
        assert not [sql for sql in statements_of(proxy.cluster.primary) if "PROXY" in sql]
