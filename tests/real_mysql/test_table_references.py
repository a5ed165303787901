"""What reads from no table begins no transaction: through Tidegate as at a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from protocol.constants import IN_TRANS, Capability
from tests.differential.comparison import comparable, ok_packet
from tests.differential.player import Answer, Player
from tests.differential.step import Execute, Prepare
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import BASE, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.routing.sql.corpus_tables import WITH_TABLE, WITHOUT_TABLE

MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
CAPABILITIES = BASE | MODERN
OBJECTS = (
    "CREATE TABLE app.t (a INT PRIMARY KEY, b VARCHAR(9))",
    "CREATE TABLE app.c (a INT PRIMARY KEY)",
    "INSERT INTO app.t VALUES (1, 'x')",
    "INSERT INTO app.c VALUES (1)",
    "CREATE VIEW app.stored AS SELECT a FROM app.t",
    "CREATE FUNCTION app.constantly() RETURNS INT DETERMINISTIC NO SQL RETURN 1",
    "CREATE PROCEDURE app.nothing() BEGIN END",
)
OTHERS = (
    *("SELECT * FROM stored", "SELECT constantly()", "CALL nothing()"),
    *("SHOW TABLES", "SHOW COLUMNS FROM t", "SHOW CREATE TABLE t", "SHOW CHARACTER SET"),
    *("SHOW WARNINGS", "SHOW VARIABLES LIKE 'port%'", "DESCRIBE t", "HELP 'nothing'"),
    *("EXPLAIN SELECT 1", "EXPLAIN SELECT * FROM t", "EXPLAIN SELECT * FROM (SELECT 1) AS d"),
    *("DO 1", "DO (SELECT MAX(a) FROM t)", "DO (SELECT 1 FROM (SELECT 1) AS d)"),
    *("SET @a = 1", "SET @a = (SELECT MAX(a) FROM t)", "SET @a = (SELECT 1 FROM (SELECT 1) AS d)"),
    *(
        "SELECT 1 INTO @a",
        "SELECT a FROM t INTO @a",
        "SELECT @a := a FROM t",
        "SELECT @@autocommit",
    ),
    *("SELECT 1 FOR UPDATE", "SELECT a FROM t FOR SHARE", "SELECT LAST_INSERT_ID()"),
    *("SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SELECT FOUND_ROWS() FROM t"),
    "SELECT COUNT(*) > 1 FROM information_schema.tables",
    "SELECT COUNT(*) > 1 FROM performance_schema.threads",
    *("SELECT 1; SELECT 2 FROM t", "EXPLAIN TABLE t", "EXPLAIN FORMAT=TREE SELECT a FROM t"),
)
"""Besides the corpus."""
TEXTS = (*WITHOUT_TABLE, *WITH_TABLE, *OTHERS)
READ = "SELECT a FROM t"
WRITE = "DELETE FROM t WHERE a = 9"


class Client(Player):
    """A client that sends texts, and executes them prepared."""

    def __init__(self, address: str) -> None:
        super().__init__(RawClient(address, APP_USER, APP_PASSWORD, MODERN, "app"))

    def texts(self, *texts: str) -> list[Answer]:
        return [self.query(text.encode()) for text in texts]

    def prepared(self, text: str) -> Answer:
        Prepare(0, text).play(self)
        return Execute(0).play(self)


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    with cluster.primary.admin("app") as session:
        for sql in OBJECTS:
            run(session, sql)
    cluster.wait_caught_up()
    proxy = RunningProxy(cluster, "tables", {"wait_budget": "10s"})
    yield proxy
    proxy.stop()
    assert "Traceback" not in proxy.stderr, proxy.stderr


def begins(answer: Answer) -> bool:
    """Whether a transaction is open behind a statement."""
    ok = ok_packet(answer[-1], CAPABILITIES)
    assert ok is not None, answer
    return ok.status & IN_TRANS != 0


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(("corpus", "reads"), [(WITHOUT_TABLE, False), (WITH_TABLE, True)])
def test_a_server_says_the_same_of_the_corpus(
    cluster: Cluster, corpus: tuple[str, ...], reads: bool
) -> None:
    with closing(Client(cluster.primary.address)) as client:
        client.texts("SET autocommit = 0")
        for text in corpus:
            for answer in (client.texts(text)[0], client.prepared(text)):
                assert begins(answer) is reads, text
                client.texts("COMMIT")


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    "before",
    [
        ("SET autocommit = 1", "SET TRANSACTION READ ONLY"),
        ("SET autocommit = 0", "SET TRANSACTION READ ONLY"),
        ("SET autocommit = 0", "SET SESSION TRANSACTION READ ONLY"),
        ("SET autocommit = 0", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        ("SET autocommit = 0", "DO 1"),
    ],
)
def test_what_a_statement_begins_is_begun(
    cluster: Cluster, running: RunningProxy, before: tuple[str, str], prepared: bool
) -> None:
    """Seen by the status flags, and by what the access mode refuses."""
    differ = []
    with (
        closing(Client(cluster.primary.address)) as direct,
        closing(Client(running.address)) as through,
    ):
        for text in TEXTS:
            found = []
            for client in (direct, through):
                client.texts("COMMIT", *before)
                answers = [client.prepared(text)] if prepared else client.texts(text)
                answers += client.texts(READ, WRITE, WRITE, "COMMIT", WRITE)
                client.texts("COMMIT", "SET SESSION TRANSACTION READ WRITE", WRITE)
                found.append([comparable(answer, CAPABILITIES) for answer in answers])
            if found[0] != found[1]:
                differ.append((text, *found))
    assert not differ, [text for text, *_ in differ]
