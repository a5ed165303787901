"""Host names that lead to other addresses while the proxy runs.

Two servers have the same port, on 127.0.0.1 and on 127.0.0.2, and both live on: only the name says
which of them is meant.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
from pathlib import Path

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.statements import run
from tests.support.waiting import until

NAME = "db.test"
WHO = "SELECT server FROM app.place"
OLD, NEW = "127.0.0.1", "127.0.0.2"


class Names:
    """The file that a proxy's names are in."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def set(self, *addresses: str) -> None:
        """What the name leads to from now on."""
        new = self.path.with_suffix(".new")
        new.write_text("".join(f"{address} {NAME}\n" for address in addresses))
        new.replace(self.path)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Names:
    """A file of names; at first the name leads to 127.0.0.1."""
    found = Names(tmp_path / "names")
    found.set(OLD)
    monkeypatch.setenv("TIDEGATE_TEST_NAMES", str(found.path))
    return found


def beside(server: RealServer, other: RealServer) -> None:
    """Let a server have the port of another one, at 127.0.0.2."""
    server.kill()  # faster than an end in good order, and nothing is lost
    server.start(f"--bind-address={NEW}", f"--port={other.port}")


def mark(server: RealServer) -> None:
    """Let a table there, and only there, have the server's name."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SET GLOBAL super_read_only = OFF")
        cursor.execute("SET sql_log_bin = OFF")
        cursor.execute("UPDATE app.place SET server = %s", (server.name,))
        if server.name != "primary":
            cursor.execute("SET GLOBAL super_read_only = ON")


@pytest.fixture(autouse=True)
def place(cluster: Cluster) -> None:
    """A table that says which server was asked."""
    cluster.primary.query("DROP TABLE IF EXISTS app.place")
    cluster.primary.query("CREATE TABLE app.place (server VARCHAR(20))")
    cluster.primary.query("INSERT INTO app.place VALUES ('')")
    cluster.wait_caught_up()
    for server in cluster.servers:
        mark(server)


@pytest.fixture
def replicas(cluster: Cluster) -> list[RealServer]:
    """Both, with one port."""
    old, new = cluster.replicas
    beside(new, old)
    cluster.wait_caught_up()
    return cluster.replicas


def start(proxy: StartProxy, **options: str | None) -> RunningProxy:
    return proxy(
        module="tests.real_mysql.movable_names",
        consistency="BEST_EFFORT",
        monitor_interval="100ms",
        **options,
    )


def answers(session: Connection[Cursor], server: RealServer) -> bool:
    return run(session, WHO) == [(server.name,)]


def test_a_session_and_the_monitor_follow_the_name_of_a_replica(
    proxy: StartProxy, names: Names, replicas: list[RealServer]
) -> None:
    old, new = replicas
    running = start(proxy, replicas=f"{NAME}:{old.port}")
    with running.connect() as session:
        assert answers(session, old)
        names.set()
        until(lambda: "cannot be looked up" in running.stderr, "the failure is logged")
        uuids = old.server_uuid, new.server_uuid
        names.set(NEW)
        until(lambda: answers(session, new), "the session reads from the new address")
        assert f"does not lead to {OLD} any more, but to {NEW}" in running.stderr
        warning = f"another server now: {uuids[1]} at {NEW}, where {uuids[0]} at {OLD} was before"
        until(lambda: warning in running.stderr, "the log names both")
        assert "is known again" in running.stderr
        # Nothing leads to the old one any more.
        until(lambda: of_clients(old) == 0, "no connection to the old server is left")
        assert answers(session, new)


def of_clients(server: RealServer) -> int:
    found = server.value(
        "SELECT COUNT(*) FROM performance_schema.processlist WHERE USER IN ('app', 'monitor')"
    )
    return int(found)


@pytest.mark.parametrize("fault", [(), ("hang",)], ids=["unknown", "hangs"])
def test_a_resolver_without_an_answer_takes_no_server_down(
    cluster: Cluster, proxy: StartProxy, names: Names, fault: tuple[str, ...]
) -> None:
    old = cluster.replicas[0]
    running = start(proxy, replicas=f"{NAME}:{old.port}", kept_connections="0")
    with running.connect() as session:
        assert answers(session, old)
        names.set(*fault)
        if not fault:
            until(lambda: "cannot be looked up" in running.stderr, "the failure is logged")
        until(lambda: new_session_reads(running, old), "new sessions read there")
        assert answers(session, old)
        assert "is down" not in running.stderr
        assert "cannot be reached" not in running.stderr


def test_a_name_that_was_never_known_holds_up_nothing_else(
    cluster: Cluster, proxy: StartProxy, names: Names
) -> None:
    names.set("hang")
    other = cluster.replicas[0]
    running = start(proxy, replicas=f"{NAME}:3306,{other.address}", connect_timeout="1s")
    assert new_session_reads(running, other)


def new_session_reads(running: RunningProxy, server: RealServer) -> bool:
    with running.connect() as session:
        return answers(session, server)


@pytest.mark.deep
def test_answers_that_rotate_do_not_move_a_server(
    proxy: StartProxy, names: Names, replicas: list[RealServer]
) -> None:
    old, new = replicas
    names.set(f"{OLD},{NEW},{NEW}")
    running = start(proxy, replicas=f"{NAME}:{old.port}")
    with running.connect() as session:
        (first,) = run(session, WHO)
        until(lambda: "several addresses in turn" in running.stderr, "the rotation is noticed")
        for _ in range(30):
            assert run(session, WHO) == [first]
            assert new_session_reads(running, old if first == (old.name,) else new)
        assert "another server now" not in running.stderr
        assert "does not lead to" not in running.stderr


def test_an_address_where_nobody_listens_is_passed_over(
    cluster: Cluster, proxy: StartProxy, names: Names
) -> None:
    old = cluster.replicas[0]
    names.set("127.0.0.3", OLD)
    running = start(proxy, replicas=f"{NAME}:{old.port}")
    with running.connect() as session:
        assert answers(session, old)
        assert "is down" not in running.stderr


def test_another_server_under_the_name_of_the_primary_is_a_new_incarnation(
    cluster: Cluster, proxy: StartProxy, names: Names
) -> None:
    old, new = cluster.primary, cluster.replicas[1]
    beside(new, old)
    cluster.wait_caught_up()
    new.query("STOP REPLICA")
    new.query("RESET REPLICA ALL")
    new.query("SET GLOBAL super_read_only = OFF")
    new.query("SET GLOBAL read_only = OFF")
    running = start(proxy, primary=f"{NAME}:{old.port}", replicas=cluster.replicas[0].address)
    with running.connect() as session:
        run(session, "INSERT INTO app.place VALUES ('a')")
        names.set(NEW)
        until(lambda: writes(session, new), "the session ends, or writes to the other server")
        assert "another server now" in running.stderr
        executed = old.gtid_executed
        writes(session, new)
    with running.connect() as session:
        run(session, "INSERT INTO app.place VALUES ('c')")
    assert old.gtid_executed == executed
    assert new.query("SELECT COUNT(*) FROM app.place WHERE server = 'c'") == [(1,)]


def writes(session: Connection[Cursor], server: RealServer) -> bool:
    """Whether what a session writes is there, or the session has ended."""
    try:
        run(session, "INSERT INTO app.place VALUES ('b')")
    except pymysql.err.OperationalError:
        return not session.open
    except pymysql.err.InterfaceError:
        return True
    return server.query("SELECT COUNT(*) FROM app.place WHERE server = 'b'") != [(0,)]


@pytest.mark.deep
def test_sessions_stay_with_a_primary_that_only_has_another_address(
    cluster: Cluster, proxy: StartProxy, names: Names
) -> None:
    primary = cluster.primary
    primary.restart(f"--bind-address={OLD},{NEW}")
    running = start(proxy, primary=f"{NAME}:{primary.port}")
    with running.connect() as session:
        (before,) = run(session, "SELECT CONNECTION_ID()")
        names.set(NEW)
        until(lambda: "does not lead to" in running.stderr, "the move is noticed")
        run(session, "INSERT INTO app.place VALUES ('d')")
        assert run(session, "SELECT CONNECTION_ID()") == [before]
        assert "another server now" not in running.stderr
        assert "is down" not in running.stderr


def test_a_primary_that_is_named_twice_has_no_rival(
    cluster: Cluster, proxy: StartProxy, names: Names
) -> None:
    """A name of its own leads to whichever server is the primary, and all are named as well."""
    primary, first, second = cluster.servers
    running = start(
        proxy,
        primary=f"{NAME}:{primary.port}",
        replicas=f"{primary.address},{first.address},{second.address}",
        failover="read_only",
    )
    with running.connect() as session:
        run(session, "INSERT INTO app.place VALUES ('e')")
    until(lambda: "are one server" in running.stderr, "the log says so")
    assert "takes writes, too" not in running.stderr


def test_a_transaction_never_reads_from_two_servers(
    proxy: StartProxy, names: Names, replicas: list[RealServer]
) -> None:
    old, new = replicas
    running = start(proxy, replicas=f"{NAME}:{old.port}")
    with running.connect() as session, running.connect() as other:
        run(session, "START TRANSACTION READ ONLY")
        assert answers(session, old)
        names.set(NEW)
        until(lambda: answers(other, new), "others read from the new address")
        with contextlib.suppress(pymysql.err.OperationalError):
            assert answers(session, old)
            run(session, "COMMIT")
            assert answers(session, new)
