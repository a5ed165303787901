"""Statements to Tidegate: how they are recognized, what they say, and the errors of wrong ones."""

import pytest

from routing.consistency.adjustment import SETTINGS, Adjustment
from routing.consistency.decision import Level, Scope
from routing.sql.classifier import Classifier
from routing.sql.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_UTF8,
    MODES,
    Tokens,
    lex,
)
from routing.sql.statement import Statement, StatementClass, StatementReason, classify_text
from routing.sql.tidegate_statement import (
    AMBIGUOUS,
    NOT_ALONE,
    TOPICS,
    VARIABLES,
    ActOwn,
    OwnAssignment,
    OwnStatement,
    SelectOwn,
    SetOwn,
    ShowOwn,
    ShowVariables,
    WrongOwn,
    own_statement,
)


def of(text: str | bytes, mode_flags: int = MODE_UTF8) -> OwnStatement | None:
    sql = text if isinstance(text, bytes) else text.encode()
    tokens = lex(sql, mode_flags)
    assert tokens is not None
    found = own_statement(tokens, mode_flags)
    assert classify_text(sql, mode_flags).own == found
    return found


def message(text: str | bytes, mode_flags: int = MODE_UTF8) -> str:
    found = of(text, mode_flags)
    assert isinstance(found, WrongOwn), found
    return found.message


def assigned(name: str, value: str | None) -> SetOwn:
    return SetOwn((OwnAssignment(name, value),))


# SET.


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize(
    "form",
    [
        "SET tidegate_{} = 'x'",
        "SET tidegate_{}='x'",
        "set TIDEGATE_{} := 'x'",
        "SET SESSION tidegate_{} = 'x'",
        "SET LOCAL tidegate_{} = 'x'",
        "SET @@tidegate_{} = 'x'",
        "SET @@session.tidegate_{} = 'x'",
        "SET @@LOCAL.Tidegate_{} := 'x'",
        "SET @@session . tidegate_{} = 'x'",
        "SET `tidegate_{}` = 'x'",
        "SET @@`tidegate_{}` = 'x'",
        "SET @@session.`tidegate_{}` = 'x'",
        "/* why */ SET /* not */ tidegate_{} = 'x' -- here",
    ],
)
def test_set(name: str, form: str) -> None:
    assert of(form.format(name)) == assigned(name, "x")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("STRONG", "STRONG"),
        ("strong", "strong"),
        ("'READ-OWN-WRITES'", "READ-OWN-WRITES"),
        ('"STRONG"', "STRONG"),
        ("`STRONG`", "STRONG"),
        ("BOUNDED_STALENESS(500ms)", "BOUNDED_STALENESS(500ms)"),
        ("bounded_staleness( 500 )", "bounded_staleness(500)"),
        ("'BOUNDED_STALENESS(1.5s)'", "BOUNDED_STALENESS(1.5s)"),
        ("250", "250"),
        ("2.5", "2.5"),
        (".5", ".5"),
        ("-1", "-1"),
        ("+1", "+1"),
        ("250ms", "250ms"),
        ("''", ""),
        ("'DEFAULT'", "DEFAULT"),
        ("`DEFAULT`", "DEFAULT"),
        ("DEFAULT", None),
        ("default", None),
        ("'shop one'", "shop one"),
        ("'caf\u00e9'", "caf\u00e9"),
        ("ON", "ON"),
    ],
)
def test_values(value: str, text: str | None) -> None:
    assert of(f"SET tidegate_application = {value}") == assigned("application", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("'a''b'", "a'b"),
        ("'''a'''", "'a'"),
        ("''''", "'"),
        ("'a\"b'", 'a"b'),
        ("'a\"\"b'", 'a""b'),
        ('"a""b"', 'a"b'),
        ("\"a''b\"", "a''b"),
        (r"'a\'b'", "a'b"),
        (r"'a\\'", "a\\"),
        (r"'\\\''", "\\'"),
        (r"'\0\b\n\r\t\Z'", "\0\b\n\r\t\x1a"),
        (r"'\%\_'", r"\%\_"),
        (r"'\q\"\B\N'", 'q"BN'),
        ("'\\\n'", "\n"),
        ("'\\\u00e9'", "\u00e9"),
    ],
)
def test_quotes_and_escapes(value: str, text: str) -> None:
    assert of(f"SET tidegate_application = {value}") == assigned("application", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(r"'a\nb'", r"a\nb"), (r"'\'", "\\"), (r"'\'''", "\\'"), ("'a''b'", "a'b")],
)
def test_no_backslash_escapes(value: str, text: str) -> None:
    for mode_flags in (MODE_NO_BACKSLASH_ESCAPES, MODE_NO_BACKSLASH_ESCAPES | MODE_ANSI_QUOTES):
        found = of(f"SET tidegate_application = {value}", mode_flags)
        assert found == assigned("application", text)


@pytest.mark.parametrize(("value", "text"), [('"a""b"', 'a"b'), (r'"a\nb"', r"a\nb")])
def test_ansi_quotes(value: str, text: str) -> None:
    found = of(f'SET "tidegate_application" = {value}', MODE_ANSI_QUOTES)
    assert found == assigned("application", text)


def test_several_assignments() -> None:
    text = "SET tidegate_consistency = STRONG, @@session.tidegate_wait_budget = 5, tidegate_scope ="
    assert of(text + " DEFAULT") == SetOwn(
        (
            OwnAssignment("consistency", "STRONG"),
            OwnAssignment("wait_budget", "5"),
            OwnAssignment("scope", None),
        )
    )


@pytest.mark.parametrize(
    "value",
    [
        *("", "@x", "@@sql_mode", "@@tidegate_scope", "f(1)", "UPPER('a')", "BOUNDED_STALENESS()"),
        *("BOUNDED_STALENESS(5", "BOUNDED_STALENESS(1.5 s)"),
        *("f(500ms)", "1 + 1", "- 'a'", "'a' 'b'", "'a', 'b'", "'a','','b'", "'','',''", "5, 6"),
        *("(SELECT 1)", "('a')", "NULL", "TRUE", "CURRENT_USER", "current_timestamp", "?", "a.b"),
        *("_utf8mb4'a'", "N'a'", "X'41'", "0x41", "0b1", "1e3", "user 'a'", "READ-OWN-WRITES"),
        *("'a' COLLATE utf8mb4_bin", "@x := 'a'", "* 5", "DEFAULT(a)"),
    ],
)
def test_only_literals_are_values(value: str) -> None:
    assert "tidegate_scope wants a literal" in message(f"SET tidegate_scope = {value}")


def test_a_value_that_is_no_utf8() -> None:
    assert "wants a literal" in message(b"SET tidegate_application = '\xff'")


def test_a_set_without_a_value() -> None:
    assert "wants a literal" in message("SET tidegate_scope")


@pytest.mark.parametrize(
    "text",
    [
        "SET tidegate_scope = 'user', autocommit = 1",
        "SET autocommit = 1, tidegate_scope = 'user'",
        "SET NAMES utf8mb4, tidegate_scope = 'user'",
        "SET @a = f(1, 2), tidegate_scope = 'user'",
        "SET @tidegate_scope = 1, tidegate_scope = 'user'",
        "SET sql_mode = tidegate_scope, tidegate_scope = 'user'",
        "SET tidegate_scope = 'user', GLOBAL max_connections = 5",
    ],
)
def test_no_mixture_with_the_servers_variables(text: str) -> None:
    assert "one statement with the server's" in message(text)


@pytest.mark.parametrize(
    "text",
    [
        *("SET GLOBAL tidegate_scope = 'user'", "SET PERSIST tidegate_scope = 'user'"),
        *("SET PERSIST_ONLY tidegate_scope = 'user'", "SET @@global.tidegate_scope = 'user'"),
        *("SET @@PERSIST.tidegate_scope = 'user'", "SELECT @@GLOBAL.tidegate_scope"),
    ],
)
def test_only_sessions_have_values(text: str) -> None:
    assert message(text) == "tidegate_scope is a variable of the session, and of nothing wider"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tidegate_consistencies", "did you mean tidegate_consistency?"),
        ("tidegate_SCOPES", "did you mean tidegate_scope?"),
        ("tidegate_wait", "did you mean tidegate_wait_budget?"),
        ("tidegate.consistency", "did you mean tidegate_consistency?"),
        ("tidegate_scope.x", "did you mean tidegate_scope?"),
        ("tidegate", "known are tidegate_consistency, "),
        ("tidegate_", "known are tidegate_consistency, "),
        ("tidegate_zzz", "tidegate_transaction_reads, tidegate_on_split_conflict, tidegate_token"),
        ("tidegate_" + "x" * 10_000, "known are tidegate_consistency, "),
    ],
)
def test_unknown_variables(name: str, advice: str) -> None:
    for text in (f"SET {name} = 1", f"SET @@session.{name} = 1", f"SELECT @@{name}"):
        found = message(text)
        assert found.startswith(f"Tidegate has no variable {name.lower()[:40]}")
        assert advice in found
        assert len(found) < 300


# SELECT.


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT @@tidegate_token", [("token", "@@tidegate_token")]),
        ("select @@Tidegate_Token;", [("token", "@@Tidegate_Token")]),
        ("SELECT @@session.tidegate_scope", [("scope", "@@session.tidegate_scope")]),
        ("SELECT @@LOCAL.tidegate_scope", [("scope", "@@LOCAL.tidegate_scope")]),
        ("SELECT @@`tidegate_scope`", [("scope", "@@`tidegate_scope`")]),
        ("SELECT @@tidegate_scope AS s", [("scope", "s")]),
        ("SELECT @@tidegate_scope s LIMIT 1", [("scope", "s")]),
        ("SELECT @@tidegate_scope AS 'it''s'", [("scope", "it's")]),
        ('SELECT @@tidegate_scope "a b"', [("scope", "a b")]),
        ("SELECT @@tidegate_scope AS `a``b` LIMIT 10", [("scope", "a`b")]),
        ("SELECT @@tidegate_scope limit 01", [("scope", "@@tidegate_scope")]),
        ("SELECT @@tidegate_scope AS `limit`", [("scope", "limit")]),
        ("SELECT @@tidegate_scope AS \u00e9", [("scope", "\u00e9")]),
        (
            "SELECT @@tidegate_scope, @@tidegate_consistency c, @@session.tidegate_scope AS t",
            [("scope", "@@tidegate_scope"), ("consistency", "c"), ("scope", "t")],
        ),
    ],
)
def test_select(text: str, columns: list[tuple[str, str]]) -> None:
    statement = classify_text(text.encode(), MODE_UTF8)
    assert statement.own == SelectOwn(tuple(columns))


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_can_be_selected(name: str) -> None:
    text = f"@@tidegate_{name}"
    assert of(f"SELECT {text}") == SelectOwn(((name, text),))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT @@tidegate_token, 1",
        "SELECT 1, @@tidegate_token",
        "SELECT @@tidegate_token,",
        "SELECT @@tidegate_token, @@version",
        "SELECT @@tidegate_token, @tidegate_scope",
        "SELECT @@tidegate_token FROM t",
        "SELECT @@tidegate_token AS",
        "SELECT @@tidegate_token AS 5",
        "SELECT @@tidegate_token AS 'a', 'b'",
        "SELECT @@tidegate_token 5",
        "SELECT @@tidegate_token LIMIT",
        "SELECT @@tidegate_token LIMIT 0",
        "SELECT @@tidegate_token LIMIT 1, 1",
        "SELECT @@tidegate_token LIMIT 1 OFFSET 1",
        "SELECT @@tidegate_token LIMIT 'a'",
        "SELECT @@tidegate_token LIMIT ?",
        "SELECT @@tidegate_token + 1",
        "SELECT @@tidegate_token INTO @a",
        "SELECT (@@tidegate_token)",
        "SELECT CONCAT(@@tidegate_token, 'a')",
        "SELECT * FROM t WHERE a = @@session.tidegate_token",
        "(SELECT @@tidegate_token)",
        "SET @a = @@tidegate_token",
        "SET sql_mode = @@session.tidegate_scope",
        "INSERT INTO t VALUES (@@tidegate_token)",
        "DO @@tidegate_token",
        "EXPLAIN SELECT @@tidegate_token",
    ],
)
def test_nothing_else_can_be_made_of_a_variable(text: str) -> None:
    assert "can only be selected by themselves" in message(text)


def test_a_label_that_is_no_utf8() -> None:
    assert "can only be selected" in message(b"SELECT @@tidegate_token AS '\xff'")


# SHOW.


@pytest.mark.parametrize("topic", list(TOPICS.values()))
def test_show(topic: str) -> None:
    for text in (f"SHOW TIDEGATE {topic}", f"show /**/ tidegate\n{topic.lower()} # end"):
        found = of(text)
        assert isinstance(found, ShowOwn)
        assert found.topic == topic


@pytest.mark.parametrize(
    "rest",
    ["", " STATUS", " LAST SESSION", " LIKE 'a'", " 'LAST'", " `LAST`", "(1)", " LAST, LAST"],
)
def test_topics_that_are_none(rest: str) -> None:
    assert message(f"SHOW TIDEGATE{rest}") == "Tidegate shows " + ", ".join(TOPICS.values())


# TIDEGATE.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("TIDEGATE DRAIN SERVER 'db2:3306'", ActOwn("drain", "db2:3306")),
        ("tidegate /* now */ undrain\nserver `db2:3306`", ActOwn("undrain", "db2:3306")),
        ("TIDEGATE DRAIN SERVER db2", ActOwn("drain", "db2")),
        ("TIDEGATE RELOAD", ActOwn("reload")),
    ],
)
def test_actions(text: str, found: ActOwn) -> None:
    assert of(text) == found


@pytest.mark.parametrize(
    "rest",
    [
        *(" DRAIN", " DRAIN SERVER", " DRAIN 'db2'", " DRAIN SERVER ''", " RELOAD NOW"),
        *(" DRIAN SERVER 'db2'", " DRAIN SERVER 'db2', 'db3'", " DRAIN SERVER 'db2' 'db3'"),
        f" DRAIN SERVER '{'x' * 301}'",
    ],
)
def test_actions_that_are_none(rest: str) -> None:
    assert message(f"TIDEGATE{rest}").startswith("want TIDEGATE DRAIN SERVER")


def test_an_action_is_sent_alone() -> None:
    assert classify_text(b"SELECT 1; TIDEGATE RELOAD", MODE_UTF8).own == NOT_ALONE


def test_a_label_is_no_action() -> None:
    assert (
        of("CREATE PROCEDURE p() BEGIN SELECT 1; tidegate: LOOP LEAVE tidegate; END LOOP; END")
        is None
    )


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("tidegate%", tuple(sorted(VARIABLES))),
        ("TIDEGATE%", tuple(sorted(VARIABLES))),
        ("tidegate_token", ("token",)),
        (r"tidegate\_token", ("token",)),
        (
            r"tidegate\_%o%",
            (
                *(
                    "application",
                    "consistency",
                    "on_split_conflict",
                    "on_timeout",
                    "scope",
                    "token",
                ),
                "transaction_reads",
            ),
        ),
        ("tidegate_____e", ("scope",)),
        ("tidegate%%%%%%%%e", ("scope",)),
        ("tidegate", ()),
        (r"tidegate\%", ()),
        ("tidegate*", ()),
        ("tidegate_sco?e", ()),
        ("tidegate_sco[p]e", ()),
        ("tidegate_token\\", ()),
        ("tidegate_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_x", ()),
    ],
)
def test_show_variables(pattern: str, names: tuple[str, ...]) -> None:
    quoted = pattern if not pattern.endswith("\\") else pattern + "\\"
    for scope in ("", "SESSION ", "local "):
        found = of(f"SHOW {scope}VARIABLES LIKE '{quoted}'")
        assert found == ShowVariables(pattern)
        assert isinstance(found, ShowVariables)
        assert found.names == names


# Statements that are not for Tidegate.


@pytest.mark.parametrize(
    "text",
    [
        "SET @tidegate_scope = 'user'",
        "SET @`tidegate_scope` = 'user'",
        "SET @'tidegate_scope' = 'user'",
        "SELECT @tidegate_scope",
        "SELECT tidegate_scope",
        "SELECT t.tidegate_scope FROM tidegate_t t WHERE t.tidegate_scope = 'tidegate_scope'",
        "SELECT '@@tidegate_scope'",
        "SELECT `@@tidegate_scope` FROM t",
        "SELECT 1 AS tidegate_scope",
        "SELECT /* @@tidegate_scope */ 1",
        "SELECT @@x.tidegate_scope",
        "SELECT @@tidegatex",
        "SET tidegatex = 1",
        "SET mytidegate_scope = 1",
        "SET x.tidegate_scope = 1",
        "SET @@x.tidegate_scope = 1",
        "SET tidegate_ scope = 1",
        "SET NEW.tidegate_scope = 1",
        "SET 'tidegate_scope' = 1",
        "SET NAMES tidegate_scope",
        "SET PASSWORD = 'tidegate_scope'",
        "SET autocommit = tidegate_scope",
        "SET a = 'tidegate_scope = 1', b = 2",
        "SHOW TABLES FROM tidegate",
        "SHOW TABLES LIKE 'tidegate%'",
        "SHOW CREATE TABLE tidegate",
        "SHOW 'TIDEGATE' LAST",
        "SHOW STATUS LIKE 'tidegate%'",
        "SHOW VARIABLES",
        "SHOW VARIABLES LIKE '%tidegate%'",
        "SHOW VARIABLES LIKE tidegate",
        "SHOW VARIABLES LIKE 'tidegate%', 'a'",
        "SHOW VARIABLES LIKE 'tidegate%' 'a'",
        "SHOW VARIABLES LIKE 'tidegate" + "%" * 50 + "'",
        "SHOW VARIABLES WHERE Variable_name = 'tidegate_scope'",
        "SHOW GLOBAL VARIABLES LIKE 'tidegate%'",
        "USE tidegate",
        "TIDEGATE",
        "SET",
        "SET SESSION",
        "SET tidegate_scope 'user'",
        "SELECT",
        "SHOW",
        "",
    ],
)
def test_what_is_not_tidegates(text: str) -> None:
    assert of(text) is None
    assert classify_text(text.encode(), 0).kind is not StatementClass.PROXY


def test_no_tokens() -> None:
    assert own_statement(Tokens([], [], []), 0) is None


def test_double_quotes_name_only_under_ansi_quotes() -> None:
    assert of('SET "tidegate_scope" = 1', 0) is None
    assert of('SHOW VARIABLES LIKE "tidegate%"', MODE_ANSI_QUOTES) is None
    assert of('SHOW VARIABLES LIKE "tidegate%"', 0) == ShowVariables("tidegate%")


# How they are classified.


def proxys(text: str) -> Statement:
    statement = classify_text(text.encode(), MODE_UTF8)
    assert statement == Statement(
        StatementClass.PROXY, StatementReason.PROXY, False, statement.digest, own=statement.own
    )
    assert statement.own is not None
    return statement


def test_the_statement_of_a_statement_to_tidegate() -> None:
    statement = proxys("SET tidegate_token = 'abc'")
    other = proxys("set tidegate_token='def' -- x\n;")
    assert statement.own == assigned("token", "abc")
    assert other.own == assigned("token", "def")
    assert statement.digest == other.digest
    assert statement.digest != proxys("SHOW TIDEGATE LAST").digest


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SET tidegate_scope = 'user'",
        "SET tidegate_scope = 'user'; SELECT 1",
        "SHOW TIDEGATE LAST; SHOW TIDEGATE LAST",
        "INSERT INTO t VALUES (1); SHOW TIDEGATE NOTHING; SELECT 2",
    ],
)
def test_it_must_come_alone(text: str) -> None:
    assert proxys(text).own is NOT_ALONE
    assert proxys(text).digest != proxys(text + "; SELECT 3").digest


def test_executable_comments() -> None:
    assert proxys("SET /*! tidegate_scope = 'user' */").own == assigned("scope", "user")
    assert proxys("/*!50000 SHOW */ TIDEGATE LAST").own == ShowOwn("LAST")
    for text in (
        "SHOW TIDEGATE /*!80000 LAST */ /*!90000 SESSION */",
        "SET tidegate_scope = /*!90000 'user' */ /*!99999 'proxy' */",
        "SELECT /*!90000 @@tidegate_scope */ /*!90001 , 1 */",
        "SELECT /*!90000 @@tidegate_scope , */ 1",
    ):
        assert proxys(text).own is AMBIGUOUS


def test_bodies_of_programs_are_the_servers() -> None:
    text = "CREATE PROCEDURE p() BEGIN SET tidegate_scope = 1; SHOW TIDEGATE LAST; END"
    assert classify_text(text.encode(), 0).own is None


def test_what_is_too_long_is_left_to_the_server() -> None:
    text = b"SET tidegate_token = '" + b"x" * 70_000 + b"'"
    statement = classify_text(text, 0)
    assert statement.own is None
    assert statement.reason is StatementReason.TOO_LONG


# With the classifier's caches.


ALIKE = [
    *(f"SET tidegate_{name} = '{value}'" for name in VARIABLES for value in "ab"),
    *("SET tidegate_wait_budget = 1", "SET tidegate_wait_budget = 2"),
    *("SHOW VARIABLES LIKE 'a%'", "SHOW VARIABLES LIKE 'tidegate%'", "SHOW VARIABLES LIKE 'b%'"),
    *("SHOW VARIABLES LIKE 'tidegate_token'", "SHOW VARIABLES LIKE 'tidegate_scope'"),
    *("SELECT @@tidegate_scope LIMIT 0", "SELECT @@tidegate_scope LIMIT 1"),
    *("SELECT @@tidegate_scope AS 'a'", "SELECT @@tidegate_scope AS 'b'"),
    *("SELECT a FROM t WHERE b = 'tidegate'", "SELECT a FROM t WHERE b = 'b'"),
    *("SELECT a FROM tidegate WHERE b = 1", "SELECT a FROM tidegate WHERE b = 2"),
    *("SELECT a FROM t WHERE b = 1", "/* tidegate */ SELECT a FROM t WHERE b = 1"),
    *(
        f"{blank}/* tidegate {setting} */{gap}TABLE t LIMIT {literal}"
        for blank in ("", "\n")
        for gap in ("", " ")
        for setting in ("scope=user", "scope=proxy", "scope='user'", "consistency=STRONG", "x=1")
        for literal in (1, 2, "'tidegate'")
    ),
    *(f"/* tidegate scope=user */ SHOW VARIABLES LIKE '{name}%'" for name in ("a", "tidegate")),
    *(f"/* tidegate scope=user */ SHOW TIDEGATE {topic}" for topic in ("LAST", "SESSION", "X")),
    *("/* x */ SELECT a FROM t WHERE b = 1", "/*+ tidegate scope=user */ SELECT a"),
    *("SELECT /* tidegate scope=user */ a", "SELECT /* tidegate scope=proxy */ a", "SELECT a"),
]


@pytest.mark.parametrize("order", [1, -1])
def test_no_two_share_what_is_not_the_same(order: int) -> None:
    classifier = Classifier()
    for mode_flags in range(MODES):
        for _ in range(2):
            for text in ALIKE[::order]:
                expected = classify_text(text.encode(), mode_flags)
                assert classifier.classify(text.encode(), mode_flags) == expected


@pytest.mark.plain
def test_a_directive_is_read_once_for_all_literals(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[bytes] = []

    def looking(sql: bytes, mode_flags: int) -> Statement:
        looked_at.append(sql)
        return classify_text(sql, mode_flags)

    monkeypatch.setattr("routing.sql.classifier.classify_text", looking)
    classifier = Classifier()
    for number in range(50):
        text = b"/* tidegate consistency=STRONG */ SELECT a FROM t WHERE b = %d" % number
        found = classifier.classify(text, 0)
        assert found.kind is StatementClass.READ
        assert found.directive == Adjustment(level=Level.STRONG)
        text = b"/* tidegate scope=user */ SELECT a FROM t WHERE b = %d" % number
        assert classifier.classify(text, 0).directive == Adjustment(scope=Scope.USER)
        assert classifier.classify(b"SELECT a FROM tidegate WHERE b = %d" % number, 0).own is None
    assert len(looked_at) == 3


def test_settings_are_variables() -> None:
    assert set(SETTINGS) < set(VARIABLES)
