"""TLS sessions to servers are resumed, until the server or its certificate is another one."""

import shutil

import pymysql
import pytest

from tests.real_mysql.certificates import write_certificates
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer

CERTIFICATES = ("ca.pem", "server-cert.pem", "server-key.pem")


def reused(running: RunningProxy) -> bool:
    """Whether the primary resumed a session for a client that comes now."""
    with running.connect() as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_sessions_reused'")
        ((_, value),) = cursor.fetchall()
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        ((_, cipher),) = cursor.fetchall()
    assert cipher  # it is TLS
    return value == "1"


def hits(server: RealServer) -> int:
    ((_, value),) = server.query("SHOW GLOBAL STATUS LIKE 'Ssl_session_cache_hits'")
    return int(str(value))


@pytest.mark.parametrize("mode", ["preferred", "verify_identity"])
def test_sessions_are_resumed_at_each_server(
    cluster: Cluster, proxy: StartProxy, mode: str
) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.few AS SELECT 1 AS id")
    cluster.wait_caught_up()
    authority = str(cluster.primary.ca_file) if mode == "verify_identity" else None
    running = proxy(server_tls=mode, server_tls_ca=authority)
    before = [hits(server) for server in cluster.servers]
    assert [reused(running) for _ in range(4)][1:] == [True] * 3
    for _ in range(6):  # sessions begin with one replica or the other
        with running.connect() as session, session.cursor() as cursor:
            cursor.execute("SELECT id FROM few")
            cursor.execute("SHOW TIDEGATE LAST")
    assert all(hits(server) > old for server, old in zip(cluster.servers, before, strict=True))


def test_a_server_that_starts_anew_knows_no_session(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    reused(running)
    assert reused(running)
    cluster.primary.restart()
    assert hits(cluster.primary) == 0
    running.connect().close()
    assert reused(running)


def test_a_new_certificate_ends_the_sessions_of_the_old_one(
    cluster: Cluster, proxy: StartProxy
) -> None:
    """ALTER INSTANCE RELOAD TLS; nobody vouches for the new one, so it is refused."""
    primary = cluster.primary
    authority = primary.data.parent / "authority.pem"
    shutil.copy(primary.ca_file, authority)
    running = proxy(
        kept_connections="0",
        server_tls="verify_ca",
        server_tls_ca=str(authority),
        without_primary="refuse",  # or a replica would let the client in
    )
    reused(running)
    assert reused(running)
    kept = {name: (primary.data / name).read_bytes() for name in CERTIFICATES}
    try:
        write_certificates(primary.data)
        primary.query("ALTER INSTANCE RELOAD TLS")
        with pytest.raises(pymysql.err.OperationalError) as error:
            running.connect()
        assert error.value.args[0] == 2003
        assert "CERTIFICATE_VERIFY_FAILED" in error.value.args[1]
    finally:
        for name, content in kept.items():
            (primary.data / name).write_bytes(content)
        primary.query("ALTER INSTANCE RELOAD TLS")
    reused(running)
    assert reused(running)
