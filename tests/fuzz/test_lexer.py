"""Whatever a client sends gets a class, in linear time, and the same with a cache as without."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.sql.classifier import Classifier
from routing.sql.lexer import MODE_UTF8, MODES, executed_texts, lex, skeleton
from routing.sql.statement import Statement, StatementClass, StatementReason, classify_text
from routing.sql.token_patterns import NAME_DIGITS, NUMBERED
from tests.support.statement_texts import LITERALS, damaged, hiding_text

MODE_FLAGS = st.integers(0, MODES - 1)
PIECES = (
    *(
        "'",
        '"',
        "`",
        "\\",
        "/*",
        "*/",
        "/*!",
        "/*!50000",
        "/*!99999 ",
        "/*+",
        "--",
        "-- ",
        "#",
        "\n",
    ),
    *(
        "(",
        ")",
        ",",
        ";",
        "@",
        "@@",
        ":=",
        ".",
        "e",
        "1",
        "1.5",
        "0x",
        "$",
        "?",
        "\0",
        "é",
        "\xff",
        " ",
    ),
    *(
        "select ",
        "SET ",
        "kill ",
        "f",
        "get_lock",
        " for update",
        " into ",
        " from ",
        "as",
        "with ",
    ),
    *(
        "explain ",
        "show ",
        "begin",
        "end",
        "create procedure ",
        "names",
        "session_track_gtids",
        "=",
    ),
)
TEXTS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=30).map(
        lambda parts: "".join(parts).encode("latin-1")
    ),
    st.randoms(use_true_random=False).map(lambda chance: hiding_text(chance).encode()),
)


@given(text=TEXTS, mode_flags=MODE_FLAGS)
@example(text=b"", mode_flags=0)
def test_every_text_has_a_class(text: bytes, mode_flags: int) -> None:
    statement = classify_text(text, mode_flags)
    assert isinstance(statement, Statement)
    assert not (statement.kind is StatementClass.READ and statement.may_write)
    assert not (statement.kind is StatementClass.READ and statement.pins)
    assert statement.touches_tracking == any(
        assignment.name == "session_track_gtids" for assignment in statement.assignments
    )
    if lex(text, mode_flags) is None and b"/*!" not in text:
        assert statement.kind is StatementClass.WRITE


@given(text=TEXTS, mode_flags=MODE_FLAGS)
def test_knowing_the_character_set_only_adds_certainty(text: bytes, mode_flags: int) -> None:
    unknown = lex(text, mode_flags & ~MODE_UTF8)
    known = lex(text, mode_flags | MODE_UTF8)
    if unknown is not None:
        assert known is not None
        assert known.raws == unknown.raws


@given(
    chance=st.randoms(use_true_random=False),
    mode_flags=MODE_FLAGS,
    warm=st.lists(TEXTS, max_size=5),
)
def test_a_cache_never_changes_a_class(
    chance: random.Random, mode_flags: int, warm: list[bytes]
) -> None:
    """One text after another that is the same but for literals or a damage."""
    classifier = Classifier()
    seed = chance.random()
    texts = list(warm)
    for literal in chance.choices(LITERALS, k=4):
        # The same choices, with other literals in the same places.
        text = hiding_text(random.Random(seed), (literal,) * len(LITERALS))
        texts += [text.encode(), damaged(text, chance).encode()]
    numbered = [text + b"%d" % number for number in (3, 41, 597) for text in texts]
    for text in texts + texts + numbered:
        assert classifier.classify(text, mode_flags) == classify_text(text, mode_flags)


STRINGS = st.binary(max_size=12).map(
    lambda raw: b"'" + raw.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
)
NUMBERS = st.integers(0, 10**9).map(b"%d".__mod__)
ALL_LITERALS = st.one_of(STRINGS, NUMBERS, st.sampled_from([b"0x1F", b"1.5", b"1e5", b".5", b"?"]))


@given(
    parts=st.lists(st.sampled_from([piece.encode("latin-1") for piece in PIECES]), max_size=12),
    data=st.data(),
    mode_flags=MODE_FLAGS,
)
def test_texts_of_one_skeleton_have_one_class(
    parts: list[bytes], data: st.DataObject, mode_flags: int
) -> None:
    def filled() -> bytes:
        text = b"".join(part + b" " + data.draw(ALL_LITERALS) for part in parts)
        return b"SELECT " + text

    text, other_text = filled(), filled()
    key = skeleton(text, mode_flags)
    if key is not None and key == skeleton(other_text, mode_flags):
        first = classify_text(text, mode_flags)
        second = classify_text(other_text, mode_flags)
        if not first.assignments and first.reason not in (
            StatementReason.KILL,
            StatementReason.UNREADABLE,
        ):
            assert first == second


WORDS = (
    b"SELECT",
    b"n",
    b"t1",
    b"t.n",
    b"x1y",
    b"FROM",
    b"_a",
    b"e5",
    b".5",
    b"1.5",
    b"1e5",
    b"0x1F",
)
SIGNS = (b" ", b"\n", b"=", b"<", b">", b"!=", b"(", b")", b",", b"*", b"+", b"-", b";", b"%", b".")
PLAIN = (*WORDS, *SIGNS, *SIGNS, b"7", b" 80 ", b"(007,", b" 1")
ODD = (b"@", b"$", b":", b"?", b"/", b"#", b"'a'", b"`a`", b"\0", b"\x80", b"--", b"/*", b"*/")


@given(
    pieces=st.lists(st.sampled_from(PLAIN + PLAIN + ODD), max_size=10),
    digits=st.randoms(use_true_random=False),
    mode_flags=MODE_FLAGS,
)
def test_numbers_of_a_numbered_text_may_be_what_they_like(
    pieces: list[bytes], digits: random.Random, mode_flags: int
) -> None:
    text = b"SELECT" + b"".join(pieces)
    if NUMBERED.fullmatch(text) is None:
        text = b"SELECT 80"
    names = [name.span() for name in NAME_DIGITS.finditer(text)]
    other = bytes(
        character
        if not 0x30 <= character <= 0x39 or any(begin <= at < end for begin, end in names)
        else digits.choice(b"0123456789")
        for at, character in enumerate(text)
    )
    assert skeleton(other, mode_flags) == skeleton(text, mode_flags) is not None
    known, found = lex(text, mode_flags), lex(other, mode_flags)
    assert known is not None
    assert found is not None
    assert found.normalised() == known.normalised()


# Repeated over a mebibyte a quadratic expression would take hours, and pytest's timeout would tell.
ENDLESS = (b"/*/*/*", b"((((", b"'", b"\\'", b"`", b"/*!99999", b"1.5e", b"'a',", b"1),(")
MORE_ENDLESS = (
    *(b"/*", b"*/", b"/*!", b"/*!50000 ", b"/*!99999 x*/", b"/*!99999 /* */ */", b"/*+", b"/*+ ' "),
    *(
        b"(",
        b")",
        b'"',
        b"'\\",
        b"''",
        b"'\\''",
        b"-",
        b"-- ",
        b"#",
        b"\n#",
        b"*",
        b"/",
        b"/ *",
        b";",
    ),
    *(
        b"1",
        b"1e",
        b"1.5",
        b".",
        b".e",
        b"0x",
        b"@",
        b"@'",
        b"@`",
        b"a",
        b"a ",
        b"1,",
        b"1,-",
        b"f(",
    ),
    *(b"with a(a) as (", b"set a=", b",", b"\xff", b"\xc3\xa9", b"\0", b"$", b"begin ", b"end if;"),
    *(b"a.", b"`a`."),
)
STARTS = (b"", b"SELECT ", b"'", b"`", b"/*", b"/*! ", b"CREATE PROCEDURE ")


def read_in_all_ways(text: bytes) -> None:
    for mode_flags in (0, 3 | MODE_UTF8):
        for whole in (text, text[:60_000]):
            lex(whole, mode_flags)
            skeleton(whole, mode_flags)
            executed_texts(whole, mode_flags)
            classify_text(whole, mode_flags)


@pytest.mark.not_fast
@pytest.mark.parametrize("piece", ENDLESS)
def test_no_text_takes_more_than_linear_time(piece: bytes) -> None:
    read_in_all_ways(b"SELECT " + piece * ((1 << 20) // len(piece)))


@pytest.mark.deep
@pytest.mark.parametrize("piece", ENDLESS + MORE_ENDLESS)
@pytest.mark.parametrize("start", STARTS)
def test_no_beginning_makes_it_take_more(start: bytes, piece: bytes) -> None:
    read_in_all_ways(start + piece * ((1 << 20) // len(piece)))
