"""Which queries read from a table; a real server says the same of these texts."""

import pytest

from routing.sql.statement import Statement, StatementClass, classify
from tests.routing.sql.corpus_tables import WITH_TABLE, WITHOUT_TABLE


def of(text: str) -> Statement:
    return classify(text.encode())


@pytest.mark.parametrize("text", WITHOUT_TABLE)
def test_what_reads_from_no_table_names_none(text: str) -> None:
    assert of(text).kind is StatementClass.READ
    assert not of(text).identifiers
    assert not of(text.replace(" ", "\t ")).identifiers


@pytest.mark.parametrize("text", WITH_TABLE)
def test_what_reads_from_a_table_names_it(text: str) -> None:
    assert of(text).kind is StatementClass.READ
    assert of(text).identifiers & {b"T", b"C"}
    assert of(text.replace(" ", "\t ")).identifiers & {b"T", b"C"}


@pytest.mark.parametrize(
    "text",
    [
        "WITH c AS (SELECT 1) SELECT * FROM C",  # servers may tell these apart
        "WITH `c``d` AS (SELECT 1) SELECT * FROM c",
        "SELECT * FROM .t",
        "SELECT * FROM { OJ t LEFT JOIN u ON TRUE }",
        "SELECT * FROM t.json_table",
        "SELECT * FROM `json_table`",
        "SELECT * FROM `dual`",
        "SELECT 1) FROM t",
        "SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (a FOR ORDINALITY)) AS j, `select`",
        "SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (a FOR ORDINALITY)) AS j JOIN LATERAL t",
        "SHOW TABLES FROM app",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN DELETE FROM t",
    ],
)
def test_where_a_table_could_stand_there_is_one(text: str) -> None:
    assert of(text).identifiers
