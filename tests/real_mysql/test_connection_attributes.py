"""Who is behind a connection, as a server shows it to whoever looks at performance_schema."""

from __future__ import annotations  # Connection is generic for the type checker only

import time
from contextlib import closing

import mysql.connector
import pytest

from protocol.constants import Capability
from proxy.version import VERSION
from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

OWN = {"tidegate_client", "tidegate_session", "tidegate_version"}


def shown(server: RealServer, connection_id: object) -> dict[str, str]:
    rows = server.query(
        "SELECT ATTR_NAME, ATTR_VALUE FROM performance_schema.session_connect_attrs"
        " WHERE PROCESSLIST_ID = %s ORDER BY ORDINAL_POSITION",
        connection_id,
    )
    return {str(name): str(value) for name, value in rows}


def value(cursor: object, sql: str) -> object:
    cursor.execute(sql)  # type: ignore[attr-defined]
    ((found,),) = cursor.fetchall()  # type: ignore[attr-defined]
    return found


def connect(port: int, attributes: dict[str, str]) -> mysql.connector.MySQLConnection:
    return mysql.connector.connect(  # type: ignore[return-value]
        host="127.0.0.1",
        port=port,
        user=APP_USER,
        password=APP_PASSWORD,
        database="app",
        autocommit=True,
        conn_attrs=attributes,
        use_pure=True,
    )


def test_primary_and_replicas_show_who_is_behind(proxy: StartProxy, cluster: Cluster) -> None:
    running = proxy(proxy_name="edge-1")
    with running.connect() as connection, connection.cursor() as cursor:
        address = "{}:{}".format(*connection._sock.getsockname())  # type: ignore[attr-defined]
        primary = shown(cluster.primary, value(cursor, "SELECT CONNECTION_ID()"))
        cursor.execute("SELECT 1")
        (replica,) = [
            shown(server, row[0])
            for server in cluster.replicas
            for row in server.query(
                "SELECT PROCESSLIST_ID FROM performance_schema.session_connect_attrs"
                " WHERE ATTR_NAME = 'tidegate_client' AND ATTR_VALUE = %s",
                address,
            )
        ]
        record = running.records(at_least=2)[-1]
    for found in (primary, replica):
        assert found["_client_name"] == "pymysql"
        assert found["tidegate_client"] == address
        assert found["tidegate_session"] == f"edge-1/{record['session']}"
        assert found["tidegate_version"] == VERSION


def test_the_monitors_connections_say_what_they_are(proxy: StartProxy, cluster: Cluster) -> None:
    proxy()
    deadline = time.monotonic() + 60
    while not cluster.primary.query(
        "SELECT * FROM performance_schema.session_connect_attrs"
        " JOIN performance_schema.processlist ON ID = PROCESSLIST_ID"
        " WHERE USER = 'monitor' AND ATTR_NAME = 'tidegate_version' AND ATTR_VALUE = %s",
        VERSION,
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_client_without_attributes(proxy: StartProxy, cluster: Cluster) -> None:
    with RawClient(proxy().address, APP_USER, APP_PASSWORD, Capability(0)) as client:
        assert set(shown(cluster.primary, client.greeting.thread_id)) == OWN


CLIENTS_OWN = {
    "none": {},
    "few": {"a": "b", "_c": "", "x" * 32: "ä" * 30},
    "so many that there is room for some": {"long": "x" * 440},
    "as many as a server keeps": {"long": "x" * 400, "rest": "x" * 93},
    "one more byte": {"long": "x" * 400, "rest": "x" * 94},
    "long ones": {"long": "x" * 300, "longer": "y" * 1200},
    "all that a server takes": {"l": "z" * 65530},
}


@pytest.mark.parametrize("kind", CLIENTS_OWN)
def test_a_clients_attributes_are_shown_as_without_tidegate(
    proxy: StartProxy, cluster: Cluster, kind: str
) -> None:
    found = []
    for address in (proxy().address, cluster.primary.address):
        with RawClient(
            address, APP_USER, APP_PASSWORD, Capability(0), attributes=CLIENTS_OWN[kind]
        ) as client:
            found.append(shown(cluster.primary, client.greeting.thread_id))
    through, direct = found
    assert {name: text for name, text in through.items() if name not in OWN} == direct


def test_nobody_can_be_taken_for_another(proxy: StartProxy, cluster: Cluster) -> None:
    with closing(connect(proxy().port, {"tidegate_client": "somebody else"})) as connection:
        cursor = connection.cursor()
        found = shown(cluster.primary, value(cursor, "SELECT CONNECTION_ID()"))
    assert found["tidegate_client"].startswith("127.0.0.1:")


def test_change_user_keeps_them(proxy: StartProxy, cluster: Cluster) -> None:
    running: RunningProxy = proxy()
    with closing(connect(running.port, {"a": "b"})) as connection:
        cursor = connection.cursor()
        before = shown(cluster.primary, value(cursor, "SELECT CONNECTION_ID()"))
        connection.cmd_change_user(APP_USER, APP_PASSWORD, "app")
        cursor = connection.cursor()
        after = shown(cluster.primary, value(cursor, "SELECT CONNECTION_ID()"))
    assert {name: before[name] for name in OWN} == {name: after[name] for name in OWN}
    assert after["a"] == "b"
