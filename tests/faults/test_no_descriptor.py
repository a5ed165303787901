"""The process has no descriptor left: no server is blamed for it, and the log says what to do."""

import asyncio
import errno
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy import open_files
from proxy.config import ConfigError, load
from proxy.monitor.monitor import Monitor
from proxy.server.connect import greeting
from proxy.server.server_greeting import ServerGreeting
from routing.servers.topology import ProbeResult
from tests.faults.proxy_fixture import ProxyFixture, proxy_fixture

READ = "SELECT 1 UNION SELECT 2"


@contextmanager
def nothing_can_be_opened() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # all of these are open
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No line was logged a moment ago."""
    monkeypatch.setattr(open_files, "_report", open_files._Report())
    caplog.set_level(logging.INFO)


@pytest.fixture
def no_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection to a server can be opened; clients can be accepted."""

    async def connect(server: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(greeting, "connect", connect)


def assert_nobody_is_blamed(proxy: ProxyFixture, caplog: pytest.LogCaptureFixture) -> None:
    for server in proxy.shared.topology.servers:
        assert server.down_until == 0
    assert "this process has no descriptor left" in caplog.text
    assert "LimitNOFILE" in caplog.text
    for blame in ("cannot be reached", "is down", "could not end"):
        assert blame not in caplog.text


async def test_a_replica_is_not_taken_for_down(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        with nothing_can_be_opened():
            for _ in range(3):
                assert (await client.query(READ)).rows == [[b"1"], [b"2"]]
        assert_nobody_is_blamed(proxy, caplog)
        assert proxy.count("tidegate_server_connect_failures_total", "no_descriptor") == 3
        assert proxy.statements("primary", "replica_full") == 3
        assert (await client.query(READ)).rows == [[b"1"], [b"2"]]
        assert proxy.statements("replica") == 1


@pytest.mark.usefixtures("no_connect")
async def test_a_client_is_told_whose_limit_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture() as proxy:
        for _ in range(3):
            client = await proxy.connect()
            end = (await client.log_in()).decode("utf-8", "replace")
            assert "#08004Too many connections: Tidegate" in end
            assert "this process has no descriptor left" in end
        assert_nobody_is_blamed(proxy, caplog)
        assert proxy.count("tidegate_clients_refused_total", "no_descriptor") == 3
        assert len([r for r in caplog.records if r.name == open_files.__name__]) < 3


@pytest.mark.usefixtures("no_connect")
async def test_the_monitor_says_nothing_of_a_server(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture(monitor_user="app", monitor_password="secret") as proxy:
        monitor = Monitor(proxy.shared)
        for server in proxy.shared.topology.servers:
            await monitor._look(server)
            assert server.probe_result is ProbeResult.UNKNOWN
        assert_nobody_is_blamed(proxy, caplog)


@pytest.mark.usefixtures("no_connect")
async def test_the_monitor_looks_no_more_often_then(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Monitor] = []

    async def look(self: Monitor, server: object) -> None:
        looks.append(self)

    monkeypatch.setattr(Monitor, "_look", look)
    async with proxy_fixture(monitor_user="app", monitor_interval=3600.0) as proxy:
        monitor = Monitor(proxy.shared)
        watch = asyncio.create_task(monitor._watch(proxy.shared.topology.primary))
        for _ in range(100):
            await asyncio.sleep(0)
        watch.cancel()
        assert looks.count(monitor) == 1


def test_a_reload_is_told_whose_limit_it_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("secret")
    file.chmod(0o600)
    options = {"primary": ["db1"], "monitor-user": ["m"], "monitor-password-file": [str(file)]}
    load(None, options)
    with (
        nothing_can_be_opened(),
        pytest.raises(ConfigError, match=r"file cannot be read: this process has no descriptor"),
    ):
        load(None, options)
    with nothing_can_be_opened(), pytest.raises(ConfigError, match="no descriptor left"):
        load(file, {})


@pytest.mark.usefixtures("no_connect")
async def test_the_start_blames_no_primary(caplog: pytest.LogCaptureFixture) -> None:
    async with proxy_fixture() as proxy:
        shared = proxy.shared
        await ServerGreeting().learn(shared.topology.primary, shared.config, shared.metrics)
        assert_nobody_is_blamed(proxy, caplog)
