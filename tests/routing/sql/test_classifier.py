"""The classifier's caches: they are bounded, and never disagree with the lexer."""

import re

import pytest

from routing.sql import classifier as module
from routing.sql.classifier import GENERATION, MAX_KEY, Classifier
from routing.sql.lexer import MODE_ANSI_QUOTES, MODES
from routing.sql.statement import MAX_TEXT, Statement, StatementClass, classify_text
from tests.routing.sql.corpus_manual import MANUAL, UNKNOWN

pytestmark = pytest.mark.plain


class Count:
    """Counts how often a text is really classified."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        monkeypatch.setattr(module, "classify_text", self)

    def __call__(self, sql: bytes, mode_flags: int) -> Statement:
        self.calls += 1
        return classify_text(sql, mode_flags)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    return Count(monkeypatch)


def test_each_text_is_as_without_a_cache() -> None:
    classifier = Classifier()
    texts = [text.encode() for forms in MANUAL.values() for text, _ in forms]
    texts += [text.encode() for text in UNKNOWN]
    for _ in range(2):
        for text in texts:
            for mode in range(MODES):
                assert classifier.classify(text, mode) == classify_text(text, mode)


def test_a_text_is_looked_at_once(count: Count) -> None:
    classifier = Classifier()
    for _ in range(3):
        assert classifier.classify(b"SET a=1", 0).kind is StatementClass.SESSION
    assert count.calls == 1


def test_texts_that_differ_in_literals_are_looked_at_once(count: Count) -> None:
    classifier = Classifier()
    for number in range(100):
        found = classifier.classify(b"SELECT c FROM t WHERE id=%d AND d='%d'" % (number, number), 0)
        assert found.kind is StatementClass.READ
    assert count.calls == 1


@pytest.mark.parametrize(
    "text",
    [
        *("SELECT c FROM t WHERE id = %d", "SELECT f(%d)", "SELECT t.c + 1 FROM t LIMIT %d, 3"),
        *("UPDATE t SET n = %d WHERE id=%d", "DELETE FROM t WHERE a IN (%d, %d) AND b = 5;"),
        *("SELECT 5 + %d", "SELECT c"),
    ],
)
def test_whole_numbers_are_searched_for_once(text: str) -> None:
    classifier = Classifier()
    for number in (3, 7, 7, 0):
        number_text = text.replace("%d", str(number)).encode()
        assert classifier.classify(number_text, 0) == classify_text(number_text, 0)
    assert list(classifier._forms[0].young) == [re.sub(r"%d|\d", "0", text).encode()]
    assert len(classifier._skeletons[0].young) == 1
    assert not classifier._texts[0].young
    assert not classifier._named[0].young


def test_digits_of_names_are_not_numbers() -> None:
    classifier = Classifier()
    for _ in range(2):
        for digits in (10, 11):
            for number in (3, 7, 0):
                text = b"SELECT c1 FROM t_%da WHERE id = %d" % (digits, number)
                statement = classifier.classify(text, 0)
                assert statement == classify_text(text, 0)
                assert b"T_%dA" % digits in statement.identifiers
    assert len(classifier._named[0].young) == 2
    assert len(classifier._places.young) == 1
    assert not classifier._forms[0].young
    assert not classifier._texts[0].young


def test_a_text_with_a_nul_is_not_taken_for_the_names_of_another() -> None:
    classifier = Classifier()
    text = b"SELECT c FROM t0 WHERE id = 0"
    for name_text in (text, text + b"\x000", text):
        assert classifier.classify(name_text, 0) == classify_text(name_text, 0)


@pytest.mark.parametrize(
    "head",
    [
        *("SELECT t.", "SELECT .", "SELECT 0x", "SELECT 1e", "SELECT 1.", "SELECT @"),
        *("SELECT 'a", "SELECT 'a ", "SELECT `a ", "SELECT 1 # ", "SELECT 1 -- ", "SELECT 1 /* "),
        *("SELECT 1 /*! + ", "/*! SELECT */ ", "SELECT é + ", "SELECT a - "),
        *("SET a = ", "KILL ", "EXECUTE s", "SELECT -", "SELECT 1 + @a:="),
        *("SET tidegate_wait_budget = ", "SELECT GET_LOCK(a, ", ""),
    ],
)
def test_what_is_no_whole_number_is_not_taken_for_one(head: str) -> None:
    classifier = Classifier()
    for number in (0, 7, 7, 123):
        text = f"{head}{number}".encode()
        assert classifier.classify(text, 0) == classify_text(text, 0)
    assert not classifier._forms[0].young
    assert not classifier._named[0].young


def test_what_literals_decide_is_looked_at_each_time(count: Count) -> None:
    classifier = Classifier()
    assert classifier.classify(b"KILL 'a'", 0).kill_target is None
    for number in range(5):
        killed = classifier.classify(b"KILL %d" % number, 0)
        assert killed.kill_target == number
        assigned = classifier.classify(b"SET a=%d" % number, 0)
        assert [assignment.value for assignment in assigned.assignments] == [str(number)]
        several = classifier.classify(b"SELECT 1; SET a=%d" % number, 0)
        assert [assignment.value for assignment in several.assignments] == [str(number)]
    assert count.calls == 16


def test_modes_do_not_mix() -> None:
    classifier = Classifier()
    text = b'SELECT "f"(1)'
    for _ in range(2):
        assert classifier.classify(text, MODE_ANSI_QUOTES).reason == "unknown function"
        assert classifier.classify(text, 0).kind is classify_text(text, 0).kind


@pytest.mark.parametrize(
    "text", [b"SELECT %d", b"SELECT a%d", b"SET a=%d", b"SELECT a%d FROM t LIMIT 5"]
)
def test_a_cache_is_bounded(text: bytes) -> None:
    classifier = Classifier()
    for number in range(5 * GENERATION):
        classifier.classify(text % number, 0)
    caches = [classifier._places]
    caches += classifier._texts + classifier._skeletons + classifier._forms + classifier._named
    for cache in caches:
        assert len(cache.young) <= GENERATION
        assert len(cache._old) <= GENERATION


def test_what_is_asked_for_stays(count: Count) -> None:
    classifier = Classifier()
    for number in range(5 * GENERATION):
        classifier.classify(b"SELECT a%d" % number, 0)
        if number % 1000 == 0:
            classifier.classify(b"SET a=1", 0)
    assert count.calls == 5 * GENERATION + 1


def test_a_text_that_nothing_keeps_is_looked_at_once_in_a_row(count: Count) -> None:
    """Several callers may ask for the same statement in a row."""
    classifier = Classifier()
    first, second = (b'SELECT "f"(1), ' + name * MAX_KEY for name in (b"a", b"b"))
    for looked_at, text, mode in (
        (1, first, 0),
        (2, second, 0),
        (3, first, 0),
        (4, first, MODE_ANSI_QUOTES),
        (5, first, 0),
    ):
        for _ in range(3):
            assert classifier.classify(text, mode) == classify_text(text, mode)
        assert count.calls == looked_at


def test_long_texts_are_not_kept(count: Count) -> None:
    classifier = Classifier()
    literals = b"SELECT '" + b"x" * MAX_KEY + b"'"
    names = b"SELECT " + b"a" * MAX_KEY
    longest = b"SELECT '" + b"x" * MAX_TEXT + b"'"
    for _ in range(2):
        assert classifier.classify(literals, 0).kind is StatementClass.READ
        assert classifier.classify(names, 0).kind is StatementClass.READ
        assert classifier.classify(longest, 0).reason == "too long"
    # The first text is cached by its skeleton only, the others not at all (but for the last one).
    assert count.calls == 5
    assert not classifier._texts[0].young
    assert len(classifier._skeletons[0].young) == 1
