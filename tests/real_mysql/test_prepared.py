"""Prepared statements through the proxy, before real servers."""

import contextlib

import pytest

from protocol.constants import Capability, Command
from protocol.prepared_statement import ComStmtExecute, ComStmtFetch
from protocol.response import ErrPacket, StmtPrepareOk
from protocol.response_stream import FETCHED, PREPARED, RESULTS
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import NOTHING, Packet, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

CAPABILITIES = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
CURSOR_EXISTS, LAST_ROW_SENT = 0x40, 0x80


def connect(running: RunningProxy) -> RawClient:
    return RawClient(running.address, APP_USER, APP_PASSWORD, CAPABILITIES, "app")


def prepare(client: RawClient, sql: str) -> int:
    answer = client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)
    assert answer[0][1][0] == 0, ErrPacket.parse(answer[0][1])
    return StmtPrepareOk.parse(answer[0][1], client.capabilities).statement_id


def execute(client: RawClient, statement: int, flags: int = 0) -> list[Packet]:
    payload = ComStmtExecute(statement, flags).serialise(False)
    return client.command(Command.COM_STMT_EXECUTE, payload[1:], RESULTS)


def fetch(client: RawClient, statement: int, rows: int) -> list[Packet]:
    payload = ComStmtFetch(statement, rows).serialise()
    return client.command(Command.COM_STMT_FETCH, payload[1:], FETCHED)


def status(packet: Packet) -> int:
    """Of an OK whose counts are small."""
    return packet[1][3] | packet[1][4] << 8


@pytest.fixture
def words(cluster: Cluster) -> Cluster:
    cluster.primary.query("DROP TABLE IF EXISTS app.words")
    cluster.primary.query(
        "CREATE TABLE app.words (id INT AUTO_INCREMENT PRIMARY KEY, word VARCHAR(20))"
    )
    cluster.primary.query("INSERT INTO app.words VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e')")
    cluster.wait_caught_up()
    return cluster


def test_prepared_reads_see_what_was_written_before(words: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with connect(running) as client:
        statement = prepare(client, "SELECT COUNT(*) FROM words")
        for number in range(6, 206):
            assert client.query("INSERT INTO words (word) VALUES ('x')")[0][1][0] == 0
            row = execute(client, statement)[2][1]
            assert int.from_bytes(row[2:10], "little") == number
    assert running.metric("tidegate_statements_total", role="replica", proof="waited") > 100
    assert running.metric("tidegate_statements_total", role="replica") > 190


def test_a_cursor_stays_where_it_was_opened(words: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with connect(running) as client:
        statement = prepare(client, "SELECT id FROM words ORDER BY id")
        opened = execute(client, statement, 1)
        assert status(opened[-1]) & CURSOR_EXISTS
        assert len(fetch(client, statement, 2)) == 3
        assert client.query("DELETE FROM words")[0][1][0] == 0
        assert client.query("SELECT COUNT(*) FROM words")[2][1] == b"\x010"
        rest = fetch(client, statement, 9)
        assert [packet[1][2] for packet in rest[:-1]] == [3, 4, 5]
        assert status(rest[-1]) & LAST_ROW_SENT
        assert ErrPacket.parse(fetch(client, statement, 1)[-1][1]).code == 1421
    assert running.metric("tidegate_statements_total", role="replica", reason="cursor") == 3


def shown(client: RawClient, name: str) -> str:
    """What SHOW TIDEGATE SESSION says of this."""
    rows = [packet for _, packet in client.query("SHOW TIDEGATE SESSION")]
    (row,) = [row for row in rows if row[1:].startswith(name.encode())]
    return row[2 + len(name) :].decode()


@pytest.mark.parametrize("capabilities", [CAPABILITIES, NOTHING], ids=["modern", "old"])
def test_a_cursor_inside_a_program_is_none_of_the_clients(
    words: Cluster, proxy: StartProxy, capabilities: Capability
) -> None:
    for sql in (
        "DROP PROCEDURE IF EXISTS app.walks",
        "DROP FUNCTION IF EXISTS app.walked",
        "CREATE PROCEDURE app.walks() BEGIN DECLARE n INT; DECLARE c CURSOR FOR SELECT 2;"
        " OPEN c; FETCH c INTO n; CLOSE c; SELECT n; SELECT id FROM words; END",
        "CREATE FUNCTION app.walked() RETURNS INT DETERMINISTIC NO SQL BEGIN DECLARE n INT;"
        " DECLARE c CURSOR FOR SELECT 2; OPEN c; FETCH c INTO n; CLOSE c; RETURN n; END",
    ):
        with contextlib.closing(words.primary.admin("app")) as root:
            root.query(sql)
    words.wait_caught_up()
    running = proxy()
    ends = [
        RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app")
        for address in (running.address, words.primary.address)
    ]
    with ends[0] as client, ends[1] as direct:
        for sql in ("CALL walks()", "SELECT word FROM words WHERE id = walked()"):
            answer = client.query(sql)
            assert len(answer) == len(direct.query(sql))
            assert client.query("SELECT 7")[-2][1] == b"\x017"
            statements = [prepare(end, sql) for end in (client, direct)]
            for flags in (0, 1):
                answers = [
                    execute(end, statement, flags)
                    for end, statement in zip((client, direct), statements, strict=True)
                ]
                assert len(answers[0]) == len(answers[1])
                opened = flags == 1 and sql.startswith("SELECT")
                assert shown(client, "open_cursors") == str(int(opened))
                if opened:
                    assert fetch(client, statements[0], 9)[0][1].endswith(b"\x01b")
                assert client.query("SELECT 7")[-2][1] == b"\x017"


def test_a_cursor_dies_with_its_server(words: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with connect(running) as client:
        statement = prepare(client, "SELECT id FROM words ORDER BY id")
        assert status(execute(client, statement, 1)[-1]) & CURSOR_EXISTS
        for replica in words.replicas:
            replica.end_other_connections()
        with contextlib.suppress(ConnectionResetError):
            while True:  # the monitor's connections come back; the session's cursor does not
                answer = fetch(client, statement, 1)
                assert not status(answer[-1]) & LAST_ROW_SENT


def test_a_changed_table_is_prepared_anew(words: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with connect(running) as client:
        statement = prepare(client, "SELECT * FROM words ORDER BY id LIMIT 1")
        assert len(execute(client, statement)) == 5
        assert client.query("ALTER TABLE words ADD more INT DEFAULT 9")[0][1][0] == 0
        answer = execute(client, statement)
        assert len(answer) == 6
        assert answer[4][1].endswith((9).to_bytes(4, "little"))


def test_a_temporary_table_belongs_to_the_schema_that_it_was_prepared_in(
    words: Cluster, proxy: StartProxy
) -> None:
    words.primary.query("CREATE DATABASE IF NOT EXISTS app_other")
    words.primary.query(f"GRANT ALL ON app_other.* TO '{APP_USER}'@'%'")
    words.wait_caught_up()
    with connect(proxy()) as client:
        statement = prepare(client, "CREATE TEMPORARY TABLE mine (a INT)")
        client.query("PREPARE s FROM 'CREATE TEMPORARY TABLE yours (a INT)'")
        client.query("USE app_other")
        execute(client, statement)
        client.query("EXECUTE s")
        for name in ("mine", "yours"):
            assert client.query(f"CREATE TABLE {name} (a INT)")[0][1][0] == 0
            assert client.query(f"DROP TABLE {name}")[0][1][0] == 0
        assert "`app`.`mine`" in shown(client, "pins")
        assert "`app`.`yours`" in shown(client, "pins")
        for name in ("mine", "yours"):
            assert client.query(f"DROP TABLE app.{name}")[0][1][0] == 0
        assert "`" not in shown(client, "pins")


@pytest.mark.parametrize(
    ("sql", "setting"),
    [
        ("SELECT GROUP_CONCAT(id) FROM words", "group_concat_max_len = 4"),
        ("SELECT id / 7 FROM words ORDER BY id", "div_precision_increment = 9"),
        ("SELECT DAYNAME('2026-01-01') FROM words", "lc_time_names = 'de_DE'"),
        ("SELECT TIMESTAMP'2026-01-01 00:00:00+01:00' FROM words", "time_zone = '+05:00'"),
        ("SELECT COLLATION(_utf8mb4'a') FROM words", "default_collation_for_utf8mb4 = 45"),
        ("SELECT 'a' || 'b' FROM words", "sql_mode = 'PIPES_AS_CONCAT'"),
    ],
)
def test_what_a_prepared_statement_keeps(
    words: Cluster, proxy: StartProxy, sql: str, setting: str
) -> None:
    answers = []
    for address in (words.primary.address, proxy().address):
        with RawClient(address, APP_USER, APP_PASSWORD, CAPABILITIES, "app") as client:
            before = execute(client, prepare(client, sql))
            statement = prepare(client, sql)
            client.query(f"SET {setting}")
            client.query("BEGIN")  # so that it runs on the primary
            kept = execute(client, statement)
            assert execute(client, prepare(client, sql))[2:-1] != kept[2:-1]
            answers.append([packet for _, packet in kept[2:-1]])
            assert answers[-1] == [packet for _, packet in before[2:-1]]
    assert answers[0] == answers[1]


def test_what_was_prepared_in_a_server_s_schema_is_read_from_the_primary(
    words: Cluster, proxy: StartProxy
) -> None:
    with connect(proxy()) as client:
        number = client.query("SELECT CONNECTION_ID()")[2][1][1:].decode()
        client.query("USE information_schema")
        sql = f"SELECT COUNT(*) FROM PROCESSLIST WHERE ID = {number}"  # noqa: S608 - a number
        statement = prepare(client, sql)
        client.query("USE app")
        for _ in range(3):
            row = execute(client, statement)[2][1]
            assert int.from_bytes(row[2:10], "little") == 1


def test_statements_keep_their_schema(words: Cluster, proxy: StartProxy) -> None:
    for sql in (
        "CREATE DATABASE IF NOT EXISTS app_other",
        f"GRANT ALL ON app_other.* TO '{APP_USER}'@'%'",
        "CREATE OR REPLACE VIEW app_other.words AS SELECT 1 FROM DUAL WHERE FALSE",
    ):
        words.primary.query(sql)
    words.wait_caught_up()
    running = proxy()
    with connect(running) as client:
        statement = prepare(client, "SELECT COUNT(*) FROM words")
        for sql in ("USE app_other", "BEGIN"):
            answer = client.query(sql)
            assert answer[0][1][0] == 0, ErrPacket.parse(answer[0][1])
        row = execute(client, statement)[2][1]
        assert int.from_bytes(row[2:10], "little") == 5
        assert client.query("SELECT COUNT(*) FROM words")[2][1] == b"\x010"


def refused_or_rows(answer: list[Packet]) -> list[bytes]:
    """What an execution answers, without its last packet: that has what trackers tell."""
    if answer[0][1][0] == 0xFF:
        return [answer[0][1]]
    return [payload for _, payload in answer[:-1]]


def run_in(client: RawClient, *texts: str) -> None:
    for sql in texts:
        answer = client.query(sql)
        assert answer[-1][1][0] != 0xFF, f"{sql}: {ErrPacket.parse(answer[-1][1])}"


def direct(cluster: Cluster) -> RawClient:
    return RawClient(cluster.primary.address, APP_USER, APP_PASSWORD, CAPABILITIES, "app")


TAKEN = {
    "default_collation_for_utf8mb4 = utf8mb4_general_ci": "SELECT COLLATION(_utf8mb4'x') FROM words"
    " WHERE id = 1",
    "default_week_format = 6": "SELECT WEEK('2008-12-31') FROM words WHERE id = 1",
    "div_precision_increment = 10": "SELECT id / 3 FROM words WHERE id = 1",
    "group_concat_max_len = 4": "SELECT GROUP_CONCAT('abcdefgh') FROM words WHERE id = 1",
    "lc_time_names = 'de_DE'": "SELECT DAYNAME('2024-01-01') FROM words WHERE id = 1",
    "time_zone = '+05:00'": "SELECT TIMESTAMP'2020-01-01 00:00:00+01:00' FROM words WHERE id = 1",
}


@pytest.mark.parametrize("setting", TAKEN)
def test_a_statement_keeps_what_a_server_took_into_it(
    words: Cluster, proxy: StartProxy, setting: str
) -> None:
    sql = TAKEN[setting]
    running = proxy()
    found = []
    for client in (direct(words), connect(running)):
        with client:
            run_in(client, "BEGIN")
            statement = prepare(client, sql)  # on the primary
            run_in(client, "COMMIT", f"SET {setting}")
            kept = refused_or_rows(execute(client, statement))
            assert refused_or_rows(execute(client, prepare(client, sql))) != kept
            found.append(kept)
    assert found[0] == found[1]
    with connect(running) as client:
        statement = prepare(client, sql)  # on a replica
        run_in(client, f"SET {setting}")
        assert refused_or_rows(execute(client, statement)) == found[0]
        run_in(client, "BEGIN")
        assert refused_or_rows(execute(client, statement)) == found[0]


@pytest.mark.parametrize(("first", "then"), [("1", "'abc'"), ("'12'", "3.25"), ("NULL", "7")])
def test_a_statement_keeps_the_types_of_user_variables(
    words: Cluster, proxy: StartProxy, first: str, then: str
) -> None:
    sql = "SELECT @a, @a + 1 FROM words WHERE id = 1"
    running = proxy()
    found = []
    for client in (direct(words), connect(running)):
        with client:
            run_in(client, f"SET @a = {first}")
            statement = prepare(client, sql)
            run_in(client, f"SET @a = {then}")
            outside = refused_or_rows(execute(client, statement))
            run_in(client, "BEGIN")
            found.append((outside, refused_or_rows(execute(client, statement))))
    assert found[0] == found[1]


def test_what_was_prepared_in_a_schema_of_the_server_stays_there(
    words: Cluster, proxy: StartProxy
) -> None:
    words.primary.query(f"GRANT SELECT ON mysql.slave_master_info TO '{APP_USER}'@'%'")
    words.wait_caught_up()
    with connect(proxy()) as client:
        run_in(client, "USE mysql")
        statement = prepare(client, "SELECT COUNT(*) FROM slave_master_info")
        run_in(client, "USE app")
        row = execute(client, statement)[2][1]
        assert int.from_bytes(row[2:10], "little") == 0  # a replica has one


@pytest.mark.parametrize("as_text", [False, True], ids=["binary", "text"])
@pytest.mark.parametrize("verb", ["CREATE", "DROP"])
def test_a_temporary_table_is_that_of_the_statement_s_schema(
    words: Cluster, proxy: StartProxy, verb: str, as_text: bool
) -> None:
    creation = "CREATE TEMPORARY TABLE veil SELECT 'veil' AS word"
    for sql in (
        "CREATE DATABASE IF NOT EXISTS app_other",
        f"GRANT ALL ON app_other.* TO '{APP_USER}'@'%'",
    ):
        words.primary.query(sql)
    for schema in ("app", "app_other"):
        words.primary.query(f"DROP TABLE IF EXISTS {schema}.veil")
        words.primary.query(f"CREATE TABLE {schema}.veil SELECT 'base' AS word")
    words.wait_caught_up()

    def prepared(client: RawClient, sql: str) -> int:
        if not as_text:
            return prepare(client, sql)
        run_in(client, "PREPARE p FROM '" + sql.replace("'", "''") + "'")
        return 0

    def executed(client: RawClient, statement: int) -> None:
        if as_text:
            run_in(client, "EXECUTE p")
        else:
            assert execute(client, statement)[0][1][0] == 0

    with connect(proxy()) as client:
        if verb == "CREATE":
            statement = prepared(client, creation)
            run_in(client, "USE app_other")
            executed(client, statement)  # app.veil
            run_in(client, "DROP TABLE app_other.veil", "USE app")
        else:
            statement = prepared(client, "DROP TABLE veil")
            run_in(client, "USE app_other", creation)
            executed(client, statement)  # app.veil, which is none of the temporary ones
        for _ in range(3):
            assert client.query("SELECT word FROM veil")[2][1] == b"\x04veil"
