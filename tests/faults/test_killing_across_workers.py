"""KILL of a client's id that another worker's session has."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mysql_mocker.server.cluster import Cluster
from proxy.client.sharing.session_values import ASK
from proxy.monitor.primary_election import promote
from proxy.observe.metrics import Metrics
from proxy.shared.killing.inquiry import ANSWER_SIZE, Inquiry, parse_answer
from proxy.shared.killing.other_workers import OtherWorkers
from proxy.state import scope_memory, shared_client_counts, transaction_memory
from proxy.state.sqlite_file import StateError
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import ACCOUNTS, ProxyFixture, before, eventually, statements_of
from tests.faults.test_borrowing import away, rest

RESTING = "tidegate_clients_resting"
UNANSWERED = "tidegate_kills_unanswered_total"
WORKERS = 3


@asynccontextmanager
async def workers(
    folder: Path, replicas: int = 0, count: int = WORKERS, delay: float = 0.0, **options: Any
) -> AsyncIterator[list[ProxyFixture]]:
    """Workers of one proxy, each at a port of its own."""
    settings = {"connection_sharing": "on", "workers": WORKERS, "state_dir": folder, **options}
    scope_memory.make(folder, WORKERS)
    shared_client_counts.make(folder, WORKERS)
    transaction_memory.make(folder)
    async with (
        Cluster(replicas, delay, accounts=ACCOUNTS, schemas=("test", "second")) as cluster,
        AsyncExitStack() as stack,
    ):
        addresses = [replica.address for replica in cluster.replicas]
        stages = [
            await stack.enter_async_context(
                before(cluster.primary.address, addresses, cluster, worker=number, **settings)
            )
            for number in range(count)
        ]
        yield stages
        for proxy in stages:  # all leave before the first one looks whether anybody is left
            for client in proxy.clients:
                client.abort()
        await eventually(lambda: not any(proxy.shared.sessions for proxy in stages))
        for proxy in stages:
            proxy.shared.pool.close()


def connection_id_of(client: Client) -> int:
    assert client.greeting is not None
    return client.greeting.thread_id


async def ended(client: Client) -> None:
    """Wait until the client's connection ends."""
    async with asyncio.timeout(20):
        await client.rest()


def short(folder: Path, worker: int) -> str:
    """The path of a worker's socket: the system takes only so many bytes."""
    return os.path.relpath(folder / f"tidegate-worker-{worker}.sock")


@contextmanager
def ear(folder: Path, worker: int) -> Iterator[socket.socket]:
    """A socket where a worker's is looked for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        (folder / f"tidegate-worker-{worker}.sock").unlink(missing_ok=True)
        listening.bind(short(folder, worker))
        listening.listen()
        yield listening


@pytest.mark.parametrize("resting", [True, False])
async def test_a_session_of_another_worker_is_killed(tmp_path: Path, resting: bool) -> None:
    async with workers(tmp_path) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await away(second, client)
        if not resting:
            assert (await client.query("SELECT 5")).value == b"5"
        await killer.query(f"KILL {connection_id_of(client)}")
        await ended(client)
        assert (await killer.query("SELECT 6")).value == b"6"
        assert first.count(UNANSWERED) == 0


async def test_only_its_statement_is_killed(tmp_path: Path) -> None:
    async with workers(tmp_path) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await away(second, client)
        client.send(query("SELECT SLEEP(1000)"))
        primary = first.cluster.primary
        await eventually(lambda: "SELECT SLEEP(1000)" in statements_of(primary))
        assert (await killer.query(f"KILL QUERY {connection_id_of(client)}")).ok
        assert (await client.answer()).value == b"1"
        assert (await client.query("SELECT 5")).value == b"5"


async def test_a_read_on_a_replica_is_ended(tmp_path: Path) -> None:
    options = {"replicas": 1, "delay": 60.0, "connection_sharing": "off", "wait_budget": 30.0}
    async with workers(tmp_path, **options) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await client.query("CREATE TABLE t (id INT)")
        client.send(query("SELECT id FROM t"))
        replica = first.cluster.replicas[0]
        await eventually(lambda: any("WAIT_FOR" in text for text in statements_of(replica)))
        assert (await killer.query(f"KILL QUERY {connection_id_of(client)}")).ok
        assert (await client.answer()).packets
        assert any("KILL QUERY" in text for text in statements_of(replica))


async def test_an_id_that_the_proxy_made_is_known_to_all_workers(tmp_path: Path) -> None:
    """As it is given where the primary does not greet."""
    async with workers(tmp_path, connection_sharing="off") as (first, second, _):
        for proxy in (first, second):
            proxy.shared.topology.primary.down_until = proxy.shared.now() + 3600
        killer, client = await first.session(), await second.session()
        assert connection_id_of(client) >= 0x4000_0000
        assert connection_id_of(client) not in (connection_id_of(killer), 0)
        assert (await killer.query(f"KILL {connection_id_of(client)}")).packets
        await ended(client)


@pytest.mark.parametrize(
    "number", ["0", "77777", "4294967295", "4294967296", "9223372036854775807", "9" * 20]
)
async def test_the_primary_says_that_nobody_has_an_id(tmp_path: Path, number: str) -> None:
    async with workers(tmp_path) as (first, _, _):
        killer = await first.session()
        answer = await killer.query(f"KILL {number}")
        assert number == "9" * 20 or answer.error.code == 1094
        assert first.count(UNANSWERED) == 0
        assert f"KILL {number}" in statements_of(first.cluster.primary)


async def test_who_has_left_is_unknown(tmp_path: Path) -> None:
    async with workers(tmp_path) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await away(second, client)
        client.abort()
        await eventually(lambda: not second.shared.sessions)
        assert (await killer.query(f"KILL {connection_id_of(client)}")).error.code == 1094


async def test_who_may_not_log_in_again_is_unknown(tmp_path: Path) -> None:
    async with workers(tmp_path) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await away(second, client)
        first.cluster.primary.accounts["app"] = "another"
        assert (await killer.query(f"KILL {connection_id_of(client)}")).error.code == 1094
        assert (await client.read_error()).code == 1045
        await ended(client)


async def test_sessions_of_two_workers_kill_each_other(tmp_path: Path) -> None:
    async with workers(tmp_path) as (first_worker, second_worker, _):
        first, second = await first_worker.session(), await second_worker.session()
        await away(first_worker, first)
        await away(second_worker, second)
        gate = first_worker.cluster.primary.faults.hold_reply(matching=ASK[:40])
        first.send(query(f"KILL {connection_id_of(second)}"))
        second.send(query(f"KILL {connection_id_of(first)}"))
        await asyncio.sleep(0.05)
        gate.open()
        ends = {asyncio.create_task(ended(client)) for client in (first, second)}
        done, others = await asyncio.wait(ends, return_when="FIRST_COMPLETED")
        assert done
        for other in others:
            other.cancel()


async def test_a_session_is_killed_while_it_borrows(tmp_path: Path) -> None:
    async with workers(tmp_path) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await away(second, client)
        gate = first.cluster.primary.faults.hold_reply(matching=ASK[:40])
        client.send(query("SELECT SLEEP(1000)"))
        await asyncio.sleep(0.05)
        killer.send(query(f"KILL {connection_id_of(client)}"))
        await asyncio.sleep(0.05)
        gate.open()
        await ended(client)


async def test_the_killer_leaves_meanwhile(tmp_path: Path) -> None:
    async with workers(tmp_path) as (first, second, _):
        killer, client = await first.session(), await second.session()
        await away(second, client)
        gate = first.cluster.primary.faults.hold_reply(matching=ASK[:40])
        killer.send(query(f"KILL {connection_id_of(client)}"))
        await asyncio.sleep(0.05)
        killer.abort()
        gate.open()
        await eventually(lambda: not first.shared.sessions)
        assert (await client.query("SELECT 5")).value == b"5"


async def test_a_worker_that_is_not_there_has_no_clients(tmp_path: Path) -> None:
    """It was killed, and is not yet there again; or it was never there."""
    async with workers(tmp_path, count=2) as (first, second):
        with ear(tmp_path, 2):
            pass
        killer, client = await first.session(), await second.session()
        await away(second, client)
        assert (await killer.query("KILL 77777")).error.code == 1094
        await killer.query(f"KILL {connection_id_of(client)}")
        await ended(client)
        assert first.count(UNANSWERED) == 0


@pytest.mark.parametrize("answer", [b"", b"\x01", b"\x02" * ANSWER_SIZE, b"\x00\x00\x00\x00\x07"])
async def test_a_worker_that_dies_or_says_nonsense_hinders_nobody(
    tmp_path: Path, answer: bytes
) -> None:
    async with workers(tmp_path, count=2) as (first, second):
        with ear(tmp_path, 2) as dying:
            dying.setblocking(False)
            killer, client = await first.session(), await second.session()
            await away(second, client)
            for _ in range(2):
                killer.send(query("KILL 77777"))
                on_answer, _ = await asyncio.get_running_loop().sock_accept(dying)
                on_answer.send(answer)
                on_answer.close()
                assert (await killer.answer()).error.code == 1094
            assert first.count(UNANSWERED) == 2 * (len(answer) == ANSWER_SIZE)
            await killer.query(f"KILL {connection_id_of(client)}")
            await ended(client)


async def test_a_worker_that_hangs_is_waited_for_so_long(tmp_path: Path) -> None:
    async with workers(tmp_path, count=2, connect_timeout=0.3) as (first, second):
        with ear(tmp_path, 2):
            killer, client = await first.session(), await second.session()
            assert (await killer.query("KILL 77777")).error.code == 1094
            assert first.count(UNANSWERED) == 1
            await away(second, client)
            await killer.query(f"KILL {connection_id_of(client)}")  # another knows it
            await ended(client)
            assert first.count(UNANSWERED) == 1


async def test_a_thread_of_another_primary_is_nobodys(tmp_path: Path) -> None:
    """The workers hear one after the other of a promotion."""
    async with workers(tmp_path, replicas=1) as (first, second, _):
        replica = first.cluster.replicas[0]
        somebody = await first.direct(replica)
        client = await second.session()
        while connection_id_of(client) != connection_id_of(somebody):  # at their servers
            if connection_id_of(client) < connection_id_of(somebody):
                client = await second.session()
            else:
                somebody = await first.direct(replica)
        promote(first.shared, first.shared.topology.replicas[0])
        killer = await first.session()
        found = await first.shared.kill_targets.find(connection_id_of(client), "app")
        assert found is None
        await killer.query(f"KILL QUERY {connection_id_of(client)}")
        assert (await client.query("SELECT 5")).value == b"5"


async def test_many_kill_at_once(tmp_path: Path) -> None:
    async with workers(tmp_path) as stages:
        clients = [await proxy.session() for proxy in stages for _ in range(4)]
        for proxy in stages:
            rest(proxy)
        victims = [connection_id_of(client) for client in clients]

        async def kills(client: Client) -> int:
            own = connection_id_of(client)
            sent = 0
            for _ in range(5):
                for victim in victims:
                    if victim != own:
                        assert (await client.query(f"KILL QUERY {victim}")).packets
                        sent += 1
            return sent

        assert sum(await asyncio.gather(*map(kills, clients))) == 5 * 12 * 11
        assert [(await client.query("SELECT 5")).value for client in clients] == [b"5"] * 12
        assert all(proxy.count(UNANSWERED) == 0 for proxy in stages)


@pytest.mark.parametrize(
    "sent", [b"", b"\x00", b"\xff\xff" + b"x" * 99, b"\x00\x01x", b"\x00\x09short"]
)
async def test_an_inquiry_that_is_none_has_no_answer(tmp_path: Path, sent: bytes) -> None:
    here = OtherWorkers(tmp_path, 2, 0, 0.2, Metrics())
    await here.start(_seven)
    path = short(tmp_path, 0)
    try:
        for data, answer in ((sent, b""), (Inquiry(1, "a", "b").serialise(), b"\x01\0\0\0\x07")):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(data)
            assert await reader.read() == answer
            writer.close()
        assert parse_answer(answer) == 7
    finally:
        here.stop()


async def _seven(inquiry: Inquiry) -> int | None:
    return 7


async def test_only_the_owner_may_ask_and_a_long_path_does(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    first, second = (OtherWorkers(folder, 2, number, 1.0, Metrics()) for number in range(2))
    await first.start(_seven)
    await second.start(_seven)
    path = folder / "tidegate-worker-0.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    assert await second.ask(Inquiry(5, "a", "b")) == 7
    assert await second.ask(Inquiry(5, "a" * 2000, "b")) is None
    first.stop()
    assert await second.ask(Inquiry(5, "a", "b")) is None
    await first.start(_seven)
    assert await second.ask(Inquiry(5, "a", "b")) == 7
    successor = OtherWorkers(folder, 2, 0, 1.0, Metrics())
    await successor.start(_seven)
    first.stop()
    assert await second.ask(Inquiry(5, "a", "b")) == 7
    successor.stop()
    second.stop()


async def test_a_directory_that_is_none_is_told_of(tmp_path: Path) -> None:
    here = OtherWorkers(tmp_path / "gone", 2, 0, 1.0, Metrics())
    with pytest.raises(StateError, match="workers need sockets there"):
        await here.start(_seven)


async def test_a_session_that_a_promotion_ends_has_no_thread(tmp_path: Path) -> None:
    """Its own is the old primary's."""
    async with workers(tmp_path, replicas=1, without_primary="refuse") as (first, *_):
        client, resting = await first.session(), await first.session()
        targets = first.shared.kill_targets
        assert targets.here(connection_id_of(client), "app") == connection_id_of(client)
        await away_but(first, client, resting)
        promote(first.shared, first.shared.topology.replicas[0])
        for ending in (client, resting):
            assert not targets.here(connection_id_of(ending), "app")
            assert not await targets.find(connection_id_of(ending), "app")


async def away_but(proxy: ProxyFixture, busy: Client, client: Client) -> None:
    """Let one session rest, and another not."""
    await busy.query("BEGIN")
    await client.query("SELECT 1")
    rest(proxy)
    await eventually(lambda: proxy.count(RESTING) == 1)


async def test_many_may_ask_at_once(tmp_path: Path) -> None:
    first, second = (OtherWorkers(tmp_path, 2, number, 20.0, Metrics()) for number in range(2))
    await first.start(_seven)
    await second.start(_seven)
    asks = [second.ask(Inquiry(number, "a", "b")) for number in range(400)]
    assert await asyncio.gather(*asks) == [7] * 400
    first.stop()
    second.stop()
