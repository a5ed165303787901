"""Reads at replicas that are late: they wait for what can change their answer, and for no more."""

from __future__ import annotations  # Connection is generic for the type checker only

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any, TypeAlias

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor, DictCursor

from protocol.constants import Capability, Command
from protocol.gtid import GtidSet
from protocol.prepared_statement import ComStmtExecute
from protocol.response import StmtPrepareOk
from protocol.response_stream import PREPARED
from protocol.resultset import parse_text_row
from proxy.monitor import binlog_stream
from proxy.shared import catalogues
from routing.consistency.decision import Scope
from routing.record import RecordStream
from tests.faults.proxy_fixture import ProxyFixture, before, eventually
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import BASE, RawClient
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER, MONITOR_PASSWORD, MONITOR_USER
from tests.support.waiting import eventually as wait_until

Session: TypeAlias = "Connection[Cursor]"
Story: TypeAlias = "Callable[[Late], Coroutine[Any, Any, None]]"

CAPABILITIES = BASE | Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
SCHEMA = """
CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, v INT);
CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT, v INT);
CREATE TABLE memory (id INT PRIMARY KEY, v INT) ENGINE = MyISAM;
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, parent INT,
  FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE audited (id INT PRIMARY KEY, v INT);
CREATE TABLE audit (id INT PRIMARY KEY AUTO_INCREMENT, of_id INT);
CREATE TRIGGER audits AFTER UPDATE ON audited FOR EACH ROW
  INSERT INTO audit (of_id) VALUES (NEW.id);
CREATE VIEW viewed AS SELECT id, v FROM audited;
CREATE VIEW nested AS SELECT COUNT(*) AS n FROM viewed JOIN parent USING (id);
CREATE VIEW changing AS SELECT id, v FROM plain;
CREATE FUNCTION counts() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM plain);
INSERT INTO plain VALUES (1, 1);
INSERT INTO other VALUES (1, 1);
INSERT INTO parent VALUES (1), (2), (3);
INSERT INTO child VALUES (10, 1), (20, 2);
INSERT INTO audited VALUES (1, 1), (2, 2);
"""

READS = {
    "plain": ("SELECT * FROM plain ORDER BY id", {"plain"}),
    "other": ("SELECT COUNT(*), MAX(v) FROM app.other", {"other"}),
    "child": ("TABLE child ORDER BY id", {"child"}),
    "parent": ("WITH p AS (SELECT id FROM parent) SELECT COUNT(*) FROM p", {"parent"}),
    "audit": ("SELECT COUNT(*) FROM (SELECT of_id FROM audit) AS plains", {"audit"}),
    "audited": ("SELECT 1 UNION SELECT v FROM audited ORDER BY 1", {"audited"}),
    "viewed": ("SELECT * FROM viewed ORDER BY id", {"audited"}),
    "nested": (
        "SELECT n, EXISTS (SELECT 1 FROM other) FROM nested",
        {"audited", "parent", "other"},
    ),
    "nothing": ("SELECT 1 + 1", set()),
}
"""Reads, and the base tables of each."""

WRITES = {
    "rows": (["INSERT INTO other (v) VALUES (7)"], {"other"}),
    "two tables": (
        ["BEGIN", "UPDATE plain SET v = v + 1", "INSERT INTO child VALUES (30, 3)", "COMMIT"],
        {"plain", "child"},
    ),
    "a trigger": (["UPDATE audited SET v = v + 1 WHERE id = 1"], {"audited", "audit"}),
    "through a view": (["UPDATE viewed SET v = v + 1 WHERE id = 2"], {"audited", "audit"}),
    "a cascade": (["DELETE FROM parent WHERE id = 1"], {"parent", "child"}),
}
"""Writes, and the tables that each changes."""


@pytest.fixture(scope="module", autouse=True)
def schema(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    """The tables, and what the monitor needs to read the log."""
    primary = cluster.primary
    with closing(primary.admin("app")) as connection:
        for statement in filter(str.strip, SCHEMA.split(";\n")):
            run(connection, statement)
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    yield
    primary.query(f"REVOKE REPLICATION SLAVE ON *.* FROM {MONITOR_USER}")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_stream, "BACKOFF_FIRST_S", 0.05)
    monkeypatch.setattr(binlog_stream, "BACKOFF_LAST_S", 0.2)
    monkeypatch.setattr(catalogues, "_RENEW_S", 0.0)


def connect(port: int) -> Session:
    """A client of a proxy."""
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=APP_USER,
        password=APP_PASSWORD,
        database="app",
        autocommit=True,
    )


def last(session: Session, sql: str) -> str:
    """The proof of a read."""
    run(session, sql)
    with session.cursor(DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (row,) = cursor.fetchall()
    return str(row["proof"])


class Late:
    """A proxy in this process that reads the primary's log, before replicas that are late."""

    def __init__(self, cluster: Cluster, proxy: ProxyFixture, log: RecordStream) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.log = log

    async def followed(self) -> None:
        """Wait until the log is read through all that the primary has."""
        executed = GtidSet.parse(
            await asyncio.to_thread(lambda: self.cluster.primary.gtid_executed)
        )

        def read() -> bool:
            found = self.proxy.shared.topology.current_tables
            primary = self.proxy.shared.topology.primary
            return (
                found is not None
                and executed <= found.read_through
                and executed <= primary.applied
                and all(server.sources for server in self.proxy.shared.topology.replicas)
            )

        await eventually(read, 60)

    async def rests(self) -> None:
        """Wait until the log is not read, since replicas are not late."""
        tables = self.proxy.shared.topology.transaction_tables
        await eventually(lambda: tables.cause == "replicas are not late", 60)

    async def catch_up(self) -> None:
        """Let replicas apply all there is, and nothing after that."""
        await asyncio.to_thread(self._catch_up)
        executed = GtidSet.parse(
            await asyncio.to_thread(lambda: self.cluster.primary.gtid_executed)
        )
        replicas = self.proxy.shared.topology.replicas
        await eventually(lambda: all(executed <= server.applied for server in replicas), 60)
        await self.followed()

    def _catch_up(self) -> None:
        for replica in self.cluster.replicas:
            replica.start_applier()
        self.cluster.wait_caught_up()
        for replica in self.cluster.replicas:
            replica.stop_applier()

    async def direct(self, *statements: str) -> None:
        """Run statements at the primary, past the proxy; the log has told of them."""
        await self.direct_unread(*statements)
        await self.followed()

    async def direct_unread(self, *statements: str) -> None:
        """Run statements at the primary, past the proxy."""

        def change() -> None:
            with closing(self.cluster.primary.admin("app")) as connection:
                for statement in statements:
                    run(connection, statement)

        await asyncio.to_thread(change)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Reader]:
        reader = await asyncio.to_thread(Reader, self)
        try:
            yield reader
        finally:
            await asyncio.to_thread(reader.session.close)

    async def settle(self) -> None:
        """Let reads find out what names mean by now."""
        async with self.session() as reader:
            for _ in range(3):  # one is not certain, the next asks, and this one knows
                await reader.write("INSERT INTO audit (of_id) VALUES (0)")
                await reader.read("plain")


class Reader:
    """A client of the proxy, and what its reads were given."""

    def __init__(self, late: Late) -> None:
        self.late = late
        self.session = connect(late.proxy.port)

    async def write(self, *statements: str) -> None:
        """Write; the log has told of it."""
        for statement in statements:
            await asyncio.to_thread(run, self.session, statement)
        await self.late.followed()

    async def read(self, name: str) -> str:
        """The proof of a read of `READS`, or of a text."""
        return str((await self.asks(READS[name][0] if name in READS else name))["proof"])

    async def independent(self, name: str) -> bool:
        """Whether a read of `READS`, or of a text, is independent.

        A replica's connection may still owe the late answer to an earlier read; then it is not yet.
        """
        async with asyncio.timeout(60):
            while await self.read(name) != "independent":
                pass
        return True

    async def asks(self, sql: str) -> dict[str, Any]:
        """What SHOW TIDEGATE LAST tells of a read."""
        return await asyncio.to_thread(self._read, sql)

    def _read(self, sql: str) -> dict[str, Any]:
        rows = run(self.session, sql)
        with self.session.cursor(DictCursor) as cursor:
            cursor.execute("SHOW TIDEGATE LAST")
            (last,) = cursor.fetchall()
        if last["proof"] == "independent":  # all that replicas lack is the session's own
            with closing(self.late.cluster.primary.admin("app")) as direct:
                assert rows == run(direct, sql), sql
        assert (last["proof"] == "independent") == (last["role"] == "replica"), last
        return dict(last)


@pytest.fixture
def behind(cluster: Cluster) -> Iterator[None]:
    """Replicas apply nothing."""
    cluster.wait_caught_up()
    for replica in cluster.replicas:
        replica.stop_applier()
    yield
    for replica in cluster.replicas:
        replica.start_applier()


def play(cluster: Cluster, story: Story, **options: Any) -> list[dict[str, Any]]:
    """Let it happen before late replicas; gives the records of the routing log."""
    log = RecordStream("gate", 0, "a1", 1 << 26)

    async def run_it() -> None:
        settings: dict[str, Any] = {
            "monitor_user": MONITOR_USER,
            "monitor_password": MONITOR_PASSWORD.encode(),
            "monitor_interval": 0.05,
            "table_dependencies": "on",
            "view_age": 3600.0,
            "wait_budget": 0.05,
            "log": log,
        }
        replicas = [server.address for server in cluster.replicas]
        settings |= options
        async with before(cluster.primary.address, replicas, **settings) as proxy:
            late = Late(cluster, proxy, log)
            if settings["table_dependencies"] == "auto":
                await late.rests()
            else:
                await late.followed()
                await late.settle()
                await late.catch_up()
            await story(late)

    asyncio.run(run_it())
    log.finish()
    return [json.loads(line) for line in log.take(1 << 30).splitlines()]


@pytest.mark.usefixtures("behind")
def test_a_read_depends_on_what_changed_its_tables(cluster: Cluster) -> None:

    async def story(late: Late) -> None:
        for write, (statements, changed) in WRITES.items():
            async with late.session() as reader:
                await reader.write(*statements)
                for name, (_, tables) in READS.items():
                    if changed & tables:
                        assert await reader.read(name) != "independent", (write, name)
                    else:
                        assert await reader.independent(name)
            await late.catch_up()

    play(cluster, story)


UNCERTAIN = (
    *("SELECT counts() FROM other", "SELECT * FROM memory", "SELECT * FROM other FOR SHARE"),
    "SELECT COUNT(*) FROM information_schema.TABLES",
    "SELECT plain, other.v FROM (SELECT v AS plain FROM other) AS d, other",
)


@pytest.mark.usefixtures("behind")
def test_what_is_not_certain_depends_on_everything(cluster: Cluster) -> None:
    async def story(late: Late) -> None:
        async with late.session() as reader:
            await reader.write("UPDATE plain SET v = v + 1")
            assert await reader.independent("other")
            for sql in UNCERTAIN:
                assert await reader.read(sql) != "independent", sql
            await reader.write("CREATE TEMPORARY TABLE other (id INT, v INT)")
            proof = await asyncio.to_thread(last, reader.session, "SELECT * FROM other")
            assert proof == "primary"

    play(cluster, story)


OPAQUE = {
    "a definition": ["ALTER TABLE plain COMMENT 'changed'"],
    "accounts": ["CREATE ROLE IF NOT EXISTS nobody"],
    "XA": [
        *("XA START 'x'", "UPDATE plain SET v = v + 1", "XA END 'x'", "XA PREPARE 'x'"),
        "XA COMMIT 'x'",
    ],
    "exchanged tables": [
        "RENAME TABLE other TO third, plain TO other, third TO plain",
        "RENAME TABLE other TO third, plain TO other, third TO plain",
    ],
    "a statement": ["SET binlog_format = STATEMENT", "UPDATE plain SET v = 3"],
}


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_whatever_is_no_change_of_rows_matters_until_replicas_have_it(
    cluster: Cluster, first: bool
) -> None:
    async def story(late: Late) -> None:
        for name, statements in OPAQUE.items():
            async with late.session() as reader:
                if first:
                    await late.direct(*statements)
                await reader.write("INSERT INTO audit (of_id) VALUES (1)")
                if not first:
                    assert await reader.independent("other")
                    await late.direct(*statements)
                for read in ("plain", "other", "viewed", "nothing"):
                    assert await reader.read(read) != "independent", (name, read)
            await late.catch_up()
            await late.settle()
            async with late.session() as reader:
                await reader.write("INSERT INTO audit (of_id) VALUES (1)")
                assert await reader.independent("other")

    play(cluster, story)


@pytest.mark.usefixtures("behind")
def test_a_view_that_is_made_anew_means_its_new_tables(cluster: Cluster) -> None:
    read = "SELECT v FROM changing"

    async def story(late: Late) -> None:
        async with late.session() as reader:
            await reader.write("UPDATE plain SET v = v + 1")
            assert await reader.read(read) != "independent"
            await late.catch_up()
            await late.direct("CREATE OR REPLACE VIEW changing AS SELECT id, v FROM audited")
            await late.catch_up()
            await reader.write("UPDATE audited SET v = v + 1")
            assert await reader.read(read) != "independent"
            await late.catch_up()
            await late.settle()
            await reader.write("UPDATE plain SET v = v + 1")
            assert await reader.independent(read)
            await reader.write("UPDATE audited SET v = v + 1")
            assert await reader.read(read) != "independent"

    play(cluster, story)


@pytest.mark.usefixtures("behind")
def test_a_prepared_statement_reads_in_the_schema_of_its_prepare(cluster: Cluster) -> None:
    """Wherever it is executed: of `app.other` and `second.other` only one was written."""
    found: list[tuple[str, bytes]] = []

    def executed(client: RawClient, prepared: int) -> tuple[str, bytes]:
        answer = client.command(
            Command.COM_STMT_EXECUTE, ComStmtExecute(prepared, 0).serialise(False)[1:]
        )
        last = parse_text_row(client.query("SHOW TIDEGATE LAST")[-2][1])
        return (last[5] or b"").decode(), answer[-2][1][-4:]

    def prepare(client: RawClient) -> int:
        answer = client.command(
            Command.COM_STMT_PREPARE, b"SELECT COUNT(*) + 0 FROM other", PREPARED
        )
        return StmtPrepareOk.parse(answer[0][1], client.capabilities).statement_id

    async def story(late: Late) -> None:
        await late.direct(
            *("CREATE DATABASE second", "CREATE TABLE second.other (v INT)"),
            f"GRANT ALL ON second.* TO {APP_USER}",
        )
        await late.catch_up()
        await late.settle()
        address = f"127.0.0.1:{late.proxy.port}"
        client = await asyncio.to_thread(
            RawClient, address, APP_USER, APP_PASSWORD, CAPABILITIES, "app"
        )
        in_app = await asyncio.to_thread(prepare, client)
        await asyncio.to_thread(client.query, "USE second")
        in_second = await asyncio.to_thread(prepare, client)
        await asyncio.to_thread(client.query, "INSERT INTO other VALUES (1)")
        await late.followed()
        async with late.session() as reader:  # until what names mean is certain
            await reader.write("INSERT INTO audit (of_id) VALUES (0)")
            assert await reader.independent("plain")
        for use in ("USE second", "USE app"):
            await asyncio.to_thread(client.query, use)
            async with asyncio.timeout(60):
                while (last := await asyncio.to_thread(executed, client, in_app))[0] == "primary":
                    pass  # the replica's connection may still owe the answer before
            found.extend([last, await asyncio.to_thread(executed, client, in_second)])
        await asyncio.to_thread(client.close)

    try:
        play(cluster, story)
    finally:
        cluster.primary.query("DROP DATABASE second")
    proofs = [proof for proof, _ in found]
    assert proofs == ["independent", "primary", "independent", "primary"]
    assert found[0] == found[2]
    assert found[1] == found[3]


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize("scope", [Scope.USER, Scope.PROXY])
def test_another_connection_depends_on_the_same_writes(cluster: Cluster, scope: Scope) -> None:
    async def story(late: Late) -> None:
        async with late.session() as writer, late.session() as reader:
            await writer.write("UPDATE plain SET v = v + 1")
            assert await reader.independent("other")
            assert await reader.read("plain") == "primary"
            await writer.write("INSERT INTO other (v) VALUES (8)")
            assert await reader.read("other") == "primary"
            assert await reader.independent("parent")

    play(cluster, story, scope=scope)


@pytest.mark.usefixtures("behind")
def test_a_read_waits_for_what_remains(cluster: Cluster) -> None:
    """The replicas apply the first write while it waits, and never the second."""

    async def story(late: Late) -> None:
        async with late.session() as reader:
            await reader.write("UPDATE plain SET v = v + 1")
            remains = await asyncio.to_thread(lambda: cluster.primary.gtid_executed)
            await asyncio.to_thread(_apply_until, cluster, remains)
            await reader.write("INSERT INTO other (v) VALUES (9)")
            last = await reader.asks(READS["plain"][0])
            assert (last["proof"], last["tables"]) == ("independent", "`app`.`plain`")
            assert await reader.read("other") == "primary"

    play(cluster, story)


@pytest.mark.usefixtures("behind")
def test_what_was_written_before_the_log_was_read_is_not_left_out_unread(cluster: Cluster) -> None:
    async def story(late: Late) -> None:
        async with late.session() as reader:
            await asyncio.to_thread(run, reader.session, "UPDATE plain SET v = v + 1")
            assert await reader.read("other") != "independent"
            assert await reader.independent("other")  # late replicas have the log read
            assert late.proxy.shared.topology.current_tables is not None
            assert await reader.read("plain") == "primary"

    play(cluster, story, table_dependencies="auto")


@pytest.mark.usefixtures("behind")
def test_what_was_defined_before_the_log_was_read_matters_until_replicas_have_it(
    cluster: Cluster,
) -> None:
    async def story(late: Late) -> None:
        topology = late.proxy.shared.topology
        async with late.session() as reader:
            await late.direct_unread(*OPAQUE["exchanged tables"])
            defined = await asyncio.to_thread(lambda: cluster.primary.gtid_executed)
            await asyncio.to_thread(run, reader.session, "INSERT INTO audit (of_id) VALUES (1)")
            while topology.current_tables is None:
                assert await reader.read("plain") != "independent"
            await late.followed()
            for _ in range(3):
                assert await reader.read("plain") != "independent"
            await asyncio.to_thread(_apply_until, cluster, defined)
            assert await reader.independent("plain")
            assert await reader.read("audit") == "primary"

    play(cluster, story, table_dependencies="auto")


def _apply_until(cluster: Cluster, executed: str) -> None:
    for replica in cluster.replicas:
        replica.query(f"START REPLICA SQL_THREAD UNTIL SQL_AFTER_GTIDS = '{executed}'")
    for replica in cluster.replicas:
        replica.wait_for(executed, 60)


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize("dependencies", ["on", "auto"])
def test_processes_with_several_workers(
    cluster: Cluster, proxy: StartProxy, dependencies: str
) -> None:
    """Whoever serves a connection: what another one wrote of the same table is never left out."""
    running = proxy(
        workers="2",
        table_dependencies=dependencies,
        scope="user",
        wait_budget="50ms",
        monitor_interval="100ms",
    )
    independent = 0
    until = time.monotonic() + 60
    while independent < 20:
        assert time.monotonic() < until
        with closing(connect(running.port)) as writer, closing(connect(running.port)) as reader:
            run(writer, "UPDATE plain SET v = v + 1 WHERE id = 1")
            assert last(reader, "TABLE plain") == "primary"
            independent += last(reader, "SELECT COUNT(*) FROM parent") == "independent"


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize("reset", [False, True])
def test_what_a_cascade_deleted_is_not_found(
    cluster: Cluster, proxy: StartProxy, *, reset: bool
) -> None:
    """Whether the writer's connection was reset before, as pools and kept connections are."""
    cluster.primary.query("REPLACE INTO app.parent VALUES (77)")
    cluster.primary.query("REPLACE INTO app.child VALUES (77, 77)")
    _apply_until(cluster, cluster.primary.gtid_executed)
    running = proxy(
        table_dependencies="on", scope="user", wait_budget="50ms", monitor_interval="100ms"
    )
    with closing(connect(running.port)) as writer, closing(connect(running.port)) as reader:
        if reset:
            writer._execute_command(Command.COM_RESET_CONNECTION, b"")  # type: ignore[attr-defined]
            writer._read_ok_packet()  # type: ignore[attr-defined]  # PyMySQL has no other way
            run(writer, "USE app")
        run(writer, "DELETE FROM parent WHERE id = 77")
        wait_until(lambda: last(reader, "SELECT COUNT(*) FROM plain") == "independent")
        assert not run(reader, "SELECT id FROM child WHERE id = 77")


@pytest.mark.usefixtures("behind")
def test_the_record_and_the_session_tell_of_it(cluster: Cluster) -> None:
    async def story(late: Late) -> None:
        async with late.session() as reader:
            await reader.write("UPDATE plain SET v = v + 1")
            assert await reader.independent("SELECT COUNT(*) FROM parent")
            last = await reader.asks("SELECT COUNT(*) FROM parent")
            assert last["tables"] == "`app`.`parent`"
            assert last["left_out"] == last["required"] != ""
            again = await reader.asks("SELECT COUNT(*) FROM plain")
            assert again["required"] == last["required"]
            assert (again["tables"], again["left_out"]) == (None, None)

    records = play(cluster, story)
    record = [each for each in records if each.get("tables") == "`app`.`parent`"][-1]
    assert record["proof"] == "independent"
    required, proof_set = (GtidSet.parse(record[name]) for name in ("required", "proof_set"))
    assert required - proof_set == required
