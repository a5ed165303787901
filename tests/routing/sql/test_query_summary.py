"""Summaries of statements, in the form of OpenTelemetry's db.query.summary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.sql.classifier import Classifier
from routing.sql.digest_text import digest_text
from routing.sql.query_summary import LONGEST, query_summary

SUMMARIES = {
    # The examples of the conventions.
    "SELECT * FROM wuser_table WHERE username = 'secret'": "SELECT wuser_table",
    "INSERT INTO shipping_details (order_id, address) SELECT order_id, address FROM orders":
        "INSERT shipping_details SELECT orders",
    "SELECT * FROM songs, artists WHERE songs.artist_id = artists.id": "SELECT songs artists",
    "SELECT order_date FROM (SELECT * FROM orders o JOIN customers c ON o.cid = c.id) AS d":
        "SELECT SELECT orders customers",
    # Others.
    "SELECT 'secret'": "SELECT",
    "(SELECT a FROM t) UNION (SELECT b FROM app.u)": "SELECT t SELECT app.u",
    "select a from t x, `my table` y, u where a in (select b from v)":
        "SELECT t SELECT v",
    "SELECT EXTRACT(YEAR FROM d), TRIM('x' FROM e) FROM t": "SELECT t",
    "SELECT a FROM t WHERE b = 1 FOR UPDATE": "SELECT t",
    "SELECT a INTO @b FROM t": "SELECT t",
    "SELECT a FROM t INTO OUTFILE 'secret'": "SELECT t",
    "UPDATE LOW_PRIORITY t SET a = 'secret'": "UPDATE t",
    "DELETE FROM app.t WHERE a = 1": "DELETE app.t",
    "INSERT INTO t VALUES (1, 'secret') ON DUPLICATE KEY UPDATE a = 2": "INSERT t",
    "INSERT INTO t (a) VALUES (REPLACE('secret', 'a', 'b'))": "INSERT t",
    "REPLACE INTO t VALUES (1)": "REPLACE t",
    "WITH c AS (SELECT a FROM t) SELECT * FROM c": "SELECT t SELECT c",
    "SELECT 1 FROM a LEFT JOIN b ON a.i = b.i STRAIGHT_JOIN c": "SELECT a b c",
    "CALL app.p('secret')": "CALL app.p",
    "CREATE TABLE IF NOT EXISTS app.t (a INT REFERENCES b (c) ON DELETE CASCADE)":
        "CREATE TABLE app.t",
    "CREATE UNIQUE INDEX i ON t (a)": "CREATE INDEX",
    "DROP TABLE t": "DROP TABLE t",
    "TRUNCATE TABLE t": "TRUNCATE TABLE t",
    "CREATE USER u@'%' IDENTIFIED BY 'secret'": "CREATE USER",
    "SET @a = 'secret'": "SET",
    "BEGIN": "BEGIN",
    "SHOW TABLES": "SHOW",
}  # fmt: skip


def normalised(sql: str) -> str:
    text = sql.encode()
    found = digest_text(text, 0, Classifier().classify(text, 0).digest)
    assert found is not None
    return found


@pytest.mark.parametrize("sql", SUMMARIES)
def test_the_summary_of(sql: str) -> None:
    summary = query_summary(normalised(sql))
    assert summary == SUMMARIES[sql]


def test_it_is_cut_between_words() -> None:
    names = [f"table_{number}" for number in range(100)]
    summary = query_summary(" ".join(("SELECT * FROM", " , ".join(names))))
    assert len(summary) <= LONGEST
    assert summary.split() == ["SELECT", *names][: len(summary.split())]


WORDS = [
    "SELECT",
    "FROM",
    "(",
    ")",
    "(...)",
    ",",
    ".",
    "t",
    "u",
    "AS",
    "JOIN",
    "UPDATE",
    "INTO",
    "REPLACE",
    "?",
    "TABLE",
    "IF",
    "CREATE",
]


@given(st.lists(st.sampled_from(WORDS)))
def test_whatever_stands_there(tokens: list[str]) -> None:
    assert "?" not in query_summary(" ".join(tokens)).split()
