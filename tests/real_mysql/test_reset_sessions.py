"""What COM_RESET_CONNECTION and COM_CHANGE_USER leave of a session, asked of the server itself.

A session that was bent in every way is compared with a new one by all that the server shows of a
session. Tidegate keeps connections, so each difference is named in `NOT_RESTORED`, with what is
done about it: a server version that has another one fails here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from protocol.authentication import CACHING_SHA2, ClientAuthentication
from protocol.command import ComChangeUser
from protocol.constants import Command
from protocol.packet import frame
from protocol.response import ERR_HEADER, OK_HEADER
from protocol.response_stream import PREPARED, SIMPLE
from protocol.resultset import ColumnDefinition41
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.test_kept_connections import BENT, CAPABILITIES, SHOWN, Client

USER, PASSWORD = "bender", "a"
EITHER = {
    "foreign keys": "not kept where triggers cascade (`Identity.renewable`)",
    "traces": "emptied with the reset (`FORGET_TRACES`)",
    "statement before": "FOUND_ROWS(), which the proxy's own question at the login sets",
    "thread RESOURCE_GROUP": "not kept (`traits.stays`)",
    "multi-statements": "not kept (`connection_state.set_option`)",
}
CHARACTER_SETS = "set again (`judged._character_sets`)"
COMPARED = "compared before it is lent (`judged.question`)"
NOT_RESTORED = {
    "changed": EITHER,
    "reset": EITHER
    | {
        "role": COMPARED,
        "who": COMPARED,
        "thread PROCESSLIST_DB": "selected again (`judged`)",
        "literals": CHARACTER_SETS,
        "variable collation_connection": CHARACTER_SETS,
    },
}
"""What differs from a new session, and what Tidegate does where it keeps the connection."""

OBJECTS = (
    "CREATE TABLE app.lockable (id INT PRIMARY KEY)",
    "CREATE TABLE app.parent (id INT PRIMARY KEY)",
    "CREATE TABLE app.child (id INT PRIMARY KEY, parent INT,"
    " FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE ROLE given, taken",
    f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}' DEFAULT ROLE given",
    f"GRANT ALL ON *.* TO {USER}@'%'",
    f"GRANT given, taken TO {USER}@'%'",
    "CREATE RESOURCE GROUP bent TYPE = USER VCPU = 0",
)


@pytest.fixture(scope="module", autouse=True)
def _objects(cluster: Cluster, _empty_schema: None) -> Iterator[None]:
    primary = cluster.primary
    for sql in OBJECTS:
        primary.query(sql)
    yield
    primary.query("DROP RESOURCE GROUP bent FORCE")
    primary.query(f"DROP USER {USER}@'%'")
    primary.query("DROP ROLE given, taken")


@pytest.fixture
def primary(cluster: Cluster) -> RealServer:
    return cluster.primary


class Direct(Client):
    """A client of the server itself, whose collation is not the server's."""

    character_set = 45

    def __init__(self, server: RealServer) -> None:
        RawClient.__init__(
            self, server.address, USER, PASSWORD, CAPABILITIES, "app", attributes={"x": "1"}
        )

    def tell(self, sql: str) -> bool:
        """Run a statement; whether it did not fail."""
        return self.query(sql)[-1][1][0] != ERR_HEADER

    def reset(self) -> None:
        assert self.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)[-1][1][0] == OK_HEADER

    def change_user(self) -> None:
        command = ComChangeUser(
            username=USER,
            auth_response=b"",
            database="app",
            character_set=self.character_set,
            auth_plugin=CACHING_SHA2,
            attributes={"x": "1"},
        )
        self.send(frame(command.serialise(self.capabilities), 0))
        authentication = ClientAuthentication(
            PASSWORD.encode(), CACHING_SHA2, bytes(20), secure=False
        )
        while True:
            sequence_id, payload = self.read()
            assert payload[0] != ERR_HEADER
            if payload[0] == OK_HEADER:
                return
            reply = authentication.receive(payload)
            if reply is not None:
                self.send(frame(reply, sequence_id + 1))


AGAIN: dict[str, Callable[[Direct], None]] = {
    "reset": Direct.reset,
    "changed": Direct.change_user,
}

# What a session shows

TABLES = (
    "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = 'performance_schema' AND COLUMN_NAME IN ('THREAD_ID', 'OWNER_THREAD_ID')"
    " AND TABLE_NAME NOT REGEXP '^events|^memory|^replication|^socket|^metadata_locks|^error_log'"
)
"""Tables with rows of a thread; histories of events, and the log, stay when a connection does."""
OWN_THREAD = "(SELECT PS_CURRENT_THREAD_ID())"


VALUES_SHOWN = {
    "variable": "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.session_variables",
    "status": "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.status_by_thread"  # noqa: S608 - the server's names
    f" WHERE THREAD_ID = {OWN_THREAD} AND VARIABLE_NAME NOT REGEXP"
    " '^(Bytes|Handler|Open|Table_open|Queries|Last_query_cost|Created_tmp_disk)'",
}
"""Left out are counters that go by what is cached, and how many digits numbers have."""


def shown(client: Direct) -> dict[str, object]:
    """All that the server shows of a session, by names; behaviour last, which changes it."""
    found: dict[str, object] = {}
    for name in ("statement before", "warnings", "traces", "profiles"):
        found[name] = client.rows(SHOWN[name])
    for kind, sql in VALUES_SHOWN.items():
        for name, value in client.rows(sql):
            found[f"{kind} {(name or b'').decode()}"] = value
    for table, column in client.rows(TABLES):
        name = f"{(table or b'').decode()}"
        found[f"rows {name}"] = client.rows(
            f"SELECT COUNT(*) FROM performance_schema.{name}"  # noqa: S608 - the server's names
            f" WHERE {(column or b'').decode()} = {OWN_THREAD}"
        )
    columns = [row[0] for row in client.rows("SHOW COLUMNS FROM performance_schema.threads")]
    thread = client.rows(f"SELECT * FROM performance_schema.threads WHERE THREAD_ID = {OWN_THREAD}")  # noqa: S608 - the server's names
    for column, value in zip(columns, thread[0], strict=True):
        if not re.search(b"(ID|MEMORY|TIME)$", column or b""):
            found[f"thread {(column or b'').decode()}"] = value
    for name, sql in SHOWN.items():
        if name not in found and name not in ("variables", "counters", "thread"):
            found[name] = client.rows(sql)
    found["role"] = client.rows("SELECT CURRENT_ROLE()")
    found["prepared by text"] = client.tell("EXECUTE s")
    found["handler"] = client.tell("HANDLER lockable READ FIRST")
    found["temporary table"] = client.tell("SELECT * FROM bent")
    found["literals"] = ColumnDefinition41.parse(client.query("SELECT 'x'")[1][1]).character_set
    found["multi-statements"] = client.tell("SELECT 1; SELECT 2")
    found["isolation of the next transaction"] = client.rows("SELECT @@transaction_isolation")
    found["trackers"] = client.query("USE app"), client.query("SET time_zone = '+01:00'")
    found["foreign keys"] = cascaded(client)
    found["transaction"] = client.query("BEGIN"), client.query("COMMIT")
    return found


def cascaded(client: Direct) -> list[int]:
    """How many rows the server's SQL layer deletes with one that has a dependent row."""
    for sql in ("REPLACE INTO parent VALUES (1)", "REPLACE INTO child VALUES (1, 1)"):
        client.rows(sql)
    counts = []
    for sql in ("DO 0", "DELETE FROM parent"):
        client.rows(sql)
        counts.append(int(client.rows("SHOW SESSION STATUS LIKE 'Handler_delete'")[0][1] or 0))
    return counts


# What bends it

VALUES = ("ON", "OFF", "1", "2", "1000", "8192", "'bent'", "'latin1'", "'+05:00'", "'MYISAM'")
LEFT_OUT = frozenset(
    {
        *("autocommit", "sql_log_bin", "gtid_next", "pseudo_thread_id", "identity"),
        *("debug", "debug_sync", "max_execution_time"),
    }
)
"""Variables that would be in the way of those behind them; `STATEMENTS` sets some."""
STATEMENTS = (
    "SET ROLE taken",
    "HANDLER lockable OPEN",
    "SELECT GET_LOCK('mine', 0)",
    "SET optimizer_trace = 'enabled=on'",
    *(sql for sql in BENT if not sql.startswith("SET ROLE")),
)
ALONE = {
    "resource group": ("SET RESOURCE GROUP bent",),
    "read lock": ("FLUSH TABLES WITH READ LOCK",),
    "backup lock": ("LOCK INSTANCE FOR BACKUP",),
    "transaction": ("BEGIN", "INSERT INTO lockable VALUES (77)", "SAVEPOINT s"),
    "read only transaction": ("START TRANSACTION READ ONLY", "SELECT * FROM lockable"),
    "snapshot": ("START TRANSACTION WITH CONSISTENT SNAPSHOT",),
    "xa": ("XA START 'a'", "INSERT INTO lockable VALUES (78)", "XA END 'a'"),
    "owned gtid": ("SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1'",),
    "next transaction": ("SET TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE",),
    "found rows": ("SELECT 1 UNION SELECT 2 UNION SELECT 3",),
    "an error": ("SELECT nothing",),
    "lock tables": ("LOCK TABLES lockable READ",),
    "no role": ("SET ROLE NONE",),
    "schema": ("USE mysql",),
    "names": ("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",),
}


def set_all(client: Direct, primary: RealServer) -> int:
    """Set every session variable to something else; how many could be."""
    count = 0
    names = "SELECT VARIABLE_NAME FROM performance_schema.session_variables"
    for (name,) in primary.query(names):
        if name in LEFT_OUT:
            continue
        for value in VALUES:
            count += client.tell(f"SET SESSION {name} = {value}")
    return count


def differences(new: dict[str, object], again: dict[str, object]) -> set[str]:
    return {name for name in new.keys() | again.keys() if new.get(name) != again.get(name)}


def from_new(server: RealServer) -> tuple[dict[str, object], set[str]]:
    """What a new session shows, and what two of them show differently."""
    found = []
    for _ in range(3):
        with Direct(server) as client:
            found.append(shown(client))
    return found[0], differences(found[0], found[1]) | differences(found[1], found[2])


@pytest.mark.parametrize("how", AGAIN)
def test_what_a_session_leaves_is_known(primary: RealServer, how: str) -> None:
    new, unsteady = from_new(primary)
    left: set[str] = set()
    counts = []
    runs: list[Callable[[Direct], object]] = [
        lambda client: counts.append(set_all(client, primary)),
        lambda client: [client.tell(sql) for sql in STATEMENTS],
        lambda client: client.command(Command.COM_SET_OPTION, b"\1\0", SIMPLE),
        lambda client: client.command(Command.COM_STMT_PREPARE, b"SELECT ?", PREPARED),
    ]
    for statements in ALONE.values():
        runs.append(lambda client, these=statements: [client.tell(sql) for sql in these])
    for bend in runs:
        with Direct(primary) as client:
            bend(client)
            AGAIN[how](client)
            left |= differences(new, shown(client)) - unsteady
    assert counts[0] > 300, "hardly a variable was set"
    assert left == NOT_RESTORED[how].keys()
