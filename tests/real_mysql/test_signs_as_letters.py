"""swe7 has letters where ASCII has signs: its sessions read on the primary."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import MONITOR_USER
from tests.support.waiting import eventually

SIGNS = "@[\\]^`{|}~"
LETTERS = "ÉÄÖÅÜéäöåü"
SCHEMA = (
    "CREATE TABLE t (i INT)",
    "CREATE TABLE `t{` (i INT)",
    "CREATE TABLE `tä` (i INT)",
    "CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT)",
    "CREATE TABLE still (id INT PRIMARY KEY)",
    "CREATE FUNCTION `f{`() RETURNS INT DETERMINISTIC RETURN 7",
)


@pytest.fixture(scope="module", autouse=True)
def schema(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    """The tables, and what the monitor needs to read the log."""
    primary = cluster.primary
    with closing(primary.admin("app")) as connection:
        for statement in SCHEMA:
            run(connection, statement)
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    cluster.wait_caught_up()
    yield
    primary.query(f"REVOKE REPLICATION SLAVE ON *.* FROM {MONITOR_USER}")


def test_in_no_other_character_set_of_clients_are_signs_letters(cluster: Cluster) -> None:
    primary = cluster.primary
    ascii_characters = "".join(map(chr, range(0x20, 0x7F)))
    read: dict[str, str] = {}
    for (name,) in primary.query(
        "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS"
        " WHERE CHARACTER_SET_NAME NOT IN ('ucs2', 'utf16', 'utf16le', 'utf32')"
    ):
        ((text,),) = primary.query(
            f"SELECT CONVERT(CONVERT(X'{ascii_characters.encode().hex()}' USING {name})"
            " USING utf8mb4)"
        )
        read[name] = text
    assert read.pop("swe7") == ascii_characters.translate(str.maketrans(SIGNS, LETTERS))
    assert set(read.values()) == {ascii_characters}


def test_names_in_swe7(cluster: Cluster) -> None:
    """Without quotes a name is taken as its bytes, in quotes as its letters."""
    with closing(cluster.primary.admin("app")) as session:
        run(session, "INSERT INTO t VALUES (1)")
        run(session, "INSERT INTO `t{` VALUES (2)")
        run(session, "INSERT INTO `tä` VALUES (3)")
        run(session, "SET NAMES swe7")
        assert run(session, "SELECT i FROM t{") == [(2,)]
        assert run(session, "SELECT i FROM `t{`") == [(3,)]
        assert run(session, "SELECT f{()") == [(7,)]
        run(session, "SET NAMES utf8mb4")
        for table in ("t", "`t{`", "`tä`"):
            run(session, f"DELETE FROM {table}")  # noqa: S608 - of the test
    cluster.wait_caught_up()


@pytest.mark.usefixtures("late_replicas")
def test_a_session_in_swe7_sees_what_it_wrote(proxy: StartProxy) -> None:
    running = proxy(table_dependencies="on", wait_budget="50ms", monitor_interval="50ms")
    with closing(running.connect()) as session, closing(running.connect()) as other:

        def log_is_read() -> bool:
            run(other, "INSERT INTO other VALUES ()")
            run(other, "SELECT * FROM still")
            return "independent" in str(run(other, "SHOW TIDEGATE LAST"))

        run(session, "SET NAMES swe7")
        for number, table in enumerate(("t{", "`t{`")):
            run(session, f"INSERT INTO {table} VALUES ({number})")  # noqa: S608 - of the test
            eventually(log_is_read)
            assert run(session, f"SELECT i FROM {table}") == [(number,)]  # noqa: S608 - likewise
        assert "pinned" in str(run(session, "SHOW TIDEGATE LAST"))
        run(session, "SET NAMES utf8mb4")
        run(session, "SELECT * FROM still")
        assert "pinned" not in str(run(session, "SHOW TIDEGATE LAST"))
