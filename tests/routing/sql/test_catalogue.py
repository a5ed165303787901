"""Which views are plain, as a server describes them, and what that means for statements."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.sql.catalogue import (
    ASKS,
    BOUND,
    CALLS,
    DICTIONARY,
    LOCKS,
    MOST_GONE,
    PLAIN,
    VARIABLES,
    Catalogue,
    CatalogueError,
    Definition,
    read,
    through,
)
from routing.sql.identifiers import FOREIGN
from routing.sql.lexer import MODE_ANSI_QUOTES, MODE_UTF8
from routing.sql.statement import Statement, StatementClass, StatementReason, classify_text

WHOAMI = "select connection_id() AS `c`"
OF_T = "select `app`.`t`.`a` AS `a` from `app`.`t`"


def made(views: dict[str, str], usages: dict[str, list[str]]) -> Catalogue:
    *_, catalogue = read(
        json.dumps([["app", name, text] for name, text in views.items()]).encode(),
        json.dumps(
            [["app", name, "app", table] for name, tables in usages.items() for table in tables]
        ).encode(),
    )
    assert catalogue is not None
    return catalogue


def touched(catalogue: Catalogue, name: str) -> int:
    return catalogue.touched(classify_text(f"TABLE {name}".encode(), MODE_UTF8))


@pytest.mark.parametrize(
    ("definition", "flags"),
    [
        (OF_T, PLAIN),
        ("select sum(`x`.`a`) AS `s` from (`app`.`t` `x` join `app`.`t` `y` on(true))", PLAIN),
        (WHOAMI, BOUND),
        ("select found_rows() AS `c`", BOUND | ASKS),
        ("select row_count() AS `c`", BOUND | ASKS),
        ("select get_lock('l',0) AS `c`", LOCKS | BOUND),
        ("select `f`() AS `c`", CALLS),
        ("select `other`.`f`(1) AS `c`", CALLS),
        ("select nobody_knows(1) AS `c`", CALLS),
        ("select extractvalue('<a/>','/a[$@i]') AS `c`", VARIABLES),
        ("select `performance_schema`.`threads`.`NAME` AS `c` from `app`.`t`", BOUND),
        ("select `information_schema`.`TABLES`.`TABLE_ROWS` AS `c` from `app`.`t`", DICTIONARY),
        ("select `information_schema`.`PROCESSLIST`.`ID` AS `c` from `app`.`t`", BOUND),
        ("", CALLS),
        ("select 'never ending", CALLS),
        ("select '" + "x" * 70_000 + "'", CALLS),
    ],
)
def test_what_a_definition_touches(definition: str, flags: int) -> None:
    assert touched(made({"v": definition}, {"v": ["t"]}), "v") == flags


def test_a_view_touches_what_those_touch_that_it_reads_from() -> None:
    views = {f"v{n}": OF_T.replace("`t`", f"`v{n + 1}`") for n in range(5)}
    usages = {f"v{n}": [f"v{n + 1}"] for n in range(5)}
    catalogue = made({**views, "v5": WHOAMI, "w": OF_T}, {**usages, "w": ["t"]})
    assert catalogue.names == {f"V{n}".encode() for n in range(6)}


@pytest.mark.parametrize(
    "definition",
    [
        OF_T,
        "select `x`.`a` AS `a` from `app`.`t` `x`",
        "select `x`.`a` AS `a` from (`app`.`u` `x` join `app`.`t` on(true))",
        "select `x`.`a` AS `a` from (`app`.`t` `app` left join `app`.`u` `x` on(true))",
        "select 1 AS `a` from (select `app`.`t`.`a` AS `a` from `app`.`t`) `d`",
    ],
)
def test_a_view_of_what_cannot_be_seen_is_not_plain(definition: str) -> None:
    assert touched(made({"v": definition}, {"v": ["t", "u"]}), "v") == PLAIN
    assert touched(made({"v": definition}, {"v": ["u"]}), "v") == CALLS
    assert touched(made({"v": definition}, {}), "v") == CALLS


NAMING = [
    "SELECT c FROM v",
    "SELECT c FROM V AS x",
    "SELECT c FROM `v`",
    "SELECT c FROM anything . v",
    "TABLE v",
    "WITH x AS (TABLE `app`.`V`) SELECT * FROM x",
    "SELECT (SELECT 1 FROM (v))",
    "SELECT v FROM t",
    "SELECT 1 FROM t /*!80000 JOIN v */",
    "SELECT 1 FROM t /*!99999 JOIN v */",
    "SELECT 1; SELECT c FROM v",
    "SELECT c FROM v FOR UPDATE",
    "SELECT c FROM v INTO OUTFILE 'x'",
    "SELECT @@sql_mode FROM v",
    "EXPLAIN SELECT c FROM v",
]


@pytest.mark.parametrize("sql", NAMING)
def test_statements_that_name_a_view(sql: str) -> None:
    catalogue = made({"v": "select `f`() AS `c`"}, {})
    for flags in (0, MODE_UTF8, MODE_ANSI_QUOTES):
        text = sql.replace("`", '"') if flags == MODE_ANSI_QUOTES else sql
        statement = classify_text(text.encode(), flags)
        seen = through(statement, catalogue.touched(statement))
        assert seen.kind is StatementClass.WRITE
        assert seen.may_write
        assert seen.may_run_programs
        assert seen.digest == statement.digest


@pytest.mark.parametrize(
    "sql", ["SELECT 'v' FROM t", "SELECT 1 AS v", "SELECT @v FROM t", "SELECT 1 FROM t -- v"]
)
def test_statements_that_name_none(sql: str) -> None:
    statement = classify_text(sql.encode(), MODE_UTF8)
    assert made({"v": WHOAMI}, {}).touched(statement) == PLAIN


def test_a_view_that_is_not_visible_any_more_stays_as_it_was() -> None:
    first = made({"a": WHOAMI, "b": OF_T, "c": WHOAMI}, {"b": ["t"]})
    second = made({"c": OF_T}, {"c": ["t"]}).following(first)
    assert [touched(second, name) for name in "abc"] == [BOUND, PLAIN, PLAIN]
    third = made({"c": OF_T}, {"c": ["t"]}).following(second)
    assert third.names == second.names == {b"A"}
    fourth = made({"a": OF_T}, {"a": ["t"]}).following(third)
    assert not fourth.names
    assert fourth.following(fourth) is fourth


def test_so_many_views_that_are_not_visible_any_more_are_remembered() -> None:
    catalogue = made({}, {})
    for number in range(MOST_GONE + 5):
        catalogue = made({f"v{number}": WHOAMI}, {}).following(catalogue)
    assert len(catalogue.names) == MOST_GONE + 1
    assert touched(catalogue, "v3") == PLAIN
    assert touched(catalogue, "v4") == BOUND


def test_quotes_in_names_and_names_outside_ascii() -> None:
    catalogue = made({"o`d": WHOAMI, "é": WHOAMI}, {})
    assert catalogue.names == {b"O`D", FOREIGN}
    for name in ("`o``d`", "é", "`É`", "`ü`"):
        assert touched(catalogue, name) == BOUND
    assert touched(catalogue, "`o```") == PLAIN


def test_reserved_words_name_views_in_quotes_or_behind_a_dot() -> None:
    catalogue = made({"from": WHOAMI, "select": WHOAMI}, {})
    for name in ("`from`", "app.from", "app . /* */ `FROM`", "`x` JOIN `select`"):
        assert touched(catalogue, name) == BOUND, name
    assert touched(catalogue, "t") == PLAIN
    assert catalogue.touched(classify_text(b"SELECT 1 FROM t", MODE_UTF8)) == PLAIN


READ = classify_text(b"SELECT c FROM v", MODE_UTF8)


@pytest.mark.parametrize(
    ("flags", "kind", "reason"),
    [
        (PLAIN, StatementClass.READ, StatementReason.NOTHING),
        (VARIABLES, StatementClass.READ, StatementReason.USER_VARIABLE),
        (DICTIONARY, StatementClass.READ, StatementReason.METADATA),
        (DICTIONARY | VARIABLES, StatementClass.READ, StatementReason.METADATA),
        (DICTIONARY | BOUND, StatementClass.SESSION, StatementReason.SESSION_FUNCTION),
        (BOUND, StatementClass.SESSION, StatementReason.SESSION_FUNCTION),
        (BOUND | ASKS, StatementClass.SESSION, StatementReason.SESSION_FUNCTION),
        (LOCKS | BOUND, StatementClass.PIN, StatementReason.LOCK_FUNCTION),
        (LOCKS | CALLS, StatementClass.WRITE, StatementReason.UNKNOWN_FUNCTION),
        (CALLS | VARIABLES, StatementClass.WRITE, StatementReason.UNKNOWN_FUNCTION),
    ],
)
def test_what_a_read_becomes(flags: int, kind: StatementClass, reason: StatementReason) -> None:
    seen: Statement = through(READ, flags)
    assert (seen.kind, seen.reason) == (kind, reason)
    assert seen.may_write == bool(flags & CALLS)
    assert seen.pins == bool(flags & LOCKS)
    assert bool(seen.asks) == bool(flags & ASKS)
    assert ("*" in seen.user_variables) == bool(flags & VARIABLES)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("CREATE VIEW v AS SELECT 1", True),
        ("CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW v AS SELECT 1", True),
        ("ALTER VIEW v AS SELECT 1", True),
        ("DROP VIEW v", True),
        ("RENAME TABLE a TO b", True),
        ("GRANT SELECT ON t TO u", True),
        ("REVOKE ALL ON *.* FROM u", True),
        ("SELECT 1; CREATE VIEW v AS SELECT 1", True),
        ("CREATE /*!50001 VIEW v AS SELECT 1 */", True),
        ("CREATE VIEW v AS SELECT 'never ending", True),
        ("CREATE TABLE t (a INT)", False),
        ("TRUNCATE t", False),
        ("INSERT INTO t VALUES (1)", False),
        ("SELECT view FROM t", False),
    ],
)
def test_statements_after_which_views_may_be_others(sql: str, changes: bool) -> None:
    assert classify_text(sql.encode(), MODE_UTF8).changes_views == changes


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[1]", b'[["a"]]', b'"x"', b"\xff", b"[[[]]]", b"[[1,2,3]"]
)
def test_what_is_no_answer(text: bytes) -> None:
    for views, usages in ((text, None), (None, text)):
        with pytest.raises(CatalogueError):
            list(read(views, usages))
    for tables, foreign_keys in ((text, b"[]"), (b"[]", text)):
        with pytest.raises(CatalogueError):
            list(read(None, None, Definition, tables, foreign_keys))


TABLES = [["app", name, "InnoDB"] for name in ("elder", "parent", "Child", "alone")]


def told(name: str, foreign_keys: list[list[str]] | None, tables: list[list[str]]) -> object:
    """The names of the tables whose changes change what a table shows; None if not certain."""
    keys = None if foreign_keys is None else json.dumps(foreign_keys).encode()
    *_, catalogue = read(None, None, Definition, json.dumps(tables).encode(), keys)
    assert catalogue is not None
    names = classify_text(f"TABLE {name}".encode(), MODE_UTF8).tables
    assert names is not None
    found = catalogue.tables.base_tables(names, "app")
    return None if found is None else {table.table for table in found}


def test_a_table_is_changed_with_the_parents_that_cascade_to_it() -> None:
    keys = [["app", "child", "app", "PARENT"], ["app", "parent", "app", "elder"]]
    keys += [["app", "elder", "app", "child"]]  # in a ring
    everybody = {"elder", "parent", "Child"}
    assert all(told(name, keys, TABLES) == everybody for name in ("elder", "parent", "child"))
    assert told("child", keys[:1], TABLES) == {"Child", "parent"}
    assert told("parent", keys[:1], TABLES) == {"parent"}
    assert told("alone", keys, TABLES) == {"alone"}
    assert told("alone", [["app", "alone", "app", "alone"]], TABLES) == {"alone"}


def test_a_table_with_a_parent_that_is_not_seen_or_no_innodb_table_is_not_certain() -> None:
    keys = [["app", "child", "app", "parent"], ["app", "parent", "other", "elder"]]
    assert told("child", keys, TABLES) is None
    assert told("parent", keys, TABLES) is None
    assert told("alone", keys, TABLES) == {"alone"}
    assert told("hidden", [["app", "hidden", "app", "parent"]], TABLES) is None
    heap = [["app", "parent", "MEMORY"], ["app", "child", "InnoDB"]]
    assert told("child", keys[:1], heap) is None


def test_a_table_with_many_ancestors_is_not_certain() -> None:
    number = 5_000
    tables = [["app", f"t{n}", "InnoDB"] for n in range(number)]
    keys = [["app", f"t{n}", "app", f"t{n + 1}"] for n in range(number - 1)]
    steps = read(None, None, Definition, json.dumps(tables).encode(), json.dumps(keys).encode())
    *_, catalogue = steps
    assert catalogue is not None
    names = [classify_text(f"TABLE t{n}".encode(), MODE_UTF8).tables for n in (0, number - 3)]
    found = [catalogue.tables.base_tables(each, "app") for each in names if each is not None]
    assert found[0] is None
    assert found[1] is not None
    assert {table.table for table in found[1]} == {f"t{number - n}" for n in (1, 2, 3)}


def test_without_foreign_keys_no_table_is_certain() -> None:
    assert told("alone", [], TABLES) == {"alone"}
    assert told("alone", None, TABLES) is None


def test_no_views() -> None:
    *_, catalogue = read(None, None)
    assert catalogue is not None
    assert not catalogue.names


@given(st.text(), st.text(), st.text())
def test_any_names_and_definitions_are_read(schema: str, name: str, text: str) -> None:
    *_, catalogue = read(json.dumps([[schema, name, text]]).encode(), None)
    assert isinstance(catalogue, Catalogue)
