"""Clients that are turned away are in the log: who, why, not too often, and in one line each."""

import asyncio
import logging
import re
import resource
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from protocol.constants import Capability
from proxy import acceptor, log
from proxy import drain as drain_module
from proxy.address import Address
from proxy.drain import drain
from proxy.shared import refusals
from tests.faults.client import MODERN, Client, change_user, finish_change, query
from tests.faults.peers import unused_address
from tests.faults.proxy_fixture import (
    ProxyFixture,
    before,
    eventually,
    proxy_fixture,
    statements_of,
)

SECRET = "never-to-be-seen"


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """What stands in the log as it is printed, without DEBUG."""
    form = log.Formatter(None, "%(levelname)s %(message)s")
    return [
        form.format(record)
        for record in caplog.records
        if record.name == name and record.levelname != "DEBUG"
    ]


def refused(caplog: pytest.LogCaptureFixture) -> list[str]:
    return lines(caplog, refusals.__name__)


def address(client: Client) -> str:
    host, port = client.writer.get_extra_info("sockname")
    return f"{host}:{port}"


# Each cause, with the client's address.


async def wrong_password(proxy: ProxyFixture, client: Client) -> None:
    await client.log_in(password=SECRET)


async def no_tls(proxy: ProxyFixture, client: Client) -> None:
    await client.log_in()


async def bad_attribute(proxy: ProxyFixture, client: Client) -> None:
    await client.log_in(attributes={"tidegate.consistency": "NONE"})


async def bad_compression(proxy: ProxyFixture, client: Client) -> None:
    capabilities = MODERN | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
    await client.log_in(capabilities=capabilities, zstd_level=99)


async def bad_handshake(proxy: ProxyFixture, client: Client) -> None:
    await client.greet()
    client.send(b"garbage", 1)


async def silent(proxy: ProxyFixture, client: Client) -> None:
    await client.greet()


async def too_many(proxy: ProxyFixture, client: Client) -> None:
    pass


CASES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "login": (wrong_password, {}, "Access denied for user 'app'"),
    "no_tls": (no_tls, {"client_tls": "required"}, "insecure transport"),
    "attribute": (bad_attribute, {}, "want one of BEST_EFFORT"),
    "compression": (bad_compression, {}, "zstd compression level"),
    "protocol": (bad_handshake, {}, "Bad handshake"),
    "timeout": (silent, {"handshake_timeout": 0.3}, "handshake-timeout"),
    "max_connections": (too_many, {"max_connections": 0}, "max-connections is 0"),
}
UNNAMED = ("protocol", "timeout", "max_connections")
"""Who is refused so has not said who it is."""


@pytest.mark.parametrize("cause", CASES)
async def test_who_is_refused_and_why(cause: str, caplog: pytest.LogCaptureFixture) -> None:
    visit, options, why = CASES[cause]
    async with proxy_fixture(**options) as proxy:
        client = await proxy.connect()
        await visit(proxy, client)
        await client.rest()
        (line,) = refused(caplog)
        user = "" if cause in UNNAMED else " as 'app'"
        assert line.startswith(f"WARNING client {address(client)}{user} was refused ({cause}): ")
        assert why in line
        assert proxy.count("tidegate_clients_refused_total", cause) == 1
    assert SECRET not in caplog.text


async def test_a_primary_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    primary = unused_address()
    async with before(primary) as proxy:
        client = await proxy.connect()
        await client.log_in()
        (line,) = refused(caplog)
        assert f"(primary_unreachable): the primary {primary} cannot be reached" in line


async def test_a_change_of_user(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        client.send(change_user("other"))
        assert (await finish_change(client, SECRET))[0] == 0xFF
        broken = await proxy.session()
        broken.send(change_user("other"))
        await broken.read_packet()
        broken.send(b"garbage", sequence_id=9)
        await broken.rest()
        first, second = refused(caplog)
        assert first.startswith(
            f"WARNING client {address(client)} as 'other' was refused (login): "
        )
        assert second.startswith(f"WARNING client {address(broken)} as 'other' broke ")
    assert SECRET not in caplog.text


async def test_who_leaves_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture() as proxy:
        (await proxy.connect()).abort()
        await eventually(lambda: proxy.count("tidegate_clients_refused_total", "closed") == 1)
        assert refused(caplog) == []


# What clients write themselves.


async def test_a_name_cannot_write_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture() as proxy:
        name = "x\nERROR all is lost\r\x1b[2J\u2028" + "y" * 5000
        await (await proxy.connect()).log_in(user=name)
        (line,) = refused(caplog)
        assert line.isprintable()
        assert r"x\nERROR all is lost\r\x1b[2J\u2028" in line
        assert len(line) < 500


def test_what_is_printable_stays() -> None:
    form = log.Formatter(None, "%(message)s")
    for text in ("Grüße 潮", "a'b\\n", ""):
        assert form.format(record(text)) == text
    assert form.format(record("a\ud800\x00\x7f")) == r"a\ud800\x00\x7f"


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "", 0, "%s", (text,), None)


# Many at once.


async def test_a_flood_of_refusals_is_counted_and_not_told_one_by_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy_fixture(max_connections=0) as proxy:
        now = proxy.shared.now()
        monkeypatch.setattr(proxy.shared.refusals, "_now", lambda: now)
        for _ in range(50):
            await (await proxy.connect()).rest()
        assert len(refused(caplog)) == 10
        assert proxy.count("tidegate_clients_refused_total", "max_connections") == 50
        now += 0.15  # one more, and no rounding of a large clock in the way
        await (await proxy.connect()).rest()
        assert refused(caplog)[10] == (
            "WARNING 40 more clients were refused, and not logged one by one"
        )
        assert "was refused" in refused(caplog)[11]
        await (await proxy.connect()).rest()
        await drain(proxy.shared)
        assert refused(caplog)[12:] == [
            "WARNING 1 more clients were refused, and not logged one by one"
        ]


# Too many open files.


async def test_the_listener_survives_that_no_more_files_can_be_opened(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_REST_S", 0.05)
    rests: list[OSError] = []
    rest = acceptor.Acceptor._rest

    def counted(self: acceptor.Acceptor, listening: socket.socket, error: OSError) -> None:
        rests.append(error)
        rest(self, listening, error)

    monkeypatch.setattr(acceptor.Acceptor, "_rest", counted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with proxy_fixture() as proxy:
        served = await proxy.session()
        clients = [socket.socket() for _ in range(40)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # all of these are open
            for client in clients:
                client.setblocking(False)
                await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", proxy.port))
            await eventually(lambda: len(rests) >= 3)
            assert (await served.query("DO 1")).ok
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for client in clients:
                client.close()
        assert (await (await proxy.session()).query("SELECT 1")).value == b"1"
        lacking, again = lines(caplog, acceptor.__name__)
        assert lacking.startswith("ERROR no client can be accepted at 127.0.0.1:")
        assert ": this process has no descriptor left: it may have 3 files" in lacking
        assert again.startswith("INFO clients are accepted at 127.0.0.1:")


START = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from proxy.cli import main
sys.exit(main(sys.argv[1:]))
"""


async def test_a_process_that_may_open_few_files(tmp_path: Path) -> None:
    """More clients than it may have files, and when they are gone, it serves the next.

    Meanwhile its metrics port answers, for the first time in its life, and it blames no server.
    """
    metrics = unused_address()
    async with proxy_fixture() as proxy:
        host, port = "127.0.0.1", proxy.cluster.primary.port
        errors = tmp_path / "stderr"
        with errors.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", START, "run", "--listen", f"{host}:0"),
                *("--primary", f"{host}:{port}", "--metrics", metrics),
                cwd=Path(__file__).parents[2],
                stderr=stderr,
            )
        try:
            await eventually(lambda: "listening on" in errors.read_text())
            found = re.search(r"listening on 127\.0\.0\.1:(\d+) ", errors.read_text())
            assert found
            clients = [await Client.connect(int(found[1])) for _ in range(100)]
            await eventually(lambda: "no client can be accepted" in errors.read_text())
            for path in ("livez", "metrics", "readyz"):
                assert await asyncio.to_thread(answers, f"http://{metrics}/{path}"), path
            for client in clients:
                client.abort()
            await eventually(lambda: "are accepted at" in errors.read_text())
            async with await Client.connect(int(found[1])) as client:
                assert (await client.log_in())[0] == 0x00
                assert (await client.query("SELECT 1")).value == b"1"
        finally:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 60) == 0
        assert errors.read_text().count("no client can be accepted") == 1
        assert "this process has no descriptor left: it may have 64 files" in errors.read_text()
        assert "cannot be reached" not in errors.read_text()
        assert "Traceback" not in errors.read_text()


def answers(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 it is http
        return answer.status == 200 and bool(answer.read())


async def test_a_stop_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "_REST_S", 0.05)
    taken: list[socket.socket] = []

    async def take(accepted: socket.socket, client: Address) -> None:
        taken.append(accepted)

    resting = acceptor.Acceptor(Address("127.0.0.1", 0), take)
    listening = socket.create_server(("127.0.0.1", 0))
    resting.start_at(listening)
    asyncio.get_running_loop().remove_reader(listening)
    resting._rest(listening, OSError(24, "Too many open files"))
    resting.stop()
    await asyncio.sleep(0.2)  # no timer comes back to a closed socket
    assert not taken


# The stop.


async def test_a_stop_tells_whom_it_cuts_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "_REPORT_EVERY_S", 0.06)
    async with proxy_fixture(drain_timeout=0.1) as proxy:
        idle, busy = await proxy.session(), await proxy.session()
        busy.send(query("DO SLEEP(2)"))
        await eventually(
            lambda: any("SLEEP" in sql for sql in statements_of(proxy.cluster.primary))
        )
        await drain(proxy.shared)
        assert lines(caplog, "proxy.drain") == [
            "INFO stopping: 2 sessions are open",
            "INFO stopping: 1 sessions still run a statement or a transaction",
            "WARNING stopping: 1 sessions still ran a statement or a transaction after 0.1 s"
            f" (drain-timeout) and are cut off: {address(busy)}",
        ]
        assert (await idle.last_error()).code == 1053
