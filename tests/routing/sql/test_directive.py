"""The comment to Tidegate: where it counts, what it says, and the errors of wrong ones."""

import pytest

from routing.consistency.adjustment import Adjustment
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.sql.directive import directive, directive_comment
from routing.sql.statement import MAX_TEXT, StatementClass, classify_text
from routing.sql.tidegate_statement import WrongOwn

USER = Adjustment(scope=Scope.USER)


def of(text: str) -> Adjustment | WrongOwn | None:
    sql = text.encode()
    found = directive(sql)
    assert classify_text(sql, 0).directive == found
    if found is not None:
        comment = directive_comment(sql)
        assert sql.startswith(comment)
        assert comment.count(b"*/") == 1
        assert comment.endswith(b"*/")
    return found


@pytest.mark.parametrize(
    "comment",
    [
        "/* tidegate scope=user */",
        "/*tidegate scope=user*/",
        "/*\n\tTIDEGATE\r\nSCOPE = User\v*/",
        " \t\n\v\f\r/* tidegate  scope='user' */",
        '/* tidegate scope="user" */',
        "/* tidegate scope=proxy scope=user */",
    ],
)
def test_forms(comment: str) -> None:
    for rest in ("SELECT 1", " SELECT 1", "", "INSERT INTO t VALUES ('a'", "/* tidegate x */ SET"):
        assert of(comment + rest) == USER


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("consistency=STRONG", Adjustment(level=Level.STRONG)),
        ("consistency=read-own-writes", Adjustment(level=Level.READ_OWN_WRITES)),
        (
            "consistency=BOUNDED_STALENESS(500ms)",
            Adjustment(level=Level.BOUNDED_STALENESS, staleness=0.5),
        ),
        (
            "consistency='BOUNDED_STALENESS( 2 s )'",
            Adjustment(level=Level.BOUNDED_STALENESS, staleness=2.0),
        ),
        ("wait_budget=250ms", Adjustment(wait_budget=0.25)),
        ("wait_budget=1.5s", Adjustment(wait_budget=1.5)),
        ("wait_budget=250", Adjustment(wait_budget=0.25)),
        ("on_timeout=error", Adjustment(on_timeout=TimeoutPolicy.ERROR)),
        ("application=shop", Adjustment(application="shop")),
        ("application='shop one'", Adjustment(application="shop one")),
        ("application='it''s \"a\" b'", Adjustment(application='it\'s "a" b')),
        ('application="it\'s ""a"" b"', Adjustment(application='it\'s "a" b')),
        (r"application='a\n'", Adjustment(application=r"a\n")),
        ("application=''", Adjustment(application="")),
        ("application=caf\u00e9", Adjustment(application="caf\u00e9")),
        ("application=a*b/c", Adjustment(application="a*b/c")),
        (
            "scope=application application='x=y, z' consistency=MONOTONIC_READS",
            Adjustment(Level.MONOTONIC_READS, Scope.APPLICATION, application="x=y, z"),
        ),
    ],
)
def test_settings(items: str, expected: Adjustment) -> None:
    assert of(f"/* tidegate {items} */ SELECT 1") == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "",
        "/",
        "/*",
        "/* tidegate scope=user",
        "/* tidegate scope=user * /",
        "/*! tidegate scope=user */ SELECT 1",
        "/*!80000 tidegate scope=user */ SELECT 1",
        "/*+ tidegate scope=user */ SELECT 1",
        "SELECT /* tidegate scope=user */ 1",
        "SELECT 1 /* tidegate scope=user */",
        "/* a */ /* tidegate scope=user */ SELECT 1",
        "-- tidegate scope=user\nSELECT 1",
        "# tidegate scope=user\nSELECT 1",
        "; /* tidegate scope=user */ SELECT 1",
        "'/* tidegate scope=user */'",
        "/* for tidegate scope=user */ SELECT 1",
        "/* tidegates scope=user */ SELECT 1",
        "/* tidegate-7 scope=user */ SELECT 1",
        "/* tidegate7 */ SELECT 1",
        "/* tidegate */ SELECT 1",
        "/*tidegate*/ SELECT 1",
    ],
)
def test_what_asks_for_nothing(text: str) -> None:
    assert of(text) is None


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("consistncy=STRONG", "no setting consistncy; did you mean consistency?"),
        ("wait-budget=5", "no setting wait-budget; did you mean wait_budget?"),
        ("token=abc", "no setting token; known are consistency, scope, wait_budget, on_timeout, a"),
        ("SCOPES=user", "no setting SCOPES; did you mean scope?"),
        ("scope=user x=1", "no setting x; known are "),
        ("x" * 5000 + "=1", "no setting " + "x" * 40 + "; known are "),
        ("consistency=STRICT", "consistency: want one of BEST_EFFORT, "),
        ("consistency=BOUNDED_STALENESS", "consistency: want BOUNDED_STALENESS(bound)"),
        ("wait_budget=-5", "wait_budget: want a duration"),
        ("application='a\nb'", "application: want an application key"),
        ("scope", "want name=value"),
        ("scope=", "want name=value"),
        ("scope user", "want name=value"),
        ("=user", "want name=value"),
        ("scope=user,", "want name=value"),
        ("scope=user, wait_budget=5", "want name=value"),
        ("scope=user; wait_budget=5", "want name=value"),
        ("scope=user wait_budget", "want name=value"),
        ("scope='user", "want name=value"),
        ("scope='user'x", "want name=value"),
        ("scope='user'wait_budget=5", "want name=value"),
        ("scope=us'er'", "want name=value"),
        ("application=a=b", "want name=value"),
        ("consistency=BOUNDED_STALENESS (5ms)", "consistency: want BOUNDED_STALENESS(bound)"),
        ("was here", "want name=value"),
    ],
)
def test_what_is_wrong(comment: str, message: str) -> None:
    found = of(f"/* tidegate {comment} */ SELECT 1")
    assert isinstance(found, WrongOwn)
    assert found.message.startswith(f"in the comment to Tidegate: {message}")
    assert len(found.message) < 300


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("tidegate_consistency=STRONG", "did you mean consistency?"),
        ("tidegate.consistency=STRONG", "did you mean consistency?"),
        ("tidegate: consistency=STRONG", "want name=value"),
        ("tidegate, consistency=STRONG", "want name=value"),
        ("tidegate=STRONG", "want name=value"),
    ],
)
def test_what_was_probably_meant_is_not_passed_over(comment: str, message: str) -> None:
    found = of(f"/* {comment} */ SELECT 1")
    assert isinstance(found, WrongOwn)
    assert message in found.message


def test_a_comment_that_is_no_utf8() -> None:
    assert directive(b"/* tidegate application=\xff */") == WrongOwn(
        "in the comment to Tidegate: it is not UTF-8"
    )


def test_a_directive_changes_nothing_else() -> None:
    for text in (b"SELECT 1", b"INSERT INTO t VALUES (1)", b"SELECT 1; SELECT 2", b"SELECT 'a"):
        plain = classify_text(text, 0)
        marked = classify_text(b"/* tidegate scope=user */" + text, 0)
        assert marked.directive == USER
        assert plain.directive is None
        for name in (
            "kind",
            "reason",
            "may_write",
            "digest",
            "assignments",
            "pins",
            "multi",
            "own",
        ):
            if (name, text) != ("digest", b"SELECT 'a"):  # a text that cannot be read has another
                assert getattr(marked, name) == getattr(plain, name)


def test_texts_that_are_not_looked_at_in_full_have_one_too() -> None:
    text = b"/* tidegate scope=user */ INSERT INTO t VALUES ('" + b"a" * MAX_TEXT + b"')"
    statement = classify_text(text, 0)
    assert statement.kind is StatementClass.WRITE
    assert statement.directive == USER


def test_a_statement_to_tidegate_with_one() -> None:
    statement = classify_text(b"/* tidegate scope=user */ SHOW TIDEGATE LAST", 0)
    assert statement.own is not None
    assert statement.directive == USER
