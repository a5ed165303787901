"""What each level promises, with replicas that stand still: an older answer shows at once.

`test_histories.py` lets crowds of clients loose on it; here every promise has its own small scene.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.constants import CLIENT, SERVER_STATUS
from pymysql.cursors import Cursor

from protocol.constants import Capability
from protocol.response import OkPacket
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER, find_mysqld
from tests.support.waiting import eventually

FOREIGN_UUID = "aaaaaaaa-0000-0000-0000-000000000002"
MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
ONE = "SELECT COUNT(*) FROM app.levels"


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    """One proxy for all scenes; each session asks for what it wants."""
    key = cluster.scratch.path / "token-keys"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    key.chmod(0o600)
    proxy = RunningProxy(
        cluster,
        "levels",
        {"wait_budget": "100ms", "self_audit": "1", "token_key_file": str(key)},
    )
    try:
        yield proxy
    finally:
        assert proxy.metric("tidegate_stale_reads_proven_total") == 0
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


@pytest.fixture(autouse=True)
def direct(cluster: Cluster, running: RunningProxy) -> Iterator[Connection[Cursor]]:
    """A client past the proxy; `app.levels` is empty, and all servers have it."""
    with closing(cluster.primary.connect()) as connection:
        run(connection, "DROP TABLE IF EXISTS app.levels")
        run(connection, "CREATE TABLE app.levels (a INT AUTO_INCREMENT PRIMARY KEY, b INT)")
        cluster.wait_caught_up()
        yield connection


def number(session: Connection[Cursor], sql: str = ONE) -> int:
    ((found,),) = run(session, sql)
    return int(str(found))


def insert(session: Connection[Cursor]) -> None:
    run(session, "INSERT INTO app.levels (b) VALUES (1)")


@contextlib.contextmanager
def at(
    running: RunningProxy, consistency: str, scope: str = "connection"
) -> Iterator[Connection[Cursor]]:
    """A session at a level that has read a replica."""
    with running.connect() as session:
        run(session, f"SET tidegate_consistency = '{consistency}', tidegate_scope = '{scope}'")
        run(session, "SET tidegate_application = 'levels'")
        # On a busy machine a read may not wait long enough for a replica.
        eventually(lambda: number(session) == 0 and last(session)["role"] == "replica")
        yield session


@contextlib.contextmanager
def standing_still(cluster: Cluster) -> Iterator[None]:
    """No replica applies anything, for the length of a `with` block."""
    with contextlib.ExitStack() as stack:
        for replica in cluster.replicas:
            stack.enter_context(replica.applier_stopped())
        yield


def last(session: Connection[Cursor]) -> dict[str, object]:
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (row,) = cursor.fetchall()
        return dict(row)


# The levels.


def test_best_effort_promises_nothing(cluster: Cluster, running: RunningProxy) -> None:
    with at(running, "BEST_EFFORT") as session, standing_still(cluster):
        insert(session)
        assert number(session) == 0
        assert last(session)["proof"] == "none"


@pytest.mark.parametrize("scope", ["connection", "user", "application", "proxy"])
@pytest.mark.parametrize("level", ["READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES"])
def test_own_writes_in_a_scope(
    cluster: Cluster, running: RunningProxy, level: str, scope: str
) -> None:
    with (
        at(running, level, scope) as writer,
        at(running, level, scope) as reader,
        standing_still(cluster),
    ):
        assert number(reader) == 0  # a session's first read may ask the primary about views
        insert(writer)
        assert number(writer) == 1
        if scope != "connection":  # else nothing is promised, nor that it is old
            assert number(reader) == 1
        insert(reader)
        assert number(reader) == 2
        assert number(writer) == 2 or scope == "connection"


def test_strong_sees_what_came_past_the_proxy(
    cluster: Cluster, running: RunningProxy, direct: Connection[Cursor]
) -> None:
    with at(running, "STRONG") as session, standing_still(cluster):
        for count in range(1, 4):
            insert(direct)
            assert number(session) == count
    cluster.wait_caught_up()
    with at_once(running, "STRONG") as session:
        # A replica that was late a moment ago is asked again after a while.
        def is_read_there() -> bool:
            assert number(session) == 3
            return last(session)["role"] == "replica"

        assert eventually(is_read_there)


@contextlib.contextmanager
def at_once(running: RunningProxy, consistency: str) -> Iterator[Connection[Cursor]]:
    """A session at a level that is in no hurry, whatever the replicas did a moment ago."""
    with running.connect() as session:
        run(session, f"SET tidegate_consistency = '{consistency}', tidegate_wait_budget = '10s'")
        yield session


def test_strong_after_a_write_of_its_own_that_no_packet_named(
    cluster: Cluster, running: RunningProxy
) -> None:
    with at(running, "STRONG", "user") as session, standing_still(cluster):
        ddl_fails_behind_its_commit(session)
        assert number(session) == 1
        assert number(session) == 1


def test_monotonic_reads_never_go_back(
    cluster: Cluster, running: RunningProxy, direct: Connection[Cursor]
) -> None:
    """One replica has it, the other has not; the first goes away."""
    with at(running, "MONOTONIC_READS") as session, standing_still(cluster):
        insert(direct)
        newest = cluster.primary.gtid_executed
        serving = str(last(session)["server"])
        (newer,) = [replica for replica in cluster.replicas if replica.address == serving]
        newer.start_applier()
        assert newer.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 10)", newest) == "0"
        assert number(session) == 1
        assert last(session)["server"] == serving
        newer.query("SET GLOBAL offline_mode = ON")
        for _ in range(3):
            assert number(session) == 1
        newer.query("SET GLOBAL offline_mode = OFF")


@pytest.mark.parametrize("variable", ["replica_preserve_commit_order", "binlog_order_commits"])
def test_read_all_writes_wants_the_primarys_order(
    cluster: Cluster, proxy: StartProxy, variable: str
) -> None:
    for replica in cluster.replicas:
        with replica.applier_stopped():
            replica.query(f"SET GLOBAL {variable} = OFF")
    try:
        _read_all_writes(cluster, proxy(), variable)
    finally:
        for replica in cluster.replicas:
            with replica.applier_stopped():
                replica.query(f"SET GLOBAL {variable} = ON")


def _read_all_writes(cluster: Cluster, unordered: RunningProxy, variable: str) -> None:
    with unordered.connect() as session:
        run(session, "SET tidegate_consistency = 'READ_ALL_WRITES'")
        for _ in range(2):
            assert number(session) == 0
            assert last(session)["role"] == "primary"
            assert last(session)["reason"] == "commit_order"
        run(session, "SET tidegate_consistency = 'MONOTONIC_READS'")
        assert number(session) == 0
        assert last(session)["role"] == "replica"
    ordered = cluster.replicas[1]
    with ordered.applier_stopped():
        ordered.query(f"SET GLOBAL {variable} = ON")
    with unordered.connect() as session:
        run(session, "SET tidegate_consistency = 'READ_ALL_WRITES', tidegate_wait_budget = '5s'")
        eventually(lambda: number(session) == 0 and last(session)["role"] == "replica")
        assert last(session)["server"] == ordered.address


def test_read_all_writes_of_the_proxy_sees_every_session(
    cluster: Cluster, running: RunningProxy
) -> None:
    with (
        at(running, "READ_ALL_WRITES", "proxy") as reader,
        at(running, "BEST_EFFORT") as writer,
        standing_still(cluster),
    ):
        for count in range(1, 4):
            insert(writer)
            assert number(reader) == count


@pytest.mark.parametrize("bound", [0.3, 30.0])
def test_bounded_staleness(cluster: Cluster, proxy: StartProxy, bound: float) -> None:
    """The counter grows past the proxy; an answer may be as old as the bound, and no older."""
    running = proxy(monitor_interval="50ms")
    written: list[float] = []
    with (
        closing(cluster.primary.connect()) as direct,
        running.connect() as session,
    ):
        run(session, f"SET tidegate_consistency = 'BOUNDED_STALENESS({bound}s)'")
        assert number(session) == 0
        with standing_still(cluster):
            roles = set()
            until = time.monotonic() + 1.2
            while time.monotonic() < until:
                insert(direct)
                written.append(time.monotonic())
                asked_at = time.monotonic()
                seen = number(session)
                least = sum(moment < asked_at - bound for moment in written)
                assert seen >= least
                roles.add(last(session)["role"])
                time.sleep(0.03)
            assert roles == ({"replica", "primary"} if bound < 1 else {"replica"})


def test_bounded_staleness_without_a_monitor(cluster: Cluster, proxy: StartProxy) -> None:
    """Probes say how old a state is; a tight bound has one for each read."""
    running = proxy(monitor_user=None, monitor_password_file=None)
    with closing(cluster.primary.connect()) as direct, running.connect() as session:
        run(session, "SET tidegate_consistency = 'BOUNDED_STALENESS(1ms)'")
        assert number(session) == 0
        with standing_still(cluster):
            insert(direct)
            time.sleep(0.005)
            assert number(session) == 1
            run(session, "SET tidegate_consistency = 'BOUNDED_STALENESS(10m)'")
            assert number(session) == 0


def test_a_source_delay(
    cluster: Cluster, running: RunningProxy, direct: Connection[Cursor]
) -> None:
    """One replica is a second late: the other answers, or the primary."""
    late = cluster.replicas[0]
    late.set_source_delay(1)
    with at(running, "READ_OWN_WRITES") as session, at(running, "STRONG") as strong:
        for count in range(1, 30):
            insert(session)
            assert number(session) == count
            assert number(strong) == count
    assert running.metric("tidegate_stale_reads_proven_total") == 0


# Writes of every kind, by one session of a user, and read by another.


def tagged(session: Connection[Cursor]) -> None:
    run(session, "SET gtid_next = 'AUTOMATIC:tide'")
    insert(session)
    run(session, "SET gtid_next = 'AUTOMATIC'")


def foreign(session: Connection[Cursor]) -> None:
    """Of other UUIDs, and with gaps."""
    for name in (":7", ":3", ":tide:5"):
        run(session, f"SET gtid_next = '{FOREIGN_UUID}{name}'")
        insert(session)
    run(session, "SET gtid_next = 'AUTOMATIC'")


def xa(session: Connection[Cursor]) -> None:
    run(session, "XA START 'levels'")
    insert(session)
    run(session, "XA END 'levels'")
    run(session, "XA PREPARE 'levels'")
    run(session, "XA COMMIT 'levels'")


def xa_in_one_phase(session: Connection[Cursor]) -> None:
    run(session, "XA START 'levels'")
    insert(session)
    run(session, "XA END 'levels'")
    run(session, "XA COMMIT 'levels' ONE PHASE")


def several_commits(session: Connection[Cursor]) -> None:
    run(session, "CALL app.levels_thrice()")


def commits_and_fails(session: Connection[Cursor]) -> None:
    with pytest.raises(pymysql.MySQLError, match="after the commit"):
        run(session, "CALL app.levels_and_signal()")


def ddl_commits_what_is_open(session: Connection[Cursor]) -> None:
    run(session, "BEGIN")
    insert(session)
    run(session, "CREATE TABLE IF NOT EXISTS app.levels_ddl (a INT)")


def ddl_fails_behind_its_commit(session: Connection[Cursor]) -> None:
    run(session, "BEGIN")
    insert(session)
    with pytest.raises(pymysql.MySQLError, match="already exists"):
        run(session, "CREATE TABLE app.levels (a INT)")


def several_statements(session: Connection[Cursor]) -> None:
    run(session, "INSERT INTO app.levels (b) VALUES (1); SELECT 1; INSERT INTO app.levels (b)"
        " VALUES (2); SELECT 2")  # fmt: skip


def autocommit_ends_it(session: Connection[Cursor]) -> None:
    run(session, "SET autocommit = 0")
    insert(session)
    run(session, "SET autocommit = 1")


def chained(session: Connection[Cursor]) -> None:
    run(session, "BEGIN")
    insert(session)
    run(session, "COMMIT AND CHAIN")
    insert(session)
    run(session, "ROLLBACK")


def select_and_truncate(session: Connection[Cursor]) -> None:
    run(session, "INSERT INTO app.levels (b) SELECT 1 FROM (SELECT 1 UNION SELECT 2) AS two")
    run(session, "TRUNCATE app.levels")
    insert(session)


WRITES: list[Callable[[Connection[Cursor]], None]] = [
    *(insert, tagged, foreign, xa, xa_in_one_phase, several_commits, commits_and_fails),
    *(ddl_commits_what_is_open, ddl_fails_behind_its_commit, several_statements),
    *(autocommit_ends_it, chained, select_and_truncate),
]


@pytest.fixture(scope="module")
def writer_account(cluster: Cluster, running: RunningProxy) -> str:
    """May name GTIDs, and has routines to call."""
    privileges = "REPLICATION_APPLIER, TRANSACTION_GTID_TAG, SYSTEM_VARIABLES_ADMIN"
    cluster.primary.query("CREATE USER IF NOT EXISTS levels@'%' IDENTIFIED BY 'levels'")
    cluster.primary.query("GRANT ALL ON app.* TO levels@'%'")
    cluster.primary.query(f"GRANT {privileges} ON *.* TO levels@'%'")
    put = "INSERT INTO app.levels (b) VALUES"
    cluster.primary.query(
        f"CREATE PROCEDURE app.levels_thrice() BEGIN {put} (1); SELECT 1; {put} (2); {put} (3);"
        " SELECT 2; END"
    )
    cluster.primary.query(
        f"CREATE PROCEDURE app.levels_and_signal() BEGIN {put} (1);"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'after the commit'; END"
    )
    cluster.wait_caught_up()
    return "levels"


@pytest.mark.parametrize("write", WRITES)
def test_every_kind_of_write_is_seen_by_the_users_next_connection(
    cluster: Cluster,
    running: RunningProxy,
    writer_account: str,
    write: Callable[[Connection[Cursor]], None],
) -> None:
    def connect() -> Connection[Cursor]:
        return pymysql.connect(
            host="127.0.0.1",
            port=running.port,
            user=writer_account,
            password=writer_account,
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )

    with connect() as writer, connect() as reader:
        for session in (writer, reader):
            run(session, "SET tidegate_scope = 'user'")
            assert number(session) == 0
        with standing_still(cluster):
            write(writer)
            expected = cluster.primary.query(ONE)
            assert expected != [(0,)]
            assert run(reader, ONE) == expected
            with connect() as fresh:
                run(fresh, "SET tidegate_scope = 'user'")
                assert run(fresh, ONE) == expected
            assert run(writer, ONE) == expected
            assert run(reader, ONE) == expected


def test_myisam_inside_a_transaction(cluster: Cluster, running: RunningProxy) -> None:
    """It commits at once, and stays when the transaction is rolled back."""
    with at(running, "READ_OWN_WRITES", "user") as writer, at_once(running, "STRONG") as reader:
        run(writer, "CREATE TABLE app.levels_myisam (a INT) ENGINE = MyISAM")
        cluster.wait_caught_up()
        run(reader, "SET tidegate_consistency = DEFAULT, tidegate_scope = 'user'")
        run(reader, "SET tidegate_wait_budget = DEFAULT")
        myisam = "SELECT COUNT(*) FROM app.levels_myisam"
        assert number(reader, myisam) == 0
        with standing_still(cluster):
            run(writer, "BEGIN")
            run(writer, "INSERT INTO app.levels_myisam VALUES (1)")
            assert number(reader, myisam) == 1
            run(writer, "ROLLBACK")
            assert number(reader, myisam) == 1


# Sessions that change.


def test_what_a_failed_call_left_is_learnt_before_the_primary_is_asked_to_finish(
    cluster: Cluster, running: RunningProxy
) -> None:
    """No later OK packet tells of its temporary table again."""
    cluster.primary.query("DROP PROCEDURE IF EXISTS app.leaves_a_table")
    cluster.primary.query(
        "CREATE PROCEDURE app.leaves_a_table() BEGIN CREATE TEMPORARY TABLE app.left_over (a INT);"
        " SIGNAL SQLSTATE '45000'; END"
    )
    cluster.wait_caught_up()
    with at(running, "READ_OWN_WRITES") as session:
        with pytest.raises(pymysql.err.OperationalError):
            run(session, "CALL app.leaves_a_table()")
        assert number(session, "/* tidegate consistency=MONOTONIC_READS */ " + ONE) == 0
        for _ in range(3):
            assert number(session, "SELECT COUNT(*) FROM app.left_over") == 0
        assert last(session)["reason"] == "pinned"


def test_a_level_changes_within_autocommits_transactions(
    cluster: Cluster, running: RunningProxy
) -> None:
    """The server refuses to track otherwise while one is open: a failed read may have begun it."""
    with at(running, "READ_OWN_WRITES") as session:
        insert(session)
        insert(session)
        run(session, "SET autocommit = 0")
        for level in ("MONOTONIC_READS", "READ_OWN_WRITES", "BEST_EFFORT", "STRONG"):
            with pytest.raises(pymysql.MySQLError, match="more than 1 row"):
                run(session, "SELECT (SELECT a FROM app.levels)")
            run(session, f"SET tidegate_consistency = '{level}'")
            insert(session)
            run(session, "COMMIT")
        run(session, "SET autocommit = 1")
        with standing_still(cluster):
            insert(session)
            assert number(session) == 7
            run(session, "SET tidegate_consistency = 'READ_OWN_WRITES'")
            assert number(session) == 7


def test_a_client_that_tracks_gtids_sees_the_replicas(
    cluster: Cluster, running: RunningProxy
) -> None:
    with RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app") as client:
        client.query(ONE)
        client.query("SET session_track_gtids = ALL_GTIDS")
        shown = OkPacket.parse(client.query(ONE)[-1][1], MODERN).session_state or b""
        assert cluster.primary.server_uuid.encode() in shown
        assert running.metric("tidegate_server_connections") >= 2
        client.query("SET session_track_gtids = OFF")
        assert not OkPacket.parse(client.query(ONE)[-1][1], MODERN).session_state


def test_a_probe_over_a_connection_whose_client_spoiled_it(
    cluster: Cluster, running: RunningProxy
) -> None:
    """Such a session's own reads go to the primary; those who wait with it are not concerned."""
    with at(running, "STRONG") as session, at(running, "STRONG") as other:
        for setting in (
            "sql_select_limit = 0",
            "character_set_results = utf16",
        ):
            run(session, f"SET {setting}")
            insert(session)
            run(other, ONE)
            with session.cursor() as cursor:
                cursor.execute(ONE)
            run(session, "SET sql_select_limit = DEFAULT, character_set_results = utf8mb4")
        assert number(session) == 2
        assert number(other) == 2


def test_a_token_across_two_proxies(
    cluster: Cluster, running: RunningProxy, proxy: StartProxy
) -> None:
    other = proxy(wait_budget="100ms", token_key_file=str(cluster.scratch.path / "token-keys"))
    with running.connect() as writer, other.connect() as reader:
        assert number(reader) == 0
        with standing_still(cluster):
            insert(writer)
            assert number(reader) == 0, "another proxy knows nothing of it"
            ((token,),) = run(writer, "SELECT @@tidegate_token")
            run(reader, f"SET tidegate_token = '{token}'")
            assert number(reader) == 1


# Drivers and tools.


def test_a_driver_escapes_as_the_server_reads(cluster: Cluster, running: RunningProxy) -> None:
    cluster.primary.query("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'")
    text = "x\\' OR 1 -- "
    with RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app") as client:
        status = OkPacket.parse(client.login, MODERN).status
        assert status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES
    with running.connect() as session, session.cursor() as cursor:
        run(session, "SET tidegate_scope = 'user'")
        cursor.execute("SELECT %s", (text,))
        assert cursor.fetchall() == ((text,),)
        run(session, "SHOW TIDEGATE SCOPES")
        cursor.execute("SET tidegate_application = %s", (text,))
        cursor.execute("SELECT @@tidegate_application")
        assert cursor.fetchall() == ((text,),)


def test_the_command_line_client(cluster: Cluster, running: RunningProxy) -> None:
    mysqld = find_mysqld()
    assert mysqld is not None
    client = mysqld.with_name("mysql")  # another one on the path may be MariaDB's
    if not client.exists():
        pytest.skip("no mysql client beside mysqld")
    script = (
        "BEGIN; INSERT INTO app.levels (b) VALUES (1); SHOW TIDEGATE LAST; COMMIT;"
        " SET tidegate_consistency = 'STRONG', tidegate_scope = 'user'; SHOW TIDEGATE SESSION;"
        " SELECT COUNT(*) FROM app.levels; SHOW TIDEGATE SERVERS; SHOW TIDEGATE SCOPES;"
        " SELECT @@tidegate_consistency, @@tidegate_token AS t;"
        " SHOW VARIABLES LIKE 'tidegate%'; SET tidegate_scope = 'nobody'"
    )
    command = [
        str(client),
        "--no-defaults",
        "--host=127.0.0.1",
        f"--port={running.port}",
        "--table",
    ]
    command += [f"--user={APP_USER}", f"--password={APP_PASSWORD}", "--get-server-public-key"]
    done = subprocess.run(
        [*command, f"--execute={script}"], capture_output=True, text=True, check=False, timeout=30
    )
    assert "ERROR 1231 (42000) at line 1: Tidegate:" in done.stderr
    for text in (
        "| write ",
        "| consistency ",
        "STRONG",
        "| replica ",
        "| user ",
        "| t ",
        "| known",
    ):
        assert text in done.stdout, (text, done.stdout)
