"""One question to the primary serves all reads that came before it, and none that came after."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mysql_mocker.state.faults import Gate
from protocol.packet import frame
from proxy.drain import drain
from proxy.monitor.primary_election import promote
from proxy.server.gtid_question import PROBE_SQL
from routing.consistency.decision import Level, LostPolicy, Scope, TimeoutPolicy
from routing.record import RecordStream
from tests.faults.client import BASE, Client, query
from tests.faults.peers import OK, err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture, statements_of

PROBE = PROBE_SQL
COUNT = "SELECT COUNT(*) FROM t"
PATIENT = f"/* tidegate wait_budget=5s */ {COUNT}"
"""Not put off by how long the last wait took."""
KEY = b"0123456789abcdef"
UUID = "11111111-1111-1111-1111-111111111111"


@asynccontextmanager
async def strong(
    sessions: int = 2, **options: Any
) -> AsyncIterator[tuple[ProxyFixture, list[Client]]]:
    """Sessions at STRONG that have read a replica; it applies no more, and `t` is empty."""
    async with proxy_fixture(
        **{"consistency": Level.STRONG, "wait_budget": 0.05, **options}
    ) as proxy:
        direct = await proxy.direct()
        assert (await direct.query("CREATE TABLE t (id INT)")).ok
        clients = [await proxy.session() for _ in range(sessions)]
        for client in clients:
            await proxy.caught_up()
            assert (await client.query(COUNT)).value == b"0"
        assert proxy.statements("replica") == sessions
        for replica in proxy.cluster.replicas:
            replica.applying = False
        proxy.shared.probes.patience = 10.0  # whoever is slow to open a gate does not fail a read
        yield proxy, [direct, *clients]


def held(proxy: ProxyFixture, times: int = 1) -> Gate:
    """Keep back the primary's answers to the next probes."""
    return proxy.cluster.primary.faults.hold_reply(PROBE, times)


def probes(proxy: ProxyFixture) -> int:
    """Probes that the primary was sent."""
    return statements_of(proxy.cluster.primary).count(PROBE.decode())


async def reached(gate: Gate) -> None:
    await eventually(lambda: gate.held == 1)


async def send(proxy: ProxyFixture, *clients: Client) -> None:
    """Let clients read; return when the proxy has all their reads."""
    for client in clients:
        before = sum(
            len(s._current.command.packet) > 0 and s._current.is_waiting for s in sessions(proxy)
        )
        client.send(query(COUNT))
        await eventually(lambda: sum(s._current.is_waiting for s in sessions(proxy)) > before)  # noqa: B023


async def replicas_catch_up(proxy: ProxyFixture) -> None:
    for replica in proxy.cluster.replicas:
        replica.applying = True
    await proxy.caught_up()
    for server in proxy.shared.topology.replicas:
        server.caught_up()


def sessions(proxy: ProxyFixture) -> list[Any]:
    return list(proxy.shared.sessions)


# Who gets which answer.


async def test_a_read_that_comes_while_a_probe_is_in_flight_gets_the_next() -> None:
    async with strong() as (proxy, (direct, first, second)):
        gate = held(proxy)
        await send(proxy, first)
        await reached(gate)
        await direct.query("INSERT INTO t VALUES (1)")
        await send(proxy, second)
        gate.open()
        # The first one's question was answered before the write: the replica may serve it.
        assert (await first.answer()).value == b"0"
        assert (await second.answer()).value == b"1"
        assert proxy.count("tidegate_fallbacks_total", "wait_timeout") == 1


async def test_at_most_one_is_in_flight_and_all_who_came_meanwhile_share_the_next() -> None:
    async with strong(12) as (proxy, (direct, leader, *others)):
        before = probes(proxy)
        shared = proxy.count("tidegate_probed_reads_total")
        gate = held(proxy)
        await send(proxy, leader)
        await reached(gate)
        await direct.query("INSERT INTO t VALUES (1)")
        await send(proxy, *others)
        assert probes(proxy) == before + 1
        gate.open()
        assert (await leader.answer()).value == b"0"
        for client in others:
            assert (await client.answer()).value == b"1"
        assert probes(proxy) == before + 2
        assert proxy.count("tidegate_probes_total") == before + 2
        assert proxy.count("tidegate_probed_reads_total") == shared + 12


async def test_many_readers_ask_far_less_often_than_they_read() -> None:
    async with strong(12) as (proxy, (direct, *readers)):
        for replica in proxy.cluster.replicas:
            replica.applying = True
        proxy.cluster.primary.faults.delay_reply(0.01, matching=PROBE)
        before = probes(proxy)
        written = 0

        async def read(client: Client) -> None:
            for _ in range(8):
                least = written
                assert int((await client.query(COUNT)).value or b"") >= least

        async def write() -> None:
            nonlocal written
            while True:
                await direct.query("INSERT INTO t VALUES (1)")
                written += 1

        writing = asyncio.create_task(write())
        await asyncio.gather(*map(read, readers))
        writing.cancel()
        assert written
        assert (probes(proxy) - before) * 4 <= 8 * len(readers)
        assert proxy.statements("replica", "read") > 12


# Who asks, and leaves.


@asynccontextmanager
async def two_wait(**options: Any) -> AsyncIterator[tuple[ProxyFixture, list[Client], Gate]]:
    """A probe that one session leads and another shares is in flight; then a row is written."""
    async with strong(3, **options) as (proxy, (direct, earlier, leader, other)):
        first, gate = held(proxy), held(proxy)
        await send(proxy, earlier)
        await reached(first)
        await send(proxy, leader, other)
        first.open()
        assert (await earlier.answer()).value == b"0"
        await reached(gate)
        await direct.query("INSERT INTO t VALUES (1)")
        yield proxy, [leader, other], gate
        gate.open()


async def test_the_leaders_client_leaves() -> None:
    async with two_wait() as (proxy, (leader, other), gate):
        before = probes(proxy)
        leader.abort()
        # Another question, over the other's own connection: it may well see the newer write.
        assert (await other.answer()).value == b"1"
        assert probes(proxy) == before + 1
        gate.open()
        await eventually(lambda: proxy.cluster.primary.connections == 3)


async def test_a_client_leaves_that_shares_the_probe() -> None:
    async with two_wait() as (proxy, (leader, other), gate):
        before = probes(proxy)
        other.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 2)
        gate.open()
        assert (await leader.answer()).value == b"0"
        assert probes(proxy) == before


async def test_a_client_leaves_that_waits_for_the_next() -> None:
    async with strong() as (proxy, (_, first, second)):
        before = probes(proxy)
        gate = held(proxy)
        await send(proxy, first)
        await reached(gate)
        await send(proxy, second)
        second.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        gate.open()
        assert (await first.answer()).value == b"0"
        assert (await first.query("SELECT 1")).value == b"1"
        assert probes(proxy) == before + 2


async def test_everybody_leaves() -> None:
    async with two_wait() as (proxy, (leader, other), gate):
        before = probes(proxy)
        other.abort()
        leader.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        gate.open()
        assert probes(proxy) <= before + 1
        client = await proxy.session()
        assert (await client.query(COUNT)).value == b"1"


async def test_the_leaders_primary_connection_breaks() -> None:
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with two_wait(log=log) as (proxy, (leader, other), gate):
        (lead,) = [s for s in sessions(proxy) if _leads(proxy, s)]
        assert proxy.cluster.primary.clients.kill(lead._servers.primary_thread_id, query_only=False)
        error = await leader.last_error()
        assert error.code == 2013
        (record,) = [line for line in log.take(100).splitlines() if '"lost"' in line]
        assert json.loads(record)["server"] is None, "it was sent to nobody"
        assert (await other.answer()).value == b"1"
        gate.open()


def _leads(proxy: ProxyFixture, session: Any) -> bool:
    return proxy.shared.probes._gathering.asked[:1] == [session]


async def test_the_primary_breaks_the_leaders_connection_instead_of_an_answer() -> None:
    async with strong() as (proxy, (_, leader, other)):
        gate = held(proxy)
        await send(proxy, leader)
        await reached(gate)
        await send(proxy, other)
        proxy.cluster.primary.faults.drop_connection_after(5, matching=PROBE)
        gate.open()
        assert (await leader.answer()).value == b"0"
        assert (await other.last_error()).code == 2013
        assert (await leader.query(COUNT)).value == b"0"


# What is no answer.

ANSWERS = {
    "an error": err(1105),
    "an error behind the definition": rows()[:-11] + err(3024, "too slow", 3),
    "no row": rows(),
    "NULL": rows([b"", None, b"ON"], columns=3),
    "no GTID set": rows([b"", f"{UUID}:5-3".encode(), b"ON"], columns=3),
    "only a UUID": rows([b"", UUID.encode(), b"ON"], columns=3),
    "no set of what is being committed": rows(
        [f"{UUID}:5".encode(), f"{UUID}:5".encode(), b"ON"], columns=3
    ),
    "UTF-16": rows([b"", f"{UUID}:1".encode("utf-16-le"), b"ON"], columns=3),
    "an OK": frame(OK, 1),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_that_is_none_concerns_only_who_asked(case: str) -> None:
    """It is the leader's own connection that could not say it; the others ask over theirs."""
    async with strong(3) as (proxy, (direct, earlier, leader, other)):
        gate = held(proxy)
        await send(proxy, earlier)
        await reached(gate)
        await send(proxy, leader, other)
        await direct.query("INSERT INTO t VALUES (1)")
        proxy.cluster.primary.faults.raw_reply(ANSWERS[case], matching=PROBE)
        gate.open()
        assert (await earlier.answer()).value == b"0"
        assert (await leader.answer()).value == b"1"
        assert (await other.answer()).value == b"1"
        assert proxy.statements("primary", "probe_failed") == 1
        assert proxy.statements("primary", "wait_timeout") == 1
        await replicas_catch_up(proxy)
        assert (await leader.query(PATIENT)).value == b"1"
        assert proxy.statements("replica", "read", "ok") == 5


@pytest.mark.parametrize("policy", LostPolicy)
async def test_what_may_be_lost_is_not_read_where_the_primary_does_not_say(
    policy: LostPolicy,
) -> None:
    """Nobody compared yet what was acknowledged with what this primary has."""
    async with strong(1, on_lost_writes=policy) as (proxy, (_, client)):
        (session,) = sessions(proxy)
        session.state.own_scope.doubt()
        proxy.cluster.primary.faults.raw_reply(err(1105), matching=PROBE)
        answer = await client.query(COUNT)
        if policy is LostPolicy.ERROR:
            assert answer.error.code == 1105
            assert "does not say what it has" in answer.error.message
            assert (await client.query(COUNT)).value == b"0"
        else:
            assert answer.value == b"0"


@pytest.mark.parametrize(
    "broken", [rows([b""]), b"\0\0\0\1", frame(b"\xff", 1), frame(b"\x00\x01", 1)]
)
async def test_an_answer_that_breaks_the_protocol_ends_its_session_alone(broken: bytes) -> None:
    async with strong() as (proxy, (_, leader, other)):
        gate = held(proxy)
        await send(proxy, leader)
        await reached(gate)
        await send(proxy, other)
        proxy.cluster.primary.faults.raw_reply(broken, matching=PROBE)
        gate.open()
        assert (await leader.answer()).value == b"0"
        assert (await other.last_error()).code == 2013
        assert (await leader.query(COUNT)).value == b"0"


# No answer in time.


def expect_silence(proxy: ProxyFixture, answer: Any) -> None:
    """The read has ended with an error that says who is at fault."""
    assert (answer.error.code, answer.error.sqlstate) == (3024, "HY000")
    assert f"the primary {proxy.shared.topology.primary.name} did not say" in answer.error.message


@pytest.mark.parametrize("policy", [TimeoutPolicy.PRIMARY, TimeoutPolicy.ERROR])
async def test_a_probe_that_is_never_answered(policy: TimeoutPolicy) -> None:
    async with strong(2, on_timeout=policy) as (proxy, (direct, leader, other)):
        proxy.shared.probes.patience = 0.05
        gate = held(proxy)
        leader.send(query(COUNT))
        await reached(gate)
        other.send(query(PATIENT))
        expect_silence(proxy, await leader.answer())
        # The next question is asked, and answered, over another connection.
        assert (await other.answer()).value == b"0"
        await direct.query("INSERT INTO t VALUES (1)")
        await replicas_catch_up(proxy)
        # The late answer does not count, and its session can ask again behind it.
        leader.send(query(PATIENT))
        gate.open()
        assert (await leader.answer()).value == b"1"
        assert proxy.statements("primary", "probe_failed") == 0


async def test_nobody_is_answered_by_a_primary_that_is_frozen() -> None:
    async with strong(3) as (proxy, (_, *clients)):
        proxy.shared.probes.patience = 0.05
        gate = held(proxy, 100)
        for _ in range(3):
            for client in clients:
                client.send(query(COUNT))
            for client in clients:
                expect_silence(proxy, await client.answer())
        assert probes(proxy) <= 2 * 3, "each connection carries one question"
        gate.open()
        for client in clients:
            assert (await client.query(PATIENT)).value == b"0"
        assert proxy.statements("primary", "probe_failed") == 0


async def test_a_stale_answer_is_given_where_the_primary_does_not_say() -> None:
    async with strong(1, on_timeout=TimeoutPolicy.STALE) as (proxy, (_, client)):
        proxy.shared.probes.patience = 0.05
        gate = held(proxy)
        before = proxy.statements("replica")
        assert (await client.query(COUNT)).value == b"0"
        assert proxy.statements("replica") == before + 1
        assert proxy.count("tidegate_stale_reads_total") == 1
        gate.open()


async def test_who_shares_a_probe_waits_longer_than_its_leader() -> None:
    async with two_wait() as (proxy, (leader, other), gate):
        (lead,) = [s for s in sessions(proxy) if _leads(proxy, s)]
        before = probes(proxy)
        lead._primary_is_late()
        expect_silence(proxy, await leader.answer())
        gate.open()
        assert (await other.answer()).value == b"0"
        assert probes(proxy) == before, "the question was not asked again"
        await replicas_catch_up(proxy)
        assert (await leader.query(PATIENT)).value == b"1"


async def test_a_leader_leaves_that_waits_no_longer() -> None:
    async with two_wait() as (proxy, (leader, other), _):
        (lead,) = [s for s in sessions(proxy) if _leads(proxy, s)]
        lead._primary_is_late()
        expect_silence(proxy, await leader.answer())
        leader.abort()
        # Its connection goes with it: the other asks over its own.
        assert (await other.answer()).value == b"1"


async def test_the_last_one_who_shares_a_probe_leaves_behind_its_leader() -> None:
    async with two_wait() as (proxy, (leader, other), gate):
        (lead,) = [s for s in sessions(proxy) if _leads(proxy, s)]
        lead._primary_is_late()
        expect_silence(proxy, await leader.answer())
        other.abort()
        await eventually(lambda: proxy.shared.probes._gathering.leader is None)
        gate.open()
        await replicas_catch_up(proxy)
        assert (await leader.query(PATIENT)).value == b"1"


async def test_an_answer_that_is_none_comes_when_its_leader_waits_no_longer() -> None:
    async with strong(3) as (proxy, (_, earlier, leader, other)):
        first = held(proxy)
        await send(proxy, earlier)
        await reached(first)
        await send(proxy, leader, other)
        gate = proxy.cluster.primary.faults.hold_reply(PROBE, raw=err(1105))
        first.open()
        assert (await earlier.answer()).value == b"0"
        await reached(gate)
        (lead,) = [s for s in sessions(proxy) if _leads(proxy, s)]
        lead._primary_is_late()
        expect_silence(proxy, await leader.answer())
        gate.open()
        assert (await other.answer()).value == b"0"
        assert (await leader.query(COUNT)).value == b"0"


@pytest.mark.parametrize("policy", TimeoutPolicy)
async def test_a_primary_that_is_known_to_be_silent_is_not_asked(policy: TimeoutPolicy) -> None:
    # Else it would get no statement before that is over.
    refuse = {"without_primary": "refuse"}
    async with strong(1, on_timeout=policy, **refuse) as (proxy, (_, client)):
        primary = proxy.shared.topology.primary
        before = probes(proxy)
        primary.add_silence(proxy.shared.now() + 3600)
        answer = await client.query(COUNT)
        if policy is TimeoutPolicy.STALE:
            assert answer.value == b"0"
            assert proxy.count("tidegate_stale_reads_total") == 1
        else:
            assert answer.error.code == 3024
            assert f"the primary {primary.name} does not answer" in answer.error.message
        assert probes(proxy) == before
        # It speaks: whatever it says, to whomever, counts.
        assert (await client.query("DO 1")).ok
        assert (await client.query(PATIENT)).value == b"0"
        assert probes(proxy) == before + 1


async def test_who_has_time_asks_again_where_one_connection_is_stuck() -> None:
    """The primary may take so long to answer (connect-timeout) as to connect, and no longer."""
    async with strong(3, connect_timeout=0.1) as (proxy, (_, earlier, leader, other)):
        first, gate = held(proxy), held(proxy)
        await send(proxy, earlier)
        await reached(first)
        await send(proxy, leader, other)
        first.open()
        assert (await earlier.answer()).value == b"0"
        await reached(gate)
        # Both are answered by what is asked over the connection of the second one.
        assert (await leader.answer()).value == b"0"
        assert (await other.answer()).value == b"0"
        gate.open()


async def test_a_primary_is_silent_that_says_nothing_for_a_while() -> None:
    async with strong(2) as (proxy, (_, first, second)):
        proxy.shared.probes.patience = 0.05
        gate = held(proxy, 100)
        primary = proxy.shared.topology.primary

        async def ask() -> bool:
            for client in (first, second):
                assert (await client.query(COUNT)).error.code == 3024
            return primary.is_silent(proxy.shared.now())

        async with asyncio.timeout(20):
            while not await ask():
                pass
        gate.open()
        await eventually(lambda: not primary.is_silent(proxy.shared.now()))
        for client in (first, second):
            assert (await client.query(PATIENT)).value == b"0"


async def test_the_late_answer_of_a_session_that_leads_again_does_not_count() -> None:
    options = {"token_keys": (KEY,), "scope": Scope.USER}
    async with strong(2, **options) as (proxy, (direct, leader, other)):
        proxy.shared.probes.patience = 0.05
        gate = held(proxy)
        # A token needs the primary's word here, and no statement goes to the primary behind it.
        await leader.query("SET tidegate_consistency = 'BEST_EFFORT'")
        leader.send(query("SELECT @@tidegate_token"))
        await reached(gate)
        error = (await leader.answer()).error
        assert error.code == 3024
        proxy.shared.probes.patience = 10.0
        await leader.query("SET tidegate_consistency = 'STRONG'")
        await direct.query("INSERT INTO t VALUES (1)")
        second = held(proxy)
        await send(proxy, other)
        await reached(second)
        leader.send(query(COUNT))
        await eventually(lambda: len(proxy.shared.probes._gathering.waiting) == 1)
        gate.open()
        await asyncio.sleep(0.02)
        assert len(proxy.shared.probes._gathering.asked) == 1, "the late answer was taken"
        second.open()
        assert (await other.answer()).value == b"1"
        assert (await leader.answer()).value == b"1"
        # Once the late answer has come, the session may ask again.
        await replicas_catch_up(proxy)
        count = proxy.statements("replica", "read", "ok")
        assert (await leader.query(PATIENT)).value == b"1"
        assert proxy.statements("replica", "read", "ok") == count + 1


# The proxy stops, or a client does not read.


async def test_a_shutdown_lets_reads_end_that_wait_for_a_probe() -> None:
    async with strong() as (proxy, (_, leader, other)):
        gate = held(proxy)
        await send(proxy, leader)
        await reached(gate)
        await send(proxy, other)
        draining = asyncio.create_task(drain(proxy.shared))
        await asyncio.sleep(0.03)
        assert len(proxy.shared.sessions) == 2
        gate.open()
        for client in (leader, other):
            assert (await client.answer()).value == b"0"
            assert (await client.last_error()).code == 1053
        await draining


async def test_a_client_that_does_not_read_holds_nobody_up() -> None:
    async with strong() as (proxy, (direct, slow, other)):
        slow.send_bytes(
            frame(query("SELECT REPEAT('x', 15000000)"), 0) + frame(query(COUNT), 0) * 2
        )
        await eventually(lambda: any(s._servers._paused for s in sessions(proxy)))
        await direct.query("INSERT INTO t VALUES (1)")
        for _ in range(3):
            assert (await other.query(COUNT)).value == b"1"
        assert len((await slow.answer(text=False)).packets) > 1
        for _ in range(2):
            assert (await slow.answer()).value == b"1"


# Scopes whose needs are not known.


async def test_the_first_read_of_a_scope_asks_and_the_others_do_not() -> None:
    async with proxy_fixture(scope=Scope.USER, wait_budget=0.05) as proxy:
        writer = await proxy.session()
        await writer.query("CREATE TABLE t (id INT)")
        await proxy.caught_up()
        for replica in proxy.cluster.replicas:
            replica.applying = False
        await writer.query("INSERT INTO t VALUES (1)")
        assert probes(proxy) == 0
        first = await proxy.session(capabilities=BASE)
        gate = held(proxy)
        await send(proxy, first)
        await reached(gate)
        # Written while the scope's question is in flight: acknowledged in it all the same.
        await writer.query("INSERT INTO t VALUES (2)")
        gate.open()
        assert (await first.answer()).value == b"2"
        second = await proxy.session()
        assert (await second.query(COUNT)).value == b"2"
        assert probes(proxy) == 1
        stranger = await proxy.session(user="other", password="word")
        assert (await stranger.query(COUNT)).value == b"2"
        assert probes(proxy) == 2


async def test_reads_that_ask_an_old_primary_end_with_their_sessions() -> None:
    """Each, the first of them too: the answer of a primary that is none any more is no answer."""
    async with strong(3, without_primary="refuse") as (proxy, (_, *clients)):
        for session in sessions(proxy):
            session.state.own_scope.doubt()
        gate = held(proxy)
        await send(proxy, *clients)
        await reached(gate)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        gate.open()
        for client in clients:
            assert (await client.last_error()).code == 2013
