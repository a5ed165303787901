"""The text that is shown beside a digest: it holds no literal, and is made of the same tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.sql.classifier import Classifier
from routing.sql.digest_text import LONGEST, digest_text
from routing.sql.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_UTF8,
    MODES,
)


def shown(sql: str | bytes, mode_flags: int = MODE_UTF8) -> str | None:
    text = sql if isinstance(sql, bytes) else sql.encode()
    digest = Classifier().classify(text, mode_flags).digest
    return digest_text(text, mode_flags, digest)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("select 1;", "select ?"),
        (
            "SELECT * FROM t WHERE id IN (1,2,3) AND x='it''s'",
            "SELECT * FROM t WHERE id IN (...) AND x = ?",
        ),
        ("SELECT * FROM `My T` WHERE id IN (1)", "SELECT * FROM `My T` WHERE id IN (...)"),
        ("INSERT INTO t VALUES (1,'a'),(2,'b')", "INSERT INTO t VALUES (...)"),
        ("SELECT 0xDEADBEEF, 0b0101", "SELECT ..."),
        ("SELECT /*+ MAX_EXECUTION_TIME(5) */ a FROM t -- x\n LIMIT 5", "SELECT a FROM t LIMIT ?"),
        ("SELECT f('a', 2), g('a')", "SELECT f (...) , g ( ? )"),
        ("SELECT ',', 1", "SELECT ..."),
        ("SELECT f(',')", "SELECT f ( ? )"),
        ("SELECT 1; SELECT 'x'", "SELECT ? ; SELECT ?"),
        ("CREATE USER u@h IDENTIFIED BY 'pw'", "CREATE USER u @h IDENTIFIED BY ?"),
        ("SELECT a<>1, b >= 2, c<=>d, NOT -e", "SELECT a <> ? , b >= ? , c <=> d , NOT - e"),
        ("SELECT a->'$.x' FROM t", "SELECT a -> ? FROM t"),
    ],
)
def test_texts(sql: str, text: str) -> None:
    assert shown(sql) == text


@pytest.mark.parametrize("sql", ["SELECT /*! 1 */", "SELECT 'x", "SELECT $$a$$", b"\0", ""])
def test_texts_that_are_not_shown(sql: str | bytes) -> None:
    text = shown(sql)
    assert text in (None, "")


def test_a_name_is_one_under_the_mode_that_the_digest_was_made_under() -> None:
    sql = b'SELECT "secret"'
    assert shown(sql) == "SELECT ?"
    assert shown(sql, MODE_ANSI_QUOTES) == 'SELECT "secret"'
    digest = Classifier().classify(sql, MODE_UTF8).digest
    assert digest_text(sql, MODE_UTF8 | MODE_ANSI_QUOTES, digest) is None


def test_a_name_cannot_begin_a_line_of_the_log() -> None:
    assert shown("SELECT `a\nb\x1b[31m` FROM `größe`") == "SELECT `a�b�[31m` FROM `größe`"


def test_a_long_text_is_cut() -> None:
    columns = ", ".join(f"column_{i:04}" for i in range(400))
    text = shown(f"SELECT {columns}")
    assert text is not None
    assert text.endswith(" ...")
    assert len(text) <= LONGEST + 4


SECRET = "5ec2e7"  # a hex number, a string and part of a number
NUMBER = "5237"
literals = st.sampled_from(
    [
        *(f"'{SECRET}'", f"'{SECRET}''{SECRET}'", f"'\\'{SECRET}'", f"x'{SECRET}'", f"X'{SECRET}'"),
        *(f"0x{SECRET}", f"N'{SECRET}'", f"_utf8mb4'{SECRET}'", f"'{SECRET}' '{SECRET}'"),
        *(NUMBER, f"-{NUMBER}", f"- {NUMBER}", f"+{NUMBER}", f"{NUMBER}.{NUMBER}", f".{NUMBER}"),
        *(f"{NUMBER}e{NUMBER}", f"{NUMBER}.e-{NUMBER}", f"DATE '{SECRET}'", "b'01'", "0b01"),
        *(f'"{SECRET}"', f"/* {SECRET} */ {NUMBER}", f"({NUMBER}, '{SECRET}')", "NULL", "TRUE"),
    ]
)
templates = st.sampled_from(
    [
        "SELECT {}",
        "SELECT * FROM t WHERE a = {}",
        "SELECT * FROM t WHERE a IN ({}, {})",
        "INSERT INTO t VALUES ({}, {}), ({}, {})",
        "UPDATE t SET a = {} WHERE b BETWEEN {} AND {} LIMIT 3",
        "SELECT f({}), g({}, {}) FROM `t` # c",
        "SET @a = {}",
        "CALL p({})",
    ]
)


@given(templates, st.lists(literals, min_size=4, max_size=4), st.sampled_from(range(MODES)))
def test_no_literal_is_shown(template: str, values: list[str], mode_flags: int) -> None:
    if mode_flags & (MODE_ANSI_QUOTES | MODE_NO_BACKSLASH_ESCAPES):
        values = [value for value in values if '"' not in value and "\\" not in value]
        values += ["1"] * 4
    text = shown(template.format(*values), mode_flags)
    assert text is None or (SECRET not in text and NUMBER not in text), text
