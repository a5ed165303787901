"""Reads of views over tables that the account does not see wait for the writes to these, too."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import MONITOR_USER
from tests.support.waiting import eventually

SCHEMA = """
CREATE TABLE a (id INT PRIMARY KEY, v INT);
CREATE TABLE b (id INT PRIMARY KEY, v INT);
CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT);
CREATE TABLE still (id INT PRIMARY KEY);
CREATE VIEW va AS SELECT id, v FROM a;
CREATE VIEW vab AS SELECT a.id, a.v, b.v AS w FROM a JOIN b USING (id);
CREATE VIEW vva AS SELECT id, v FROM va;
CREATE VIEW vvab AS SELECT id, v FROM vab UNION SELECT id, v FROM b;
INSERT INTO a VALUES (1, 1);
INSERT INTO b VALUES (1, 1)
"""
VIEWS = ("va", "vab", "vva", "vvab")
RIGHTS = {
    "nothing": [],
    "definitions": [f"SHOW VIEW ON app.{view}" for view in VIEWS],
    "one_table": [*[f"SHOW VIEW ON app.{view}" for view in VIEWS], "SELECT ON app.b"],
    "a_column": [*[f"SHOW VIEW ON app.{view}" for view in VIEWS], "SELECT (id) ON app.a"],
    "everything": ["ALL ON app.*"],
}


@pytest.fixture(scope="module", autouse=True)
def schema(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    """Views, and accounts with more and more rights beside those to use them."""
    primary = cluster.primary
    with closing(primary.admin("app")) as connection:
        for statement in SCHEMA.split(";\n"):
            run(connection, statement)
    for name, rights in RIGHTS.items():
        primary.query(f"CREATE USER {name} IDENTIFIED BY 'secret'")
        usual = [f"SELECT, UPDATE ON app.{view}" for view in VIEWS]
        for right in [*usual, "SELECT, INSERT ON app.other", "SELECT ON app.still", *rights]:
            primary.query(f"GRANT {right} TO {name}")
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    cluster.wait_caught_up()
    yield
    primary.query(f"REVOKE REPLICATION SLAVE ON *.* FROM {MONITOR_USER}")


@pytest.mark.usefixtures("late_replicas")
@pytest.mark.parametrize("account", RIGHTS)
def test_a_write_through_a_view_is_seen_through_others(
    cluster: Cluster, proxy: StartProxy, account: str
) -> None:
    running = proxy(table_dependencies="on", wait_budget="50ms", monitor_interval="50ms")
    with closing(running.connect(account, "secret")) as session:

        def independent() -> bool:
            run(session, "INSERT INTO other VALUES ()")
            run(session, "SELECT * FROM still")
            return "independent" in str(run(session, "SHOW TIDEGATE LAST"))

        eventually(independent)
        for written in ("va", "vva", "vab"):
            ((before,),) = run(session, "SELECT v FROM va")
            value = int(str(before)) + 1
            run(session, f"UPDATE {written} SET v = {value}")  # noqa: S608 - of the test
            for view in ("va", "vab", "vva"):
                assert run(session, f"SELECT v FROM {view}") == [(value,)]  # noqa: S608 - likewise
            assert (1, value) in run(session, "SELECT * FROM vvab")
