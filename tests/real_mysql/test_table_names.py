"""The tables that a query may read, as Tidegate tells them and as a server locks them."""

from __future__ import annotations  # Connection is generic for the type checker only

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING

import pytest

from protocol.constants import Command
from proxy.server.view_question import QUESTION, TABLES_QUESTION, WITH_TABLES
from proxy.server.view_question import read as read_answer
from routing.sql.catalogue import Catalogue, Definition, read
from routing.sql.lexer import MODE_UTF8
from routing.sql.statement import classify_text
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.statements import run
from tests.routing.sql.corpus_tables import WITH_TABLE, WITHOUT_TABLE

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

OBJECTS = (
    "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9), INDEX i (b))",
    "CREATE TABLE c (a INT PRIMARY KEY)",
    "CREATE TABLE `or``der` (a INT) PARTITION BY HASH (a) PARTITIONS 2",
    "CREATE TABLE heap (a INT) ENGINE = MEMORY",
    "CREATE TABLE größe (a INT)",
    "CREATE VIEW v AS SELECT a FROM t",
    "CREATE VIEW w AS SELECT v.a FROM v JOIN (SELECT a FROM `or``der`) AS d USING (a)",
    "CREATE ALGORITHM = TEMPTABLE VIEW deep AS WITH v AS (SELECT 1 AS a) SELECT v.a FROM v JOIN w",
    "CREATE VIEW of_heap AS SELECT a FROM heap",
    "CREATE VIEW of_size AS SELECT a FROM größe",
    "CREATE MATERIALIZED VIEW mat AS SELECT a FROM c",  # without HeatWave a plain one
    "CREATE JSON RELATIONAL DUALITY VIEW dual_c AS SELECT JSON_DUALITY_OBJECT('_id': a) FROM c",
)
TEXTS = (
    *WITHOUT_TABLE,
    *WITH_TABLE,
    *("SELECT * FROM v", "SELECT * FROM app.w", "TABLE deep", "SELECT * FROM w JOIN c"),
    "SELECT t.* FROM t USE INDEX FOR ORDER BY (i), c, `or``der` AS o",
    "SELECT a FROM t WHERE a IN (SELECT a FROM c WHERE a = (SELECT MAX(a) FROM `or``der`))",
    "SELECT a FROM t ORDER BY (SELECT MAX(c.a) FROM c WHERE c.a = t.a) LIMIT 1",
    "SELECT a, ROW_NUMBER() OVER (ORDER BY (SELECT 1 FROM c LIMIT 1)) FROM t",
    "SELECT a FROM t GROUP BY a HAVING a > (SELECT COUNT(*) FROM c) WINDOW q AS (ORDER BY a)",
    "SELECT 1 FROM t UNION ALL (SELECT 2 FROM c LIMIT 1) EXCEPT TABLE `or``der`",
    "SELECT 1 FROM of_size",
    *("SELECT * FROM mat", "SELECT * FROM dual_c"),
    "WITH t AS (TABLE t) SELECT * FROM app.t, t AS x",
    "SELECT * FROM t /*! , c */ JOIN app . /* c */ `or``der` AS `d`",
)
"""What names it as app's tables: those that the query locks."""
UNCERTAIN = (
    "SELECT * FROM of_heap",
    "SELECT a FROM heap",
    "SELECT * FROM größe",
    "SELECT * FROM nobody",
)


@pytest.fixture(scope="module")
def catalogue(cluster: Cluster, _empty_schema: None) -> Catalogue:
    """What a server says of these objects."""
    with closing(cluster.primary.admin("app")) as session:
        for sql in OBJECTS:
            run(session, sql)
        return asked(session)


def asked(session: Connection[Cursor], question: bytes = TABLES_QUESTION) -> Catalogue:
    (row,) = run(session, question.decode())
    values = [
        None if value is None else value if isinstance(value, bytes) else str(value).encode()
        for value in row
    ]
    answer = read_answer(values)
    assert answer is not None
    tables, foreign_keys = answer.tables, answer.foreign_keys
    *_, found = read(answer.views, answer.usages, Definition, tables, foreign_keys)
    assert found is not None
    return found


def told(catalogue: Catalogue, sql: str) -> set[str] | None:
    names = classify_text(sql.encode(), MODE_UTF8).tables
    tables = None if names is None else catalogue.tables.base_tables(names, "app")
    return None if tables is None else {table.table for table in tables}


def locked(session: Connection[Cursor], sql: str) -> set[str]:
    """The base tables that a query locks."""
    run(session, "BEGIN")
    run(session, sql.replace("FROM nobody", "FROM t"))
    rows = run(
        session,
        "SELECT OBJECT_NAME FROM performance_schema.metadata_locks JOIN performance_schema.threads"
        " ON THREAD_ID = OWNER_THREAD_ID JOIN information_schema.TABLES ON OBJECT_NAME = TABLE_NAME"
        " AND OBJECT_SCHEMA = TABLE_SCHEMA WHERE PROCESSLIST_ID = CONNECTION_ID()"
        " AND OBJECT_SCHEMA = 'app' AND TABLE_TYPE = 'BASE TABLE'",
    )
    run(session, "ROLLBACK")
    return {str(name) for (name,) in rows}


def test_no_table_is_missed_that_a_query_locks(cluster: Cluster, catalogue: Catalogue) -> None:
    more: dict[str, set[str]] = {}
    with closing(cluster.primary.admin("app")) as session:
        for sql in TEXTS:
            found, needed = told(catalogue, sql), locked(session, sql)
            assert found is not None, sql
            assert needed <= found, sql
            if found != needed:
                more[sql] = found - needed
    assert all(" c" in sql for sql in more), more  # a common table expression is called as a table
    assert len(more) < len(TEXTS) / 4


@pytest.mark.parametrize("sql", UNCERTAIN)
def test_what_is_no_innodb_table_or_not_in_ascii_is_not_certain(
    catalogue: Catalogue, sql: str
) -> None:
    assert told(catalogue, sql) is None


def test_tables_are_told_only_if_they_are_asked_for(cluster: Cluster) -> None:
    with closing(cluster.primary.admin("app")) as session:
        assert not len(asked(session, QUESTION).tables)
        assert len(asked(session).tables)
        run(session, "SET transaction_isolation = 'READ-UNCOMMITTED'")
        assert not len(asked(session).tables)
        (row,) = run(session, TABLES_QUESTION.decode())
        assert len(row) == WITH_TABLES


FAMILY = (
    "CREATE TABLE elder (a INT PRIMARY KEY)",
    "CREATE TABLE parent (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES elder (a)"
    " ON DELETE CASCADE)",
    "CREATE TABLE child (a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES parent (a)"
    " ON UPDATE SET NULL, FOREIGN KEY (b) REFERENCES child (a) ON DELETE CASCADE)",
    "CREATE TABLE guest (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES elder (a)"
    " ON DELETE RESTRICT ON UPDATE NO ACTION)",
    "CREATE VIEW of_child AS SELECT b FROM child",
)
GENERATIONS = {
    "elder": {"elder"},
    "parent": {"parent", "elder"},
    "child": {"child", "parent", "elder"},
    "of_child": {"child", "parent", "elder"},
    "guest": {"guest"},
}


@pytest.fixture
def family(cluster: Cluster) -> Iterator[None]:
    """Tables with foreign keys, in this order, and an account `narrow`."""
    with closing(cluster.primary.admin("app")) as session:
        for sql in (*FAMILY, "CREATE USER narrow IDENTIFIED BY 'narrow'"):
            run(session, sql)
        try:
            yield
        finally:
            run(session, "DROP VIEW of_child")
            run(session, "DROP TABLE guest, child, parent, elder")
            run(session, "DROP USER narrow")


@pytest.mark.usefixtures("family")
def test_parents_count_whose_foreign_keys_cascade(cluster: Cluster) -> None:
    with closing(cluster.primary.admin("app")) as session:
        found = asked(session)
    for table, expected in GENERATIONS.items():
        assert told(found, f"TABLE {table}") == expected, table


@pytest.mark.usefixtures("family")
@pytest.mark.parametrize("reset", [False, True])
def test_what_cascades_locks_the_definitions_of_all_that_it_may_change(
    cluster: Cluster, reset: bool
) -> None:
    """So no foreign key goes between what it has cascaded and the commit of that."""
    with closing(cluster.primary.admin("app")) as session:
        run(session, "INSERT INTO elder VALUES (1)")
        run(session, "INSERT INTO parent VALUES (1)")
        if reset:
            session._execute_command(Command.COM_RESET_CONNECTION, b"")  # type: ignore[attr-defined]
            session._read_ok_packet()  # type: ignore[attr-defined]
        assert locked(session, "DELETE FROM elder") == {"elder", "parent", "child", "guest"}


RULES = ("CASCADE", "SET NULL", "RESTRICT", "NO ACTION")


def test_foreign_keys_of_all_rules(cluster: Cluster) -> None:
    """Those of them that change the child count, whatever they refer to."""
    expected: dict[str, set[str] | None] = {"orphan": None, "loose": {"loose", "old"}}
    with closing(cluster.primary.admin("app")) as session:
        run(session, "SET foreign_key_checks = 0, restrict_fk_on_non_standard_key = OFF")
        run(session, "CREATE TABLE old (a INT PRIMARY KEY, b INT, INDEX (b))")
        for number, (update, delete) in enumerate(product(RULES, repeat=2)):
            name = f"young{number}"
            run(
                session,
                f"CREATE TABLE {name} (a INT, FOREIGN KEY (a) REFERENCES old (a)"
                f" ON UPDATE {update} ON DELETE {delete})",
            )
            cascades = not {update, delete} <= {"RESTRICT", "NO ACTION"}
            expected[name] = {name, "old"} if cascades else {name}
        run(
            session,
            "CREATE TABLE loose (b INT, FOREIGN KEY (b) REFERENCES old (b) ON DELETE CASCADE)",
        )
        run(
            session,
            "CREATE TABLE orphan (a INT, FOREIGN KEY (a) REFERENCES nobody (a) ON DELETE CASCADE)",
        )
        try:
            found = asked(session)
        finally:
            run(session, f"DROP TABLE {', '.join(expected)}, old")
    assert {name: told(found, f"TABLE {name}") for name in expected} == expected


@pytest.mark.usefixtures("family")
@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        (("SELECT ON app.child",), {"child": None}),
        (("SELECT ON app.child", "SELECT ON app.parent"), {"child": None, "parent": None}),
        (("SELECT ON app.child", "SELECT ON app.elder"), {"child": None, "elder": {"elder"}}),
        (("SELECT (b) ON app.child",), {"child": None}),
        (("SELECT ON app.guest",), {"guest": {"guest"}}),
        (
            ("SELECT (a) ON app.child", "INSERT ON app.parent", "DELETE ON app.elder"),
            {"child": {"child", "parent", "elder"}},
        ),
        (("SELECT, SHOW VIEW ON app.*",), GENERATIONS),
        (("SELECT, SHOW VIEW ON *.*",), GENERATIONS),
    ],
)
def test_a_table_whose_parents_an_account_does_not_see_is_not_certain(
    cluster: Cluster, rights: tuple[str, ...], expected: Mapping[str, set[str] | None]
) -> None:
    with closing(cluster.primary.admin("app")) as session:
        for right in rights:
            run(session, f"GRANT {right} TO narrow")
    with closing(cluster.primary.connect(user="narrow", password="narrow")) as session:
        found = asked(session)
    for table, tables in expected.items():
        assert told(found, f"TABLE app.{table}") == tables, table


@pytest.mark.parametrize("packet", [1 << 20, 4096])
def test_foreign_keys_that_do_not_fit_into_a_packet_are_not_taken_for_none(
    cluster: Cluster, packet: int
) -> None:
    """A server gives NULL where a value is longer than max_allowed_packet."""
    child, parent = "c" * 50, "p" * 50
    keys = ",".join(f"FOREIGN KEY (a) REFERENCES {parent} (a) ON DELETE CASCADE" for _ in range(40))
    primary = cluster.primary
    with closing(primary.admin("app")) as session:
        run(session, f"CREATE TABLE {parent} (a INT PRIMARY KEY)")
        run(session, f"CREATE TABLE {child} (a INT PRIMARY KEY, {keys})")
        run(session, "CREATE USER narrow IDENTIFIED BY 'narrow'")
        try:
            for table in (child, parent):
                run(session, f"GRANT SELECT ON app.{table} TO narrow")
            run(session, f"SET GLOBAL max_allowed_packet = {packet}")
            with closing(primary.connect(user="narrow", password="narrow")) as narrow:
                found = asked(narrow)
        finally:
            run(session, "SET GLOBAL max_allowed_packet = DEFAULT")
            run(session, "DROP USER narrow")
            run(session, f"DROP TABLE {child}, {parent}")
    assert told(found, f"TABLE {child}") == ({child, parent} if packet > 4096 else None)
