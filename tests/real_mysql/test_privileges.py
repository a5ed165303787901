"""Rights that were given or taken away count on replicas when they would count on one server.

A server keeps a session's global rights from its login on, and those for the default schema from
USE on; SET ROLE renews both. Rights for tables it looks up for each statement.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run

USER, PASSWORD = "holder", "holder-secret"
READS = ("SELECT a FROM here.t", "SELECT a FROM there.t")


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    for schema in ("here", "there"):
        cluster.primary.query(f"CREATE DATABASE {schema}")
        cluster.primary.query(f"CREATE TABLE {schema}.t AS SELECT 1 AS a")
    # Behind a role's first SET ROLE the primary would be asked for its views.
    # And an account is made anew for each test, with other roles.
    options: dict[str, str | None] = {"wait_budget": "10s", "view_age": "0", "login_age": "0"}
    proxy = RunningProxy(cluster, "privileges", options)
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr
        for schema in ("here", "there"):
            cluster.primary.query(f"DROP DATABASE {schema}")


@pytest.fixture
def rights(cluster: Cluster, running: RunningProxy) -> Iterator[Callable[[str], None]]:
    """An account, a role of its own, and a way to change what they may; replicas know at once."""

    def change(sql: str) -> None:
        cluster.primary.query(sql)
        cluster.wait_caught_up()
        for replica in cluster.replicas:
            # A GTID is applied before the rights count; who asks for rights waits for that.
            replica.query("SHOW GRANTS")

    cluster.primary.query(f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'")
    cluster.primary.query("CREATE ROLE part")
    for schema in ("here", "there"):
        # Without some right a schema cannot be chosen.
        cluster.primary.query(f"GRANT INSERT ON {schema}.* TO {USER}")
    change(f"GRANT part TO {USER}")
    yield change
    change(f"DROP USER {USER}, part")


def may(session: Connection[Cursor], sql: str) -> bool:
    try:
        run(session, sql)
    except pymysql.err.MySQLError as error:
        assert error.args[0] in (1044, 1142), error  # noqa: PT017
        return False
    return True


def reset(session: Connection[Cursor]) -> None:
    session._execute_command(0x1F, b"")  # COM_RESET_CONNECTION
    session._read_ok_packet()


def connect(address: str) -> Connection[Cursor]:
    host, _, port = address.rpartition(":")
    return pymysql.connect(
        host=host, port=int(port), user=USER, password=PASSWORD, database="here", autocommit=True
    )


def role_of_answer(session: Connection[Cursor]) -> str:
    with session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        (last,) = cursor.fetchall()
    return str(last["role"])


Step = Callable[["Connection[Cursor]"], object]
RENEWING: dict[str, Step] = {
    "nothing": lambda session: None,
    "USE": lambda session: run(session, "USE here"),
    "COM_INIT_DB": lambda session: session.select_db("here"),
    "USE another and back": lambda session: (run(session, "USE there"), run(session, "USE here")),
    "SET ROLE": lambda session: run(session, "SET ROLE part"),
    "SET ROLE NONE": lambda session: run(session, "SET ROLE NONE"),
    "SET ROLE twice": lambda session: [
        run(session, f"SET ROLE {name}") for name in ("NONE", "part")
    ],
    "COM_RESET_CONNECTION": reset,
}


@pytest.mark.parametrize("takes", [False, True], ids=["given", "taken"])
@pytest.mark.parametrize("privilege_level", ["*.*", "here.*", "here.t"])
@pytest.mark.parametrize("holder", [USER, "part"])
def test_rights_are_renewed_as_on_one_server(
    cluster: Cluster,
    running: RunningProxy,
    rights: Callable[[str], None],
    holder: str,
    privilege_level: str,
    takes: bool,
) -> None:
    """Nothing is shown that one server would not show, and nothing is refused that it would."""
    give = f"GRANT SELECT ON {privilege_level} TO {holder}"
    take = f"REVOKE SELECT ON {privilege_level} FROM {holder}"  # noqa: S608 no query
    if takes:
        rights(give)
    with ExitStack() as stack:
        pairs = {}
        # Rights for a table are looked up for each statement.
        renewings = [*RENEWING][:1] if privilege_level == "here.t" else RENEWING
        for renewing in renewings:
            pair = [
                stack.enter_context(connect(address))
                for address in (cluster.primary.address, running.address)
            ]
            for session in pair:
                if holder == "part":
                    run(session, "SET ROLE part")
                assert [may(session, sql) for sql in READS] == [
                    takes,
                    takes and privilege_level == "*.*",
                ]
            pairs[renewing] = pair
        rights(take if takes else give)
        for renewing, (direct, through) in pairs.items():
            for session in (direct, through):
                RENEWING[renewing](session)
            for sql in (*READS, "SELECT a FROM t"):
                allowed = may(direct, sql)
                found = may(through, sql)
                # A replica that was told to look again may know more of what was given.
                assert found == allowed or (not takes and not allowed), (renewing, sql)
                if allowed and not takes:
                    assert role_of_answer(through) == "replica", (renewing, sql)


def test_roles_that_are_active_from_the_login_on(
    running: RunningProxy, rights: Callable[[str], None]
) -> None:
    rights(f"SET DEFAULT ROLE part TO {USER}")
    rights("GRANT SELECT ON here.* TO part")
    with connect(running.address) as through:
        assert run(through, "SELECT a FROM t") == [(1,)]
        assert role_of_answer(through) == "replica"
        rights("REVOKE SELECT ON here.* FROM part")
        run(through, "USE here")
        assert not may(through, "SELECT a FROM t")
        rights("GRANT SELECT ON here.* TO part")
        run(through, "USE here")
        assert run(through, "SELECT a FROM t") == [(1,)]
        assert role_of_answer(through) == "replica"
        assert run(through, "SELECT CURRENT_ROLE()") == [("`part`@`%`",)]


def test_a_role_that_was_needed_to_choose_the_schema(
    running: RunningProxy, rights: Callable[[str], None]
) -> None:
    rights("CREATE ROLE whole")
    try:
        rights("GRANT SELECT ON app.* TO whole")
        rights("GRANT SELECT ON here.* TO part")
        rights(f"GRANT whole TO {USER}")
        with connect(running.address) as through:
            for sql in ("SET ROLE whole", "USE app", "SET ROLE part"):
                run(through, sql)
            assert run(through, "SELECT a, DATABASE() FROM here.t") == [(1, "app")]
            assert role_of_answer(through) == "replica"
    finally:
        rights("DROP ROLE whole")


def test_a_role_survives_a_reset(
    cluster: Cluster, running: RunningProxy, rights: Callable[[str], None]
) -> None:
    rights("GRANT SELECT ON here.* TO part")
    with connect(cluster.primary.address) as direct, connect(running.address) as through:
        for session in (direct, through):
            run(session, "SET ROLE part")
            reset(session)
            assert run(session, "SELECT CURRENT_ROLE()") == [("`part`@`%`",)]
            assert run(session, "SELECT a FROM t") == [(1,)]
        assert role_of_answer(through) == "replica"
    with connect(running.address) as another:
        assert not may(another, "SELECT a FROM t")


@pytest.fixture
def late(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Replicas that apply nothing, until they are told to."""
    with ExitStack() as stack:
        for replica in cluster.replicas:
            stack.enter_context(replica.applier_stopped())
        yield stack.close


def test_a_right_that_a_late_replica_still_gives_is_not_kept(
    cluster: Cluster,
    running: RunningProxy,
    rights: Callable[[str], None],
    late: Callable[[], None],
) -> None:
    """At STRONG a read sees what was taken away before, also what counts from the login on."""
    late()
    rights(f"GRANT SELECT ON *.* TO {USER}")
    with ExitStack() as stack:
        for replica in cluster.replicas:
            stack.enter_context(replica.applier_stopped())
        cluster.primary.query(f"REVOKE SELECT ON *.* FROM {USER}")  # noqa: S608 no query
        with connect(running.address) as through:
            run(through, "SET tidegate_consistency = 'STRONG'")
            allowed: list[bool] = []
            reading = threading.Thread(
                target=lambda: allowed.append(may(through, "SELECT a FROM t"))
            )
            reading.start()
            waits = (
                "SELECT 1 FROM performance_schema.processlist"
                " WHERE INFO LIKE '%WAIT_FOR_EXECUTED%' AND ID <> CONNECTION_ID()"
            )
            for _ in range(500):
                if any(replica.query(waits) for replica in cluster.replicas) or allowed:
                    break
                time.sleep(0.01)
            stack.close()
            reading.join(30)
            assert allowed == [False]
            assert not may(through, "SELECT a FROM t")


@pytest.mark.parametrize("level", ["BEST_EFFORT", "READ_OWN_WRITES"])
def test_a_right_that_a_late_replica_does_not_give_yet(
    cluster: Cluster,
    running: RunningProxy,
    rights: Callable[[str], None],
    late: Callable[[], None],
    level: str,
) -> None:
    """What a replica denies, the primary decides; and the replica is asked again."""
    cluster.primary.query(f"GRANT SELECT ON *.* TO {USER}")
    with connect(running.address) as through:
        run(through, f"SET tidegate_consistency = '{level}'")
        for _ in range(2):
            assert run(through, "SELECT a FROM t") == [(1,)]
            assert role_of_answer(through) == "primary"
        late()
        cluster.wait_caught_up()
        for _ in range(2):
            assert run(through, "SELECT a FROM t") == [(1,)]
            assert role_of_answer(through) == "replica"


LOGIN_ROLES = {
    "all at the login": "SET GLOBAL activate_all_roles_on_login = ON",
    "mandatory": "SET GLOBAL activate_all_roles_on_login = ON, GLOBAL mandatory_roles = 'second'",
    "default": f"SET DEFAULT ROLE part TO {USER}",
    "none": "DO 0",
}


LOGIN_RENEWING = (
    *("DO 0", "USE here", "RESET", "SET ROLE part, `a``b'c`", "SET ROLE NONE"),
    *("SET ROLE DEFAULT", "SET ROLE ALL", "SET ROLE ALL EXCEPT part"),
)


@pytest.mark.parametrize("where", LOGIN_ROLES)
@pytest.mark.parametrize("side", ["primary", "replica"])
def test_roles_that_one_server_alone_activates_at_the_login(
    cluster: Cluster,
    running: RunningProxy,
    rights: Callable[[str], None],
    where: str,
    side: str,
) -> None:
    """Those of the primary count: nothing is read that it would deny, and nothing denied."""
    rights("CREATE ROLE second, `a``b'c`")
    rights(f"GRANT `a``b'c` TO {USER}")
    rights("GRANT SELECT ON here.* TO part")
    rights("GRANT SELECT ON there.* TO second")
    servers = [cluster.primary] if side == "primary" else cluster.replicas
    try:
        for server in servers:
            with server.admin() as admin:
                run(admin, "SET SESSION sql_log_bin = 0, GLOBAL super_read_only = 0")
                run(admin, LOGIN_ROLES[where])
        with connect(cluster.primary.address) as direct, connect(running.address) as through:
            for renewing in LOGIN_RENEWING:
                for session in (direct, through):
                    if renewing == "RESET":
                        reset(session)
                    else:
                        run(session, renewing)
                for sql in READS:
                    assert may(through, sql) == may(direct, sql), (renewing, sql)
                    if may(through, sql) and (where, side) != ("mandatory", "primary"):
                        assert role_of_answer(through) == "replica", (renewing, sql)
    finally:
        for server in servers:
            with server.admin() as admin:
                run(admin, "SET SESSION sql_log_bin = 0")
                run(admin, f"SET DEFAULT ROLE NONE TO {USER}")
                run(
                    admin,
                    "SET GLOBAL activate_all_roles_on_login = OFF, GLOBAL mandatory_roles = ''",
                )
        cluster.heal()
        rights("DROP ROLE second, `a``b'c`")
