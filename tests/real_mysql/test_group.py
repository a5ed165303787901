"""A group of three members: who its primary is, who may be read, and what its clients meet."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pymysql
import pytest

from proxy.client.statements.wait_for_owned import wait_for_owned
from tests.real_mysql.conftest import proxies_before
from tests.real_mysql.group_cluster import GROUP, GroupCluster
from tests.real_mysql.required_mysqld import required_mysqld
from tests.support.gtid_sets import gtids
from tests.support.services import needs

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

    from protocol.gtid import GtidSet
    from tests.real_mysql.conftest import StartProxy
    from tests.real_mysql.running_proxy import RunningProxy
    from tests.real_mysql.server import RealServer

    Client = Connection[Cursor]


@pytest.fixture(scope="module")
@needs("real_mysql")
def group() -> Iterator[GroupCluster]:
    with GroupCluster(required_mysqld()) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def _empty_schema(group: GroupCluster) -> None:
    """In place of the fixture that empties the other cluster."""


@pytest.fixture(autouse=True)
def _healed(group: GroupCluster) -> None:
    """Likewise."""
    group.heal()
    group.clear()
    group.primary.query("CREATE TABLE app.t (id INT PRIMARY KEY)")
    group.wait_caught_up()


INSERT = "INSERT INTO t VALUES (%d)"


@pytest.fixture
def proxy(group: GroupCluster) -> Iterator[StartProxy]:
    """Starts Tidegate before the group, with one seed: the member that is the primary at first."""
    with proxies_before(
        group,
        topology="group",
        replicas=None,
        monitor_interval="100ms",
        connect_timeout="1s",
    ) as start:
        yield start


def value(client: Client, sql: str) -> object:
    with client.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
        return row[0] if row else None


def servers(running: RunningProxy) -> dict[str, str]:
    """The servers' roles, by name."""
    while True:
        try:
            with running.connect() as client, client.cursor() as cursor:
                cursor.execute("SHOW TIDEGATE SERVERS")
                return {str(row[0]): str(row[1]) for row in cursor.fetchall()}
        except pymysql.err.OperationalError as error:
            if error.args[0] != 2013:  # its worker has just learnt of another primary
                raise


def readers(running: RunningProxy, group: GroupCluster) -> set[str]:
    """Which servers answer reads now, asked by several sessions."""
    found = set()
    for _ in range(12):
        with running.connect() as client:
            value(client, "SELECT COUNT(*) FROM t")
            with client.cursor() as cursor:
                cursor.execute("SHOW TIDEGATE LAST")
                row = cursor.fetchone()
                found.add(str(row[2]) if row else "")
    return found


def wait_for_readers(running: RunningProxy, group: GroupCluster, *expected: RealServer) -> None:
    names = {server.address for server in expected}
    group.wait(lambda: readers(running, group) == names)


def write(running: RunningProxy, number: int) -> None:
    with running.connect() as client:
        value(client, INSERT % number)


def wait_for_write(running: RunningProxy, group: GroupCluster, number: int) -> None:
    """Write as soon as writes are served; until then they are refused, and at once."""

    def written() -> bool:
        try:
            write(running, number)
        except pymysql.err.MySQLError:
            return False
        return True

    group.wait(written)


def test_members_are_found_by_one_seed_and_read(group: GroupCluster, proxy: StartProxy) -> None:
    running = proxy()
    first, second, third = group.servers
    assert servers(running) == {
        first.address: "primary",
        second.address: "replica",
        third.address: "replica",
    }
    wait_for_readers(running, group, second, third)
    with running.connect() as client:
        for number in range(20):
            value(client, INSERT % number)
            assert value(client, "SELECT COUNT(*) FROM t") == number + 1
    assert "has transactions that the primary has not" not in running.stderr


@pytest.mark.parametrize("seed", [1, 2])
def test_any_member_is_seed_enough(group: GroupCluster, proxy: StartProxy, seed: int) -> None:
    running = proxy(primary=group.servers[seed].address)
    assert servers(running)[group.primary.address] == "primary"
    write(running, 1)
    others = [server for server in group.servers if server is not group.primary]
    wait_for_readers(running, group, *others)


def test_auto_finds_the_group(group: GroupCluster, proxy: StartProxy) -> None:
    running = proxy(topology="auto", primary=group.servers[1].address)
    assert servers(running)[group.primary.address] == "primary"
    assert len(servers(running)) == 3


def test_an_elected_primary_is_followed_by_all_workers(
    group: GroupCluster, proxy: StartProxy
) -> None:
    running = proxy(workers="2")
    write(running, 1)
    for number, server in enumerate([*group.servers[1:], group.servers[0]], start=2):
        group.switch_to(server)
        wait_for_write(running, group, number)
        group.wait(lambda: all(servers(running)[server.address] == "primary" for _ in range(6)))  # noqa: B023
        with running.connect() as client:
            assert value(client, "SELECT COUNT(*) FROM t") == number
    assert "are gone from the primary" not in running.stderr
    assert running.stderr.count("is the primary now") <= 6  # three times by each worker


def test_the_configured_primary_of_a_static_topology_names_the_option(
    group: GroupCluster, proxy: StartProxy
) -> None:
    running = proxy(
        topology="static", replicas=",".join(server.address for server in group.replicas)
    )
    group.switch_to(group.servers[1])
    # Until the other one is seen to take writes, only this one is seen to take none.
    reason = f"{group.servers[1].address} takes writes, but is not followed"
    group.wait(lambda: reason in running.health()[1])
    status, text = running.health()
    assert status == 503
    assert 'topology = "group"' in text
    group.wait(lambda: 'topology = "group"' in running.stderr)
    assert group.servers[1].address in running.stderr


def test_a_member_that_leaves_gets_no_read_and_comes_back(
    group: GroupCluster, proxy: StartProxy
) -> None:
    running = proxy()
    second, third = group.replicas
    wait_for_readers(running, group, second, third)
    sessions = [running.connect() for _ in range(4)]
    third.query("STOP GROUP_REPLICATION")
    wait_for_readers(running, group, second)
    before = third.value("SHOW GLOBAL STATUS LIKE 'Com_select'")
    for number in range(5):
        write(running, number)
        for session in sessions:
            value(session, "SELECT COUNT(*) FROM t")
    assert third.address not in servers(running)
    assert before is not None
    group.join(third)
    wait_for_readers(running, group, second, third)
    assert f"server {third.address} has gone" in running.stderr


def test_a_member_that_recovers_gets_no_read(group: GroupCluster, proxy: StartProxy) -> None:
    running = proxy(replicas=",".join(server.address for server in group.replicas))
    first, second, third = group.servers
    wait_for_readers(running, group, second, third)
    third.query("STOP GROUP_REPLICATION")
    wait_for_readers(running, group, second)
    third.query("SET GLOBAL super_read_only = ON")
    with third.admin() as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLES app.t READ")
        write(running, 1)
        group.join(third)
        group.wait(lambda: group.members(first).get(third.port, ("",))[0] == "RECOVERING")
        time.sleep(1)
        assert readers(running, group) == {second.address}
        assert group.members(first)[third.port][0] == "RECOVERING"
    wait_for_readers(running, group, second, third)


@pytest.mark.parametrize("topology", ["static", "group"])
def test_what_is_written_under_a_tag_is_read_back_from_a_replica(
    group: GroupCluster, proxy: StartProxy, topology: str
) -> None:
    replicas = ",".join(server.address for server in group.replicas)
    running = proxy(topology=topology, replicas=replicas, wait_budget="250ms")
    wait_for_readers(running, group, *group.replicas)
    with running.connect() as client, client.cursor() as cursor:
        value(client, "SET gtid_next = 'AUTOMATIC:tagged'")
        for number in range(5):
            value(client, INSERT % number)
            assert value(client, "SELECT COUNT(*) FROM t") == number + 1
            cursor.execute("SHOW TIDEGATE LAST")
            row = cursor.fetchone()
            assert row is not None
            assert (row[3], f"{GROUP}:tagged:" in str(row[8])) == ("replica", True), row
        value(client, "SET gtid_next = AUTOMATIC")
        value(client, "INSERT INTO t VALUES (100)")
        assert value(client, "SELECT COUNT(*) FROM t") == 6
        cursor.execute("SHOW TIDEGATE LAST")
        row = cursor.fetchone()
        assert row is not None
        assert row[3] == "replica"


def test_without_a_quorum_writes_fail_at_once_and_reads_go_on(
    group: GroupCluster, proxy: StartProxy
) -> None:
    running = proxy()
    second, third = group.replicas
    wait_for_readers(running, group, second, third)
    write(running, 1)
    session, strong, stuck = running.connect(), running.connect(), running.connect()
    assert value(session, "SELECT COUNT(*) FROM t") == 1
    value(strong, "SET tidegate_consistency = 'STRONG'")
    value(strong, "SELECT COUNT(*) FROM t")
    second.pause()
    third.pause()
    # Before the members know it, a write may be sent; the group will not answer it.
    errors: list[pymysql.err.MySQLError] = []

    def hangs() -> None:
        try:
            value(stuck, "INSERT INTO t VALUES (1000)")
        except pymysql.err.MySQLError as error:
            errors.append(error)

    writer = threading.Thread(target=hangs)
    writer.start()
    group.wait(lambda: running.health()[0] == 503)
    writer.join(20)
    assert not writer.is_alive()
    (error,) = errors
    assert error.args[0] == 2013
    (logged,) = (line for line in running.stderr.splitlines() if "lost its connection" in line)
    assert "quorum" in logged
    assert "is not known" in logged
    with pytest.raises(pymysql.err.OperationalError, match="quorum") as caught:
        value(session, "INSERT INTO t VALUES (2)")
    assert caught.value.args[0] == 1290
    assert second.address in str(caught.value)
    assert value(session, "SELECT COUNT(*) FROM t") == 1  # the session goes on
    with pytest.raises(pymysql.err.OperationalError, match="quorum"):
        value(strong, "SELECT COUNT(*) FROM t")
    status, text = running.health()
    assert (status, "quorum" in text) == (503, True)
    assert running.metric("tidegate_group_without_quorum") == 1
    second.resume()
    third.resume()
    group.heal()
    wait_for_write(running, group, 3)
    assert running.metric("tidegate_group_without_quorum") == 0


def test_in_multi_primary_mode_one_gets_all_writes(group: GroupCluster, proxy: StartProxy) -> None:
    running = proxy()
    wait_for_readers(running, group, *group.replicas)
    write(running, 1)
    group.primary.query("SELECT group_replication_switch_to_multi_primary_mode()")
    group.wait(lambda: "multi-primary mode" in running.stderr)
    assert f"all writes go to {group.primary.address}" in running.stderr
    for number in range(2, 6):
        write(running, number)
    wait_for_readers(running, group, *group.replicas)
    with group.replicas[0].connect() as direct:
        value(direct, INSERT % 100)
    group.wait_caught_up()
    with running.connect() as client:
        assert value(client, "SELECT COUNT(*) FROM t") == 6
    roles = servers(running)
    assert roles[group.primary.address] == "primary"
    assert "has transactions that the primary has not" not in running.stderr


def test_who_may_not_ask_is_told_what_to_grant(group: GroupCluster, proxy: StartProxy) -> None:
    query = group.primary.query
    query("REVOKE SELECT ON performance_schema.* FROM monitor")
    group.wait_caught_up()
    try:
        running = proxy()
        assert "GRANT SELECT ON performance_schema.replication_group_members" in running.stderr
        assert list(servers(running)) == [group.primary.address]
        write(running, 1)
    finally:
        query("GRANT SELECT ON performance_schema.* TO monitor")
    wait_for_readers(running, group, *group.replicas)


@pytest.mark.parametrize("consistency", ["EVENTUAL", "BEFORE", "AFTER", "BEFORE_AND_AFTER"])
def test_the_groups_own_consistency_changes_no_promise(
    group: GroupCluster, proxy: StartProxy, consistency: str
) -> None:
    for server in group.servers:
        server.query(f"SET GLOBAL group_replication_consistency = '{consistency}'")
    running = proxy()
    wait_for_readers(running, group, *group.replicas)
    with running.connect() as writer, running.connect() as reader:
        value(reader, "SET tidegate_consistency = 'STRONG'")
        for number in range(10):
            value(writer, INSERT % number)
            for client in (writer, reader):
                assert value(client, "SELECT COUNT(*) FROM t") == number + 1


def test_the_primary_is_waited_for_until_it_has_what_a_secondary_has_shown(
    group: GroupCluster,
) -> None:
    def answer(seen: GtidSet) -> str:
        ((_, packet),) = wait_for_owned(0.05, False, seen)
        return group.primary.value(packet[5:].decode("ascii"))

    executed = gtids(group.primary.gtid_executed.replace("\n", ""))
    assert answer(executed) == "0"
    assert answer(executed | gtids(f"{GROUP}:900000")) == "1"


@pytest.mark.deep
@pytest.mark.parametrize("how", ["kill", "pause"])
def test_when_the_primary_dies_the_next_one_is_followed(
    group: GroupCluster, proxy: StartProxy, how: str
) -> None:
    running = proxy(scope="user")
    first, *others = group.servers
    wait_for_readers(running, group, *others)
    write(running, 1)
    getattr(first, how)()
    wait_for_write(running, group, 2)
    new = group.elected(others[0])
    assert new is not None
    group.wait(lambda: servers(running).get(new.address) == "primary")
    with running.connect() as client:
        assert value(client, "SELECT COUNT(*) FROM t") == 2
    assert "are gone from the primary" not in running.stderr
    with contextlib.suppress(KeyError):
        assert servers(running)[first.address] == "replica"
    if how == "pause":
        # It wakes up and takes itself for the primary.
        first.resume()
        for number in range(10, 20):
            wait_for_write(running, group, number)
            assert servers(running)[new.address] == "primary"
        assert first.address not in readers(running, group)
    running.stop()
