"""Lag by commit timestamps, through a chain of three: primary, intermediate, leaf.

The leaf lives in another time zone. What is asserted of times are bounds that the servers' own
timestamps and settings imply: a delayed transaction is as late as the delay at least.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import os
import time
from collections.abc import Callable, Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import DictCursor

from mysql_mocker.evaluation import replication_status
from tests.real_mysql.cluster import Cluster, RealServer, find_mysqld
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import (
    MONITOR_USER,
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    data_template,
)

Lags = dict[str, str | None]

OTHER_UUID = "cccccccc-0000-0000-0000-00000000000c"


def source_of(replica: RealServer, source: RealServer, delay: int = 0, channel: str = "") -> None:
    """Have `replica` replicate from `source`."""
    replica.query(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s,"
        " SOURCE_USER = %s, SOURCE_PASSWORD = %s, SOURCE_AUTO_POSITION = 1,"
        " GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_DELAY = %s FOR CHANNEL %s",
        *(source.port, REPLICATION_USER, REPLICATION_PASSWORD, delay, channel),
    )
    replica.query("START REPLICA FOR CHANNEL %s", channel)


@pytest.fixture(scope="module")
def leaf(cluster: Cluster) -> Iterator[RealServer]:
    """A replica of the first replica; its clocks show another time than UTC."""
    mysqld = find_mysqld()
    assert mysqld is not None
    cluster.create()  # a new server runs all that happened on it, also what only others could
    server = RealServer(
        "leaf", mysqld, cluster.scratch, "--read-only", "--default-time-zone=-03:30"
    )
    server.create(data_template(mysqld))
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Kolkata"
    try:
        server.launch()
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
    server.wait_ready()
    try:
        source_of(server, cluster.replicas[0])
        yield server
    finally:
        server.kill()


class Chain:
    """A proxy before the primary, the intermediate and the leaf, and what it shows."""

    def __init__(self, cluster: Cluster, leaf: RealServer, running: RunningProxy) -> None:
        self.primary = cluster.primary
        self.intermediate = cluster.replicas[0]
        self.leaf = leaf
        self.proxy = running
        self.uuid = cluster.primary.server_uuid
        self.client: Connection[DictCursor] = pymysql.connect(
            host="127.0.0.1",
            port=running.port,
            user="app",
            password="app-secret",
            autocommit=True,
            cursorclass=DictCursor,
        )

    def show(self, topic: str) -> list[Lags]:
        """Rows of SHOW TIDEGATE."""
        with self.client.cursor() as cursor:
            cursor.execute(f"SHOW TIDEGATE {topic}")
            return [
                {name: None if value is None else str(value) for name, value in row.items()}
                for row in cursor.fetchall()
            ]

    def lag(self, server: RealServer, source: str = "", channel: str = "") -> Lags:
        """That of a server, by source (the primary unless said) and channel."""
        for row in self.show("LAG"):
            if (row["server"], row["source"], row["channel"]) == (
                server.address,
                source or self.uuid,
                channel,
            ):
                return row
        return {}

    def until(self, met: Callable[[], bool], timeout: float = 60) -> None:
        """Wait until the monitor has seen something."""
        deadline = time.monotonic() + timeout
        while not met():
            assert time.monotonic() < deadline, (self.show("LAG"), self.show("SERVERS"))
            time.sleep(0.05)

    def applied(self, server: RealServer, gtid: str) -> Lags:
        """The lag of a transaction that a server has applied, once the monitor has seen it."""
        source = gtid.partition(":")[0]
        self.until(lambda: self.lag(server, source).get("applied") == gtid)
        return self.lag(server, source)

    def logged(self, server: RealServer, gtid: str) -> list[dict[str, int]]:
        """What the routing log tells of a transaction that a server has applied."""
        return [
            transaction
            for record in self.proxy.records(kind="proof")
            if record["server"] == server.address and "lag" in record
            for transaction in record["lag"]["applied"]  # type: ignore[index]
            if transaction["gtid"] == gtid
        ]

    def write(self, before: str = "") -> str:
        """Commit a transaction on the primary; return its GTID."""
        had = self.primary.gtid_executed
        if before:
            self.primary.query(before)
        self.primary.query("INSERT INTO app.t () VALUES ()")
        return self.primary.value("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, %s)", had)


@contextlib.contextmanager
def running_chain(cluster: Cluster, leaf: RealServer, **options: str) -> Iterator[Chain]:
    replicas = f"{cluster.replicas[0].address},{leaf.address}"
    intervals = {"monitor_interval": "50ms", "wait_budget": "250ms"}
    running = RunningProxy(cluster, "lag-proxy", {"replicas": replicas, **intervals, **options})
    try:
        found = Chain(cluster, leaf, running)
        with contextlib.closing(found.client):
            yield found
    finally:
        running.stop()
    assert "Traceback" not in running.stderr, running.stderr


@pytest.fixture(scope="module")
def chain(cluster: Cluster, leaf: RealServer) -> Iterator[Chain]:
    cluster.primary.query("CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY)")
    wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)"
    assert leaf.value(wait, cluster.primary.gtid_executed) == "0"
    with running_chain(cluster, leaf) as found:
        found.until(lambda: all(row["lag_measured"] == "yes" for row in found.show("SERVERS")[1:]))
        yield found


def number(lag: Lags, column: str) -> float:
    value = lag[column]
    assert value is not None, (column, lag)
    return float(value)


def test_hops_add_up_to_end_to_end_and_are_as_late_as_the_delay(chain: Chain) -> None:
    chain.intermediate.set_source_delay(1)
    chain.leaf.set_source_delay(1)
    try:
        gtid = chain.write()
        chain.until(lambda: number(chain.lag(chain.leaf), "waits_ms") > 0)  # on the first hop
        chain.until(lambda: float(chain.lag(chain.leaf)["hop_waits_ms"] or 0) > 0)  # on the last
        middle = chain.applied(chain.intermediate, gtid)
        last = chain.applied(chain.leaf, gtid)
        row = chain.leaf.query(  # as the leaf itself says it, in its own time zone
            "SELECT TIMESTAMPDIFF(MICROSECOND, LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,"
            " LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP)"
            " FROM performance_schema.replication_applier_status_by_worker"
            " WHERE LAST_APPLIED_TRANSACTION = %s",
            gtid,
        )
    finally:
        chain.intermediate.set_source_delay(0)
        chain.leaf.set_source_delay(0)
    # All on one machine, whose clock the servers share: nothing is corrected.
    assert number(middle, "end_to_end_ms") == number(middle, "last_hop_ms") >= 1000
    assert number(middle, "upstream_ms") == 0
    assert number(last, "last_hop_ms") >= 1000
    assert number(last, "upstream_ms") >= 1000  # the intermediate's commit, a delay later
    hops = number(last, "upstream_ms") + number(last, "last_hop_ms")
    assert number(last, "end_to_end_ms") == pytest.approx(hops, abs=0.002)  # rounding
    assert number(last, "end_to_end_ms") == pytest.approx(int(str(row[0][0])) / 1000, abs=0.002)
    chain.until(lambda: bool(chain.logged(chain.leaf, gtid)))
    lags_us = [transaction["end_to_end_us"] for transaction in chain.logged(chain.leaf, gtid)]
    assert [time_us / 1000 for time_us in lags_us] == [number(last, "end_to_end_ms")]
    count = "tidegate_transaction_lag_seconds_count"
    labels = {"server": chain.leaf.address, "source": chain.uuid, "part": "last_hop"}
    assert chain.proxy.metric(count, **labels) >= 1
    bucket = "tidegate_transaction_lag_seconds_bucket"
    assert chain.proxy.metric(bucket, **labels, le="0.5") < chain.proxy.metric(count, **labels)


def test_what_a_stopped_applier_holds_is_lag_that_grows_and_idleness_is_none(chain: Chain) -> None:
    chain.applied(chain.leaf, chain.write())
    chain.until(lambda: number(chain.lag(chain.leaf), "waits_ms") == 0)
    with chain.leaf.applier_stopped():
        chain.write()
        chain.until(lambda: number(chain.lag(chain.leaf), "waits_ms") > 0)
        before = number(chain.lag(chain.leaf), "waits_ms")
        gtid = chain.write()
        chain.until(lambda: number(chain.lag(chain.leaf), "waits_ms") > before + 500)
        labels = {"server": chain.leaf.address, "channel": "", "hop": "end_to_end"}
        seconds = chain.proxy.metric("tidegate_replication_lag_seconds", **labels)
        assert seconds > (before + 500) / 1000
        # The intermediate has nothing to do with it.
        assert number(chain.lag(chain.intermediate), "waits_ms") == 0
    chain.applied(chain.leaf, gtid)
    # Nobody writes any more, for as many looks as one likes.
    for _ in range(3):
        chain.until(lambda: number(chain.lag(chain.leaf), "waits_ms") == 0)
        time.sleep(0.1)


def test_no_read_waits_in_vain_where_the_lag_says_so(chain: Chain) -> None:
    with chain.intermediate.applier_stopped(), chain.leaf.applier_stopped():
        chain.write()
        late = (chain.intermediate, chain.leaf)
        chain.until(lambda: all(number(chain.lag(server), "waits_ms") > 600 for server in late))
        for level in ("READ_OWN_WRITES", "BOUNDED_STALENESS(200ms)"):
            with chain.client.cursor() as cursor:
                cursor.execute(f"SET tidegate_consistency = '{level}'")
                cursor.execute("INSERT INTO app.t () VALUES ()")
                own = cursor.lastrowid
                time.sleep(0.25)  # what was written is older than the bound
                cursor.execute("SELECT COUNT(*) AS found FROM app.t WHERE id = %s", (own,))
                (row,) = cursor.fetchall()
                assert row["found"] == 1
            (last,) = chain.show("LAST")
            # Not wait_timeout: it has waited briefly at most.
            assert (last["role"], last["reason"]) == ("primary", "replica_behind")
        with chain.client.cursor() as cursor:
            cursor.execute("SET tidegate_consistency = DEFAULT")


def test_a_broken_receiver_is_lag_as_soon_as_the_primary_writes(chain: Chain) -> None:
    chain.applied(chain.intermediate, chain.write())
    chain.intermediate.query("STOP REPLICA IO_THREAD")
    try:
        chain.until(lambda: number(chain.lag(chain.intermediate), "waits_ms") == 0)
        chain.write()
        chain.until(lambda: number(chain.lag(chain.intermediate), "waits_ms") > 300)
        # Of the leaf nobody knows which hop it is: its own receiver has all that there is.
        chain.until(lambda: number(chain.lag(chain.leaf), "waits_ms") > 300)
        assert chain.lag(chain.leaf)["hop_waits_ms"] is None
    finally:
        chain.intermediate.query("START REPLICA IO_THREAD")


def test_sources_and_channels_are_apart(chain: Chain) -> None:
    source_of(chain.leaf, chain.primary, channel="direct")
    try:
        other = f"{OTHER_UUID}:1"
        own = chain.write()
        chain.applied(chain.intermediate, own)
        chain.primary.query(f"SET gtid_next = '{other}'")
        chain.primary.query("INSERT INTO app.t () VALUES ()")
        chain.primary.query("SET gtid_next = AUTOMATIC")
        chain.applied(chain.intermediate, other)
        assert chain.lag(chain.intermediate)["applied"] == own
        # Whichever channel was first has applied it; both have received it.
        chain.until(
            lambda: (
                {(row["channel"], row["source"]) for row in chain.show("LAG")}
                >= {(channel, uuid) for channel in ("", "direct") for uuid in (OTHER_UUID,)}
            )
        )
    finally:
        chain.leaf.query("STOP REPLICA FOR CHANNEL 'direct'")
        chain.leaf.query("RESET REPLICA ALL FOR CHANNEL 'direct'")
    chain.until(lambda: not chain.lag(chain.leaf, channel="direct"))


def test_clocks_that_are_set_aside_are_told_once_and_once_when_they_are_right(chain: Chain) -> None:
    warning, over = "original commit is newer", "in order again"
    ahead_us = 3_600_000_000
    for _ in range(2):
        ahead = int(time.time() * 1e6) + ahead_us
        bad = chain.write(f"SET original_commit_timestamp = {ahead}")
        late = chain.applied(chain.leaf, bad)
        assert number(late, "end_to_end_ms") < 0  # as the timestamps say it
        assert late["timestamps"] == "original newer than immediate"
    # With DEFAULT the transaction's own commit counts.
    chain.primary.query("SET original_commit_timestamp = DEFAULT")
    good = chain.write()
    right = chain.applied(chain.leaf, good)
    assert number(right, "end_to_end_ms") >= 0
    assert right["timestamps"] == "in order"
    chain.applied(chain.intermediate, good)
    chain.until(lambda: chain.proxy.stderr.count(over) == 2)
    assert chain.proxy.stderr.count(warning) == 2  # of the intermediate and of the leaf
    for server in (chain.intermediate, chain.leaf):
        warned = chain.proxy.metric("tidegate_clock_warnings_total", server=server.address)
        assert warned == 1


def test_an_unknown_original_commit_is_no_lag_of_half_a_century(chain: Chain) -> None:
    unknown = chain.write("SET original_commit_timestamp = 0")
    chain.primary.query("SET original_commit_timestamp = DEFAULT")
    lag = chain.applied(chain.leaf, unknown)
    assert (lag["end_to_end_ms"], lag["upstream_ms"]) == (None, None)
    assert number(lag, "last_hop_ms") >= 0


def test_the_mockers_tables_have_the_columns_of_these(cluster: Cluster) -> None:
    for table, columns in (
        ("replication_connection_status", replication_status.CONNECTION),
        ("replication_applier_status_by_worker", replication_status.WORKER),
    ):
        rows = cluster.primary.query(f"SHOW COLUMNS FROM performance_schema.{table}")
        assert tuple(str(row[0]) for row in rows) == columns


def test_what_may_not_be_seen_is_unmeasured_or_told_by_heartbeats(
    cluster: Cluster, leaf: RealServer
) -> None:
    path = cluster.scratch.path / "replicator-password"
    path.write_text(REPLICATION_PASSWORD)
    path.chmod(0o600)
    primary = cluster.primary
    primary.query("CREATE TABLE app.heartbeat (ts VARCHAR(26), server_id INT UNSIGNED PRIMARY KEY)")
    primary.query("GRANT SELECT ON app.heartbeat TO %s", REPLICATION_USER)
    beat = (  # as pt-heartbeat --utc writes it
        "REPLACE INTO app.heartbeat VALUES (REPLACE(UTC_TIMESTAMP(6), ' ', 'T'), @@server_id)"
    )
    with running_chain(
        cluster,
        leaf,
        monitor_user=REPLICATION_USER,
        monitor_password_file=str(path),
        heartbeat_table="app.heartbeat",
    ) as found:
        found.until(lambda: "denied" in str(found.show("SERVERS")[1]["lag_measured"]))
        assert found.show("LAG") == []
        assert found.proxy.metric("tidegate_replication_lag_measured") == 0
        for table in ("replication_connection_status", "replication_applier_status_by_worker"):
            assert f"GRANT SELECT ON performance_schema.{table} TO" in found.proxy.stderr
        # What needs no right goes on being measured, by no server's clock.
        found.until(lambda: found.show("SERVERS")[1]["lag_ms"] is not None)
        # Beats tell all the same, and none is as late as the leaf's time zone.
        with leaf.applier_stopped():
            primary.query(beat)
            found.until(lambda: float(found.lag(leaf).get("waits_ms") or 0) > 300)
            assert found.show("SERVERS")[2]["lag_measured"] == "by heartbeats"
            assert found.lag(leaf)["error_ms"] is None
            assert number(found.lag(leaf), "waits_ms") < 1_800_000
        found.until(lambda: float(found.lag(leaf).get("waits_ms") or 1) == 0)
        primary.query("REVOKE SELECT ON app.heartbeat FROM %s", REPLICATION_USER)


def test_the_binary_log_tells_of_every_transaction(
    cluster: Cluster, leaf: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")  # the leaf's, when it starts again
    primary, intermediate = cluster.primary, cluster.replicas[0]
    late = (intermediate, leaf)

    def means(server: RealServer) -> str:
        for name in ("binlog", "performance_schema"):
            labels = {"server": server.address, "means": name}
            if found.proxy.metric("tidegate_replication_lag_means", **labels):
                return name
        return ""

    def counted(server: RealServer, part: str = "end_to_end") -> float:
        labels = {"server": server.address, "source": found.uuid, "part": part}
        return found.proxy.metric("tidegate_transaction_lag_seconds_count", **labels)

    def all_counted() -> bool:
        return all(counted(server) == expected[server] for server in expected)

    def burst() -> None:
        for _ in range(30):
            primary.query("INSERT INTO app.t () VALUES ()")
        for server in expected:
            expected[server] += 30
        found.until(all_counted)

    primary.query("CREATE TABLE IF NOT EXISTS app.t (id INT AUTO_INCREMENT PRIMARY KEY)")
    primary.query("CREATE TABLE app.wide (data LONGBLOB)")
    with running_chain(cluster, leaf, binlog_lag="on") as found:
        right = f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}"
        found.until(lambda: found.proxy.stderr.count(right) == 2)
        assert [means(server) for server in late] == ["performance_schema"] * 2
        ends = {"server": leaf.address, "cause": "denied"}
        assert found.proxy.metric("tidegate_binlog_stream_ends_total", **ends) >= 1
        primary.query(right)
        try:
            found.until(lambda: [means(server) for server in late] == ["binlog"] * 2)
            assert found.proxy.stderr.count(right) == 2  # it was said once of each
            expected = {server: counted(server) for server in late}
            burst()
            assert counted(leaf, "last_hop") < 30  # which looks alone tell, by samples
            # One that is longer than a packet's frame, and another format of the log.
            primary.query("INSERT INTO app.wide VALUES (REPEAT('x', 20 << 20))")
            intermediate.query("SET GLOBAL binlog_checksum = NONE")
            leaf.query("FLUSH BINARY LOGS")
            for server in late:
                expected[server] += 1
            burst()
            intermediate.query("SET GLOBAL binlog_checksum = CRC32")
            burst()

            leaf.restart()
            found.until(lambda: means(leaf) == "binlog")
            burst()
        finally:
            primary.query(f"REVOKE REPLICATION SLAVE ON *.* FROM {MONITOR_USER}")
            primary.query("DROP TABLE app.wide")


def test_the_limit_holds_along_a_chain_and_with_two_channels(
    cluster: Cluster, chain: Chain, leaf: RealServer
) -> None:
    """What the leaf lacks counts, wherever it waits, and one channel that works is enough."""
    with running_chain(cluster, leaf, max_lag="300ms") as found:

        def shown(server: RealServer, lagging: str, replication: str) -> bool:
            found.write()
            (row,) = [row for row in found.show("SERVERS") if row["server"] == server.address]
            return (row["lagging"], row["replication"]) == (lagging, replication)

        found.until(lambda: shown(leaf, "no", "running"))
        found.intermediate.stop_applier()
        try:
            found.until(lambda: shown(found.intermediate, "yes", "its applier is stopped"))
            found.until(lambda: shown(leaf, "yes", "running"))
            source_of(leaf, found.primary, channel="direct")
            found.until(lambda: shown(leaf, "no", "running"))
            leaf.query("STOP REPLICA FOR CHANNEL ''")
            stopped = "its receiver is stopped; its applier is stopped"
            found.until(lambda: shown(leaf, "no", stopped))
            assert found.proxy.metric("tidegate_replica_replicating", server=leaf.address) == 0
        finally:
            leaf.query("START REPLICA FOR CHANNEL ''")
            leaf.query("STOP REPLICA FOR CHANNEL 'direct'")
            leaf.query("RESET REPLICA ALL FOR CHANNEL 'direct'")
            found.intermediate.start_applier()
        found.until(lambda: shown(leaf, "no", "running"))
