"""The same statements on the fast path and without: same packets, servers, records and counts."""

import asyncio
import random
from dataclasses import replace
from typing import Any, Final

import pytest

from mysql_mocker.error import MySQLError
from mysql_mocker.state.faults import Fault
from protocol.command import ComStmtExecute, com_query
from protocol.constants import Capability, Command
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.prepared_statement import PARAMETER_COUNT_AVAILABLE
from protocol.response import OkPacket
from protocol.response_stream import RESULTS, SIMPLE
from protocol.session_track import gtids_entry
from proxy.monitor.primary_election import promote
from routing.consistency.decision import Level, Scope
from tests.faults.client import BASE, MODERN, attributed, query
from tests.faults.path_fixture import (
    READ,
    WRITE,
    PathFixture,
    Scenario,
    answers_to_clients,
    on_both_paths,
)
from tests.faults.peers import err, rows
from tests.faults.proxy_fixture import eventually, statements_of
from tests.faults.table_fixture import TWO_CLIENTS_FAST
from tests.faults.test_prepared import number, prepare
from tests.support.seeds import seeds

PLAIN: Final = (
    *("SELECT n FROM t WHERE id = 1", "SELECT n FROM t WHERE id = 2", "SELECT * FROM t"),
    *("SELECT 1", "SELECT COUNT(*) FROM t", "SELECT n FROM t WHERE id = 99"),
    *("UPDATE t SET n = n + 1 WHERE id = 1", "UPDATE t SET n = 5 WHERE id = 99"),
    *("INSERT INTO t (id, n) VALUES (1, 1)", "REPLACE INTO t (id, n) VALUES (9, 9)"),
    *(
        "DELETE FROM t WHERE id = 9",
        "INSERT INTO t VALUES (500, 1, 'x') ON DUPLICATE KEY UPDATE n = 2",
    ),
)
OTHER: Final = (
    *("SELECT n FROM missing", "SELECT s FROM wide", "UPDATE missing SET n = 1", "SELECT (", "x"),
    *("BEGIN", "START TRANSACTION READ ONLY", "COMMIT", "ROLLBACK", "SET autocommit = 0"),
    *("SET autocommit = 1", "SAVEPOINT s", "SET TRANSACTION READ ONLY", "SET @a = 5"),
    *("SELECT @a", "SELECT n FROM t WHERE id = 1 FOR UPDATE", "SELECT FOUND_ROWS()"),
    *("SELECT ROW_COUNT()", "SHOW WARNINGS", "SELECT LAST_INSERT_ID()", "SELECT DATABASE()"),
    *("CREATE TEMPORARY TABLE tt (id INT)", "DROP TEMPORARY TABLE IF EXISTS tt"),
    *("LOCK TABLES t READ", "UNLOCK TABLES", "SELECT GET_LOCK('l', 0)", "DO RELEASE_LOCK('l')"),
    *("USE second", "USE test", "SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = DEFAULT"),
    *("SET NAMES latin1", "SET NAMES utf8mb4", "SET time_zone = '+01:00'"),
    *("SET SESSION session_track_gtids = ALL_GTIDS", "SET SESSION session_track_gtids = OFF"),
    *("SET SESSION session_track_transaction_info = 'STATE'", "CALL adds()"),
    *("SET SESSION session_track_transaction_info = 'OFF'", "SELECT 1; SELECT 2"),
    *("SET tidegate_consistency = STRONG", "SET tidegate_consistency = READ_OWN_WRITES"),
    *("SET tidegate_consistency = MONOTONIC_READS", "SET tidegate_consistency = BEST_EFFORT"),
    *("SET tidegate_scope = 'user'", "SET tidegate_scope = 'connection'", "SHOW TIDEGATE LAST"),
    *("/* tidegate consistency=STRONG */ SELECT n FROM t WHERE id = 1", "SHOW TIDEGATE SESSION"),
    *("CREATE TABLE IF NOT EXISTS u (id INT)", "DROP TABLE IF EXISTS u", "TRUNCATE TABLE u"),
    *("CREATE OR REPLACE VIEW v AS SELECT n FROM t", "SELECT n FROM v WHERE n > 0"),
    *("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET sql_log_bin = 0"),
    *("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET sql_log_bin = 1"),
    *("PREPARE p FROM 'SELECT n FROM t WHERE id = 1'", "EXECUTE p", "DEALLOCATE PREPARE p"),
)
PACKETS: Final = (
    (bytes((Command.COM_PING,)), SIMPLE),
    (bytes((Command.COM_INIT_DB,)) + b"second", SIMPLE),
    (bytes((Command.COM_INIT_DB,)) + b"test", SIMPLE),
    (bytes((Command.COM_RESET_CONNECTION,)), SIMPLE),
)


RESET: Final = (bytes((Command.COM_RESET_CONNECTION,)), SIMPLE)


@pytest.mark.parametrize("capabilities", TWO_CLIENTS_FAST)
@pytest.mark.parametrize("seed", seeds(1, 8))
async def test_any_statements(seed: int, capabilities: Capability) -> None:
    assert (await on_both_paths(any_statements(seed, capabilities))).went_fast > 0


LEVELS: Final = (Level.MONOTONIC_READS, Level.BOUNDED_STALENESS, Level.BEST_EFFORT)
"""Others than READ_OWN_WRITES whose plain reads need no question."""


@pytest.mark.parametrize("capabilities", [MODERN, BASE], ids=["modern", "old"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", seeds(1, 2))
async def test_any_statements_at_other_levels(
    seed: int, level: Level, capabilities: Capability
) -> None:
    scenario = any_statements(seed, capabilities, in_turns=True)
    played = await on_both_paths(scenario, consistency=level, staleness=3600.0, replicas=1)
    assert played.went_fast > 0


def any_statements(seed: int, capabilities: Capability, *, in_turns: bool = False) -> Scenario:
    """Statements of all kinds; `in_turns`: each when the replicas have what the last one wrote."""

    async def scenario(path: PathFixture) -> None:
        chance = random.Random(f"{seed} {int(capabilities)}")
        client = await path.client(capabilities)
        direct = await path.proxy.direct()

        async def does(sql: str | bytes, shape: int = RESULTS) -> None:
            await path.execute(client, sql, shape)
            if in_turns:
                await path.proxy.caught_up()

        async def plain(most: int) -> None:
            for _ in range(chance.randint(0, most)):
                await does(chance.choice(PLAIN))

        for _ in range(10):
            await plain(5)
            for _ in range(chance.randint(1, 2)):
                if chance.random() < 0.9:
                    await does(chance.choice(OTHER))
                else:
                    await does(*chance.choice(PACKETS))
                await plain(3)
            if chance.random() < 0.3:
                assert (await direct.query("REPLACE INTO t (id, n) VALUES (1000, 1)")).ok
                await path.proxy.caught_up()
            if chance.random() < 0.7:
                await does(*RESET)

    return scenario


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER, Scope.PROXY])
async def test_sessions_beside_each_other(scope: Scope) -> None:
    async def scenario(path: PathFixture) -> None:
        chance = random.Random(scope)
        clients = [await path.client(), await path.client(BASE)]
        for _ in range(80):
            await path.execute(chance.choice(clients), chance.choice(PLAIN))

    assert (await on_both_paths(scenario, scope=scope)).went_fast > 20


@pytest.mark.parametrize("level", LEVELS)
async def test_a_session_that_has_chosen_its_level(level: Level) -> None:
    """Its primary connection tracks other GTIDs from the next command there on."""
    bound = "(3600s)" if level is Level.BOUNDED_STALENESS else ""

    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        await path.execute(client, f"SET tidegate_consistency = '{level}{bound}'")
        for sql in (READ, READ, READ, READ, READ, WRITE, READ, READ, WRITE, READ, READ):
            await path.execute(client, sql)
            await path.proxy.caught_up()

    assert (await on_both_paths(scenario)).went_fast >= 5


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
@pytest.mark.parametrize("level", LEVELS)
async def test_sessions_at_other_levels_beside_each_other(level: Level, scope: Scope) -> None:
    async def scenario(path: PathFixture) -> None:
        chance = random.Random(f"{level} {scope}")
        clients = [await path.client(), await path.client(BASE)]
        for _ in range(60):
            sql = chance.choice(PLAIN[:6] * 3 + PLAIN)  # mostly a read
            await path.execute(chance.choice(clients), sql)
            await path.proxy.caught_up()

    played = await on_both_paths(scenario, consistency=level, scope=scope, staleness=3600.0)
    assert played.went_fast > 20


@pytest.mark.parametrize("seed", seeds(1, 4))
async def test_sessions_that_rest(seed: int) -> None:
    """They give their connections back between statements, and borrow others."""

    async def scenario(path: PathFixture) -> None:
        chance = random.Random(seed)
        clients = [await path.client(), await path.client()]
        for _ in range(60):
            client = chance.choice(clients)
            await path.execute(client, chance.choice(PLAIN if chance.random() < 0.9 else SETTINGS))
            session = path.sessions[client]
            if chance.random() < 0.2:
                for _ in range(2):
                    session.rest()
                await eventually(lambda session=session: not session._lease.asking)
                # A server may clean up a kept connection before or behind another's next statement.
                await eventually(lambda: path.proxy.kept_are_clean)

    played = await on_both_paths(
        scenario, connection_sharing="on", connection_sharing_delay=3600.0, kept_connections=2
    )
    assert played.went_fast > 15
    assert played.proxy.count("tidegate_connections_given_back_total") > 0


PREPARED_READS: Final = (
    *("SELECT n FROM t WHERE id = ?", "SELECT COUNT(*) FROM t WHERE id >= ? AND n < ?"),
    *("SELECT 1", "SELECT n FROM t WHERE id = ? FOR UPDATE"),
)


@pytest.mark.parametrize("capabilities", [MODERN, MODERN | Capability.CLIENT_QUERY_ATTRIBUTES])
@pytest.mark.parametrize("seed", seeds(1, 4))
async def test_prepared_reads(seed: int, capabilities: Capability) -> None:
    assert (await on_both_paths(prepared_reads(seed, capabilities))).went_fast > 10


@pytest.mark.parametrize("level", LEVELS)
async def test_prepared_reads_at_other_levels(level: Level) -> None:
    scenario = prepared_reads(7, MODERN, in_turns=True)
    assert (await on_both_paths(scenario, consistency=level, staleness=3600.0)).went_fast > 10


def prepared_reads(seed: int, capabilities: Capability, *, in_turns: bool = False) -> Scenario:
    """Executions by two clients; `in_turns` as for `any_statements`."""

    async def scenario(path: PathFixture) -> None:
        chance = random.Random(f"{seed} {int(capabilities)}")
        client, other = await path.client(capabilities), await path.client(capabilities)
        known = {
            who: [await prepare(who, sql) for sql in PREPARED_READS] for who in (client, other)
        }
        for turn in range(60):
            who = chance.choice([client, other])
            index = chance.randrange(len(PREPARED_READS))
            values = [number(chance.randint(0, 3)) for _ in range(PREPARED_READS[index].count("?"))]
            if values and chance.random() < 0.2:
                values[0] = replace(values[0], name=chance.choice(["tidegate.consistency", "n"]))
            flags = chance.choice([0, 0, 0, 0, 1])  # the last one asks for a cursor
            if capabilities & Capability.CLIENT_QUERY_ATTRIBUTES:
                flags |= PARAMETER_COUNT_AVAILABLE
            execution = ComStmtExecute.of(known[who][index], values, flags)
            if turn % 8 == 7:
                await path.execute(who, chance.choice(OTHER[-20:] + PLAIN))
                await path.execute(who, *reset_statement(known[who][index]))
            else:
                attributes = bool(capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
                await path.execute(who, execution.serialise(attributes))
            if chance.random() < 0.2:
                await path.execute(who, chance.choice(PLAIN))
            if in_turns:
                await path.proxy.caught_up()

    return scenario


def reset_statement(statement: int) -> tuple[bytes, int]:
    return bytes((Command.COM_STMT_RESET,)) + statement.to_bytes(4, "little"), SIMPLE


SETTINGS: Final = ("SET time_zone = '+01:00'", "SET time_zone = DEFAULT", "SELECT 1 + 1")
NEW: Final = (
    "UPDATE t SET n = {} WHERE id = {}",
    "INSERT INTO t (n, id) VALUES ('{}', {})",
    "SELECT n FROM t WHERE n <> '{}' AND id = {} AND 1 = 1",
)


async def test_statements_of_which_only_the_literals_are_new() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        for n in range(20):
            for text in NEW:
                await path.execute(client, text.format(n + 1000, n + 2000))

    # All but the first read, which opens a connection, and those behind a write, which may wait.
    assert (await on_both_paths(scenario)).went_fast >= 40


STATUS: Final = OkPacket(status=2).serialise(Capability.CLIENT_PROTOCOL_41)
ANSWERS: Final = {
    "an error": err(1064, "no"),
    "an error behind the definitions": rows()[:-11] + err(1317, "interrupted", 3),
    "that it may not": err(1290, "read only"),
    "that it may not yet": err(1142, "denied"),
    "that it goes away": err(1053, "shutdown"),
    "two results": rows([b"1"])[:-4] + b"\x0a\x00\x00\x00" + rows([b"2"], sequence_id=5),
    "no row": rows(),
    "an OK": frame(STATUS, 1),
    "an OK that began a transaction": frame(b"\0\0\0\3\0\0\0", 1),
    "rows that began a transaction": rows([b"1"])[:-4] + b"\x03\x00\x00\x00",
    "rows that were slow": rows([b"1"])[:-4] + b"\x22\x08\x07\x00",
    "an OK with a text": frame(b"\0\1\0\2\0\0\0\4text", 1),
    "nothing sensible": frame(b"\x05\x00", 1),
    "a file": frame(b"\xfb/etc/passwd", 1),
    "a name that is none": frame(b"\0\1\0\2\x40\0\0\0\x0e\3\x0c\0\x0anot a name", 1),
    "no name": frame(b"\0\1\0\2\x40\0\0\0\4\3\2\0\0", 1),
    "another schema": frame(b"\0\0\0\2\x40\0\0\0\x09\1\7\6second", 1),
    "another tracker": frame(b"\0\1\0\2\x40\0\0\0\3\2\1\x31", 1),
}


def telling(block: bytes) -> bytes:
    """Rows behind which a server's trackers tell this."""
    ok = OkPacket(status=2, session_state=block, header=0xFE)
    return rows([b"1"])[:-11] + frame(ok.serialise(MODERN), 4)


# Their UUIDs come before that of any server, in whose order sets are written.
SETS: Final = {
    "a set": telling(gtids_entry(GtidSet.parse("00000000-0000-0000-0000-000000000011:1-5"))),
    "an empty set": telling(gtids_entry(GtidSet())),
    "a set that is none": telling(b"\3\x0c\0\x0anot a name"),
    "another encoding": telling(b"\3\2\7\7"),
    "nothing": telling(b""),
    "two sets": telling(gtids_entry(GtidSet()) * 2),
    "another tracker": telling(b"\2\1\x31"),
    "no tracker": rows([b"1"]),
    "many sets": telling(
        gtids_entry(
            GtidSet.parse(
                ",".join(f"00000000-0000-0000-0000-0000000000{n}:1" for n in range(10, 20))
            )
        )
    ),
}


MADE_UP: Final = ("a set", "many sets")
"""Those with GTIDs of no server."""


@pytest.mark.parametrize("answer", SETS)
async def test_whatever_a_replica_says_that_it_has(answer: str) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        for sql in (READ, WRITE, READ, READ):
            await path.execute(client, sql)
            await path.proxy.caught_up()
        path.proxy.cluster.replicas[0].faults.raw_reply(SETS[answer], matching=b" t ")
        try:
            for sql in (READ, READ, READ, "SHOW TIDEGATE SESSION", WRITE, READ, READ):
                await path.execute(client, sql)
                await path.proxy.caught_up()
        except (ConnectionError, EOFError):
            path.seen.append("the end")

    # A read waits in vain for what no server has.
    options = {"wait_budget": 2.0} if answer in MADE_UP else {}
    played = await on_both_paths(scenario, consistency=Level.MONOTONIC_READS, **options)
    assert played.went_fast > 0


CUT_OFF: Final = (0, 3, 4, 5, 20)
"""Bytes of an answer behind which the connection breaks."""
OF_OLD: Final = ("an error behind the definitions", "two results", "no row", "an OK", 20)
"""What ends otherwise where an EOF does it, and an answer that was cut off."""


@answers_to_clients([*ANSWERS, *CUT_OFF], of_old=OF_OLD)
async def test_any_answer(answer: str | int, capabilities: Capability) -> None:
    """To a read on the replica, then to another client's write on the primary."""

    async def scenario(path: PathFixture) -> None:
        primary, replica = path.proxy.cluster.servers
        for server, sql in ((replica, READ), (primary, WRITE)):
            went_fast = path.went_fast
            client = await path.client(capabilities)
            for before in (READ, READ, WRITE, READ, READ):
                await path.execute(client, before)
            assert not path.fast or path.went_fast > went_fast
            if isinstance(answer, int):
                server.faults.drop_connection_after(answer, matching=b" t ")
            else:
                server.faults.raw_reply(ANSWERS[answer], matching=b" t ")
            try:
                for behind in (
                    *(sql, READ, WRITE, READ, READ),
                    *("SHOW TIDEGATE LAST", "SELECT FOUND_ROWS()"),
                ):
                    await path.execute(client, behind)
            except (ConnectionError, EOFError):
                path.seen.append("the end")
            await path.proxy.caught_up()

    await on_both_paths(scenario)


async def test_a_result_that_comes_in_parts() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        for sql in (READ, READ, "SELECT s FROM wide WHERE id = 1", READ, WRITE, READ):
            packets = await path.execute(client, sql)
            assert packets[-1][0] != 0xFF

    assert (await on_both_paths(scenario)).went_fast >= 3


async def test_commands_that_come_in_one_piece() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        await path.execute(client, READ)
        for _ in range(3):
            client.send_bytes(b"".join(frame(query(sql), 0) for sql in (READ, READ, WRITE, READ)))
            for _ in range(4):
                path.seen.append([path.plain(item) for item in (await client.answer()).packets])

    await on_both_paths(scenario)


@pytest.mark.parametrize("share", [0.3, 1.0])
async def test_reads_that_are_audited(share: float) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        for _ in range(4):
            for sql in (WRITE, READ, READ, READ, READ):
                await path.execute(client, sql)

    assert (await on_both_paths(scenario, self_audit=share)).went_fast > 0


async def test_a_client_that_leaves_in_between() -> None:
    async def scenario(path: PathFixture) -> None:
        replica = path.proxy.cluster.replicas[0]
        client = await path.client()
        for sql in (READ, READ, READ):
            await path.execute(client, sql)
        replica.faults.delay_reply(0.2, matching=b" t ")
        client.send(query(READ))
        await eventually(lambda: statements_of(replica).count(READ) == 4)
        client.abort()
        await eventually(lambda: not path.proxy.shared.sessions)

    await on_both_paths(scenario)


async def test_a_primary_that_is_lost_during_a_read() -> None:
    async def scenario(path: PathFixture) -> None:
        replica = path.proxy.cluster.replicas[0]
        client = await path.client()
        for sql in (READ, READ, READ):
            await path.execute(client, sql)
        replica.faults.delay_reply(0.2, matching=b" t ")
        client.send(query(READ))
        await eventually(lambda: statements_of(replica).count(READ) == 4)
        (session,) = (
            item for item in path.proxy.shared.sessions if item.client.fast or not path.fast
        )
        session._servers.primary.give_up("test")
        path.seen.append(await client.rest())

    await on_both_paths(scenario)


class Splitter(asyncio.Protocol):
    """Lets what comes for another arrive in two chunks."""

    def __init__(self, other: Any, at: int) -> None:
        self._other = other
        self._at = at

    def data_received(self, data: bytes) -> None:
        for part in (data[: self._at], data[self._at :]):
            if part:
                self._other.data_received(part)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)

    def connection_lost(self, error: Exception | None) -> None:
        self._other.connection_lost(error)


@pytest.mark.parametrize("capabilities", [MODERN, BASE], ids=["modern", "old"])
async def test_packets_that_are_split_anywhere(capabilities: Capability) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client(capabilities)
        servers = path.sessions[client]._servers
        for sql in (READ, WRITE, READ, READ):
            await path.execute(client, sql)
        connections = [servers.primary, *servers.replicas]
        packet = frame(query(READ), 0)
        for at in range(1, len(packet) + 1):
            for connection in connections:
                connection._transport.set_protocol(Splitter(connection, at))
            for sql in (READ, WRITE, READ):
                await path.execute(client, sql)
            client.send_bytes(packet[:at])
            await path.proxy.caught_up()
            client.send_bytes(packet[at:])
            path.seen.append([path.plain(item) for item in (await client.answer()).packets])
        for connection in connections:
            connection._transport.set_protocol(connection)

    assert (await on_both_paths(scenario)).went_fast > 0


LOAD: Final = "LOAD DATA LOCAL INFILE '/x' INTO TABLE t"
HOSTILE: Final = {
    "no text": frame(b"\x03", 0),
    "an empty packet": frame(b"", 0),
    "no command": frame(b"\xfe" + READ.encode(), 0),
    "out of order": frame(query(READ), 1),
    "more than it may be": b"\xff\xff\xff\0\x03",
    "less than it says": b"\x40\0\0\0" + query(READ),
    "a local file": frame(query(LOAD), 0),
    "zero behind the text": frame(query(READ + "\0"), 0),
    "several statements": frame(query("SELECT 1; SET sql_mode = 'ANSI_QUOTES'; " + READ), 0),
    "several writes": frame(query(WRITE + "; " + WRITE), 0),
    "a transaction behind a read": frame(query(READ + "; BEGIN"), 0),
    "another schema": frame(query("SELECT 1; USE second"), 0),
    "bytes that are no text": frame(b"\x03SELECT '\xff\xfe' FROM t WHERE id = 1", 0),
    "as if it had attributes": frame(b"\x03\0\1" + READ.encode(), 0),
    "an attribute that is none": frame(b"\x03\1\1\0\1" + READ.encode(), 0),
    "a lie about attributes": frame(b"\x03\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\1", 0),
    "an attribute": frame(attributed(READ, tidegate_consistency="STRONG"), 0),
}


@pytest.mark.parametrize("capabilities", TWO_CLIENTS_FAST)
async def test_whatever_a_client_sends(capabilities: Capability) -> None:
    """Between plain statements, all in one piece; then it says no more."""

    async def scenario(path: PathFixture) -> None:
        attributes = bool(capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
        read, write = (frame(com_query(sql.encode(), attributes), 0) for sql in (READ, WRITE))
        for name, data in HOSTILE.items():
            client = await path.client(capabilities)
            went_fast = path.went_fast
            for sql in (READ, WRITE, READ, READ):
                await path.execute(client, sql)
            assert not path.fast or path.went_fast > went_fast
            client.send_bytes(read + data + write + read + read)
            client.writer.write_eof()
            path.seen.append((name, path.plain(await client.reader.read())))
            await eventually(lambda: not path.proxy.shared.sessions)
            await path.proxy.caught_up()

    await on_both_paths(scenario)


async def test_a_failover_between_two_statements() -> None:
    async def scenario(path: PathFixture) -> None:
        client, other = await path.client(), await path.client()
        for sql in (READ, WRITE, READ, READ):
            await path.execute(client, sql)
        await path.proxy.caught_up()
        promote(path.proxy.shared, path.proxy.shared.topology.replicas[0])
        path.seen.append((await client.rest())[:9])
        path.seen.append((await other.rest())[:9])

    assert (await on_both_paths(scenario, without_primary="refuse")).went_fast > 0


@pytest.mark.parametrize(
    "change", ["epoch", "term", "strayed", "down", "gtids", "doubt", "refused"]
)
@pytest.mark.parametrize("level", [Level.READ_OWN_WRITES, Level.MONOTONIC_READS])
async def test_servers_that_change_between_two_statements(change: str, level: Level) -> None:
    async def scenario(path: PathFixture) -> None:
        topology = path.proxy.shared.topology
        primary, replica = topology.primary, topology.replicas[0]
        client = await path.client()
        for sql in (READ, WRITE, READ, READ, WRITE, READ):
            await path.execute(client, sql)
        await path.proxy.caught_up()
        if change == "epoch":
            replica.distrust(replica.epoch)
        elif change == "term":
            primary.distrust(primary.epoch)
        elif change == "strayed":
            replica.diverged_gtids = replica.applied
        elif change == "down":
            replica.set_silent(path.proxy.shared.now() + 3600)
        elif change == "gtids":
            primary.gtids = False
        elif change == "doubt":
            replica.proof_max_age = 0.0
        else:
            topology.refusals.add(path.sessions[client]._current.command.statement.digest, 1e9)
        for sql in (READ, WRITE, READ, READ):
            await path.execute(client, sql)

    assert (await on_both_paths(scenario, consistency=level)).went_fast > 0


@pytest.mark.parametrize("sql", [READ, WRITE])
async def test_a_statement_that_is_killed(sql: str) -> None:
    async def scenario(path: PathFixture) -> None:
        primary, replica = path.proxy.cluster.servers
        client, killer = await path.client(), await path.client()
        for before in (READ, WRITE, READ, READ):
            await path.execute(client, before)
        await path.proxy.caught_up()
        at = primary if sql == WRITE else replica
        gate = at.faults.hold_reply(matching=b" t ", raw=err(1317, "interrupted"))
        client.send(query(sql))
        await eventually(lambda: gate.held == 1)
        number = path.sessions[client].connection_id
        assert (await killer.query(f"KILL QUERY {number}")).ok
        gate.open()
        path.seen.append((await client.answer()).packets)
        for behind in (READ, WRITE, READ, READ):
            await path.execute(client, behind)

    assert (await on_both_paths(scenario)).went_fast > 0


async def test_a_user_whom_a_replica_does_not_let_in() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await path.client()
        path.sessions[client].state.preferred = 0
        for sql in (READ, READ):
            await path.execute(client, sql)
        replica = path.proxy.cluster.replicas[0]
        replica.faults.arm(Fault(b"", None, login=True, error=MySQLError(1045, "28000", "no")))
        replica.disconnect()
        for sql in (READ, READ, READ):
            await path.execute(client, sql)

    assert (await on_both_paths(scenario, replicas=2)).went_fast > 0
