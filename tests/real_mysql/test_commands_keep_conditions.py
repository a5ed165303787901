"""Commands that are no statements keep warnings and errors, add their own, and tell how many."""

from __future__ import annotations  # Connection is generic for the type checker only

from contextlib import closing
from itertools import product

import pytest

from protocol.constants import Capability, Command
from protocol.response_stream import FIELDS
from tests.differential.comparison import comparable
from tests.differential.player import Answer, Player
from tests.differential.step import Execute, Fetch, Prepare, Query, ResetStatement, Send, Step
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import BASE, RawClient
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_PASSWORD, APP_USER

OBJECTS = (
    "CREATE TABLE app.kept (a INT PRIMARY KEY)",
    "INSERT INTO app.kept VALUES (1), (2)",
    "CREATE PROCEDURE app.fails() BEGIN SELECT 1/0; SIGNAL SQLSTATE '45000'; END",
)
BEFORE: tuple[Step, ...] = (
    Query("SELECT a FROM kept"),
    Query("SELECT a / 0 FROM kept"),
    Query("SELECT missing FROM kept"),
    Query("SET @a = CAST('x' AS SIGNED) + EXP(1000)"),
    Query("SELECT CAST(CONCAT(a, 'x') AS SIGNED), EXP(1000 * a) FROM kept FOR UPDATE"),
    Query("INSERT IGNORE INTO kept VALUES (1), (2)"),
    Query("INSERT INTO kept VALUES (1)"),
    Query("SET @a = 1/0"),
    Query("CALL fails()"),
    Query("SHOW WARNINGS"),
    Prepare(1, "SELECT 'a' || 'b'"),
    Prepare(1, "SELEC"),
)
COMMANDS: tuple[Step, ...] = (
    Send(Command.COM_PING),
    Send(Command.COM_INIT_DB, b"app"),
    Send(Command.COM_INIT_DB, b"nowhere"),
    Send(Command.COM_SET_OPTION, b"\x00\x00"),
    Send(Command.COM_SET_OPTION, b"\x07\x00"),
    Send(Command.COM_FIELD_LIST, b"kept\x00", FIELDS),
    Send(Command.COM_FIELD_LIST, b"missing\x00", FIELDS),
    Send(Command.COM_DEBUG),
    Send(Command.COM_SLEEP),
    Send(0x77),
    Fetch(9, 1),
    ResetStatement(9),
    Execute(9),
)
QUESTIONS: tuple[Step, ...] = (
    Send(Command.COM_PING),
    Send(Command.COM_INIT_DB, b"app"),
    Send(Command.COM_SET_OPTION, b"\x00\x00"),
    Query("SHOW WARNINGS"),
    Query("SELECT @@warning_count, @@error_count"),
)


@pytest.mark.parametrize(
    "capabilities",
    [
        Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK,
        Capability.CLIENT_DEPRECATE_EOF,
        Capability(0),
    ],
)
def test_through_tidegate_as_at_a_server(
    cluster: Cluster, proxy: StartProxy, capabilities: Capability
) -> None:
    with cluster.primary.admin("app") as session:
        for sql in ("DROP TABLE IF EXISTS kept", "DROP PROCEDURE IF EXISTS fails", *OBJECTS):
            run(session, sql)
    cluster.wait_caught_up()
    running = proxy(wait_budget="10s")
    differ = []

    def client(address: str) -> Player:
        return Player(RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app"))

    def answers(player: Player, *steps: Step) -> list[Answer]:
        return [tuple(comparable(step.play(player), BASE | capabilities)) for step in steps]

    with (
        closing(client(cluster.primary.address)) as direct,
        closing(client(running.address)) as through,
    ):
        for before, command, question in product(BEFORE, COMMANDS, QUESTIONS):
            steps = (Query("DO 0"), before, command, question, QUESTIONS[0], QUESTIONS[3])
            if answers(direct, *steps) != answers(through, *steps):
                differ.append(steps[1:4])
    assert not differ, f"{len(differ)}: {differ}"
