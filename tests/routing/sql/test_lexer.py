"""Tokens, compared with what a MySQL 9.7.4 did with the same texts."""

import json
from pathlib import Path

import pytest

from routing.sql.lexer import (
    CALLED,
    LITERAL,
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_UTF8,
    MODES,
    PUNCTUATION,
    QUOTED,
    UTF8_COMPATIBLE,
    VARIABLE,
    WORD,
    Tokens,
    executed_texts,
    lex,
    skeleton,
)
from routing.sql.statement import StatementClass, classify_text

# Each vector: sql_mode, character_set_client, a text (one character a byte), and what a server did
# with it: "called" the function f or another stored one, "ran" without that, or "refused" it.
VECTORS: list[tuple[str, str, str, str]] = [
    tuple(vector)
    for vector in json.loads(Path(__file__).with_name("corpus_lexing.json").read_text())
]

CONSERVATIVE = {
    "select 1 /*!90705 , f(1) */": "a newer server executes the comment",
    "select 1 /*!99999 , f(1) */": "a newer server executes the comment",
    "select 1 /*!99999,f(1)*/": "a newer server executes the comment",
    "select 1 /*!99999 /* x */ , f(1) */": "a newer server executes the comment",
    "/*!99999 select f(1) */ select 1": "a newer server executes the comment",
    "select 1 /*!090705 , f(1) */": "six digits are a version to some servers only",
    "select 1 /*!100000 , f(1) */": "six digits are a version to some servers only",
    "select 1 +/*!50000123*/": "more than five digits",
    "select {f (1)}": "looks like a call",
    "select `abs`(-1)": "native functions in backticks are not told from others",
    "select 1;;": "a second semicolon, behind which stands nothing",
    "explain select f(1)": "an EXPLAIN may evaluate what is constant",
    "select exists(select f(1))": "optimised away",
    "select a from t group by f(1)": "optimised away",
    "select a from t order by f(1) desc limit 1": "optimised away",
    "table t order by f(1)": "optimised away",
    "select 1 --\xa0f(1)": "a blank in latin1 and hebrew only",
}


def flags(sql_mode: str) -> int:
    value = MODE_ANSI_QUOTES if "ANSI_QUOTES" in sql_mode else 0
    return value | (MODE_NO_BACKSLASH_ESCAPES if "NO_BACKSLASH_ESCAPES" in sql_mode else 0)


def tokens(sql: bytes, mode_flags: int = 0) -> list[tuple[int, bytes]]:
    found = lex(sql, mode_flags)
    assert found is not None
    return list(zip(found.kinds[:-1], found.raws[:-1], strict=True))


@pytest.mark.parametrize(("sql_mode", "charset", "text", "outcome"), VECTORS)
def test_no_call_that_the_server_makes_is_missed(
    sql_mode: str, charset: str, text: str, outcome: str
) -> None:
    known = MODE_UTF8 if charset in UTF8_COMPATIBLE else 0
    for mode_flags in (flags(sql_mode), flags(sql_mode) | known):
        statement = classify_text(text.encode("latin-1"), mode_flags)
        if outcome == "called":
            assert statement.kind is StatementClass.WRITE
            assert statement.may_write


@pytest.mark.parametrize(("sql_mode", "charset", "text", "outcome"), VECTORS)
def test_what_calls_nothing_is_no_write(
    sql_mode: str, charset: str, text: str, outcome: str
) -> None:
    known = MODE_UTF8 if charset in UTF8_COMPATIBLE else 0
    statement = classify_text(text.encode("latin-1"), flags(sql_mode) | known)
    if outcome == "ran":
        assert (statement.kind is StatementClass.WRITE) == (text in CONSERVATIVE)


def test_every_excuse_is_needed() -> None:
    ran = {text for _, _, text, outcome in VECTORS if outcome == "ran"}
    assert set(CONSERVATIVE) <= ran


def test_kinds_of_tokens() -> None:
    assert tokens(b"SELECT a.`b``c`, f(@x, @@y.z) FROM t1 -- end") == [
        (WORD, b"SELECT"),
        (WORD, b"a"),
        (PUNCTUATION, b"."),
        (QUOTED, b"`b``c`"),
        (PUNCTUATION, b","),
        (CALLED, b"f"),
        (PUNCTUATION, b"("),
        (VARIABLE, b"@x"),
        (PUNCTUATION, b","),
        (VARIABLE, b"@@y.z"),
        (PUNCTUATION, b")"),
        (WORD, b"FROM"),
        (WORD, b"t1"),
    ]


def test_words_are_in_upper_case_and_keep_their_text() -> None:
    found = lex(b"Select Sum(a)", 0)
    assert found is not None
    assert found.words == [b"SELECT", b"SUM", b"(", b"A", b")", b""]
    assert found.raws == [b"Select", b"Sum", b"(", b"a", b")", b""]


@pytest.mark.parametrize(
    "text",
    [
        *(b"5", b"5.", b".5", b"5.25", b"1e5", b"1.5e-3", b"2E+7", b"0x1F", b"0b01"),
        *(b"'a'", b"''", b"'a''b'", rb"'a\'b'", b'"a"', b'"a""b"', rb"'\\'", b"'/*'", b"'-- '"),
        *(b"1,2,3", b"1 , -2,\n+3", b"'a',1,\"b\"", b"1,2),(3,4", b"'a' ) , ( 'b'"),
    ],
)
def test_literals(text: bytes) -> None:
    assert tokens(b"(" + text + b")")[1:-1] == [(LITERAL, text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"1f", [(WORD, b"1f")]),
        (b"0x1g", [(WORD, b"0x1g")]),
        (b"0b2", [(WORD, b"0b2")]),
        (b"1e", [(WORD, b"1e")]),
        (b"t.1e5", [(WORD, b"t"), (PUNCTUATION, b"."), (WORD, b"1e5")]),
        (b"1.f", [(LITERAL, b"1."), (WORD, b"f")]),
        (b"1e5f", [(LITERAL, b"1e5"), (WORD, b"f")]),
        (b"a-1", [(WORD, b"a"), (PUNCTUATION, b"-"), (LITERAL, b"1")]),
        (b"x'41'", [(WORD, b"x"), (LITERAL, b"'41'")]),
        (b"1,2f", [(LITERAL, b"1"), (PUNCTUATION, b","), (WORD, b"2f")]),
        (b"@a:=1", [(VARIABLE, b"@a"), (PUNCTUATION, b":="), (LITERAL, b"1")]),
        (b"@'a b'", [(VARIABLE, b"@'a b'")]),
        (b"@`a b`", [(VARIABLE, b"@`a b`")]),
        (b"1--2", [(LITERAL, b"1"), (PUNCTUATION, b"-"), (PUNCTUATION, b"-"), (LITERAL, b"2")]),
        (b"a/* b */c", [(WORD, b"a"), (WORD, b"c")]),
        (b"sum/**/(a)", [(WORD, b"sum"), (PUNCTUATION, b"("), (WORD, b"a"), (PUNCTUATION, b")")]),
    ],
)
def test_borders_of_tokens(text: bytes, parts: list[tuple[int, bytes]]) -> None:
    assert tokens(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"'a",
            b'"a',
            b"`a",
            rb"'a\'",
            b"/* a",
            b"/*",
            b"/*/",
            b"$a",
            b"$$",
            b"\\",
            b"a\0",
            b"[a]",
        ),
        *(b"1.5e", b"1.e-- f()", b".5e+(", b"1, 2.5e", b"a\x01b", b"/*! a */", b"/*!", b"/*+ ' */"),
        *(b"f\xc2(1)", b"\xff", b"'\x95\\', '\x95\\'", b"`\x81`", b"n\xc3\xb6"),
    ],
)
def test_unreadable(text: bytes) -> None:
    assert lex(text, 0) is None


def test_quotes_by_mode() -> None:
    assert tokens(b'"a"') == [(LITERAL, b'"a"')]
    assert tokens(b'"a"', MODE_ANSI_QUOTES) == [(QUOTED, b'"a"')]
    assert lex(rb"'a\'", 0) is None
    assert tokens(rb"'a\'", MODE_NO_BACKSLASH_ESCAPES) == [(LITERAL, rb"'a\'")]
    # In a name a backslash is a backslash.
    assert tokens(rb'"a\"', MODE_ANSI_QUOTES) == [(QUOTED, rb'"a\"')]
    assert tokens(rb'@"a\"', MODE_ANSI_QUOTES) == [(VARIABLE, rb'@"a\"')]


def test_what_a_known_character_set_allows() -> None:
    for text in (b"n\xc3\xb6", b"'\xff'", b"'\xe3\x81\x82\\n'", b"`\xe3\x81\x82`"):
        assert lex(text, MODE_UTF8) is not None
    assert lex(b"`n\xc3\xb6n`, 'n\xc3\xb6'", 0) is not None
    assert lex(b"`n\xc3\xb6`", 0) is None  # in gbk, the last two bytes are one character
    assert lex(b"f\xc2(1)", MODE_UTF8) is None


def test_executable_comments_for_each_server() -> None:
    def words(text: bytes) -> list[bytes]:
        return b"; ".join(executed_texts(text, 0) or []).split()

    assert words(b"a /*!40101 b */ c") == [b"a", b"b", b"c"]
    newer = b"a /*!90000 b */ /*!80400 c */"
    assert words(newer) == [b"a", b";", b"a", b"c", b";", b"a", b"b", b"c"]
    assert executed_texts(b"a /*!90000 /* b */ ' */ c", 0) is None
    assert executed_texts(b"a /*!90000 b", 0) is None
    assert executed_texts(b"a /*!500001 b */", 0) is None
    many = b" ".join(b"/*!%d x */" % version for version in range(80001, 80010))
    assert executed_texts(many, 0) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"SELECT c FROM t1 WHERE id=5023", b"SELECT c FROM t1 WHERE id=7"),
        (b"SELECT 'a', 2.5", b"SELECT \"it''s\", '--'"),
        (b"a IN (1,2,3)", b"a IN ('x')"),
        (b"VALUES (1,'a'),(2,'b')", b"VALUES (7)"),
        (b"/* trace 1 */ SELECT 1 /* x */", b"/* trace 2 */ SELECT 5 /* y */"),
        (b"SELECT `a'b`, 1", b"SELECT `a'b`, 2"),
    ],
)
def test_skeletons_that_are_one(first: bytes, second: bytes) -> None:
    assert skeleton(first, 0) == skeleton(second, 0) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"SELECT c", b"SELECT c'x'"),
        (b"SELECT 1f(2)", b"SELECT 2f(2)"),
        (b"SELECT t1.a", b"SELECT t2.a"),
        (b"SELECT a", b"SELECT b"),
        (b"SELECT 0x1", b"SELECT 0b1"),
        (b"SELECT f(1)", b"SELECT f (1)"),
        (b"SELECT @'a'", b"SELECT @'b'"),
        (b"SELECT 1 -- a\n, f()", b"SELECT 1 -- a , f()"),
        (b"SELECT 'a' FOR UPDATE", b"SELECT 'a' -- ' FOR UPDATE"),
        (b"SELECT `1`", b"SELECT `2`"),
        (b"KILL 5", b"KILL ?"),
        (b"'a' SELECT", b" SELECT"),
        (b"SELECT 1.5e-- f()", b"SELECT 1.5"),
    ],
)
def test_skeletons_that_differ(first: bytes, second: bytes) -> None:
    assert skeleton(first, 0) != skeleton(second, 0)


def test_skeletons_by_mode() -> None:
    for mode in range(MODES):
        same = skeleton(b'SELECT "a"', mode) == skeleton(b'SELECT "b"', mode)
        assert same == (not mode & MODE_ANSI_QUOTES)
    assert skeleton(b"SELECT 'a\0'", 0) is None
    assert skeleton(b"SELECT 1 /*!50000 , 2 */", 0) is None
    assert skeleton(b"SELECT '\xff'", 0) is None
    assert skeleton(b"SELECT '\xff'", MODE_UTF8) is not None


def test_normalised_text() -> None:
    found = lex(b"select  a,'x' from T where b IN (1,2)", 0)
    assert found is not None
    assert found.normalised() == b"SELECT A , ? FROM T WHERE B IN ( ? )"


def test_part_ends_like_a_whole() -> None:
    found = lex(b"a b c", 0)
    assert found is not None
    part = found.part(1, 2)
    assert isinstance(part, Tokens)
    assert part.words == [b"B", b""]
    assert len(part) == 1
