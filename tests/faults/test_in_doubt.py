"""Sessions whose connection to the primary broke, while it is found out whether that is gone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Never

import pytest

from mysql_mocker.server.cluster import Cluster
from proxy.client.session import ClientSession
from proxy.monitor.primary_election import promote
from proxy.server.connection import ServerConnection
from proxy.server.login import Login
from routing.servers.topology import Server
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import (
    ACCOUNTS,
    ProxyFixture,
    before,
    eventually,
    proxy_fixture,
    statements_of,
)
from tests.faults.valve import valve


class Doubt:
    """Sessions of a proxy that do not know yet whether the primary is gone.

    Attributes:
        proxy: the proxy.
    """

    def __init__(self, proxy: ProxyFixture) -> None:
        self.proxy = proxy
        self._gate = asyncio.Event()
        self._is_there = proxy.shared.primary_presence._is_there
        proxy.shared.primary_presence._is_there = self._late  # type: ignore[method-assign]

    async def _late(self, primary: Server, login: Login) -> bool:
        await self._gate.wait()
        return await self._is_there(primary, login)

    async def begin(self, *sessions: ClientSession) -> None:
        """Break these sessions' connections to the primary."""
        for session in sessions:
            primary = session._servers.primary
            assert primary is not None
            assert primary._transport is not None
            primary._transport.abort()
        await eventually(lambda: all(in_doubt(session) for session in sessions))

    async def end(self, *, gone: bool) -> None:
        """Let the sessions hear whether it is."""
        if gone:
            await self.proxy.cluster.primary.stop()
        self._gate.set()


def in_doubt(session: ClientSession) -> bool:
    lease = session._lease
    return lease is not None and lease.in_doubt


def of(proxy: ProxyFixture) -> list[ClientSession]:
    """All sessions, in the order of their logins."""
    sessions = [s for s in proxy.shared.sessions if isinstance(s, ClientSession)]
    return sorted(sessions, key=lambda session: session.session_id)


async def held(session: ClientSession) -> None:
    """Wait until a command of the session is held."""
    await eventually(lambda: session._lease is not None and session._lease._held is not None)


@asynccontextmanager
async def doubting(
    sql: str = "SELECT 1", hold: bool = True
) -> AsyncIterator[tuple[Doubt, Client, ClientSession]]:
    """A session in doubt that has run this statement; it has a command that is held, if `hold`."""
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query(sql)).packets[-1][0] != 0xFF
        doubt = Doubt(proxy)
        (session,) = of(proxy)
        await doubt.begin(session)
        if hold:
            client.send(query("SELECT 2"))
            await held(session)
        yield doubt, client, session


TEMPORARY = "CREATE TEMPORARY TABLE mine (id INT)"


@pytest.mark.parametrize("hold", [False, True])
async def test_what_is_lacking_is_said_as_the_answer_to_a_held_command(hold: bool) -> None:
    async with doubting(TEMPORARY, hold) as (doubt, client, _):
        await doubt.end(gone=True)
        error = await client.last_error()
        assert error.code == 1053
        assert "temporary" in error.message
        assert client.sequence_id == hold


async def test_a_stop_waits_until_a_held_command_is_served() -> None:
    async with doubting() as (doubt, client, session):
        session.shut_down()
        await doubt.end(gone=True)
        assert (await client.answer()).value == b"2"
        session.shut_down()
        assert (await client.last_error()).code == 1053
        assert client.sequence_id == 0


@pytest.mark.parametrize("hold", [False, True])
async def test_a_stop_that_waits_no_longer_answers_a_held_command(hold: bool) -> None:
    async with doubting(hold=hold) as (doubt, client, session):
        session.cut_off()
        assert (await client.last_error()).code == 1053
        assert client.sequence_id == hold
        await doubt.end(gone=True)


async def test_a_client_is_not_inactive_while_its_command_is_held() -> None:
    async with doubting() as (doubt, client, session):
        session._state.wait_timeout = 0
        for _ in range(2):
            session.rest()
        await doubt.end(gone=True)
        assert (await client.answer()).value == b"2"


@asynccontextmanager
async def reading_on_a_replica() -> AsyncIterator[
    tuple[Doubt, Client, Client, ClientSession, asyncio.Event]
]:
    """One of two clients is in doubt amid a read on the only replica.

    The primary has a kept connection which the session could be lent at once.
    """
    async with proxy_fixture() as proxy:
        replica = proxy.cluster.replicas[0]
        client, other, leaving = [await proxy.session() for _ in range(3)]
        assert (await client.query("SELECT 1")).value == b"1"
        session = of(proxy)[0]
        leaving.abort()
        await eventually(lambda: len(of(proxy)) == 2)
        await eventually(lambda: proxy.count("tidegate_kept_connections") == 1)
        gate = replica.faults.hold_reply(matching=b"SELECT 2")
        client.send(query("SELECT 2"))
        await eventually(lambda: "SELECT 2" in statements_of(replica))
        doubt = Doubt(proxy)
        await doubt.begin(session)
        yield doubt, client, other, session, gate  # type: ignore[misc]
        gate.open()


def lose_replica(session: ClientSession) -> None:
    replica = session._servers.active_replica
    assert replica is not None
    assert replica._transport is not None
    replica._transport.abort()


@pytest.mark.parametrize("gone", [False, True])
async def test_a_read_that_falls_back_waits_for_the_end_of_doubt(gone: bool) -> None:
    async with reading_on_a_replica() as (doubt, client, _, session, _gate):
        lose_replica(session)
        await eventually(lambda: session._servers.active_replica is None)
        await asyncio.sleep(0.05)  # time to do what must not be done
        assert session.is_away
        assert in_doubt(session)
        await doubt.end(gone=gone)
        error = (await client.answer()).error
        if gone:
            assert error.code == 2003
            assert (await client.query("SELECT 3")).packets[-1][0] != 0xFF
        else:
            assert error.code == 2013
            assert await client.rest() == b""


async def test_a_kill_waits_for_the_end_of_doubt_too() -> None:
    async with reading_on_a_replica() as (doubt, client, other, session, _gate):
        other.send(query(f"KILL {session.connection_id}"))
        await asyncio.sleep(0.05)  # time to do what must not be done
        assert session.is_away
        await doubt.end(gone=False)
        assert (await client.last_error()).code == 2013
        assert (await other.answer()).packets[-1][0] in (0x00, 0xFF)
        assert (await other.query("SELECT 3")).value == b"3"


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("at", [0, 1])
async def test_a_session_that_fails_ends_alone(
    gone: bool, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_fixture() as proxy:
        clients = [await proxy.session() for _ in range(3)]
        for client in clients:
            assert (await client.query("SELECT 1")).value == b"1"
        doubt = Doubt(proxy)
        sessions = of(proxy)
        presence, fails = proxy.shared.primary_presence, sessions[at]._servers.primary
        ask = presence.ask

        def ask_or_fail(
            lost: ServerConnection, login: Login, then: Callable[[bool], None], *rest: Any
        ) -> None:
            ask(lost, login, broken if lost is fails else then, *rest)

        presence.ask = ask_or_fail  # type: ignore[method-assign]
        await doubt.begin(*sessions)
        for client, session in zip(clients, sessions, strict=True):
            client.send(query("SELECT 2"))
            await held(session)
        failing = clients.pop(at)
        await doubt.end(gone=gone)
        for client in clients:
            if gone:
                assert (await client.answer()).value == b"2"
            else:
                assert await client.rest() == b""
        assert await failing.rest() == b""
    assert "RuntimeError" in caplog.text
    caplog.clear()  # it was meant to be logged


def broken(*_: object) -> Never:
    raise RuntimeError


async def test_a_question_that_fails_keeps_nobody_waiting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doubting() as (doubt, client, _):
        monkeypatch.setattr("proxy.shared.primary_presence.open_connection", broken)
        await doubt.end(gone=False)
        assert await client.rest() == b""
    assert "RuntimeError" in caplog.text
    caplog.clear()  # it was meant to be logged


async def test_a_read_that_has_ended_borrows_for_no_other_command() -> None:
    """The time limit of its question to the old primary must not end it while it waits anew."""
    async with (
        Cluster(2, accounts=ACCOUNTS, schemas=("test",)) as cluster,
        valve(cluster.primary) as old,
        valve(cluster.replicas[0]) as new,
        before(
            old.address, [new.address, cluster.replicas[1].address], cluster, wait_budget=0.5
        ) as proxy,
    ):
        client = await proxy.session()
        for sql in ("CREATE TABLE t (id INT)", "SET tidegate_consistency = 'STRONG'"):
            assert (await client.query(sql)).ok
        await proxy.caught_up()
        assert (await client.query("SELECT id FROM t")).rows == []
        (session,) = of(proxy)
        old.shut()
        client.send(query("SELECT id FROM t"))
        await eventually(lambda: session._current.stage == "asking")
        new.shut()
        (server,) = [s for s in proxy.shared.topology.replicas if s.name == new.address]
        promote(proxy.shared, server)
        await old.stop()
        assert (await client.answer()).error.code in (1105, 2003)
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 1290
        client.send(query("INSERT INTO t VALUES (2)"))
        new.open()
        assert (await client.answer()).error.code == 1290
        assert (await client.query("SELECT 3")).value == b"3"
        inserts = [sql for sql in statements_of(cluster.replicas[0]) if "VALUES (2)" in sql]
        assert len(inserts) <= 1
