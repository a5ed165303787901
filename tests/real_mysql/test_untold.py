"""What a result's end does not tell a client without CLIENT_DEPRECATE_EOF is not lost."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import FETCHED, PREPARED, RESULTS, SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import NOTHING, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER

CLIENTS = {
    "old": NOTHING,
    "session-track": Capability.CLIENT_SESSION_TRACK,
    "modern": Capability.CLIENT_SESSION_TRACK | Capability.CLIENT_DEPRECATE_EOF,
}

SCHEMA = (
    "CREATE TABLE app.t (id INT AUTO_INCREMENT PRIMARY KEY)",
    "CREATE TABLE app.my (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE = MyISAM",
    "CREATE FUNCTION app.writes() RETURNS INT DETERMINISTIC"
    " BEGIN INSERT INTO t () VALUES (); RETURN 1; END",
    "CREATE FUNCTION app.writes_at_once() RETURNS INT DETERMINISTIC"
    " BEGIN INSERT INTO my () VALUES (); RETURN 1; END",
    "CREATE FUNCTION app.chooses() RETURNS INT DETERMINISTIC"
    " BEGIN SET time_zone = '+07:00'; RETURN 1; END",
    "CREATE FUNCTION app.makes() RETURNS INT DETERMINISTIC"
    " BEGIN CREATE TEMPORARY TABLE temp (a INT); INSERT INTO temp VALUES (5); RETURN 1; END",
    "CREATE VIEW app.writing AS SELECT app.writes() AS a",
    "CREATE VIEW app.writing_at_once AS SELECT app.writes_at_once() AS a",
    "CREATE VIEW app.setting AS SELECT app.chooses() AS a",
    "CREATE PROCEDURE app.fails() BEGIN SET time_zone = '+07:00'; SIGNAL SQLSTATE '45000'; END",
    "CREATE PROCEDURE app.writes_first() BEGIN INSERT INTO t () VALUES (); SELECT 1; END",
    "CREATE PROCEDURE app.writes_and_waits()"
    " BEGIN INSERT INTO t () VALUES (); SELECT 1; SELECT GET_LOCK('held', 60); END",
)


@pytest.fixture(autouse=True, scope="module")
def _schema(cluster: Cluster, _empty_schema: None) -> None:
    for sql in SCHEMA:
        cluster.primary.query(sql)


@pytest.fixture(params=CLIENTS)
def capabilities(request: pytest.FixtureRequest) -> Capability:
    return CLIENTS[request.param]


@pytest.fixture
def running(proxy: StartProxy) -> RunningProxy:
    return proxy(wait_budget="100ms")


def connect(running: RunningProxy, capabilities: Capability) -> RawClient:
    return RawClient(running.address, APP_USER, APP_PASSWORD, capabilities, "app")


@contextmanager
def appliers_stopped(cluster: Cluster) -> Iterator[None]:
    """Empty tables, and nothing of what is written from here on is on a replica."""
    for table in ("t", "my"):
        cluster.primary.query(f"TRUNCATE app.{table}")
    cluster.primary.query("DROP TABLE IF EXISTS app.x")
    cluster.wait_caught_up()
    for replica in cluster.replicas:
        replica.stop_applier()
    yield
    for replica in cluster.replicas:
        replica.start_applier()


def value(client: RawClient, sql: str) -> bytes:
    """The one value of the answer's last result."""
    packets = [payload for _, payload in client.query(sql)]
    assert packets[-1][0] != 0xFF, ErrPacket.parse(packets[-1])
    return packets[-2][1:]


def count(client: RawClient) -> int:
    return int(value(client, "SELECT (SELECT COUNT(*) FROM t) + (SELECT COUNT(*) FROM my)"))


WRITING = {
    "a function": ["SELECT writes()"],
    "a view": ["SELECT * FROM writing"],
    "a view, locking": ["SELECT * FROM writing FOR UPDATE"],
    "behind an OK": ["DO 1; SELECT writes()"],
    "in front of an OK": ["SELECT writes(); DO 1"],
    "among results": ["SELECT 1; SELECT writes(); SELECT 2"],
    "by text": ["PREPARE p FROM 'SELECT writes()'", "EXECUTE p"],
    "a procedure": ["CALL writes_first()"],
    "a procedure and more": ["CALL writes_first(); SELECT 1"],
    "with a hint": ["SELECT /*+ SET_VAR(sort_buffer_size = 100000) */ * FROM writing"],
    "in a transaction": ["BEGIN", "SELECT * FROM writing", "SELECT 1", "COMMIT"],
    "in two transactions": ["BEGIN", "SELECT * FROM writing", "BEGIN", "ROLLBACK"],
    "without autocommit": ["SET autocommit = 0", "SELECT * FROM writing", "SET autocommit = 1"],
    "a table": ["TABLE writing"],
}


def test_a_session_sees_what_a_result_wrote(
    cluster: Cluster, running: RunningProxy, capabilities: Capability
) -> None:
    for how, texts in WRITING.items():
        with connect(running, capabilities) as client, appliers_stopped(cluster):
            for sql in texts:
                assert client.query(sql)[-1][1][0] != 0xFF, sql
            assert count(client) == 1, how


AMONG_RESULTS = {
    "a function": "SELECT writes(); SELECT GET_LOCK('held', 60)",
    "a view": "SELECT * FROM writing; SELECT GET_LOCK('held', 60)",
    "a procedure": "CALL writes_and_waits()",
}


def test_others_see_what_a_result_wrote_while_the_next_one_is_awaited(
    cluster: Cluster, proxy: StartProxy, capabilities: Capability
) -> None:
    """The client has one result, and tells somebody of it."""
    running = proxy(wait_budget="100ms", scope="user")
    for how, sql in AMONG_RESULTS.items():
        with appliers_stopped(cluster), connect(running, capabilities) as other:
            assert count(other) == 0, how
            with cluster.primary.admin("app") as holder, connect(running, capabilities) as client:
                run(holder, "SELECT GET_LOCK('held', 60)")
                client.send(frame(bytes((Command.COM_QUERY,)) + sql.encode(), 0))
                for _ in range(4 if client.capabilities & Capability.CLIENT_DEPRECATE_EOF else 5):
                    client.read()
                assert count(other) == 1, how
                run(holder, "SELECT RELEASE_LOCK('held')")


AT_ONCE = {
    "a view": ["BEGIN", "SELECT * FROM writing_at_once", "COMMIT"],
    "a view, and nothing else of its own": ["BEGIN", "SELECT * FROM writing_at_once", "ROLLBACK"],
    "before a write": [
        *("BEGIN", "SELECT * FROM writing_at_once", "INSERT INTO t () VALUES ()", "ROLLBACK"),
    ],
    "before a write of none": [
        *("BEGIN", "SELECT * FROM writing_at_once", "DELETE FROM t", "ROLLBACK"),
    ],
    "before an implicit commit": [
        "BEGIN",
        "SELECT * FROM writing_at_once",
        "CREATE TABLE x (a INT)",
    ],
    "before an error": ["BEGIN", "SELECT * FROM writing_at_once", "SELECT nothing", "COMMIT"],
    "before a command": ["BEGIN", "SELECT * FROM writing_at_once", "USE app", "COMMIT"],
}


def test_a_session_sees_what_a_transaction_s_result_wrote_at_once(
    cluster: Cluster, running: RunningProxy, capabilities: Capability
) -> None:
    for how, texts in AT_ONCE.items():
        with connect(running, capabilities) as client, appliers_stopped(cluster):
            for sql in texts:
                client.query(sql)
            assert count(client) >= 1, how


def test_prepared(cluster: Cluster, running: RunningProxy, capabilities: Capability) -> None:
    for sql in (b"SELECT writes()", b"SELECT * FROM writing"):
        for flags in (0, 1):
            with connect(running, capabilities) as client, appliers_stopped(cluster):
                client.command(Command.COM_STMT_PREPARE, sql, PREPARED)
                body = (1).to_bytes(4, "little") + bytes((flags,)) + b"\1\0\0\0"
                client.command(Command.COM_STMT_EXECUTE, body, RESULTS)
                assert count(client) == 1, (sql, flags)
                if flags:
                    body = (1).to_bytes(4, "little") + b"\5\0\0\0"
                    client.command(Command.COM_STMT_FETCH, body, FETCHED)


def test_another_session_of_the_scope_sees_it(
    cluster: Cluster, proxy: StartProxy, capabilities: Capability
) -> None:
    running = proxy(wait_budget="100ms", scope="user")
    with connect(running, capabilities) as client, connect(running, NOTHING) as other:
        for sql in ("SELECT writes()", "SELECT * FROM writing"):
            count(other)
            with appliers_stopped(cluster):
                client.query(sql)
                assert count(other) == 1, sql


SETTING = [
    ["SELECT chooses()"],
    ["SELECT chooses(); SELECT 1"],
    ["CALL fails()"],
    ["BEGIN", "SELECT * FROM setting", "COMMIT"],
]


def test_variables_that_a_result_set_are_carried(
    running: RunningProxy, capabilities: Capability
) -> None:
    for how in SETTING:
        with connect(running, capabilities) as client:
            count(client)
            for sql in how:
                client.query(sql)
            for _ in range(3):
                assert value(client, "SELECT FROM_UNIXTIME(0)") == b"1970-01-01 07:00:00", how


def test_a_temporary_table_that_a_result_made_pins(
    running: RunningProxy, capabilities: Capability
) -> None:
    with connect(running, capabilities) as client:
        assert value(client, "SELECT makes()") == b"1"
        for _ in range(3):
            assert value(client, "SELECT a FROM temp") == b"5"


def test_reads_stay_on_replicas_where_a_result_wrote_nothing(
    running: RunningProxy, capabilities: Capability
) -> None:
    harmless = ["BEGIN", "SELECT * FROM t", "COMMIT", "SELECT * FROM t FOR UPDATE"]
    with connect(running, capabilities) as client:
        for sql in [
            *harmless,
            "INSERT INTO t () VALUES ()",
            "SHOW TABLES",
            "CHECK TABLE t",
        ]:
            client.query(sql)
        assert running.metric("tidegate_required_unknown_total") == 0
        count(client)
        count(client)
    assert running.metric("tidegate_statements_total", role="replica") >= 2
    assert running.metric("tidegate_pins_total") == 0


def test_what_is_asked_aside_leaves_no_trace(
    cluster: Cluster, running: RunningProxy, capabilities: Capability
) -> None:
    """What the statement before left: warnings, an error, the counts of its rows."""
    texts = [
        "SELECT CAST('x' AS SIGNED), writes()",
        "SHOW WARNINGS",
        "SELECT id FROM t FOR UPDATE",
        "SELECT FOUND_ROWS()",
        "SELECT writes() UNION SELECT 2",
        "SELECT ROW_COUNT(), FOUND_ROWS()",
        "SELECT ROW_COUNT(), FOUND_ROWS()",
        "TABLE writing",
        "SET @n = ROW_COUNT()",
        "SELECT @n",
        "BEGIN",
        "TABLE writing",
        "SELECT ROW_COUNT(), FOUND_ROWS()",
        "COMMIT",
        "CALL fails()",
        "SHOW WARNINGS",
        "CALL fails()",
        "SELECT ROW_COUNT(), FOUND_ROWS()",
        "SELECT LAST_INSERT_ID()",
    ]
    answers = []
    for address in (cluster.primary.address, running.address):
        cluster.primary.query("TRUNCATE app.t")
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            answers.append([client.query(sql)[0:9] for sql in texts])
            answers[-1].append(client.command(Command.COM_PING, shape=SIMPLE))
    if capabilities == Capability.CLIENT_SESSION_TRACK:
        # Trackers come late here, and what has been told to Tidegate is not told again.
        answers = [answer[:6] for answer in answers]
    for sql, direct, through in zip([*texts, "ping"], *answers, strict=False):
        assert through == direct, sql
