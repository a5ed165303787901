"""What packets of a client's are understood as, without a server."""

from types import SimpleNamespace
from typing import Any

import pytest

from protocol.constants import Command as Code
from protocol.packet import frame
from proxy.address import Address
from proxy.client.prepared import PreparedStatements
from proxy.client.requests.commands import parse_command, parse_long_command
from proxy.client.requests.commands.action import (
    Action,
    ChangeUser,
    Done,
    NoAnswer,
    Own,
    Ping,
    Quit,
    Refused,
    Take,
    TooLong,
    ToPrimary,
    Unknown,
)
from proxy.client.requests.commands.command_context import CommandContext
from proxy.client.requests.commands.query import kill
from proxy.client.session_memory import SessionMemory
from proxy.client.session_rules import SessionRules
from proxy.config import Config
from routing.consistency.decision import Level, Reason
from routing.request.command import Command
from routing.servers.topology import Topology
from routing.session.prepared import PreparedStatement
from routing.session.session import Session
from routing.sql.classifier import Classifier
from routing.sql.statement import Statement, StatementClass, StatementReason

CONFIG = Config(primary=Address("db1", 3306))
LIVE = SimpleNamespace(config=CONFIG)


class Plain:
    """No view calls anything, and no server is there."""

    primary = None
    connections: tuple[()] = ()

    def classify(self, statement: Statement) -> Statement:
        return statement


pytestmark = pytest.mark.plain


@pytest.fixture
def context() -> CommandContext:
    rules = SessionRules(LIVE, CONFIG.listen, "app", {})
    shared = SimpleNamespace(
        classifier=Classifier(),
        live=LIVE,
        kill_targets=None,
        topology=Topology("db1:3306", []),
    )
    state, prepared = Session(rules.initial(""), 0, user="app"), PreparedStatements()
    session: Any = SimpleNamespace(
        shared=shared,
        state=state,
        servers=Plain(),
        prepared=prepared,
        memory=SessionMemory(LIVE, state, prepared),
        views=Plain(),
        query_attributes=False,
    )
    return CommandContext(session)


def query(context: CommandContext, sql: bytes) -> Command | Action:
    return parse_command(context, frame(b"\x03" + sql, 0))


def test_a_statement_is_a_command_under_the_rules_of_its_session(context: CommandContext) -> None:
    read = query(context, b"SELECT n FROM t")
    assert isinstance(read, Command)
    assert (read.code, read.is_read, read.may_write) == (Code.COM_QUERY, True, False)
    assert read.rules is context.state.rules
    assert not read.adjusted
    write = query(context, b"INSERT INTO t VALUES (1)")
    assert isinstance(write, Command)
    assert (write.is_read, write.may_write) == (False, True)


def test_rules_of_its_own_are_resolved_at_once(context: CommandContext) -> None:
    read = query(context, b"/* tidegate consistency=STRONG */ SELECT n FROM t")
    assert isinstance(read, Command)
    assert read.adjusted
    assert read.rules.level is Level.STRONG
    wrong = query(context, b"/* tidegate consistency=MOST */ SELECT n FROM t")
    assert isinstance(wrong, Refused)
    assert wrong.reason is Reason.PROXY


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("KILL 5", "KILL 77"),
        ("kill query 005 ; ", "kill query 77 ; "),
        ("KILL 5 -- 6", "KILL 77 -- 6"),
        ("KILL 5 /* app:6 */", "KILL 77 /* app:6 */"),
        ("/* 6 */ KILL CONNECTION/**/5# 6", "/* 6 */ KILL CONNECTION/**/77# 6"),
        ("/*!50005 KILL 5 */", "/*!50005 KILL 77 */"),
    ],
)
def test_a_kill_is_sent_with_the_id_that_the_primary_knows(
    context: CommandContext, text: str, sent: str
) -> None:
    command = kill(context, frame(b"\x03" + text.encode(), 0), 77)
    assert isinstance(command, Command)
    assert command.packet[5:] == sent.encode()


def executed(context: CommandContext, *texts: str) -> bool:
    """Whether an EXECUTE e, behind these, is known to be of a text without effects."""
    for text in texts:
        command = query(context, text.encode())
        assert isinstance(command, Command)
        statement = command.statement
        if statement is not None and statement.text_prepared is not None and statement.prepares:
            context.state.text_prepared.add(statement.text_prepared.name, statement.prepares)
    command = query(context, b"EXECUTE e")
    assert isinstance(command, Command)
    assert command.statement is not None
    return command.statement.reason is StatementReason.PREPARED_STATEMENT


@pytest.mark.parametrize(
    ("name", "other"),
    [
        *(("E", False), ("`e`", False), ("`e `", False), ("e2", True), ("é", False)),
        *(("`É`", False), ("`e2``3`", False)),
    ],
)
def test_names_of_prepared_statements_may_be_equal(
    context: CommandContext, name: str, other: bool
) -> None:
    context.state.lexer_modes.set_character_set("utf8mb4")
    assert executed(context, "PREPARE e FROM 'SELECT 1'")
    assert executed(context, f"PREPARE {name} FROM CONCAT('x')") is other
    assert executed(context, "PREPARE e FROM 'SELECT 1'")
    assert executed(context, f"DEALLOCATE PREPARE {name}") is other


@pytest.mark.parametrize(
    ("payload", "order"),
    [
        (b"\x01", Quit),
        (b"\x02app", ToPrimary),
        (b"\x09", ToPrimary),
        (b"\x0e", Ping),
        (b"\x11app\0", ChangeUser),
        (b"\x12", Refused),  # COM_BINLOG_DUMP
        (b"\x1f", ToPrimary),
        (b"\x7f", ToPrimary),
        (b"\x17\x07\0\0\0\0\x01\0\0\0", Unknown),
        (b"\x18\x07\0\0\0\0\0x", Take),
        (b"\x19\x07\0\0\0", NoAnswer),
        (b"\x1a\x07\0\0\0", Unknown),
        (b"\x03SHOW TIDEGATE LAST", Own),
    ],
)
def test_what_is_no_statement_says_what_is_to_be_done(
    context: CommandContext, payload: bytes, order: type[Action]
) -> None:
    assert type(parse_command(context, frame(payload, 0))) is order


def test_a_prepared_statement_that_no_server_knows_is_reset_here(context: CommandContext) -> None:
    statement = context.classifier.classify(b"SELECT 1", 0)
    context.prepared.add(PreparedStatement(7, statement, b"SELECT 1", context.state))
    assert type(parse_command(context, frame(b"\x1a\x07\0\0\0", 0))) is Done
    execution = parse_command(context, frame(b"\x17\x07\0\0\0\0\x01\0\0\0", 0))
    assert isinstance(execution, Command)
    assert execution.text == b"SELECT 1"
    assert execution.statement is not None
    assert execution.statement.kind is StatementClass.READ


def test_what_comes_in_parts_is_not_looked_at(context: CommandContext) -> None:
    statement = parse_long_command(context, frame(b"\x03SELECT n FROM t", 0))
    assert isinstance(statement, ToPrimary)
    assert statement.command.may_write
    assert not statement.command.packet
    assert type(parse_long_command(context, frame(b"\x0e", 0))) is TooLong
