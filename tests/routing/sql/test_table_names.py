"""The names in a query that may be those of tables, and what these mean."""

import json

import pytest

from routing.servers.transaction_tables import TableName
from routing.sql.catalogue import Catalogue, read
from routing.sql.lexer import MODE_ANSI_QUOTES, MODE_UTF8
from routing.sql.statement import Statement, StatementClass, classify_text
from routing.sql.table_meanings import TableMeanings
from routing.sql.table_references import TableNames
from tests.routing.sql.corpus_tables import WITH_TABLE, WITHOUT_TABLE

TABLES = ["a", "b", "t1", "posts"]
VIEWS = {"v": ["a"], "w": ["v", "b"]}


def of(text: str, flags: int = MODE_UTF8) -> Statement:
    return classify_text(text.encode(), flags)


def names(text: str, flags: int = MODE_UTF8) -> TableNames:
    found = of(text, flags).tables
    assert found is not None
    return found


def references(text: str, flags: int = MODE_UTF8) -> list[str]:
    found = names(text, flags)
    assert {name for name in found.references if name[1]} <= found.names
    return sorted(".".join(name).lstrip(".") for name in found.references)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM a", ["a"]),
        ("SELECT * FROM A", ["a"]),
        ("SELECT * FROM app.a, `other` . `b` AS c", ["app.a", "other.b"]),
        ("SELECT * FROM (a, b) JOIN (c CROSS JOIN d) ON a.i = d.i", ["a", "b", "c", "d"]),
        ("SELECT (SELECT 1 FROM b) FROM a ORDER BY (SELECT 2 FROM c)", ["a", "b", "c"]),
        ("SELECT 1 WHERE EXISTS (TABLE a) LIMIT 1", ["a"]),
        ("SELECT 1 FROM a UNION SELECT 1 FROM b EXCEPT TABLE c INTERSECT TABLE d", list("abcd")),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM c, b", ["a", "b"]),
        ("WITH RECURSIVE c AS (SELECT 1 UNION SELECT 1 FROM c, a) TABLE c", ["a"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b) AS d", ["a", "b"]),
        ("SELECT * FROM a, JSON_TABLE(a.j, '$' COLUMNS (i FOR ORDINALITY)) AS j", ["a"]),
        ("SELECT `a``b`.* FROM `a``b`", ["a`b"]),
        ("SELECT * FROM a AS x NATURAL LEFT JOIN b y USE INDEX (i), c", ["a", "b", "c"]),
        ("SELECT TRIM('x' FROM (SELECT s FROM a))", ["a"]),
        ("VALUES ROW((SELECT MAX(i) FROM a))", ["a"]),
        ("SELECT 1", []),
        ("SELECT 'FROM a', EXTRACT(DAY FROM NOW())", []),
    ],
)
def test_what_stands_where_a_table_does(text: str, expected: list[str]) -> None:
    assert references(text) == expected
    assert references(text.replace(" ", "\n ")) == expected


def test_a_name_of_a_common_table_expression_is_told_from_one_in_other_quotes() -> None:
    text = 'WITH `a``b` AS (SELECT 1) SELECT * FROM "a``b"'
    assert references(text, MODE_UTF8 | MODE_ANSI_QUOTES) == ["a``b"]


@pytest.mark.parametrize("text", WITHOUT_TABLE)
def test_what_reads_from_no_table_refers_to_none(text: str) -> None:
    assert not names(text).references


@pytest.mark.parametrize("text", WITH_TABLE)
def test_what_reads_from_a_table_refers_to_it(text: str) -> None:
    assert names(text).references & {("", "t"), ("", "c"), ("app", "c")}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT f(1) FROM a",
        "SELECT app.f(1) FROM a",
        "SELECT * FROM a FOR UPDATE",
        "SELECT * FROM information_schema.TABLES",
        "SELECT * FROM mysql.user",
        "SELECT @@version FROM a",
        "SELECT CONNECTION_ID() FROM a",
        "EXPLAIN SELECT * FROM a",
        "SHOW TABLES",
        "INSERT INTO a TABLE b",
        "EXECUTE s",
        "SELECT 1 FROM a; SELECT 1 FROM b",
        "SELECT * FROM /*!99999 a, */ b",
        "SELECT * FROM größe",
        "SELECT * FROM { OJ a LEFT JOIN b ON TRUE }",
    ],
)
def test_what_may_read_anything_else_names_nothing_for_certain(text: str) -> None:
    assert of(text).tables is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a USE INDEX FOR JOIN (i), b",
        "SELECT * FROM a USE INDEX FOR ORDER BY (i), b",
        "SELECT * FROM a FORCE INDEX FOR GROUP BY (i) JOIN b",
        "SELECT * FROM a qualify, b",
    ],
)
def test_a_table_that_is_taken_for_something_else_is_still_a_name(text: str) -> None:
    assert {("", "a"), ("", "b")} <= names(text).names


def test_columns_and_aliases_that_cannot_be_tables_are_no_names() -> None:
    found = names("SELECT p.*, p.a, app.posts.b, COUNT(*) AS v FROM app.posts AS p ORDER BY p.a")
    assert not found.names & {("", "a"), ("", "b"), ("", "v"), ("", "order"), ("", "from")}
    assert ("app", "posts") in found.names


def test_a_statement_reads_in_a_schema_whichever_is_the_default_later() -> None:
    prepared = of("SELECT * FROM a, Other.b").reading_in("App")
    assert prepared.tables is not None
    assert prepared.tables.within("elsewhere").references == {("app", "a"), ("other", "b")}
    unknown = of("SELECT f()")
    assert unknown.reading_in("app") is unknown


def catalogue(engine: str = "InnoDB", schema: str = "app") -> Catalogue:
    def text(reads: list[str]) -> str:
        tables = " join ".join(f"`app`.`{name}`" for name in reads)
        return " ".join(("select 1 AS `1` from (", tables, ")"))

    *_, found = read(
        json.dumps([["app", view, text(reads)] for view, reads in VIEWS.items()]).encode(),
        json.dumps(
            [["app", view, "app", name] for view, reads in VIEWS.items() for name in reads]
        ).encode(),
        base_tables=json.dumps(
            [[schema, name, "InnoDB"] for name in TABLES] + [["app", "memory", engine]]
        ).encode(),
        foreign_keys=b"[]",
    )
    assert found is not None
    return found


def read_by(text: str, known: TableMeanings, schema: str = "app") -> set[str] | None:
    found = known.base_tables(names(text), schema)
    return None if found is None else {".".join(name) for name in found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM a", {"app.a"}),
        ("SELECT * FROM app.A", {"app.a"}),
        ("SELECT * FROM v", {"app.a"}),
        ("SELECT * FROM w JOIN t1", {"app.a", "app.b", "app.t1"}),
        ("SELECT 1", set()),
        ("SELECT posts FROM a", {"app.a", "app.posts"}),
        ("SELECT * FROM nobody_knows", None),
        ("SELECT * FROM other.a", None),
        ("SELECT * FROM memory", None),
        ("SELECT memory FROM a", None),
    ],
)
def test_the_base_tables_that_a_query_reads(text: str, expected: set[str] | None) -> None:
    assert read_by(text, catalogue("MEMORY").tables) == expected


def test_without_a_default_schema_an_unqualified_name_means_nothing() -> None:
    assert read_by("SELECT * FROM a", catalogue().tables, "") is None
    assert read_by("SELECT * FROM app.a", catalogue().tables, "") == {"app.a"}


def test_names_that_differ_in_case_mean_all_of_them_and_keep_it() -> None:
    *_, found = read(
        None,
        None,
        base_tables=b'[["App","Users","InnoDB"],["app","users","InnoDB"]]',
        foreign_keys=b"[]",
    )
    assert found is not None
    known = found.tables.base_tables(names("SELECT * FROM USERS"), "APP")
    assert known == {TableName("App", "Users"), TableName("app", "users")}


def test_a_view_and_a_table_that_differ_in_case_are_not_certain() -> None:
    views = json.dumps(
        [
            ["app", "A", "select 1 AS `1` from `app`.`b`"],
            ["app", "x", "select 1 AS `1` from `app`.`A`"],
        ]
    ).encode()
    usages = b'[["app","A","app","b"],["app","x","app","A"]]'
    tables = b'[["app","a","InnoDB"],["app","b","InnoDB"]]'
    *_, found = read(views, usages, base_tables=tables, foreign_keys=b"[]")
    assert found is not None
    assert read_by("SELECT * FROM a", found.tables) is None
    assert read_by("SELECT * FROM x", found.tables) is None
    assert read_by("SELECT * FROM b", found.tables) == {"app.b"}


def test_what_a_view_reads_that_cannot_be_seen_is_not_certain() -> None:
    views = json.dumps([["app", "v", "select 1 AS `1` from `app`.`hidden`"]]).encode()
    usages = b'[["app","v","app","hidden"]]'
    *_, found = read(views, usages, base_tables=b'[["app","a","InnoDB"]]', foreign_keys=b"[]")
    assert found is not None
    assert read_by("SELECT * FROM v", found.tables) is None


def test_where_tables_were_not_asked_for_nothing_is_known() -> None:
    *_, found = read(None, None)
    assert found is not None
    assert read_by("SELECT * FROM a", found.tables) is None
    assert read_by("SELECT 1", found.tables) == set()


def test_a_statement_that_touches_more_through_a_view_names_nothing() -> None:
    *_, found = read(
        b'[["app","v","select 1 from `information_schema`.`TABLES`"]]',
        b'[["app","v","information_schema","TABLES"]]',
        base_tables=b"[]",
    )
    assert found is not None
    assert of("SELECT * FROM v").kind is StatementClass.READ
    assert read_by("SELECT * FROM v", found.tables) is None
