"""What `mysql.gtid_executed` and `gtid_next` do: one list for the mocker and for the real server.

A check is given a server without GTIDs and with an empty schema `app`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from protocol.gtid import GtidSet
from protocol.response import ErrPacket
from tests.mysql_mocker.raw_client import RawClient
from tests.support.waiting import until

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
TABLE = "SELECT source_uuid, interval_start, interval_end, gtid_tag FROM mysql.gtid_executed"
_TABLE = "mysql.gtid_executed"
WARNED = "warned 3129"


class Peer(Protocol):
    """A server, real or not."""

    def connect(self) -> RawClient:
        """A client that may do everything, with schema `app`."""
        ...

    def crash(self) -> None:
        """Ends at once, and starts again."""
        ...

    def restart(self) -> None:
        """Ends in good order, and starts again."""
        ...


@dataclass(frozen=True)
class Mode:
    """One of the three modes of WL#6559.

    Attributes:
        name: for the tests' names.
        options: of mysqld.
    """

    name: str
    binary_log: bool = True
    replica_updates: bool = True
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


LOGGED = Mode("binlog and replica updates")
UNLOGGED = Mode("binlog, no replica updates", True, False, ("--log-replica-updates=OFF",))
OFF = Mode("no binlog", False, True, ("--skip-log-bin",))
MODES = (LOGGED, UNLOGGED, OFF)


def answer(client: RawClient, sql: str) -> str:
    """What a statement gives: rows, an error's code, a warning's, or ``ok``."""
    reply = client.query(sql)[-1]
    if isinstance(reply.end, ErrPacket):
        return f"{reply.end.code} {reply.end.message}"
    if reply.rows:
        return "\n".join(
            " ".join((b"-" if v is None else v).decode() for v in row) for row in reply.rows
        )
    warnings = client.reply("SHOW WARNINGS").rows
    return f"warned {(warnings[0][1] or b'').decode()}" if warnings else "ok"


def run(client: RawClient, *statements: str) -> None:
    """Runs statements that must not fail."""
    for statement in statements:
        for reply in client.query(statement):
            assert not isinstance(reply.end, ErrPacket), (statement, reply.end)


def insert(client: RawClient, number: int) -> None:
    """Inserts a number under the GTID of this number."""
    commit_as(client, f"{A}:{number}", f"INSERT INTO t VALUES ({number})")  # noqa: S608 - a number


def commit_as(client: RawClient, gtid: str, sql: str) -> None:
    """Commits a statement under a GTID."""
    run(client, f"SET gtid_next = '{gtid}'", sql, "SET gtid_next = AUTOMATIC")


def rows(client: RawClient) -> list[tuple[str, ...]]:
    """The table's rows."""
    found = client.reply(TABLE).rows
    return [tuple((value or b"").decode() for value in row) for row in found]


def of_a(client: RawClient) -> list[tuple[str, ...]]:
    return [row for row in rows(client) if row[0] == A]


def stored(client: RawClient) -> GtidSet:
    """The table's GTIDs."""
    return GtidSet.parse(
        ",".join(f"{u}:{t + ':' if t else ''}{start}-{end}" for u, start, end, t in rows(client))
    )


def purged(client: RawClient) -> GtidSet:
    return GtidSet.parse(client.value("SELECT @@GLOBAL.gtid_purged") or "")


# The table, by mode.


def commits_are_written(peer: Peer, mode: Mode) -> None:
    with peer.connect() as client:
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")
        for number in (1, 2, 3, 5):
            insert(client, number)
        commit_as(client, f"{A}:tag:7", "INSERT INTO t VALUES (7)")
        run(client, "INSERT INTO t VALUES (8)")
        executed = client.executed()
        named = GtidSet.parse(f"{A}:1-3:5:tag:7")
        assert named <= executed
        assert bool(executed - named) == mode.binary_log  # else nothing numbers own ones
        if mode is LOGGED:
            more = count(20)

            def left_to_rotation() -> bool:
                number = next(more)
                insert(client, number)
                return f"{A}:{number}" not in stored(client)

            # For a moment behind a RESET, MySQL writes GTIDs at once, more on a slow machine.
            until(left_to_rotation, "a commit is left to rotation")
            executed = client.executed()
            run(client, "FLUSH BINARY LOGS")
        until(lambda: stored(client) == executed, "the table has all")
        assert purged(client) == (GtidSet() if mode.binary_log else executed)


def rotation_writes_and_compresses(peer: Peer, mode: Mode) -> None:
    with peer.connect() as client:
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")
        for number in (1, 2, 4):
            insert(client, number)
            run(client, "FLUSH BINARY LOGS")
            until(lambda: stored(client) == client.executed(), "rotated")
        commit_as(client, f"{A}:3", "INSERT INTO t VALUES (3)")
        run(client, "FLUSH BINARY LOGS")
        until(lambda: stored(client) == client.executed(), "the table has all")
        if mode.binary_log:
            until(lambda: of_a(client) == [(A, "1", "4", "")], "one row")


def a_crash_loses_nothing(peer: Peer, mode: Mode) -> None:
    with peer.connect() as client, peer.connect() as open_one:
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")
        for number in (1, 2, 4):
            insert(client, number)
        run(client, "INSERT INTO t VALUES (9)")
        run(open_one, f"SET gtid_next = '{A}:3'", "BEGIN", "INSERT INTO t VALUES (3)")
        executed = client.executed()
        peer.crash()
    with peer.connect() as client:
        assert client.executed() == executed
        assert stored(client) == executed
        assert answer(client, "SELECT n FROM t ORDER BY n") == "1\n2\n4\n9"
        assert purged(client) == (GtidSet() if mode.binary_log else executed)
        commit_as(client, f"{A}:3", "INSERT INTO t VALUES (3)")
        run(client, "INSERT INTO t VALUES (10)")
        executed = client.executed()
        assert f"{A}:3" in executed
    peer.restart()
    with peer.connect() as client:
        assert client.executed() == executed
        assert stored(client) == executed
        until(lambda: len(rows(client)) == executed.interval_count, "the table is compressed")


def purged_and_reset(peer: Peer, mode: Mode) -> None:
    with peer.connect() as client:
        run(client, f"SET GLOBAL gtid_purged = '{B}:1-5'")
        assert stored(client) == purged(client) == client.executed() == GtidSet.parse(f"{B}:1-5")
        run(client, f"SET GLOBAL gtid_purged = '+{B}:8-9'", f"SET GLOBAL gtid_purged = '{B}:1-9'")
        run(client, "SET GLOBAL gtid_purged = '+'", "CREATE TABLE t (n INT)")
        commit_as(client, f"{A}:2", "INSERT INTO t VALUES (1)")
        executed = client.executed()
        cannot = "3546 @@GLOBAL.GTID_PURGED cannot be changed: "
        for value, why in (
            (f"{B}:1-4", "the new value must be a superset of the old value"),
            ("", "the new value must be a superset of the old value"),
            (f"+{B}:9-10", "the added gtid set must not overlap with @@GLOBAL.GTID_EXECUTED"),
        ):
            assert answer(client, f"SET GLOBAL gtid_purged = '{value}'") == cannot + why
        wrong = "1231 Variable 'gtid_purged' can't be set to the value of "
        assert answer(client, "SET GLOBAL gtid_purged = 'garbage'") == f"{wrong}'garbage'"
        assert answer(client, "SET GLOBAL gtid_purged = NULL") == f"{wrong}'NULL'"
        assert answer(client, "SET gtid_purged = ''").startswith("1229 ")
        assert client.executed() == executed
    peer.crash()
    with peer.connect() as client:
        kept = GtidSet.parse(f"{B}:1-9")
        assert client.executed() == executed
        assert purged(client) == (kept if mode.binary_log else executed)
        run(client, "RESET BINARY LOGS AND GTIDS")
        assert not client.executed()
        assert not purged(client)
        assert not rows(client)


def compression_has_a_period(peer: Peer, mode: Mode) -> None:
    """0: never, or rather once in 50 flushes (InnoDB's own); n: after more than n GTIDs.

    With a binary log the period counts for nothing.
    """
    if mode is LOGGED:
        return  # it depends on rotation alone
    with peer.connect() as client:
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")

        def commit_and_wait(number: int) -> int:
            insert(client, number)
            until(lambda: f"{A}:{number}" in stored(client), "the row is there")
            return len(of_a(client))

        assert [commit_and_wait(number) for number in (1, 2, 3)] == [1, 2, 3]
        run(client, "SET GLOBAL gtid_executed_compression_period = 1")
        if mode is UNLOGGED:
            assert [commit_and_wait(number) for number in (4, 5, 6)] == [4, 5, 6]
            return
        more = count(4)
        for _ in range(2):
            first = next(more)
            commit_and_wait(first)

            def compressed(first: int = first) -> bool:
                if any(row[:2] == (A, "1") and int(row[2]) >= first for row in rows(client)):
                    return True
                commit_and_wait(next(more))  # the thread that compresses may have missed a signal
                return False

            until(compressed, "compressed")
        run(client, "SET GLOBAL gtid_executed_compression_period = DEFAULT")
        assert answer(client, "SELECT @@gtid_executed_compression_period") == "0"


def clients_may_change_it(peer: Peer, mode: Mode) -> None:
    del mode
    with peer.connect() as client:
        columns = (
            "source_uuid char(36) NO PRI - \ninterval_start bigint NO PRI - \n"
            "interval_end bigint NO  - \ngtid_tag char(32) NO PRI - "
        )
        assert answer(client, "SHOW COLUMNS FROM mysql.gtid_executed") == columns
        create = client.reply("SHOW CREATE TABLE mysql.gtid_executed").rows[0][1] or b""
        assert b"PRIMARY KEY (`source_uuid`,`gtid_tag`,`interval_start`)" in create
        assert answer(client, f"INSERT {_TABLE} VALUES ('{A}',1,1,'')") == WARNED  # noqa: S608 - constants
        update = f"UPDATE {_TABLE} SET interval_end = 7 WHERE source_uuid = '{A}'"  # noqa: S608 - constants
        assert answer(client, update) == WARNED
        assert (A, "1", "7", "") in rows(client)
        assert not client.executed(), "it is not read while the server runs, and has no GTID"
        run(client, "BEGIN")
        locking = client.reply(f"{TABLE} FOR UPDATE")
        assert locking.rows
        assert client.reply("SHOW WARNINGS").rows[0][1] == b"3129"
        assert answer(client, f"{TABLE} FOR SHARE").startswith(A)
        assert not client.reply("SHOW WARNINGS").rows
        run(client, "COMMIT")
        delete = f"DELETE FROM {_TABLE} WHERE source_uuid = '{A}'"  # noqa: S608 - constants
        assert answer(client, delete) == WARNED
        assert answer(client, "TRUNCATE TABLE mysql.gtid_executed") == "ok"
        assert not rows(client)


TABLE_CHECKS: tuple[Callable[[Peer, Mode], None], ...] = (
    commits_are_written,
    rotation_writes_and_compresses,
    a_crash_loses_nothing,
    purged_and_reset,
    compression_has_a_period,
    clients_may_change_it,
)

# gtid_next by hand: statements with their answers.

_NEXT = "SELECT @@SESSION.gtid_next"
_OWNED = "SELECT @@SESSION.gtid_owned = ''"
_SPENT = (
    "1837 When @@SESSION.GTID_NEXT is set to a GTID, you must explicitly set it to a different "
    "value after a COMMIT or ROLLBACK. Please check GTID_NEXT variable manual page for detailed "
    "explanation. Current @@SESSION.GTID_NEXT is '"
)
_OWNS = (
    f"1790 @@SESSION.GTID_NEXT cannot be changed by a client that owns a GTID. The client owns {A}:"
)
_RELEASED = ". Ownership is released on COMMIT or ROLLBACK."
_ONGOING = "1766 The system variable {} cannot be set when there is an ongoing transaction."
_IMPLICIT = (
    "1778 Cannot execute statements with implicit commit inside a transaction when "
    "@@SESSION.GTID_NEXT == 'UUID:NUMBER'."
)

Script = tuple[tuple[str, str], ...]


def named(text: str) -> str:
    return f"SET gtid_next = '{text}'"


def malformed(text: str) -> tuple[str, str]:
    return (named(text), f"1774 Malformed GTID specification '{text}'.")


AUTOMATIC = (named("AUTOMATIC"), "ok")
SCRIPTS: dict[str, Script] = {
    "automatic with a tag": (
        (named("AUTOMATIC:tag"), "ok"),
        ("INSERT INTO t VALUES (1)", "ok"),
        ("INSERT INTO t VALUES (2)", "ok"),
        (_NEXT, "AUTOMATIC:tag"),
        (named("automatic: TAG_2 "), "ok"),
        ("INSERT INTO t VALUES (3)", "ok"),
        (_NEXT, "AUTOMATIC:tag_2"),
        AUTOMATIC,
        ("SELECT REPLACE(@@GLOBAL.gtid_executed, @@server_uuid, 'own')",
         "own:1:tag:1-2:tag_2:1"),
    ),
    "what is no GTID": (
        *(malformed(text) for text in (
            "", "x", "AUTOMATIC:", "AUTOMATIC:9x", " AUTOMATIC ", "AUTOMATIC:" + "t" * 33,
            A, f"{A}:0", f"{A}:1-2", f"{A}:9223372036854775807", f"{A.replace('-', '')}:5",
            f"{A}:5,{A}:6",
        )),
        (named("ANONYMOUS"),
         "1782 @@SESSION.GTID_NEXT cannot be set to ANONYMOUS when @@GLOBAL.GTID_MODE = ON."),
        ("SET gtid_next = NULL", "1231 Variable 'gtid_next' can't be set to the value of 'NULL'"),
        ("SET gtid_next = 5", "1232 Incorrect argument type to variable 'gtid_next'"),
        ("SET GLOBAL gtid_next = AUTOMATIC",
         "1228 Variable 'gtid_next' is a SESSION variable and can't be used with SET GLOBAL"),
        (_NEXT, "AUTOMATIC"),
    ),
    "spellings": (
        (named(f" {A.upper()} : MyTag : 7 "), "ok"),
        (_NEXT, f"{A}:mytag:7"),
        ("SELECT @@SESSION.gtid_owned", f"{A}:mytag:7"),
        ("ROLLBACK", "ok"),
        (_OWNED, "1"),
        (_NEXT, f"{A}:mytag:7"),
        AUTOMATIC,
    ),
    "spent after its transaction": (
        (named(f"{A}:50"), "ok"),
        ("INSERT INTO t VALUES (50)", "ok"),
        (_OWNED, "1"),
        ("INSERT INTO t VALUES (51)", f"{_SPENT}{A}:50'."),
        ("CREATE TABLE u (n INT)", f"{_SPENT}{A}:50'."),
        ("SELECT 1", "1"),
        ("BEGIN", "ok"),
        ("COMMIT", "ok"),
        AUTOMATIC,
        (f"SELECT GTID_SUBSET('{A}:50', @@GLOBAL.gtid_executed)", "1"),
    ),
    "executed already": (
        (named(f"{A}:50"), "ok"),
        ("INSERT INTO t VALUES (50)", "ok"),
        (named(f"{A}:50"), "ok"),
        (_OWNED, "1"),
        ("INSERT INTO t VALUES (52)", "ok"),
        ("INSERT INTO t VALUES (53)", "ok"),
        ("CREATE TABLE u (n INT)", "ok"),
        ("INSERT INTO t VALUES (53)", f"{_SPENT}{A}:50'."),
        AUTOMATIC,
        (named(f"{A}:50"), "ok"),
        ("BEGIN", "ok"),
        ("INSERT INTO t VALUES (54)", "ok"),
        ("COMMIT", "ok"),
        AUTOMATIC,
        ("SELECT n FROM t", "50"),
        ("SHOW TABLES", "t"),
    ),
    "owned until a commit": (
        (named(f"{A}:60"), "ok"),
        (named(f"{A}:61"), f"{_OWNS}60{_RELEASED}"),
        ("ROLLBACK", "ok"),
        AUTOMATIC,
        (named(f"{A}:61"), "ok"),
        ("SELECT 1", "1"),
        ("UPDATE t SET n = n", "ok"),
        (_OWNED, "0"),
        ("COMMIT", "ok"),
        AUTOMATIC,
        (f"SELECT GTID_SUBSET('{A}:61', @@GLOBAL.gtid_executed)", "1"),
        (named(f"{A}:62"), "ok"),
        ("INSERT INTO t VALUES (1), (1)", "1062 Duplicate entry '1' for key 't.PRIMARY'"),
        ("ROLLBACK", "ok"),
        AUTOMATIC,
        (named(f"{A}:63"), "ok"),
        ("BEGIN", "ok"),
        ("INSERT INTO t VALUES (63)", "ok"),
        ("ROLLBACK", "ok"),
        (_OWNED, "1"),
        AUTOMATIC,
        (f"SELECT GTID_SUBTRACT('{A}:62-63', @@GLOBAL.gtid_executed)", f"{A}:62-63"),
    ),
    "inside a transaction": (
        ("BEGIN", "ok"),
        (named(f"{A}:8"), _ONGOING.format("gtid_next")),
        (f"SET GLOBAL gtid_purged = '+{B}:1'", _ONGOING.format("gtid_purged")),
        ("COMMIT", "ok"),
        (named(f"{A}:7"), "ok"),
        (f"SET GLOBAL gtid_purged = '+{B}:1'",
         f"3138 Variable gtid_purged cannot be changed by a client that owns a GTID. The client "
         f"owns {A}:7{_RELEASED}"),
        ("ROLLBACK", "ok"),
        (named(f"{A}:8"), "ok"),
        ("BEGIN", "ok"),
        (named("AUTOMATIC"), _ONGOING.format("gtid_next")),
        ("BEGIN", _IMPLICIT),
        ("CREATE TABLE u (n INT)", _IMPLICIT),
        ("INSERT INTO t VALUES (8)", "ok"),
        ("COMMIT", "ok"),
        AUTOMATIC,
        (f"SELECT GTID_SUBSET('{A}:8', @@GLOBAL.gtid_executed)", "1"),
    ),
    "the period": (
        ("SELECT @@gtid_executed_compression_period", "0"),
        ("SET gtid_executed_compression_period = 5",
         "1229 Variable 'gtid_executed_compression_period' is a GLOBAL variable and should be set "
         "with SET GLOBAL"),
        ("SET GLOBAL gtid_executed_compression_period = -1", "warned 1292"),
        ("SELECT @@gtid_executed_compression_period", "0"),
        ("SET GLOBAL gtid_executed_compression_period = 4294967296", "warned 1292"),
        ("SELECT @@gtid_executed_compression_period", "4294967295"),
        ("SET GLOBAL gtid_executed_compression_period = 'a'",
         "1232 Incorrect argument type to variable 'gtid_executed_compression_period'"),
        ("SET GLOBAL gtid_executed_compression_period = DEFAULT", "ok"),
        ("SELECT TYPE, PROCESSLIST_ID, PROCESSLIST_COMMAND, PROCESSLIST_STATE FROM "
         "performance_schema.threads WHERE NAME = 'thread/sql/compress_gtid_table'",
         "FOREGROUND 6 Daemon Suspending"),
        ("KILL 6", "1094 Unknown thread id: 6"),
        ("SET GLOBAL gtid_executed = ''", "1238 Variable 'gtid_executed' is a read only variable"),
        ("SET GLOBAL log_bin = 0", "1238 Variable 'log_bin' is a read only variable"),
    ),
}  # fmt: skip
"""Each begins with a table ``t (n INT PRIMARY KEY)`` that was made under AUTOMATIC."""


def check_script(peer: Peer, script: Script) -> None:
    with peer.connect() as client:
        run(client, "CREATE TABLE t (n INT PRIMARY KEY)")
        for sql, expected in script:
            assert answer(client, sql) == expected, sql


def two_sessions_want_the_same(peer: Peer) -> None:
    with peer.connect() as first, peer.connect() as second:
        run(first, "CREATE TABLE t (n INT PRIMARY KEY)", named(f"{A}:1"))
        owned = first.value("SELECT @@GLOBAL.gtid_owned")
        assert owned == f"{A}:1#{first.value('SELECT CONNECTION_ID()')}"
        second.send(b"\x03" + named(f"{A}:1").encode())
        run(first, "INSERT INTO t VALUES (1)", named("AUTOMATIC"))
        assert second.replies()[0].ok
        assert answer(second, "INSERT INTO t VALUES (2)") == "ok"
        assert answer(first, "SELECT n FROM t") == "1"
        run(second, named("AUTOMATIC"))
