"""A client's settings change what its own statements mean, and none of the proxy's beside them."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from protocol.constants import Capability, Command
from protocol.gtid import GtidSet
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from proxy.client.statements.audit import audit
from proxy.client.statements.confirmation import columns, confirm
from proxy.client.statements.wait import wait
from proxy.client.statements.wait_for_owned import wait_for_owned
from proxy.server.exchange import Batch
from proxy.server.gtid_question import PROBE_SQL
from proxy.server.query import END_TRANSACTION
from proxy.server.settings import primary_settings
from proxy.server.statement_packet import statement_packet
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.session.session import Session
from routing.session.variables import SHOWN_BY_DEFAULT, followed
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.waiting import PATIENCE_S

MODERN: Final = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
NEWEST: Final = "SELECT MAX(a) FROM app.bent LIMIT 1"

SQL_MODES: Final = (
    *("REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "ANSI"),
    *("NO_UNSIGNED_SUBTRACTION", "NO_BACKSLASH_ESCAPES", "STRICT_ALL_TABLES", "TRADITIONAL"),
    *("ERROR_FOR_DIVISION_BY_ZERO", "HIGH_NOT_PRECEDENCE", "PAD_CHAR_TO_FULL_LENGTH"),
    "TIME_TRUNCATE_FRACTIONAL",
)
WIDE: Final = ("ucs2", "utf16", "utf16le", "utf32")
"""Character sets that no client can send statements in."""
ODD: Final = (*WIDE, "binary", "swe7", "sjis", "gb18030")
OTHERS: Final = (
    "completion_type = CHAIN",
    "completion_type = 2",  # RELEASE
    "cte_max_recursion_depth = 0",
    "default_collation_for_utf8mb4 = utf8mb4_general_ci",
    "div_precision_increment = 0",
    "group_concat_max_len = 4",
    "lc_messages = ja_JP",
    "max_error_count = 0",
    "max_execution_time = 4",
    "max_join_size = 1",
    "max_sort_length = 4",
    "optimizer_switch = 'hypergraph_optimizer=on'",
    "sql_big_selects = 0",
    "sql_buffer_result = 1",
    "sql_mode = ''",
    "sql_safe_updates = 1",
    "sql_select_limit = 0",
    "sql_select_limit = 1",
    "time_zone = '+14:00'",
    "timestamp = 1",
    "transaction_isolation = 'SERIALIZABLE'",
    "transaction_isolation = 'READ-UNCOMMITTED'",
    "use_secondary_engine = OFF",
    "windowing_use_high_precision = OFF",
    *(f"sql_mode = '{mode}'" for mode in SQL_MODES),
    f"sql_mode = '{','.join(SQL_MODES)}'",
)


def character_sets(cluster: Cluster) -> list[str]:
    rows = cluster.primary.query(
        "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS ORDER BY 1"
    )
    return [str(name) for (name,) in rows]


def settings_of_clients(cluster: Cluster) -> list[str]:
    """What a client may set, of which replicas are told most."""
    settings = [f"SET {other}" for other in OTHERS]
    others = (*WIDE, "swe7")  # swe7 keeps a session on the primary
    settings += [f"SET NAMES {name}" for name in character_sets(cluster) if name not in others]
    for name in ODD:
        settings += [
            f"SET character_set_connection = {name}",
            f"SET character_set_results = {name}",
            f"SET character_set_filesystem = {name}",
        ]
    settings.append("SET character_set_results = NULL")
    settings.append("SET collation_connection = utf32_general_ci")
    return settings


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    """A proxy whose reads wait, be it in vain, and are audited."""
    options: dict[str, str | None] = {
        "wait_budget": "10ms",
        "on_timeout": "error",
        "self_audit": "1",
    }
    proxy = RunningProxy(cluster, "bent", options)
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


def make_account(cluster: Cluster) -> tuple[str, str]:
    """One that may set whatever a session has."""
    cluster.primary.query("CREATE USER IF NOT EXISTS 'bent'@'%' IDENTIFIED BY 'bent-secret'")
    cluster.primary.query("GRANT ALL ON app.* TO 'bent'@'%'")
    cluster.primary.query("GRANT SESSION_VARIABLES_ADMIN ON *.* TO 'bent'@'%'")
    cluster.wait_caught_up()
    return "bent", "bent-secret"


def waited_in_vain(client: RawClient) -> str:
    """Empty for a read that waited until its budget ran out, else what it got."""
    end = time.monotonic() + PATIENCE_S
    while True:
        packets = client.query(NEWEST)
        last = packets[-1][1]
        if last[:1] == b"\xff":
            error = ErrPacket.parse(last)
            # Where letters have zero bytes, an error has no text.
            tells = "wait budget" in error.message or len(error.message) < 2
            return "" if error.code == 3024 and tells else str(error)
        (record,) = client.query("SHOW TIDEGATE LAST")[-2:-1]
        if b"replica_behind" not in record[1] or time.monotonic() > end:
            return f"an answer: {packets[2:-1]} {record[1]!r}"
        # The answer to the read before has come too late and is still read: the primary answers.
        time.sleep(0.005)


def test_a_read_waits_for_its_write_under_every_setting(
    cluster: Cluster, running: RunningProxy
) -> None:
    """Where its WAIT were taken for one for nothing, it would be stale, and others' reads, too."""
    cluster.primary.query("CREATE TABLE app.bent (a INT AUTO_INCREMENT PRIMARY KEY)")
    account = make_account(cluster)
    wrong = {}
    with (
        RawClient(running.address, *account, MODERN) as session,
        RawClient(running.address, *account, MODERN) as other,
    ):
        other.query("SET tidegate_scope = 'user'")
        assert other.query(NEWEST)[2][1] == b"\xfb"
        for replica in cluster.replicas:
            replica.stop_applier()
        for setting in settings_of_clients(cluster):
            assert session.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)[0][1][0] == 0
            for statement in (setting, "INSERT INTO app.bent () VALUES ()"):
                (answer,) = session.query(statement)
                assert answer[1][0] == 0, (statement, answer)
            if found := waited_in_vain(session) or waited_in_vain(other):
                wrong[setting] = found
    assert wrong == {}
    assert running.metric("tidegate_audited_reads_total", result="unanswered") == 0


# The statements themselves, under whatever a session can have.


def only(batch: Batch) -> bytes:
    """The packet of a batch of one command."""
    ((_, packet),) = batch
    return packet


def packet_of(sql: bytes) -> bytes:
    return statement_packet(sql, False)


def own_statements(executed: GtidSet) -> dict[str, tuple[bytes, bytes]]:
    """Packets of the proxy's, and the row that each must be answered with, or nothing."""
    source = executed.tsids[0]
    more = GtidSet({source: [(1, 1_000_000)]})
    rules = Rules(Level.STRONG, Scope.CONNECTION, 0.2, TimeoutPolicy.PRIMARY)
    state, limited = Session(rules, 0), Session(rules, 0)
    limited.set_variable("max_execution_time", "1")
    settings = primary_settings(1 << 20, "OWN_GTID")
    names = followed(SHOWN_BY_DEFAULT)
    applied, missing = b"\x010\x011", b"\x011\x010"
    return {
        "wait, there": (only(wait(state, executed, 0.001, "", False)), applied),
        "wait, missing": (
            only(wait(limited, more, 0.003, columns(executed), False)),
            missing + b"\x011\x011",
        ),
        "confirm, there": (only(confirm(state, columns(executed), False)), b"\x011\x011"),
        "confirm, missing": (only(confirm(limited, columns(more), False)), b"\x010\x011"),
        "audit, there": (only(audit(state, executed, False)), b"\x011"),
        "audit, missing": (only(audit(limited, more, False)), b"\x010"),
        "probe": (packet_of(PROBE_SQL), b"?"),
        "settle": (only(wait_for_owned(0.001, False)), b"\x011"),
        "settle, seen": (only(wait_for_owned(0.001, False, executed)), b"\x011"),
        "settings": (packet_of(settings), b""),
        "settings made": (
            packet_of(
                b"SELECT CONVERT(TRIM(TRAILING _latin1',' FROM @@session_track_system_variables)"
                b" USING binary)=_binary'%b',@@session_track_schema,@@session_track_state_change,"
                b"CONVERT(@@session_track_gtids USING binary)=_binary'OWN_GTID' LIMIT 1"
                % names.encode(),
            ),
            b"\x011" * 4,
        ),
        "transaction": (packet_of(b"START TRANSACTION READ ONLY"), b""),
        "its end": (packet_of(END_TRANSACTION), b""),
        "no transaction": (packet_of(b"SELECT 1 LIMIT 1"), b"\x011"),
    }


def every_setting(cluster: Cluster) -> list[str]:
    """Each session variable's lowest and highest value, each collation, and what has names."""
    server = cluster.primary
    settings = list(OTHERS)
    bounds = server.query(
        "SELECT i.VARIABLE_NAME, i.MIN_VALUE, i.MAX_VALUE, s.VARIABLE_VALUE"
        " FROM performance_schema.variables_info i"
        " JOIN performance_schema.session_variables s USING (VARIABLE_NAME)"
    )
    for name, least, most, value in bounds:
        if value in ("ON", "OFF"):
            settings += [f"{name} = ON", f"{name} = OFF"]
        elif str(value).isdigit() and most not in (None, "", "0"):
            settings += [f"{name} = {least}", f"{name} = {most}", f"{name} = 1"]
    for name in character_sets(cluster):
        settings += [f"character_set_results = {name}", f"character_set_filesystem = {name}"]
        if name not in WIDE:
            settings.append(f"NAMES {name}")
    rows = server.query("SELECT COLLATION_NAME FROM information_schema.COLLATIONS ORDER BY 1")
    settings += [f"collation_connection = {name}" for (name,) in rows]
    return [f"SET {setting}" for setting in settings]


def row_of(packets: list[Packet]) -> bytes:
    """What was answered: a row, nothing, or an error; behind it ``+`` inside a transaction."""
    first, last = packets[0][1], packets[-1][1]
    if last[:1] == b"\xff":
        return str(ErrPacket.parse(last)).encode()
    if first[:1] == b"\0":
        return b""
    rows = packets[1 + first[0] : -1]
    open_transaction = b"+" if last[3] & 1 else b""
    return b" ".join(payload for _, payload in rows) + open_transaction


def test_the_proxys_statements_mean_the_same_under_every_setting(cluster: Cluster) -> None:
    cluster.primary.query("CREATE TABLE app.any (a INT)")
    account = make_account(cluster)
    server = cluster.primary
    executed = GtidSet.parse(server.gtid_executed)
    wrong: dict[str, dict[str, bytes]] = {}
    counted = 0
    with (
        closing(server.connect(*account)) as owner,
        RawClient(server.address, *account, MODERN, database="app") as session,
    ):
        with owner.cursor() as cursor:  # something that is being committed
            cursor.execute(f"SET gtid_next = '{executed.tsids[0]}:2000000'")
        statements = own_statements(executed)
        probe = row_of(session.query(PROBE_SQL.decode()))
        assert b":2000000#" in probe
        for setting in every_setting(cluster):
            session.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
            ((_, answer),) = session.query(setting)
            if answer[0] != 0:
                continue  # no session variable, or no value of it
            counted += 1
            for name, (packet, expected) in statements.items():
                session.send(packet)
                found = row_of(session.answer())
                if found != (probe if name == "probe" else expected):
                    wrong.setdefault(setting, {})[name] = found
    assert wrong == {}
    assert counted > 700


CARRIED = {
    "sql_mode": "ANSI_QUOTES,NO_ZERO_DATE",
    "time_zone": "+03:00",
    "lc_time_names": "de_DE",
    "block_encryption_mode": "aes-256-cbc",
    "transaction_isolation": "READ-COMMITTED",
    "optimizer_switch": "mrr=off",
    "collation_server": "latin1_bin",
    "sql_big_selects": "ON",
}
WIDE_COLLATIONS = [f"{name}_general_ci" for name in sorted(WIDE)]


@pytest.mark.parametrize("introducer", ["", "_latin1"], ids=["before", "behind"])
def test_what_a_session_carries_means_the_same_under_every_collation(
    cluster: Cluster, running: RunningProxy, introducer: str
) -> None:
    """Where it is set before the collation, it is told to a replica again behind it."""
    account = make_account(cluster)
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.carried AS SELECT 7 AS a")
    cluster.wait_caught_up()
    read = (
        'SELECT "a", FROM_UNIXTIME(0) + 0, CONVERT(MONTHNAME(FROM_UNIXTIME(0)) USING latin1),'
        " HEX(AES_ENCRYPT(1, 1, REPEAT(1, 16))) FROM app.carried"
    )
    # Of optimizer_switch no tracker tells, and what is no plain literal pins.
    carried = [name for name in CARRIED if not introducer or name != "optimizer_switch"]
    assignments = [f"{name} = {introducer}'{CARRIED[name]}'" for name in carried]
    elsewhere = {}
    for collation in WIDE_COLLATIONS:
        bends = f"SET collation_connection = {collation}"
        sets = f"SET {', '.join(assignments)}"
        steps = [bends, sets] if introducer else [sets, bends]
        with (
            RawClient(running.address, *account, MODERN) as session,
            RawClient(cluster.primary.address, *account, MODERN) as direct,
        ):
            for step in (*steps, "SET sql_select_limit = 77", "SET sql_select_limit = 78"):
                for client in (session, direct):
                    ok = client.query(step)[-1][1]
                    assert ok[0] != 0xFF, (step, ErrPacket.parse(ok))
                assert row_of(session.query(read)) == row_of(direct.query(read)), collation
                last = row_of(session.query("SHOW TIDEGATE LAST"))
                if b"replica" not in last or b"refused" in last:
                    elsewhere[collation] = (step, last)
    assert elsewhere == {}


@pytest.mark.parametrize("shown", ["", "time_zone", "a", "ab", "abc", "abcd", "*"])
def test_names_to_be_tracked_are_read_in_every_character_set(cluster: Cluster, shown: str) -> None:
    account = make_account(cluster)
    lost = []
    with RawClient(cluster.primary.address, *account, MODERN) as session:
        for name in character_sets(cluster):
            session.query(f"SET character_set_filesystem = {name}")
            settings = primary_settings(1 << 20, "", shown, wide=name in WIDE)
            session.query(settings.decode())
            session.query("SET sql_mode = ''")
            if b"sql_mode" not in session.query("SET sql_mode = 'ANSI'")[0][1]:
                lost.append(name)
    assert lost == []
