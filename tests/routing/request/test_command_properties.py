"""What commands may have changed."""

import pytest

from protocol.constants import Command as Code
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.request import command_properties
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.session.prepared import PreparedStatement
from routing.session.session import Session
from routing.sql.statement import classify

RULES = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)


def execution(text: bytes, sql: bytes) -> Command:
    prepared = PreparedStatement(1, classify(text), sql, Session(RULES, 0))
    return Command(Code.COM_STMT_EXECUTE, RULES, b"", prepared.statement, True, prepared)


@pytest.mark.parametrize(
    ("text", "passwords", "logins"),
    [
        (b"CREATE TABLE t (a INT)", False, False),
        (b"ALTER TABLE t ADD b INT", False, False),
        (b"RENAME TABLE t TO u", False, False),
        (b"INSERT INTO t VALUES (1)", False, False),
        (b"DROP DATABASE d", False, True),
        (b"GRANT r TO u", False, True),
        (b"ALTER USER u IDENTIFIED BY 'p'", True, True),
        (b"RENAME USER u TO v", True, True),
        (b"CREATE USER u", True, True),
        (b"DROP USER u", True, True),
        (b"SET PASSWORD = 'p'", True, True),
        (b"FLUSH PRIVILEGES", True, True),
    ],
)
def test_which_prepared_statements_may_change_accounts(
    text: bytes, passwords: bool, logins: bool
) -> None:
    command = execution(text, text)
    assert command_properties.changes_passwords(command) is passwords
    assert command_properties.changes_logins(command, CommandOutcome(command)) is logins


def test_a_definition_that_is_too_long_to_be_kept_may_have_changed_them() -> None:
    command = execution(b"CREATE TABLE t (a INT)", b"")
    assert command_properties.changes_passwords(command)
    assert command_properties.changes_logins(command, CommandOutcome(command))


@pytest.mark.parametrize(
    ("sql", "taken"),
    [
        (b"RESET BINARY LOGS AND GTIDS", True),
        (b" reset\tmaster TO 5", True),
        (b"RESET REPLICA ALL,\n BINARY  LOGS AND GTIDS", True),
        (b"RESET REPLICA ALL FOR CHANNEL 'master'", False),
        (b"RESET PERSIST IF EXISTS master", False),
        (b"RESET REPLICA -- and then RESET MASTER", False),
        (b"FLUSH TABLES /* RESET MASTER */", False),
        pytest.param(b"RESET" + b" " * 1_000_000 + b"REPLICA", False, id="in linear time"),
        pytest.param(b"RESET " + b"REPLICA , " * 100_000 + b"MASTER", True, id="a long list"),
    ],
)
def test_which_statements_take_gtids_for_certain(sql: bytes, taken: bool) -> None:
    assert command_properties.takes_gtids(sql) is taken
