"""What operators see and do over SQL, in one worker and in several."""

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from proxy.monitor.primary_election import promote
from proxy.server.login import Login
from proxy.shared.administration.administration import ReloadRefusedError
from proxy.shared.administration.drained_servers import MOST, DrainedServers
from proxy.shared.administration.every_worker import OneWorker, SeveralWorkers
from proxy.shared.administration.question import Question
from proxy.shared.executed_gtids import ExecutedGtids
from proxy.tls.materials import make_key_ring
from proxy.worker import WorkerLoop
from tests.faults.client import PASSWORD, Client, query
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture, statements_of
from tests.faults.table_fixture import COUNT, count, execute, table_fixture
from tests.faults.test_killing_across_workers import connection_id_of, workers

ADMIN: dict[str, Any] = {"admins": ("app",)}
DENIED = (1227, "42000")
SESSIONS = "SHOW TIDEGATE SESSIONS"
SERVERS = "SHOW TIDEGATE SERVERS"


async def shown(client: Client, sql: str) -> list[dict[str, str | None]]:
    """The rows of a table by the names of its columns."""
    answer = await client.query(sql)
    assert answer.packets[-1][0] != 0xFF, answer.error
    names = [column_name(packet) for packet in answer.packets[1 : 1 + answer.packets[0][0]]]
    return [
        {
            name: None if value is None else value.decode()
            for name, value in zip(names, row, strict=True)
        }
        for row in answer.rows
    ]


def column_name(definition: bytes) -> str:
    """The name in a column's definition: the fifth of its strings, all of which are short."""
    at = 0
    for _ in range(4):
        at += 1 + definition[at]
    return definition[at + 1 : at + 1 + definition[at]].decode()


def short(folder: Path, worker: int) -> str:
    """The path of a worker's socket: the system takes only so many bytes."""
    opened = os.open(folder, os.O_PATH)  # such paths must be short
    return f"/proc/self/fd/{opened}/tidegate-admin-{worker}.sock"


async def by_id(client: Client) -> dict[int, dict[str, str | None]]:
    return {int(row["id"] or 0): row for row in await shown(client, SESSIONS)}


async def state_of(client: Client, name: str) -> tuple[str | None, str | None]:
    rows = {row["server"]: row for row in await shown(client, SERVERS)}
    return rows[name]["state"], rows[name]["connections"]


def replica_names(proxy: ProxyFixture) -> list[str]:
    return [replica.address for replica in proxy.cluster.replicas]


# Sessions.


async def test_sessions() -> None:
    async with table_fixture(**ADMIN) as proxy:
        client, other = await proxy.session(), await proxy.session(user="other", password="word")
        await execute(other, "SET tidegate_consistency = 'STRONG'")
        await execute(other, "BEGIN")
        rows = await by_id(client)
        assert set(rows) == {connection_id_of(client), connection_id_of(other)}
        row = rows[connection_id_of(client)]
        assert (row["user"], row["worker"], row["state"]) == ("app", "0", "executing")
        assert row["host"]
        assert row["host"].startswith("127.0.0.1:")
        assert len(row["digest"] or "") == 16
        row = rows[connection_id_of(other)]
        assert (row["user"], row["state"], row["level"]) == ("other", "in transaction", "STRONG")
        assert (row["server"], row["digest"], row["waiting_for"]) == (None, None, None)
        assert row["since"]
        assert row["since"].endswith("Z")


async def test_a_session_that_waits() -> None:
    async with table_fixture(**ADMIN, wait_budget=20.0) as proxy:
        client, reader = await proxy.session(), await proxy.session()
        await execute(reader, "INSERT INTO t VALUES (1)")
        reader.send(query(COUNT))  # no replica applies
        (replica,) = proxy.cluster.replicas
        await eventually(lambda: any("WAIT_FOR" in text for text in statements_of(replica)))
        row = (await by_id(client))[connection_id_of(reader)]
        assert (row["state"], row["waiting_for"]) == ("waiting", "GTIDs of the replica")
        assert row["server"] == replica.address
        replica.applying = True
        assert (await reader.answer()).value == b"1"


async def test_others_see_their_own_sessions() -> None:
    async with proxy_fixture(**ADMIN) as proxy:
        await proxy.session()
        other = await proxy.session(user="other", password="word")
        assert set(await by_id(other)) == {connection_id_of(other)}


async def test_sessions_of_all_workers(tmp_path: Path) -> None:
    async with workers(tmp_path, **ADMIN) as proxies:
        clients = [await proxy.session() for proxy in proxies]
        for number, client in enumerate(clients):
            rows = await by_id(client)
            assert set(rows) == {connection_id_of(other) for other in clients}
            assert rows[connection_id_of(clients[2])]["worker"] == "2"
            assert rows[connection_id_of(client)]["worker"] == str(number)


async def test_an_id_that_is_shown_can_be_killed(tmp_path: Path) -> None:
    async with workers(tmp_path, **ADMIN) as proxies:
        client, victim = await proxies[0].session(), await proxies[1].session()
        (found,) = [row for row in await shown(client, SESSIONS) if row["worker"] == "1"]
        assert (await client.query(f"KILL {found['id']}")).ok
        async with asyncio.timeout(20):
            await victim.rest()
        assert [row["worker"] for row in await shown(client, SESSIONS)] == ["0"]


async def test_a_worker_that_does_not_answer(tmp_path: Path) -> None:
    async with workers(tmp_path, count=2, **ADMIN) as proxies:
        client = await proxies[0].session()
        rows = await shown(client, SESSIONS)
        assert [row["state"] for row in rows] == ["executing", "worker 2 does not answer"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
            deaf.bind(short(tmp_path, 2))
            deaf.listen()
            rows = await shown(client, SESSIONS)
        assert [row["state"] for row in rows] == ["executing", "worker 2 does not answer"]
        rows = await shown(client, SERVERS)
        assert [row["state"] for row in rows] == ["up", "worker 2 does not answer"]


# Who may.


@pytest.mark.parametrize(
    "sql",
    ["TIDEGATE DRAIN SERVER 'x'", "TIDEGATE UNDRAIN SERVER 'x'", "TIDEGATE RELOAD"],
)
async def test_only_admins_may_act(sql: str) -> None:
    for admins in ((), ("other",)):
        async with proxy_fixture(admins=admins) as proxy:
            client = await proxy.session()
            error = (await client.query(sql)).error
            assert (error.code, error.sqlstate) == DENIED, error
            assert "admins" in error.message


async def test_an_admin_is_who_has_logged_in_last() -> None:
    async with proxy_fixture(admins=("other",)) as proxy:
        client = await proxy.session()
        assert (await client.query("TIDEGATE RELOAD")).error.code == 1227
        admin = await proxy.session(user="other", password="word")
        assert (await admin.query("TIDEGATE RELOAD")).error.code == 1105


# Drain.


@pytest.mark.parametrize("level", ["BEST_EFFORT", "READ_OWN_WRITES", "BOUNDED_STALENESS(10s)"])
async def test_a_drained_replica_gets_no_reads(level: str) -> None:
    async with table_fixture(**ADMIN, replicas=2) as proxy:
        clients = [await proxy.session() for _ in range(4)]
        for client in clients:
            await execute(client, f"SET tidegate_consistency = '{level}'")
            await count(client)
        first, second = proxy.cluster.replicas
        (row,) = await shown(clients[0], f"TIDEGATE DRAIN SERVER '{first.address}'")
        assert (row["server"], row["state"], row["note"]) == (first.address, "drained", None)
        assert first.connections == 0 or await gone(first)
        before = statements_of(first).count(COUNT)
        for client in clients:
            await count(client)
        assert statements_of(first).count(COUNT) == before
        assert await state_of(clients[0], first.address) == ("drained", "0")
        (row,) = await shown(clients[0], f"TIDEGATE UNDRAIN SERVER '{first.address}'")
        assert row["state"] == "up"
        for _ in range(4):
            for client in clients:
                await count(client)
        if not level.startswith("BOUNDED"):  # who measures no lag has none to go by
            assert statements_of(first).count(COUNT) > before
        assert second.connections


async def gone(server: Any) -> bool:
    await eventually(lambda: server.connections == 0)
    return True


async def test_the_last_replica_can_be_drained() -> None:
    async with table_fixture(**ADMIN) as proxy:
        client = await proxy.session()
        (name,) = replica_names(proxy)
        (row,) = await shown(client, f"TIDEGATE DRAIN SERVER '{name}'")
        assert "last replica" in (row["note"] or "")
        assert await count(client) == 0
        assert (await shown(client, "SHOW TIDEGATE LAST"))[0]["reason"] == "no_replica"


async def test_what_cannot_be_drained() -> None:
    async with proxy_fixture(**ADMIN) as proxy:
        client = await proxy.session()
        primary = proxy.cluster.primary.address
        error = (await client.query(f"TIDEGATE DRAIN SERVER '{primary}'")).error
        assert error.code == 1105
        assert f"{primary} is the primary" in error.message
        error = (await client.query("TIDEGATE DRAIN SERVER 'nobody'")).error
        assert "there is no server nobody" in error.message
        assert proxy.shared.administration.drain.find("nobody") is None
        assert (await shown(client, f"TIDEGATE UNDRAIN SERVER '{primary}'"))[0]["state"] == "up"


async def test_a_statement_under_way_ends_on_the_drained_replica() -> None:
    async with table_fixture(**ADMIN, wait_budget=20.0) as proxy:
        client, reader = await proxy.session(), await proxy.session()
        (replica,) = proxy.cluster.replicas
        await execute(reader, "INSERT INTO t VALUES (1)")
        reader.send(query(COUNT))
        await eventually(lambda: any("WAIT_FOR" in text for text in statements_of(replica)))
        (row,) = await shown(client, f"TIDEGATE DRAIN SERVER '{replica.address}'")
        assert (row["state"], row["connections"]) == ("draining", "1")
        replica.applying = True
        assert (await reader.answer()).value == b"1"
        assert COUNT in statements_of(replica)
        await gone(replica)
        assert await state_of(client, replica.address) == ("drained", "0")


async def test_a_snapshot_stays_until_its_transaction_ends() -> None:
    async with table_fixture(**ADMIN) as proxy:
        client, reader = await proxy.session(), await proxy.session()
        (replica,) = proxy.cluster.replicas
        await execute(reader, "START TRANSACTION READ ONLY")
        assert await count(reader) == 0
        assert statements_of(replica).count(COUNT) == 1
        await shown(client, f"TIDEGATE DRAIN SERVER '{replica.address}'")
        assert await state_of(client, replica.address) == ("draining", "1")
        assert await count(reader) == 0
        assert statements_of(replica).count(COUNT) == 2
        await execute(reader, "COMMIT")
        await gone(replica)
        assert await count(reader) == 0
        assert statements_of(replica).count(COUNT) == 2


async def test_all_workers_drain(tmp_path: Path) -> None:
    async with workers(tmp_path, replicas=1, **ADMIN) as proxies:
        clients = [await proxy.session() for proxy in proxies]
        (name,) = replica_names(proxies[0])
        for client in clients:
            await execute(client, "SET tidegate_consistency = 'BEST_EFFORT'")
            await client.query("SELECT 1 FROM information_schema.tables")
        (row,) = await shown(clients[1], f"TIDEGATE DRAIN SERVER '{name}'")
        assert row["server"] == name
        for proxy in proxies:
            assert [replica.draining for replica in proxy.shared.topology.replicas] == [True]
        # Who starts now finds it drained.
        assert DrainedServers(tmp_path).names == {name}
        await shown(clients[2], f"TIDEGATE UNDRAIN SERVER '{name}'")
        for proxy in proxies:
            assert [replica.draining for replica in proxy.shared.topology.replicas] == [False]
        assert DrainedServers(tmp_path).names == set()


async def test_a_drained_server_that_becomes_the_primary() -> None:
    async with table_fixture(**ADMIN) as proxy:
        client = await proxy.session()
        (name,) = replica_names(proxy)
        await shown(client, f"TIDEGATE DRAIN SERVER '{name}'")
        topology, drain = proxy.shared.topology, proxy.shared.administration.drain
        old, (server,) = topology.primary, topology.replicas
        promote(proxy.shared, server)
        drain.refresh()
        assert (server.draining, server.down_until, old.draining) == (False, 0.0, False)
        promote(proxy.shared, old)
        drain.refresh()
        assert server.draining


async def test_a_look_at_a_drained_server_does_not_use_it() -> None:
    options = {"monitor_user": "app", "monitor_password": PASSWORD.encode()}
    async with table_fixture(**ADMIN, **options, monitor_interval=0.03) as proxy:
        client = await proxy.session()
        (server,) = proxy.shared.topology.replicas
        await shown(client, f"TIDEGATE DRAIN SERVER '{server.name}'")
        seen = server.seen_at
        await eventually(lambda: server.seen_at > seen)
        server.set_silent(0.0)
        server.begin_attempt(1.0)
        assert server.draining
        assert await count(client) == 0
        (replica,) = proxy.cluster.replicas
        assert COUNT not in statements_of(replica)
        (row,) = await shown(client, f"TIDEGATE UNDRAIN SERVER '{server.name}'")
        assert row["state"] == "up"
        assert await count(client) == 0
        assert COUNT in statements_of(replica)


async def test_a_drained_replica_is_compared_with_a_new_primary() -> None:
    async with table_fixture(**ADMIN) as proxy:
        client = await proxy.session()
        (server,) = proxy.shared.topology.replicas
        await shown(client, f"TIDEGATE DRAIN SERVER '{server.name}'")
        shared = proxy.shared
        asked = ExecutedGtids(shared.live, shared.now)
        login = Login(username="app", password=PASSWORD.encode())
        answers = await asked.of_replicas(shared.topology, login)
        assert [answer.replica for answer in answers] == [server]


# The file.


def test_a_file_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "tidegate-drained.json").write_text('{"a": 1}')
    drained = DrainedServers(tmp_path)
    assert drained.names == set()
    drained.change("db2:3306", drained=True)
    assert DrainedServers(tmp_path).names == {"db2:3306"}


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    drained = DrainedServers(tmp_path / "gone")
    with pytest.raises(OSError, match="No such file"):
        drained.change("db2:3306", drained=True)
    assert drained.names == set()


def test_only_so_many_names_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "tidegate-drained.json"
    path.write_text(json.dumps([f"db{number}:3306" for number in range(MOST)]))
    drained = DrainedServers(tmp_path)
    with pytest.raises(OSError, match="256 servers are drained already"):
        drained.change("another:3306", drained=True)
    drained.change("db7:3306", drained=False)
    drained.change("another:3306", drained=True)
    assert len(DrainedServers(tmp_path).names) == MOST


def test_every_worker_follows_the_file(tmp_path: Path) -> None:
    first, second = DrainedServers(tmp_path), DrainedServers(tmp_path)
    first.change("db2:3306", drained=True)
    second.change("db3:3306", drained=True)
    assert first.refresh()
    assert not first.refresh()
    assert first.names == second.names == {"db2:3306", "db3:3306"}
    second.change("db2:3306", drained=False)
    assert first.refresh()
    assert first.names == {"db3:3306"}


# From the process that serves the metrics.


async def test_the_metrics_server_asks_the_only_worker() -> None:
    async with proxy_fixture() as proxy:
        asked = OneWorker(lambda: proxy.shared.metrics.answers)
        assert asked(Question("sessions")) == {0: None}
        proxy.shared.metrics.answers = proxy.shared.administration.answer_bytes
        asked.loop = WorkerLoop(
            asyncio.get_running_loop(),
            asyncio.Event(),
            proxy.shared.live,
            make_key_ring(proxy.shared.config),
        )
        client = await proxy.session()
        answers = await asyncio.to_thread(asked, Question("sessions"))
        (row,) = answers[0].rows if answers[0] is not None else ()
        assert row[:2] == [connection_id_of(client), "app"]


async def test_the_supervisor_asks_every_worker(tmp_path: Path) -> None:
    async with workers(tmp_path, count=2) as proxies:
        client = await proxies[1].session()
        several = SeveralWorkers(tmp_path, 3)
        answers = await asyncio.to_thread(several, Question("sessions"))
        assert [answer and len(answer.rows) for answer in answers.values()] == [0, 1, None]
        question = Question("kill", connection_id=connection_id_of(client))
        answers = await asyncio.to_thread(several, question)
        assert [answer and len(answer.rows) for answer in answers.values()] == [0, 1, None]
        assert (await client.last_error()).code == 1053
        several.close()


# Digests.


async def test_digests_of_all_workers(tmp_path: Path) -> None:
    async with workers(tmp_path, count=3, replicas=1, **ADMIN) as proxies:
        clients = [await proxy.session() for proxy in proxies]
        await execute(clients[0], "CREATE TABLE t (id INT)")
        await proxies[0].caught_up()
        for number, client in enumerate(clients):
            await client.query(f"{COUNT} WHERE id = {number}")
        await client.query("SELECT nothing FROM t")
        rows = {row["text"]: row for row in await shown(clients[0], "SHOW TIDEGATE DIGESTS")}
        row = rows["SELECT COUNT ( * ) FROM t WHERE id = ?"]
        assert (row["count"], row["rows"], row["errors"]) == ("3", "3", "0")
        assert row["replica_share"] == "1.000"
        assert rows["SELECT nothing FROM t"]["errors"] == "1"


async def test_digests_are_for_admins() -> None:
    async with proxy_fixture(**ADMIN) as proxy:
        other = await proxy.session(user="other", password="word")
        assert (await other.query("SHOW TIDEGATE DIGESTS")).error.code == 1227
    async with proxy_fixture(**ADMIN, statement_digests="off") as proxy:
        client = await proxy.session()
        assert "off" in (await client.query("SHOW TIDEGATE DIGESTS")).error.message


# Reload.


async def test_one_worker_reloads_for_all(tmp_path: Path) -> None:
    async with workers(tmp_path, **ADMIN) as proxies:
        asked: list[int] = []
        for number, proxy in enumerate(proxies):

            async def reload(number: int = number) -> list[str]:
                asked.append(number)
                return ["applied: max-lag", "needs a restart: workers"]

            proxy.shared.administration.reload = reload
        client = await proxies[1].session()
        rows = await shown(client, "TIDEGATE RELOAD")
        assert [row["note"] for row in rows] == ["applied: max-lag", "needs a restart: workers"]
        assert asked == [1]
        several = SeveralWorkers(tmp_path, len(proxies))
        await asyncio.to_thread(several, Question("reload"))
        assert asked == [1, 0]
        several.close()


async def test_a_reload_that_is_refused() -> None:
    async with proxy_fixture(**ADMIN) as proxy:

        async def reload() -> list[str]:
            raise ReloadRefusedError("tidegate.toml: line 3: max-lag: want a duration")

        proxy.shared.administration.reload = reload
        client = await proxy.session()
        error = (await client.query("TIDEGATE RELOAD")).error
        assert error.message == "Tidegate: tidegate.toml: line 3: max-lag: want a duration"
