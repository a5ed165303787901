"""What each level shows to clients of every kind, and that nothing of the tracking reaches them."""

import json

import pytest

from protocol.response import OkPacket
from protocol.session_track import entries
from routing.consistency.decision import Level, Outcome
from routing.record import RecordStream
from tests.faults.client import (
    MODERN,
    PASSWORD,
    Answer,
    query,
)
from tests.faults.proxy_fixture import eventually, proxy_fixture, statements_of
from tests.faults.table_fixture import (
    CLIENTS,
    COUNT,
    IN_TRANS,
    LEVELS,
    apply,
    count,
    execute,
    packets_of,
    probes,
    table_fixture,
)


def trackers(answer: Answer) -> list[list[int]]:
    """The types of trackers in each OK packet of an answer."""
    found = []
    for packet in answer.packets:
        if packet[0] in (0x00, 0xFE) and len(packet) > 6:
            state = OkPacket.parse(packet, MODERN).session_state
            found.append([] if state is None else [int(kind) for kind, _ in entries(state)])
    return found


# What the proxy tracks is its own affair.

SCRIPT = [
    "SELECT id FROM t ORDER BY id",
    "INSERT INTO t VALUES (1), (2)",
    "SELECT id FROM t ORDER BY id",
    "SELECT 1 UNION SELECT 2",
    "UPDATE t SET id = id",
    "SELECT ROW_COUNT()",
    "SELECT nothing",
    "SHOW WARNINGS",
    "INSERT INTO no VALUES (1)",
    "SHOW WARNINGS",
    "SELECT @@warning_count",
    "DELETE FROM t WHERE id > 7",
    "SELECT ROW_COUNT()",
    "SELECT id FROM t ORDER BY id",
    "BEGIN",
    "SELECT id FROM t ORDER BY id",
    "DELETE FROM t WHERE id = 2",
    "COMMIT",
    "SELECT id FROM t ORDER BY id",
    "SET @x = 1",
    "SET time_zone = '+00:00'",
    "SELECT id FROM t ORDER BY id",
    "INSERT INTO t VALUES (3); SELECT 2",
    "SHOW WARNINGS",
    "USE second",
    "SELECT 5",
    "USE test",
    "BEGIN",
    "INSERT INTO t VALUES (4)",
    "ROLLBACK",
    "SELECT id FROM t ORDER BY id",
]


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_client_sees_what_it_would_without_the_proxy(kind: str) -> None:
    """At every level, on primary and replicas: no tracker of the proxy's, and every EOF."""
    async with proxy_fixture() as proxy:
        direct = await proxy.direct(capabilities=CLIENTS[kind])
        for level in LEVELS:
            await execute(direct, "CREATE TABLE t (id INT)")
            expected = [await packets_of(direct, sql) for sql in SCRIPT]
            await execute(direct, "DROP TABLE t")
            await execute(direct, "CREATE TABLE t (id INT)")
            await proxy.caught_up()
            client = await proxy.session(capabilities=CLIENTS[kind])
            await execute(client, f"SET tidegate_consistency = '{level}'")
            before = proxy.statements("replica")
            for sql, answer in zip(SCRIPT, expected, strict=True):
                assert await packets_of(client, sql) == answer, (level, sql)
                await proxy.caught_up()
            assert proxy.statements("replica") >= before + 9, level
            await execute(direct, "DROP TABLE t")


@pytest.mark.parametrize("setting", ["OWN_GTID", "ALL_GTIDS"])
@pytest.mark.parametrize("level", LEVELS)
async def test_a_client_that_tracks_gtids_itself(level: str, setting: str) -> None:
    """It sees what a server would show it, on whatever connection, also on one that was open."""
    async with proxy_fixture() as proxy:
        direct = await proxy.direct()
        await execute(direct, "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        client = await proxy.session()
        await execute(client, f"SET tidegate_consistency = '{level}'")
        steps = [
            "SELECT 1",
            f"SET session_track_gtids = '{setting}'",
            "INSERT INTO t VALUES (1)",
            "SELECT id FROM t",
            "BEGIN",
            "SELECT id FROM t",
            "ROLLBACK",
            "SELECT id FROM t",
            "SET session_track_gtids = OFF",
            "INSERT INTO t VALUES (1)",
            "SELECT id FROM t",
            f"SET session_track_gtids = '{setting}'",
            "SELECT id FROM t",
            "reset",
            "SELECT id FROM t",
            "INSERT INTO t VALUES (1)",
        ]
        for sql in steps:
            payload = b"\x1f" if sql == "reset" else query(sql)
            theirs = trackers(await direct.command(payload))
            if sql == "reset" or sql.startswith("SET"):
                ours = theirs
                await client.command(payload)  # fact 2.4: accept either
                if sql == "reset":
                    await execute(client, f"SET tidegate_consistency = '{level}'")
            else:
                ours = trackers(await client.command(payload))
            assert ours == theirs, sql
            await proxy.caught_up()
        assert proxy.statements("replica") >= 3


async def test_a_tracked_set_on_a_replica_is_the_replicas() -> None:
    async with table_fixture() as proxy:
        direct = await proxy.direct()
        client = await proxy.session()
        await execute(client, "SELECT 1")
        await execute(client, "SET session_track_gtids = ALL_GTIDS")
        await execute(direct, "INSERT INTO t VALUES (1)")
        answer = await client.query("SELECT 2")
        (replica,) = proxy.cluster.replicas
        state = answer.ok.session_state or b""
        assert str(replica.gtids.executed).encode() in state
        assert proxy.statements("replica", "read") == 2


# Levels.


async def test_a_level_changes_inside_a_transaction() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        for level in (*LEVELS, *reversed(LEVELS)):
            await execute(client, "BEGIN")
            await execute(client, "INSERT INTO t VALUES (1)")
            seen = await count(client)
            answer = await client.query(f"SET tidegate_consistency = '{level}'")
            assert answer.ok.status & IN_TRANS
            assert await count(client) == seen
            await execute(client, "COMMIT")
            await execute(client, "SET tidegate_consistency = 'READ_OWN_WRITES'")
            assert await count(client) == seen, level


@pytest.mark.parametrize("level", LEVELS[1:5])
async def test_what_was_written_before_the_level_was_raised(level: str) -> None:
    for comment in ("", f"/* tidegate consistency={level} */"):
        async with table_fixture(consistency=Level.BEST_EFFORT) as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            await execute(client, "INSERT INTO t VALUES (1)")
            assert await count(client) == 0, "the replica has it, and nothing is tested"
            if not comment:
                await execute(client, f"SET tidegate_consistency = '{level}'")
            assert await count(client, comment) == 1
            await execute(client, "INSERT INTO t VALUES (1)")
            assert await count(client, comment) == 2


async def test_a_level_changes_while_replicas_are_open() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "SET tidegate_consistency = 'MONOTONIC_READS'")
        assert await count(client) == 0
        (session,) = proxy.shared.sessions
        (replica,) = proxy.cluster.replicas
        assert proxy.statements("replica", "read") == 2
        assert replica.gtids.executed <= session.state.own_scope.observed
        await execute(client, "SET tidegate_consistency = DEFAULT")
        assert await count(client) == 0
        assert proxy.statements("replica", "read") == 3
        await eventually(lambda: replica.connections == 1)


HOW = {
    "configured": ("", ""),
    "set": ("SET tidegate_consistency = 'MONOTONIC_READS'", ""),
    "commented": ("", "/* tidegate consistency=MONOTONIC_READS */"),
    "tracking less": ("SET session_track_gtids = OWN_GTID", ""),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", CLIENTS)
async def test_no_older_state_than_was_seen(how: str, kind: str) -> None:
    """Seen on one replica, which goes away; the other is older."""
    setting, comment = HOW[how]
    level = Level.MONOTONIC_READS if how in ("configured", "tracking less") else None
    options = {} if level is None else {"consistency": level}
    async with table_fixture(replicas=2, wait_budget=0.1, **options) as proxy:
        direct = await proxy.direct()
        client = await proxy.session(capabilities=CLIENTS[kind])
        if setting:
            await packets_of(client, setting)
        sql = comment + COUNT
        await packets_of(client, sql)
        (session,) = proxy.shared.sessions
        preferred = proxy.shared.topology.replicas[session.state.preferred]
        (newer,) = [r for r in proxy.cluster.replicas if r.address == preferred.name]
        await execute(direct, "INSERT INTO t VALUES (1)")
        newer.applying = True
        executed = proxy.cluster.primary.gtids.executed
        await eventually(lambda: executed <= newer.gtids.executed)
        assert b"\x011" in await packets_of(client, sql)
        preferred.down_until = proxy.shared.now() + 60
        assert b"\x011" in await packets_of(client, sql)
        assert b"\x011" in await packets_of(client, sql)


async def test_what_another_statement_showed_counts_for_a_comments_level() -> None:
    """READ_OWN_WRITES promises nothing here, but MONOTONIC_READS does, of all that was seen."""
    comment = "/* tidegate consistency=MONOTONIC_READS */"
    async with table_fixture(replicas=2) as proxy:
        direct = await proxy.direct()
        client = await proxy.session()
        assert await count(client, comment) == 0
        (session,) = proxy.shared.sessions
        preferred = proxy.shared.topology.replicas[session.state.preferred]
        (newer,) = [r for r in proxy.cluster.replicas if r.address == preferred.name]
        await execute(direct, "INSERT INTO t VALUES (1)")
        newer.applying = True
        executed = proxy.cluster.primary.gtids.executed
        await eventually(lambda: executed <= newer.gtids.executed)
        assert await count(client) == 1
        preferred.down_until = proxy.shared.now() + 60
        assert await count(client) == 0, "the other replica has it, and nothing is tested"
        assert await count(client, comment) == 1


async def test_read_all_writes_avoids_a_replica_that_commits_in_any_order() -> None:
    async with proxy_fixture(replicas=2, consistency=Level.READ_ALL_WRITES) as proxy:
        for replica in proxy.cluster.replicas:
            replica.set_variable("replica_preserve_commit_order", False)
        proxy.cluster.replicas[1].set_variable(
            "replica_parallel_workers", 1
        )  # keeps it all the same
        ordered = proxy.cluster.replicas[1]
        clients = [await proxy.session() for _ in range(2)]
        for client in clients:
            await execute(client, "SELECT 7")
            await execute(client, "SELECT 7")
            await execute(client, "/* tidegate consistency=MONOTONIC_READS */ SELECT 8")
        assert "SELECT 7" not in statements_of(proxy.cluster.replicas[0])[2:]
        assert statements_of(ordered).count("SELECT 7") >= 2
        ordered.set_variable("replica_parallel_workers", 4)
        third = await proxy.session()
        proxy.shared.topology.replicas[1].ordered = False  # as the next look at it finds
        await execute(third, "SELECT 9")
        assert "SELECT 9" in statements_of(proxy.cluster.primary)
        assert proxy.statements("primary", "commit_order") == 1


async def test_read_all_writes_of_a_proxy_sees_every_write_through_it() -> None:
    """Also those of sessions that track nothing for themselves."""
    async with table_fixture() as proxy:
        reader = await proxy.session()
        for setting in ("consistency = 'READ_ALL_WRITES'", "scope = 'proxy'"):
            await execute(reader, f"SET tidegate_{setting}")
        for number, level in enumerate(LEVELS):
            assert await count(reader) == number
            writer = await proxy.session(user="other", password="word")
            await execute(writer, f"SET tidegate_consistency = '{level}'")
            await execute(writer, "INSERT INTO t VALUES (1)")
            assert await count(reader) == number + 1, level


async def test_bounded_staleness() -> None:
    async with table_fixture(consistency=Level.BOUNDED_STALENESS, staleness=60.0) as proxy:
        direct = await proxy.direct()
        client = await proxy.session()
        assert await count(client) == 0
        assert probes(proxy) == 1
        await execute(direct, "INSERT INTO t VALUES (1)")
        assert await count(client) == 0, "the bound is a minute"
        assert probes(proxy) == 1
        tight = "/* tidegate consistency='BOUNDED_STALENESS(1us)' */"
        assert await count(client, tight) == 1
        assert await count(client, "/* tidegate consistency='BOUNDED_STALENESS(60m)' */") == 0
        await execute(client, "SET tidegate_consistency = 'BOUNDED_STALENESS(0.001)'")
        assert await count(client) == 1


async def test_what_a_bounded_read_relies_on_is_in_the_log_before_it() -> None:
    """Also a look at the primary that brought no news, which is not logged for its own sake."""
    watched = {"monitor_user": "app", "monitor_password": PASSWORD.encode()}
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with table_fixture(**watched, monitor_interval=0.01, log=log) as proxy:
        client = await proxy.session()
        await execute(client, "SET tidegate_consistency = 'BOUNDED_STALENESS(1s)'")
        seen = proxy.shared.topology.observations
        seen.clear()  # of the first look all is news
        await eventually(lambda: seen.since(0.0) is not None)
        log.take(1000)
        for _ in range(3):
            assert await count(client) == 0
        assert probes(proxy) == 0
        records = [json.loads(line) for line in log.take(100).splitlines()]
        looks = [
            record
            for record in records
            if record["kind"] == "proof" and record["role"] == "primary"
        ]
        reads = [record for record in records if record["class"] == "read"]
        (look,) = looks
        assert look["proof_set"] == proxy.cluster.primary.gtids.executed.text
        assert len(reads) == 3
        for read in reads:
            assert read["seq"] > look["seq"]
            assert read["arrived_us"] - read["bound_us"] <= look["dispatched_us"]
            assert look["dispatched_us"] <= look["ended_us"] <= read["dispatched_us"]


async def test_a_write_that_is_named_raises_no_doubt_again() -> None:
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with table_fixture(log=log) as proxy:
        client = await proxy.session()
        await execute(client, "SET tidegate_consistency = BEST_EFFORT")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "SET tidegate_consistency = READ_OWN_WRITES")
        await execute(client, "INSERT INTO t VALUES (2)")
        await execute(client, "INSERT INTO t VALUES (3)")
        writes = [
            record
            for line in log.take(100).splitlines()
            if (record := json.loads(line))["may_write"]
        ]
        named = [
            (bool(record["own_gtids"]), record["own_known"])
            for record in writes
            if record["class"] == "write"
        ]
        assert (named[0], named[-1]) == ((False, False), (True, True))


async def test_the_log_names_the_role_in_which_a_server_was_chosen() -> None:
    log = RecordStream("gate", 0, "a1", 1 << 20)
    async with table_fixture(log=log) as proxy:
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        (session,) = proxy.shared.sessions
        topology = proxy.shared.topology
        primary = topology.primary
        topology.promote(topology.replicas[0])
        log.take(1000)
        current = session._current
        session._session_context.account.record(
            current.command, current.outcome, primary, Outcome.OK
        )
        record = json.loads(log.take(1))
        assert (record["proof"], record["role"]) == ("primary", "primary")
        topology.promote(primary)


async def test_a_replica_reads_statements_as_the_primary_does() -> None:
    """By the sql_mode that the session began with, whatever the replica's own default is."""
    async with table_fixture() as proxy:
        proxy.cluster.primary.set_variable("sql_mode", "ANSI_QUOTES")
        direct = await proxy.direct()
        await execute(direct, "INSERT INTO t VALUES (1)")
        apply(proxy, True)
        await proxy.caught_up()
        client = await proxy.session()
        for _ in range(2):
            assert (await client.query('SELECT "id" FROM t')).value == b"1"
            assert proxy.statements("primary", "read") == 0
            assert (await client.command(b"\x1f")).ok
        assert proxy.statements("replica", "read") == 2
