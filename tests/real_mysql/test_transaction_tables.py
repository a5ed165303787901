"""Which tables a transaction touched, as the proxy reads it in the log of a real primary."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest

from protocol.gtid import GtidSet
from proxy.monitor import binlog_stream, transaction_follower
from proxy.shared.administration import server_rows
from routing.servers.transaction_tables import TableName, TransactionTables
from tests.faults.proxy_fixture import ProxyFixture, before, eventually
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import MONITOR_PASSWORD, MONITOR_USER
from tests.support.waiting import until

TABLES = ("plain", "parent", "child", "audited", "audit", "made", "other")
ANYTHING = frozenset(TABLES)
SCHEMA = """
CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, v INT);
CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT, v INT);
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, parent INT,
  FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE audited (id INT PRIMARY KEY, v INT);
CREATE TABLE audit (id INT PRIMARY KEY AUTO_INCREMENT, of_id INT);
CREATE TRIGGER audits AFTER UPDATE ON audited FOR EACH ROW
  INSERT INTO audit (of_id) VALUES (NEW.id);
CREATE VIEW viewed AS SELECT id, v FROM audited;
CREATE FUNCTION adds() RETURNS INT DETERMINISTIC MODIFIES SQL DATA
  BEGIN INSERT INTO other (v) VALUES (1); RETURN 1; END;
INSERT INTO parent VALUES (1), (2), (3);
INSERT INTO child VALUES (10, 1), (20, 2);
INSERT INTO audited VALUES (1, 1), (2, 2);
"""


@pytest.fixture(scope="module", autouse=True)
def schema(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    """The tables, and what the monitor needs to read the log."""
    primary = cluster.primary
    with closing(primary.admin("app")) as connection, connection.cursor() as cursor:
        for statement in filter(str.strip, SCHEMA.split(";\n")):
            cursor.execute(statement)
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    yield
    primary.query(f"REVOKE REPLICATION SLAVE ON *.* FROM {MONITOR_USER}")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_stream, "BACKOFF_FIRST_S", 0.05)
    monkeypatch.setattr(binlog_stream, "BACKOFF_LAST_S", 0.2)


class Follower:
    """A proxy in this process that reads the primary's log."""

    def __init__(self, primary: RealServer, proxy: ProxyFixture) -> None:
        self.primary = primary
        self.proxy = proxy

    @property
    def tables(self) -> TransactionTables:
        found = self.proxy.shared.topology.current_tables
        assert found is not None
        return found

    @property
    def cause(self) -> str:
        return self.proxy.shared.topology.transaction_tables.cause

    async def active(self) -> None:
        await eventually(lambda: self.proxy.shared.topology.current_tables is not None, 60)

    async def executed(self) -> GtidSet:
        """What the primary has; the log has been read so far."""
        executed = GtidSet.parse(await asyncio.to_thread(lambda: self.primary.gtid_executed))

        def read() -> bool:
            found = self.proxy.shared.topology.current_tables
            return found is not None and executed <= found.read_through

        await eventually(read, 60)
        return executed

    async def run(self, *statements: str) -> list[frozenset[str]]:
        """What each transaction of these statements may have changed, in the order of GTIDs."""
        had = await self.executed()
        await asyncio.to_thread(self._run, statements)
        has = await self.executed()
        new = has - had
        return [
            self.touched(GtidSet.of(tsid, number, number + 1), has)
            for tsid in new.tsids
            for start, end in new.intervals(tsid)
            for number in range(start, end)
        ]

    def _run(self, statements: Sequence[str]) -> None:
        with closing(self.primary.admin("app")) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def touched(self, gtid: GtidSet, executed: GtidSet) -> frozenset[str]:
        """The tables whose readers must wait for it at a replica that has all else."""
        return frozenset(
            name
            for name in TABLES
            if self.tables.still_required(
                gtid, executed - gtid, frozenset({TableName("app", name)})
            )
        )


@asynccontextmanager
async def following(cluster: Cluster, **options: Any) -> AsyncIterator[Follower]:
    """A proxy that watches the cluster, and begins to read."""
    async with reading(cluster.primary, cluster.replicas, **options) as follower:
        yield follower


@asynccontextmanager
async def reading(
    primary: RealServer, replicas: Sequence[RealServer], **options: Any
) -> AsyncIterator[Follower]:
    """A proxy that begins to read the log of a primary."""
    settings: dict[str, Any] = {
        "monitor_user": MONITOR_USER,
        "monitor_password": MONITOR_PASSWORD.encode(),
        "monitor_interval": 0.05,
        "table_dependencies": "on",
    }
    addresses = [server.address for server in replicas]
    async with before(primary.address, addresses, **(settings | options)) as proxy:
        yield Follower(primary, proxy)


@pytest.fixture
def behind(cluster: Cluster) -> Iterator[None]:
    """Replicas apply nothing, so that no transaction is dropped."""
    cluster.wait_caught_up()
    for replica in cluster.replicas:
        replica.stop_applier()
    yield
    for replica in cluster.replicas:
        replica.start_applier()


def only(*names: str) -> list[frozenset[str]]:
    return [frozenset(names)]


ONE_TRANSACTION: dict[str, tuple[list[str], list[frozenset[str]]]] = {
    "insert": (["INSERT INTO plain (v) VALUES (1)"], only("plain")),
    "two tables": (
        ["BEGIN", "INSERT INTO plain (v) VALUES (1)", "INSERT INTO other (v) VALUES (1)", "COMMIT"],
        only("plain", "other"),
    ),
    "trigger": (["UPDATE audited SET v = v + 1 WHERE id = 1"], only("audited", "audit")),
    "view": (["UPDATE viewed SET v = v + 1 WHERE id = 1"], only("audited", "audit")),
    "function": (["SELECT adds()"], only("other")),
    "cascading update": (["UPDATE parent SET id = 11 WHERE id = 1"], only("parent", "child")),
    "cascading delete": (["DELETE FROM parent WHERE id = 2"], only("parent", "child")),
    "savepoint": (
        [
            *("BEGIN", "INSERT INTO plain (v) VALUES (1)", "SAVEPOINT s"),
            *("INSERT INTO other (v) VALUES (1)", "ROLLBACK TO s", "COMMIT"),
        ],
        only("plain"),
    ),
    "compressed": (
        ["SET binlog_transaction_compression = ON", "INSERT INTO plain (v) VALUES (1), (2), (3)"],
        only("plain"),
    ),
    "row image and metadata": (
        ["SET binlog_row_image = MINIMAL", "UPDATE audited SET v = v + 1 WHERE id = 1"],
        only("audited", "audit"),
    ),
    "logged statements": (
        ["SET binlog_rows_query_log_events = ON", "INSERT INTO plain (v) VALUES (1)"],
        only("plain"),
    ),
    "tag": (
        ["SET gtid_next = 'AUTOMATIC:blue'", "INSERT INTO plain (v) VALUES (1)"],
        only("plain"),
    ),
    "statement": (
        ["SET binlog_format = STATEMENT", "INSERT INTO plain (v) VALUES (1)"],
        [ANYTHING],
    ),
    "statement and rows": (
        [
            *("SET binlog_format = STATEMENT", "BEGIN", "INSERT INTO plain (v) VALUES (1)"),
            "INSERT INTO plain (v) VALUES (UUID_SHORT() % 100)",
            "COMMIT",
        ],
        [ANYTHING],
    ),
    "ddl": (["ALTER TABLE plain ADD COLUMN w INT"], [ANYTHING]),
    "truncate": (["TRUNCATE other"], [ANYTHING]),
    "create select": (["CREATE TABLE made SELECT * FROM plain"], [ANYTHING]),
    "drop": (["DROP TABLE made"], [ANYTHING]),
    "grant": (["CREATE USER somebody", "DROP USER somebody"], [ANYTHING, ANYTHING]),
    "xa": (
        [
            *("XA START 'x'", "INSERT INTO plain (v) VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"),
            "XA COMMIT 'x'",
        ],
        [ANYTHING, ANYTHING],
    ),
    "xa in one phase": (
        [
            *("XA START 'x'", "INSERT INTO plain (v) VALUES (1)", "XA END 'x'"),
            "XA COMMIT 'x' ONE PHASE",
        ],
        [ANYTHING],
    ),
    "nothing": (
        ["SET gtid_next = 'aaaaaaaa-0000-0000-0000-00000000000a:1'", "BEGIN", "COMMIT"],
        [ANYTHING],
    ),
}


@pytest.mark.usefixtures("behind")
def test_what_a_transaction_touched(cluster: Cluster) -> None:
    found: dict[str, list[frozenset[str]]] = {}

    async def story() -> None:
        async with following(cluster) as follower:
            await follower.active()
            for name, (statements, _) in ONE_TRANSACTION.items():
                found[name] = await follower.run(*statements)

    asyncio.run(story())
    assert found == {name: expected for name, (_, expected) in ONE_TRANSACTION.items()}


def follow(cluster: Cluster, story: Callable[[Follower], Awaitable[None]], **options: Any) -> None:
    """Run this with a proxy that reads the log."""

    async def whole() -> None:
        async with following(cluster, **options) as follower:
            await story(follower)

    asyncio.run(whole())


ODD_NAMES = (
    "a`b", 'a"b', "a\\b", "a.b", "a/b", "a b", "a'b", "a\tb", "a\x01b", "a@b", "a@002db", "1",
    "{a}", "#sql-x", "#mysql50#a-b", "a#P#p0", "FTS_0001_CONFIG", "select", "x" * 64, "PLAIN",
    "é", "É", "e\u0301", "\u0130", "\u0131", "\u212a", "\u1e9e", "\u4e2d" * 40, "\uffee",
)  # fmt: skip
ODD_SCHEMAS = ("a`b", "a.b", "a/b", "a@b", "é", "#sql-x", "App")


@pytest.mark.usefixtures("behind")
def test_the_log_has_the_names_that_the_dictionary_has(cluster: Cluster) -> None:
    def quoted(name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    names = [("app", name) for name in ODD_NAMES] + [(name, "t") for name in ODD_SCHEMAS]
    tables = [f"{quoted(schema)}.{quoted(table)}" for schema, table in names]

    async def story(follower: Follower) -> None:
        await follower.active()
        await follower.run(*[f"CREATE DATABASE {quoted(name)}" for name in ODD_SCHEMAS])
        await follower.run(*[f"CREATE TABLE {table} (i INT)" for table in tables])
        found = cluster.primary.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE ENGINE = 'InnoDB'"
        )
        assert set(names) <= set(found)
        had = await follower.executed()
        await follower.run(*[f"INSERT INTO {table} VALUES (1)" for table in tables])  # noqa: S608
        has = await follower.executed()
        ((tsid, first, _),) = [(t, *span) for t in has.tsids for span in (has - had).intervals(t)]
        for number, name in enumerate(names, first):
            gtid = GtidSet.of(tsid, number, number + 1)
            assert [name] == [
                other
                for other in names
                if follower.tables.still_required(gtid, has - gtid, frozenset({TableName(*other)}))
            ]

    try:
        follow(cluster, story)
    finally:
        for name in ODD_SCHEMAS:
            cluster.primary.query(f"DROP DATABASE IF EXISTS {quoted(name)}")


INSERT = "INSERT INTO plain (v) VALUES (1)"


@pytest.mark.usefixtures("behind")
def test_files_and_large_transactions_are_read_through(cluster: Cluster) -> None:
    async def story(follower: Follower) -> None:
        await follower.active()
        version = follower.tables.version
        for statement in ("FLUSH BINARY LOGS", "SET GLOBAL binlog_checksum = NONE", "SELECT 1"):
            assert await follower.run(statement, INSERT) == only("plain")
        large = "INSERT INTO large VALUES (REPEAT('x', 20 << 20))"
        compress = "SET binlog_transaction_compression = ON"
        assert await follower.run("SET sql_log_bin = OFF", INSERT) == []
        assert follower.tables.version == version
        create = "CREATE TABLE large (v LONGTEXT)"
        assert await follower.run(create, large, compress, large) == [
            ANYTHING,
            frozenset(),
            ANYTHING,  # too large to be decompressed
        ]
        assert follower.tables.version == version + 2

    follow(cluster, story)


def test_it_begins_where_the_replicas_are_and_drops_what_they_have(cluster: Cluster) -> None:
    def lack(*statements: str) -> GtidSet:
        """What these commit, and no replica has."""
        primary = cluster.primary
        had = GtidSet.parse(primary.gtid_executed)
        for statement in statements:
            primary.query(statement)
        return GtidSet.parse(primary.gtid_executed) - had

    cluster.wait_caught_up()
    cluster.replicas[0].stop_applier()
    new = lack("INSERT INTO app.plain (v) VALUES (1)", "INSERT INTO app.other (v) VALUES (1)")

    async def story(follower: Follower) -> None:
        await follower.active()
        executed = await follower.executed()
        assert follower.tables.count() == len(new) == 2
        for name, left in (("plain", 1), ("other", 2), ("audit", 0)):
            read = frozenset({TableName("app", name)})
            still = follower.tables.still_required(executed, executed - new, read)
            assert len(still & new) == left
        cluster.replicas[0].start_applier()
        await eventually(lambda: follower.tables.count() == 0)
        # What was dropped is required of a replica that comes back with less.
        assert follower.tables.still_required(executed, executed - new, read) is executed

    follow(cluster, story)


@pytest.mark.usefixtures("behind")
def test_a_killed_stream_costs_waits_and_no_truth(cluster: Cluster) -> None:
    def kill() -> None:
        for (thread,) in cluster.primary.query(
            "SELECT ID FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%%'"
            " AND USER = %s",
            MONITOR_USER,
        ):  # those of readers that have left stay for a while
            cluster.primary.query(f"KILL {thread}")

    async def story(follower: Follower) -> None:
        await follower.active()
        assert await follower.run(INSERT) == only("plain")
        topology = follower.proxy.shared.topology
        version = follower.tables.version
        await asyncio.to_thread(kill)
        await eventually(lambda: topology.transaction_tables.version != version)
        await follower.active()
        assert await follower.run(INSERT) == only("plain")

    follow(cluster, story)


def test_a_primary_that_crashed_is_another(cluster: Cluster) -> None:
    async def story(follower: Follower) -> None:
        await follower.active()
        topology = follower.proxy.shared.topology
        tables, term = follower.tables, topology.term
        await asyncio.to_thread(cluster.primary.kill)
        await eventually(lambda: not tables.begun)
        await asyncio.to_thread(cluster.primary.start)
        await eventually(lambda: topology.term != term)
        await follower.active()
        assert tables.term == topology.term
        for replica in cluster.replicas:
            replica.stop_applier()
        try:
            assert await follower.run(INSERT) == only("plain")
        finally:
            for replica in cluster.replicas:
                replica.start_applier()

    follow(cluster, story)


@pytest.mark.usefixtures("behind")
def test_where_the_log_was_purged_it_begins_at_its_end(cluster: Cluster) -> None:
    primary = cluster.primary
    primary.query(f"{INSERT.replace('plain', 'app.plain')}")
    primary.query("FLUSH BINARY LOGS")
    ((newest, *_),) = primary.query("SHOW BINARY LOG STATUS")
    for replica in cluster.replicas:
        replica.query("STOP REPLICA")  # its source keeps what it is about to send
    primary.query("PURGE BINARY LOGS TO %s", newest)

    async def story(follower: Follower) -> None:
        await follower.active()
        executed = GtidSet.parse(primary.gtid_executed)
        assert follower.tables.count() == 0
        assert await follower.run(INSERT) == only("plain")
        # No replica has what was not read.
        lacking = GtidSet.parse(cluster.replicas[0].gtid_executed)
        required = executed | lacking
        nothing: frozenset[TableName] = frozenset()
        assert follower.tables.still_required(required, lacking, nothing) is required

    try:
        follow(cluster, story)
    finally:
        for replica in cluster.replicas:
            replica.query("START REPLICA")


def test_where_not_all_comes_in_the_log_it_is_read_anew(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_follower, "_OVERDUE_S", 0.5)

    async def story(follower: Follower) -> None:
        await follower.active()
        added = "bbbbbbbb-0000-0000-0000-00000000000b:1-3"
        for server in cluster.servers:
            server.query("SET GLOBAL gtid_purged = %s", f"+{added}")
        tables = follower.tables
        assert not GtidSet.parse(added) <= tables.read_through
        await eventually(lambda: GtidSet.parse(added) <= tables.read_through)
        await follower.active()

    follow(cluster, story)


def test_a_log_that_is_not_fit_is_not_read_and_why_is_said(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    primary = cluster.primary

    async def is_off(cause: str, *texts: str, **options: Any) -> None:
        async with following(cluster, **options) as follower:
            # The monitor may not have asked yet what the log leaves out.
            await eventually(
                lambda: (
                    follower.cause.startswith(cause)
                    and all(text in follower.cause for text in texts)
                ),
                60,
            )
            topology = follower.proxy.shared.topology
            assert topology.current_tables is None
            (row,) = [
                row
                for row in server_rows.rows(topology, 0.0, lambda _: 0)
                if row[server_rows.SERVER] == primary.address
            ]
            assert row[-1] == follower.cause
            for text in texts:
                assert text in caplog.text

    async def story() -> None:
        await is_off("off", table_dependencies="off")
        primary.query("SET GLOBAL binlog_format = MIXED")
        await is_off("unfit", "binlog_format is MIXED")
        primary.query("SET GLOBAL binlog_format = ROW")
        primary.query("CREATE TABLE app.long_rows (v LONGTEXT)")
        async with following(cluster, table_dependencies_rate=1024) as follower:
            await follower.active()
            primary.query("INSERT INTO app.long_rows VALUES (REPEAT('x', 20000))")
            await eventually(lambda: follower.cause.startswith("rate: more than 1024 bytes"))
        primary.query(f"REVOKE REPLICATION CLIENT ON *.* FROM {MONITOR_USER}")
        await is_off("unfit", "GRANT REPLICATION CLIENT")
        primary.query(f"GRANT REPLICATION CLIENT ON *.* TO {MONITOR_USER}")
        primary.query(f"REVOKE REPLICATION SLAVE ON *.* FROM {MONITOR_USER}")
        await is_off("denied", f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
        primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
        for option, text in (
            ("--innodb-native-foreign-keys=ON", "innodb_native_foreign_keys"),
            ("--binlog-ignore-db=other", "leaves out writes (binlog_ignore_db = other)"),
        ):
            primary.restart(option)
            await is_off("unfit", text)
        primary.restart()
        async with following(cluster) as follower:
            await follower.active()

    asyncio.run(story())


@pytest.mark.usefixtures("behind")
def test_several_workers_have_what_the_first_one_reads(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy(workers="3", table_dependencies="on", monitor_interval="100ms")
    workers = ("0", "1", "2")

    def metric(name: str, worker: str) -> float:
        return running.metric(f"tidegate_table_dependencies_{name}", worker=worker)

    until(
        lambda: all(metric("active", worker) == 1 for worker in workers),
        "every worker knows which tables transactions change",
    )
    had = metric("transactions", "0")
    for _ in range(10):
        cluster.primary.query("INSERT INTO app.plain (v) VALUES (1)")
    cluster.primary.query("TRUNCATE app.other")
    until(
        lambda: [metric("transactions", worker) - had for worker in workers] == [10, 10, 10],
        "every worker has the transactions",
    )
    assert metric("read_bytes_total", "0") > 0
    assert metric("read_bytes_total", "1") == metric("read_bytes_total", "2") == 0
    dumps = "SELECT COUNT(*) FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%%'"
    until(
        lambda: cluster.primary.value(f"{dumps} AND USER = %s", MONITOR_USER) == "1",
        "one reader is there, and those of earlier proxies have gone",
    )
    with closing(running.connect()) as client, client.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE SERVERS")
        assert [row[-1] for row in cursor.fetchall()] == ["on", None, None]


def test_a_primary_that_was_reset_is_another(cluster: Cluster) -> None:
    async def story(follower: Follower) -> None:
        await follower.active()
        topology = follower.proxy.shared.topology
        tables, term = follower.tables, topology.term
        cluster.primary.query("RESET BINARY LOGS AND GTIDS")
        await eventually(lambda: topology.term != term)
        await eventually(lambda: tables.term != term)
        assert tables.cause

    follow(cluster, story)
