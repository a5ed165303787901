"""An account's REQUIRE clause holds between client and Tidegate, whatever the primary sees."""

from __future__ import annotations  # Connection is generic for the type checker only

from collections.abc import Iterator

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from protocol.authentication import ClientAuthentication
from protocol.command import ComChangeUser
from protocol.constants import CACHING_SHA2
from protocol.packet import frame
from protocol.response import ErrPacket
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import NOTHING, RawClient
from tests.real_mysql.running_proxy import RunningProxy

PASSWORD = "required-secret"
CLAUSES = {
    "open": "REQUIRE NONE COMMENT 'it''s open'",
    "tls": "REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 100000 COMMENT 'not REQUIRE NONE '",
    "cipher": "REQUIRE CIPHER 'TLS_AES_256_GCM_SHA384'",
    "x509": "REQUIRE X509",
}
MODES = ("", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RunningProxy]:
    for name, clause in CLAUSES.items():
        cluster.primary.query(f"CREATE USER {name}@'%' IDENTIFIED BY '{PASSWORD}' {clause}")
    cluster.wait_caught_up()
    proxy = RunningProxy(cluster, "required-tls", {})
    try:
        yield proxy
    finally:
        proxy.stop()
        for name in CLAUSES:
            cluster.primary.query(f"DROP USER {name}@'%'")
        assert "Traceback" not in proxy.stderr, proxy.stderr


def enter(port: int, user: str, *, tls: bool) -> Connection[Cursor]:
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=user,
        password=PASSWORD,
        ssl_disabled=not tls,
        ssl={"check_hostname": False, "verify_mode": False} if tls else None,
    )


def code(port: int, user: str, *, tls: bool) -> int:
    """The error of a login, or 0."""
    try:
        enter(port, user, tls=tls).close()
    except pymysql.err.OperationalError as error:
        return int(error.args[0])
    return 0


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("user", CLAUSES)
def test_who_is_let_in(cluster: Cluster, running: RunningProxy, user: str, tls: bool) -> None:
    """As by the server, but for what only a client itself can show."""
    itself = code(cluster.primary.port, user, tls=tls)
    through = code(running.port, user, tls=tls)
    assert through == (1045 if user == "cipher" else itself)


@pytest.mark.parametrize("modes", MODES)
def test_what_a_server_begins_its_sessions_with_is_not_in_the_way(
    cluster: Cluster, running: RunningProxy, modes: str
) -> None:
    """Quotes are others then; and without autocommit the question must leave nothing locked."""
    primary = cluster.primary
    primary.query(f"SET GLOBAL sql_mode = '{modes}'")
    primary.query("SET GLOBAL autocommit = OFF")
    assert code(running.port, "tls", tls=False) == 1045
    with enter(running.port, "open", tls=False):
        primary.query("SET SESSION lock_wait_timeout = 5")
        primary.query("ALTER USER open@'%' ACCOUNT UNLOCK")


def test_a_refusal_says_why(running: RunningProxy) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="requires TLS"):
        enter(running.port, "tls", tls=False)


@pytest.mark.parametrize("user", ["tls", "open"])
def test_a_session_becomes_another_user(running: RunningProxy, user: str) -> None:
    """COM_CHANGE_USER over a connection without TLS."""
    command = ComChangeUser(
        username=user,
        auth_response=b"",
        database="",
        character_set=255,
        auth_plugin=CACHING_SHA2,
        attributes={},
    )
    authentication = ClientAuthentication(PASSWORD.encode(), CACHING_SHA2, b"", secure=False)
    with RawClient(running.address, "open", PASSWORD, NOTHING) as client:
        client.send(frame(command.serialise(client.capabilities), 0))
        number, payload = client.read()
        while payload[0] not in (0x00, 0xFF):
            reply = authentication.receive(payload)
            if reply is not None:
                client.send(frame(reply, number + 1))
            number, payload = client.read()
        if user == "open":
            assert payload[0] == 0x00
        else:
            assert ErrPacket.parse(payload).code == 1045
