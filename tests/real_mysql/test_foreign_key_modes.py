"""Foreign keys work otherwise on a connection that was reset, and on replicas (MySQL 9.7.4).

A new connection carries them out above the storage engine. One that was reset leaves them to
InnoDB, and so does whoever applies what a log does not name.
"""

from typing import Final, NamedTuple

import pytest

from protocol.constants import Command
from protocol.response_stream import SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import NOTHING, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

Rows = list[tuple[object, ...]]


class Case(NamedTuple):
    """What a statement leaves in the tables `parent` and `child`.

    Attributes:
        setup: makes the tables.
        sql: the statement.
        new: the rows of both behind it on a new connection.
        reset: likewise, on a connection that was reset.
        applied: likewise, on a replica that has it from a new connection.
    """

    setup: tuple[str, ...]
    sql: str
    new: tuple[Rows, Rows]
    reset: tuple[Rows, Rows]
    applied: tuple[Rows, Rows]


_PARENT: Final = (
    "CREATE TABLE app.parent (id INT PRIMARY KEY, v INT)",
    "INSERT INTO app.parent VALUES (1, 1)",
)


def _replaced(rule: str, child: Rows) -> Case:
    setup = (
        *_PARENT,
        "CREATE TABLE app.child (id INT PRIMARY KEY, parent INT,"
        f" FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE {rule})",
        "INSERT INTO app.child VALUES (10, 1)",
    )
    parent: Rows = [(1, 2)]
    done = (parent, child)
    return Case(setup, "REPLACE INTO parent VALUES (1, 2)", (parent, [(10, 1)]), done, done)


CASES = {
    "a replaced parent, CASCADE": _replaced("CASCADE", []),
    "a replaced parent, SET NULL": _replaced("SET NULL", [(10, None)]),
    "a cycle": Case(
        (
            "CREATE TABLE app.parent (id INT PRIMARY KEY, child INT)",
            "CREATE TABLE app.child (id INT PRIMARY KEY, parent INT)",
            "INSERT INTO app.parent VALUES (1, 1), (2, 2)",
            "INSERT INTO app.child VALUES (1, 1), (2, 1), (3, 2)",
            "ALTER TABLE app.child ADD FOREIGN KEY (parent) REFERENCES parent (id)"
            " ON DELETE CASCADE",
            "ALTER TABLE app.parent ADD FOREIGN KEY (child) REFERENCES child (id)"
            " ON DELETE CASCADE",
        ),
        "DELETE FROM parent WHERE id = 1",
        ([(2, 2)], [(3, 2)]),
        ([], []),
        ([(2, 2)], [(3, 2)]),
    ),
}


def carry_out(cluster: Cluster, case: Case, *, reset: bool) -> list[tuple[Rows, Rows]]:
    """The rows of both tables behind a statement, on the primary and on a replica."""
    primary = cluster.primary
    for sql in case.setup:
        primary.query(sql)
    try:
        with RawClient(primary.address, APP_USER, APP_PASSWORD, NOTHING, "app") as client:
            if reset:
                client.command(Command.COM_RESET_CONNECTION, b"", SIMPLE)
            assert client.query(case.sql)[-1][1][0] == 0
        cluster.wait_caught_up()
        return [
            (server.query("TABLE app.parent"), server.query("TABLE app.child"))
            for server in (primary, cluster.replicas[0])
        ]
    finally:
        for sql in ("SET foreign_key_checks = 0", "DROP TABLE app.child, app.parent"):
            primary.query(sql)
        primary.query("SET foreign_key_checks = 1")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_reset_changes_what_foreign_keys_do(cluster: Cluster, case: Case) -> None:
    assert carry_out(cluster, case, reset=False) == [case.new, case.applied]
    assert carry_out(cluster, case, reset=True) == [case.reset, case.reset]


def test_native_foreign_keys_are_the_same_everywhere(cluster: Cluster) -> None:
    cluster.primary.restart("--innodb-native-foreign-keys=ON")
    try:
        for name, case in CASES.items():
            assert carry_out(cluster, case, reset=False) == [case.reset, case.reset], name
    finally:
        cluster.primary.restart()
