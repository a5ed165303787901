"""A primary that is frozen keeps its connections open and says nothing: no read hangs on it."""

from __future__ import annotations  # Connection is generic for the type checker only

import time
from collections.abc import Iterator

import pymysql
import pytest

from protocol.constants import Capability
from protocol.packet import frame
from protocol.response import ErrPacket
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.waiting import eventually

MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
COUNT = "SELECT COUNT(*) FROM app.frozen_primary"
ASKING = ("STRONG", "BOUNDED_STALENESS(1ms)")
"""Levels whose reads ask the primary; nothing that was seen of it is recent enough."""
LIMIT_S = 20
"""A read or login that is not answered within this is one that hangs."""


@pytest.fixture(scope="module", params=["watched", "unwatched"])
def running(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[RunningProxy]:
    """A proxy with a monitor, and one without."""
    cluster.primary.query(
        "CREATE TABLE IF NOT EXISTS app.frozen_primary (a INT AUTO_INCREMENT PRIMARY KEY)"
    )
    cluster.primary.query("REPLACE INTO app.frozen_primary VALUES (1), (2), (3)")
    options: dict[str, str | None] = {
        "wait_budget": "250ms",
        "connect_timeout": "2s",
        "handshake_timeout": "3s",
        "login_age": "1ms",  # or a login is lent, and nobody is asked
        "without_primary": "refuse",  # else: test_without_primary.py
    }
    if request.param == "unwatched":
        options |= {"monitor_user": None, "monitor_password_file": None}
    proxy = RunningProxy(cluster, f"frozen-primary-{request.param}", options)
    try:
        yield proxy
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


def reader(running: RunningProxy, level: str) -> RawClient:
    """A session at this level that has read on a replica."""
    client = RawClient(running.address, APP_USER, APP_PASSWORD, MODERN, "app")
    client.query(f"SET tidegate_consistency = '{level}'")
    eventually(lambda: on_replica(client))
    return client


def counts(client: RawClient) -> bool:
    """Whether it gets the answer, or an error."""
    packets = client.query(COUNT)
    return len(packets) > 2 and packets[2][1] == b"\x013"


def on_replica(client: RawClient) -> bool:
    return counts(client) and b"replica" in client.query("SHOW TIDEGATE LAST")[-2][1]


def test_reads_end_by_policy(cluster: Cluster, running: RunningProxy) -> None:
    cluster.wait_caught_up()
    clients = {
        (level, policy): reader(running, level)
        for level in ASKING
        for policy in ("primary", "error", "stale")
    }
    own = reader(running, "READ_OWN_WRITES")
    stale = running.metric("tidegate_stale_reads_total")
    for (_, policy), client in clients.items():
        client.query(f"SET tidegate_on_timeout = '{policy}'")
    with cluster.primary.paused():
        for _ in range(3):
            for client in clients.values():
                client.send(frame(b"\x03" + COUNT.encode(), 0))
            for (_, policy), client in clients.items():
                if policy == "stale":
                    assert client.answer()[2][1] == b"\x013"
                    assert b"none" in client.query("SHOW TIDEGATE LAST")[-2][1]
                else:
                    error = ErrPacket.parse(client.answer()[-1][1])
                    assert error.code == 3024
                    assert f"the primary {cluster.primary.address} " in error.message
        # Who needs no word of the primary is answered as ever.
        assert on_replica(own)
    assert running.metric("tidegate_stale_reads_total") - stale == 3 * len(ASKING)
    for client in clients.values():
        # It goes on: what it owes is answered, and counts for nothing that is asked now.
        eventually(lambda client=client: counts(client))  # type: ignore[misc]
        client.close()
    own.close()


def test_a_read_is_not_held_by_what_its_session_asked_when_it_rested(
    cluster: Cluster,
) -> None:
    """Before a session gives its connections back it asks the primary what it carries."""
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.frozen_primary (a INT PRIMARY KEY)")
    cluster.primary.query("REPLACE INTO app.frozen_primary VALUES (1), (2), (3)")
    options: dict[str, str | None] = {"connection_sharing_delay": "500ms"}
    proxy = RunningProxy(cluster, "resting-beside-a-frozen-primary", options)
    try:
        cluster.wait_caught_up()
        client = reader(proxy, "READ_OWN_WRITES")
        with cluster.primary.paused():
            for pause in (1.5, 0.0, 1.5):
                time.sleep(pause)
                assert on_replica(client)
        client.query("DO 1")
        assert counts(client)
        client.close()
    finally:
        proxy.stop()
        assert "Traceback" not in proxy.stderr, proxy.stderr


def test_a_login_names_the_primary(cluster: Cluster, running: RunningProxy) -> None:
    refused = running.metric("tidegate_clients_refused_total", cause="primary_unreachable")
    with cluster.primary.paused():
        for _ in range(2):
            with pytest.raises(pymysql.OperationalError) as caught:
                pymysql.connect(
                    host="127.0.0.1",
                    port=running.port,
                    user=APP_USER,
                    password=APP_PASSWORD,
                    read_timeout=LIMIT_S,
                    connect_timeout=LIMIT_S,
                )
            code, message = caught.value.args
            assert code == 2003
            assert cluster.primary.address in message
    now = running.metric("tidegate_clients_refused_total", cause="primary_unreachable")
    assert now - refused == 2
    eventually(lambda: can_log_in(running))


def can_log_in(running: RunningProxy) -> bool:
    try:
        running.connect().close()
    except pymysql.OperationalError:
        return False
    return True
