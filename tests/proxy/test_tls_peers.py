"""TLS with OpenSSL's own programs: what a peer may do in the middle of a connection."""

import asyncio
import shutil
import ssl
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from proxy.address import Address
from proxy.config import Config
from proxy.tls.materials import build, make_key_ring, self_signed
from proxy.tls.transport import TlsTransport

OPENSSL = shutil.which("openssl") or ""
pytestmark = pytest.mark.skipif(not OPENSSL, reason="needs the program openssl")


class Upper:
    """Answers with what it gets in capital letters."""

    def __init__(self) -> None:
        self.transport: TlsTransport | None = None
        self.data = b""
        self.paused = False
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.transport is not None:
            self.transport.write(data.upper())

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(error)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False


class Start(asyncio.Protocol):
    """Begins TLS with the connection."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.context = context
        self.server_side = server_side
        self.upper = Upper()
        self.began: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.upper.transport = TlsTransport(
            cast("asyncio.Transport", transport),
            self.upper,
            self.context,
            server_side=self.server_side,
            hostname=None if self.server_side else "localhost",
        )
        self.began = asyncio.ensure_future(self.upper.transport.do_handshake())

    def data_received(self, data: bytes) -> None:
        """What comes before `do_handshake` has replaced this."""
        assert self.upper.transport is not None
        self.upper.transport.data_received(data)


async def read_until(process: Process, text: bytes) -> bytes:
    """What the process prints, up to this text."""
    assert process.stdout is not None
    printed = b""
    while text not in printed:
        more = await process.stdout.read(1 << 16)
        assert more, printed.decode(errors="replace")
        printed += more
    return printed


async def say(process: Process, text: bytes) -> None:
    """Write a line to the process, which looks at the first letter of what it reads at once."""
    assert process.stdin is not None
    process.stdin.write(text + b"\n")
    await process.stdin.drain()


def run(story: Callable[[], object]) -> None:
    async def main() -> None:
        outcome = story()
        assert asyncio.iscoroutine(outcome)
        await asyncio.wait_for(outcome, 60)

    uvloop.run(main())


def server_context() -> ssl.SSLContext:
    config = Config(Address("127.0.0.1", 1))
    context = build(config, make_key_ring(config)).client_ssl
    assert context is not None
    return context


@pytest.mark.parametrize(
    ("version", "commands"),
    [("-tls1_3", [b"k", b"K", b"K", b"k"]), ("-tls1_2", [])],
)
def test_a_client_may_change_its_keys(version: str, commands: list[bytes]) -> None:
    """K and k are s_client's: a new key, with and without the wish that the peer change its own."""

    async def story() -> None:
        starts: list[Start] = []

        def accept() -> Start:
            starts.append(Start(server_context(), server_side=True))
            return starts[-1]

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = await asyncio.create_subprocess_exec(
            *(OPENSSL, "s_client", "-connect", f"127.0.0.1:{port}", version, "-servername", "db"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
        )
        await read_until(client, b"Verify return code")
        await say(client, b"begin")
        await read_until(client, b"BEGIN")
        for number, command in enumerate(commands):
            await say(client, command)
            await read_until(client, b"KEYUPDATE")
            await say(client, b"line %d" % number)
            await read_until(client, b"LINE %d" % number)
        await say(client, b"x" * 200_000)
        await read_until(client, b"X" * 1000 + b"\n")
        await say(client, b"Q")
        assert await starts[0].upper.ended is None
        await client.wait()
        server.close()

    run(story)


@pytest.mark.parametrize(
    ("version", "commands"),
    [("-tls1_3", [b"k", b"K", b"K"]), ("-tls1_2", [b"r", b"R", b"r"])],
)
def test_a_server_may_change_its_keys_and_renegotiate(
    version: str, commands: list[bytes], tmp_path: Path
) -> None:
    """K and k are s_server's for new keys; r and R renegotiate, and R asks for a certificate."""

    async def story() -> None:
        certificate, key = self_signed("db", "127.0.0.1")
        (tmp_path / "pair.pem").write_bytes(certificate + key)
        server = await asyncio.create_subprocess_exec(
            *(OPENSSL, "s_server", "-accept", "127.0.0.1:0", "-cert", str(tmp_path / "pair.pem")),
            version,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
        )
        printed = await read_until(server, b"ACCEPT 127.0.0.1:")
        port = int(printed.rpartition(b":")[2].split()[0])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=certificate.decode())
        start = Start(context, server_side=False)
        await asyncio.get_running_loop().create_connection(lambda: start, "127.0.0.1", port)
        assert start.began is not None
        await start.began
        transport = start.upper.transport
        assert transport is not None
        start.upper.transport = None  # answers nothing
        for number, command in enumerate(commands):
            await say(server, command)
            # It sends a line once its wish is answered, and drops those that it reads with it.
            while b"line %d\n" % number not in start.upper.data:
                await say(server, b"line %d" % number)
                await asyncio.sleep(0.02)
            transport.write(b"<%d>" % number)
            await read_until(server, b"<%d>" % number)
        transport.write(b"y" * 3_000_000 + b"<end>")
        await read_until(server, b"y<end>")
        transport.close()
        await start.upper.ended
        server.terminate()
        await server.wait()

    run(story)
