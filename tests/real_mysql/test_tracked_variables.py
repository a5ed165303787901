"""What a client tracks of system variables is reported as at a server, whatever it sets it to."""

from itertools import product

import pytest

from protocol.constants import Capability, Command
from protocol.response import OkPacket
from protocol.response_stream import PREPARED
from protocol.session_track import entries
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

CAPABILITIES = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
LISTS = [
    "'*'",
    "'time_zone'",
    "''",
    "'session_track_system_variables'",
    "'time_zone,session_track_system_variables'",
    "'session_track_gtids,session_track_state_change'",
    "DEFAULT",
    "NULL",
]
SNAPSHOT_AFTER = [
    *("SET time_zone = '+01:00'", "DO 1", "SET sql_mode = 'ANSI'", "SET NAMES latin1"),
    *("SELECT @@session_track_system_variables", "SET session_track_gtids = OWN_GTID"),
    *("SET session_track_state_change = ON", "SET sql_mode = ''"),
]


def sessions() -> list[list[str]]:
    assigned = "session_track_system_variables = "
    found = []
    for first, second in product(LISTS, repeat=2):
        for form in ("SET {}", "SET {}, sql_mode = ''", "SET sql_mode = '', {}"):
            found.append(
                [form.format(assigned + value) for value in (first, second)] + SNAPSHOT_AFTER
            )
    return found


def reported(packets: list[Packet]) -> list[tuple[int, bytes]]:
    """The trackers of an answer but the statement's number, which each server counts itself.

    An empty list of trackers and none are not told apart.
    """
    ok = OkPacket.parse(packets[-1][1], CAPABILITIES)
    return [found for found in entries(ok.session_state or b"") if b"statement_id" not in found[1]]


def test_what_is_tracked_is_reported(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    for session in sessions():
        found = []
        for address in (cluster.primary.address, running.address):
            with RawClient(address, APP_USER, APP_PASSWORD, CAPABILITIES, "app") as client:
                found.append([(sql, reported(client.query(sql))) for sql in session])
        assert found[0] == found[1]


ISOLATION = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
TRACKING = [
    "DO 1",
    *("SET session_track_gtids = OWN_GTID", "SET session_track_state_change = ON"),
    *("SET session_track_schema = OFF", "SET session_track_system_variables = 'autocommit'"),
]
READ = "SELECT * FROM app.tracked"
WRITE = "UPDATE app.tracked SET id = id"
TRANSACTIONS = [
    ["SET autocommit = 0", READ, "COMMIT", READ, "ROLLBACK", "DO 1"],
    ["SET autocommit = 0", READ, "SET autocommit = 1", READ],
    ["SET autocommit = 0", READ, WRITE, "COMMIT", "COMMIT", "BEGIN", READ, "COMMIT", READ],
    ["SET autocommit = 0", WRITE, "COMMIT", READ, "ROLLBACK"],
    ["BEGIN", READ, "COMMIT", "BEGIN", READ, WRITE, "ROLLBACK", "BEGIN", "BEGIN", "COMMIT"],
    ["START TRANSACTION READ ONLY", READ, READ, "COMMIT"],
    ["SET TRANSACTION READ ONLY", "BEGIN", READ, "COMMIT"],
]


def test_a_transaction_is_reported_as_a_server_reports_it(
    cluster: Cluster, proxy: StartProxy
) -> None:
    cluster.primary.query("CREATE TABLE app.tracked (id INT PRIMARY KEY)")
    cluster.wait_caught_up()
    running = proxy()
    for level, tracking, statements in product(ISOLATION, TRACKING, TRANSACTIONS):
        session = [f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", tracking, *statements]
        found = []
        for address in (cluster.primary.address, running.address):
            with RawClient(address, APP_USER, APP_PASSWORD, CAPABILITIES, "app") as client:
                found.append([(sql, reported(client.query(sql))) for sql in session])
        assert found[0] == found[1], session


DEFAULTS = {
    "session_track_gtids": ["OWN_GTID", "ALL_GTIDS"],
    "session_track_schema": ["OFF"],
    "session_track_state_change": ["ON"],
    "session_track_system_variables": ["'*'", "''"],
    "session_track_transaction_info": ["STATE", "CHARACTERISTICS"],
}
READS = ["SELECT COUNT(*) FROM app.read_only", "SELECT id FROM app.read_only WHERE id > 5"]
SESSION = [*READS, "DO 1", "BEGIN", *READS, "COMMIT", "SET time_zone = '+01:00'", *READS]


@pytest.mark.parametrize("eof", [Capability.CLIENT_DEPRECATE_EOF, Capability(0)])
@pytest.mark.parametrize("level", ["READ_OWN_WRITES", "MONOTONIC_READS"])
def test_a_client_sees_nothing_of_what_replicas_track_by_default(
    cluster: Cluster, proxy: StartProxy, eof: Capability, level: str
) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.read_only (id INT PRIMARY KEY)")
    cluster.primary.query("REPLACE INTO app.read_only VALUES (1), (6)")
    cluster.wait_caught_up()
    capabilities = eof | Capability.CLIENT_SESSION_TRACK

    def answers(address: str) -> list[tuple[str, list[Packet]]]:
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            found = [(sql, client.query(sql)) for sql in SESSION]
            for sql in READS:
                head = client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)[0][1]
                body = head[1:5] + b"\0\1\0\0\0"
                found += [(sql, client.command(Command.COM_STMT_EXECUTE, body))] * 2
            return found

    expected = answers(cluster.primary.address)
    for name, values in DEFAULTS.items():
        for value in values:
            for replica in cluster.replicas:
                replica.query(f"SET GLOBAL {name} = {value}")
            running = proxy(consistency=level)
            assert answers(running.address) == expected, (name, value)
            for replica in cluster.replicas:
                replica.query(f"SET GLOBAL {name} = DEFAULT")
            running.stop()
