"""Whatever a client sends to Tidegate itself has a meaning or an error of its own."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.gtid import GtidSet
from routing.consistency.adjustment import Adjustment
from routing.consistency.causal_token import MAX_TOKEN, TokenError, TokenKeys, sign, verify
from routing.sql.classifier import Classifier
from routing.sql.directive import directive, directive_comment
from routing.sql.lexer import MODE_NO_BACKSLASH_ESCAPES, MODES, lex
from routing.sql.statement import StatementClass, classify_text
from routing.sql.tidegate_statement import (
    TOPICS,
    VARIABLES,
    OwnAssignment,
    SelectOwn,
    SetOwn,
    ShowOwn,
    ShowVariables,
    WrongOwn,
    mentions_tidegate,
    own_statement,
)
from tests.support.gtid_sets import GTID_SETS

COMMENT = "/* tidegate scope=user */"
MODE_FLAGS = st.integers(0, MODES - 1)
PIECES = (
    *("SET ", "SELECT ", "SHOW ", "VARIABLES ", "LIKE ", "TIDEGATE ", "LAST", "X", "SESSION "),
    *("GLOBAL ", "LOCAL ", "@@session.", "@@global.", "@@", "@", "@@x.", ".", " AS ", " LIMIT "),
    *(f"tidegate_{name}" for name in VARIABLES),
    *("tidegate", "tidegate.", "tidegate%", "'tidegate%'", "`tidegate_scope`", '"tidegate_scope"'),
    *("=", ":=", ",", ";", "(", ")", "+", "-", "?", "a", "DEFAULT", "BOUNDED_STALENESS("),
    *("1", "0", "1.5", "500ms", "'user'", '"user"', "'", '"', "`", "\\", "''", "é", "\0", "$"),
    *("/* tidegate ", "/*", "*/", "/*! ", "/*!90000 ", "/*+ ", "-- ", "#", "\n", " ", " ", " "),
    *("scope", "consistency", "wait_budget", "application", "STRONG", "FROM t"),
)
TEXTS = st.one_of(
    st.binary(max_size=100),
    st.lists(st.sampled_from(PIECES), max_size=20).map(lambda parts: "".join(parts).encode()),
    st.builds(
        lambda first, rest: (first + "".join(rest)).encode("latin-1", "replace"),
        st.sampled_from(
            (
                "SET tidegate_scope=",
                "SELECT @@tidegate_scope",
                "/* tidegate ",
                "SHOW VARIABLES ",
                COMMENT,
            )
        ),
        st.lists(st.sampled_from(PIECES), max_size=8),
    ),
)


@given(text=TEXTS, mode_flags=MODE_FLAGS)
@example(text=b"", mode_flags=0)
def test_every_text_has_a_meaning(text: bytes, mode_flags: int) -> None:
    tokens = lex(text, mode_flags)
    if tokens is None:
        return
    match own_statement(tokens, mode_flags):
        case None:
            return
        case SetOwn(assignments):
            assert assignments
            for assignment in assignments:
                assert assignment.name in VARIABLES
                assert assignment.value is None or assignment.value.encode() is not None
        case SelectOwn(columns):
            assert columns
            for name, label in columns:
                assert name in VARIABLES
                assert label.encode() is not None
        case ShowOwn(topic):
            assert topic in TOPICS.values()
        case ShowVariables() as shown:
            assert set(shown.names) <= set(VARIABLES)
        case WrongOwn(message):
            assert 0 < len(message.encode()) < 400
    assert mentions_tidegate(text)


@given(text=TEXTS, mode_flags=MODE_FLAGS)
def test_every_comment_has_a_meaning(text: bytes, mode_flags: int) -> None:
    found = directive(text)
    if isinstance(found, WrongOwn):
        assert 0 < len(found.message.encode()) < 500
    assert found is None or isinstance(found, Adjustment | WrongOwn)
    assert classify_text(text, mode_flags).directive == found
    assert found is None or directive_comment(text)


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), mode_flags=MODE_FLAGS)
def test_a_cache_never_changes_what_is_asked(texts: list[bytes], mode_flags: int) -> None:
    classifier = Classifier()
    for text in texts:
        # The same again, but for what literals and comments hold.
        for other in (text, text.replace(b"user", b"proxy"), text.replace(b"tidegate", b"a")):
            expected = classify_text(other, mode_flags)
            assert classifier.classify(other, mode_flags) == expected
            assert (expected.own is None) == (expected.kind is not StatementClass.PROXY)
            if expected.own is not None:
                assert not expected.may_write
                assert not expected.pins
                assert expected.assignments == ()


@given(value=st.text(max_size=20), mode_flags=MODE_FLAGS, quote=st.sampled_from("'`"))
def test_what_is_quoted_comes_back(value: str, mode_flags: int, quote: str) -> None:
    text = value.replace(quote, quote * 2)
    if quote == "'" and not mode_flags & MODE_NO_BACKSLASH_ESCAPES:
        text = re.sub(r"\\(?![%_])", r"\\\\", text)
    tokens = lex(f"SET tidegate_application = {quote}{text}{quote}".encode(), mode_flags)
    if tokens is not None:
        found = own_statement(tokens, mode_flags)
        assert found == SetOwn((OwnAssignment("application", value),))


QUOTED = st.text(max_size=20).filter(
    lambda text: "*/" not in text and min(text, default=" ") >= " "
)


@given(value=QUOTED, quote=st.sampled_from("'\""))
def test_what_is_quoted_in_a_comment_comes_back(value: str, quote: str) -> None:
    text = value.replace(quote, quote * 2)
    found = directive(f"/* tidegate application={quote}{text}{quote} */".encode())
    assert found == Adjustment(application=value)


KEYS = TokenKeys((b"0123456789abcdef", b"fedcba9876543210"))
TOKENS = st.one_of(
    st.text(max_size=100),
    st.text("ABCDEFabcdef0123456789-_", max_size=MAX_TOKEN + 10),
    st.binary(max_size=100).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@given(text=TOKENS, now=st.integers(0, 2**40))
def test_no_text_is_a_token_by_chance(text: str, now: int) -> None:
    with pytest.raises(TokenError):
        verify(text, now, KEYS)


@given(
    required=GTID_SETS,
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.text(max_size=3))),
)
def test_a_damaged_token_is_none(required: GtidSet, edits: list[tuple[int, int, str]]) -> None:
    token = text = sign(required, 10, KEYS)
    for index, length, put in edits:
        text = text[:index] + put + text[index + length :]
    if text == token:
        assert verify(text, 0, KEYS) == required
    else:
        with pytest.raises(TokenError):
            verify(text, 0, KEYS)


# Repeated over a mebibyte a quadratic expression would take hours, and pytest's timeout would tell.
PATIENCE = (
    *(b" ", b"*", b"/", b"a", b"=", b"'", b'"', b"''", b"a=", b"scope=user ", b" =", b"a "),
    *(b"scope='", b"*/", b"/*", b"\xff", b".", b"_", b"x.", b"%", b"\\"),
)
BEGINNINGS = (b"", b"/* tidegate", b"/* tidegate scope=", b"/* tidegate application='")


@pytest.mark.parametrize("piece", PATIENCE)
@pytest.mark.parametrize("start", BEGINNINGS)
def test_no_comment_takes_more_than_linear_time(start: bytes, piece: bytes) -> None:
    text = start + piece * ((1 << 20) // len(piece))
    for whole in (text, text + b"*/"):
        directive(whole)
        directive_comment(whole)


@pytest.mark.not_fast
@pytest.mark.parametrize("piece", PATIENCE)
@pytest.mark.parametrize(
    "start", [b"SET tidegate_", b"SET tidegate_scope='", b"SELECT @@tidegate_", b"SET tidegate,"]
)
def test_no_statement_takes_more_than_linear_time(start: bytes, piece: bytes) -> None:
    text = start + piece * (60_000 // len(piece))
    for whole in (text, text + b"'"):
        for mode_flags in (0, 7):
            tokens = lex(whole, mode_flags)
            if tokens is not None:
                own_statement(tokens, mode_flags)
            classify_text(whole, mode_flags)
