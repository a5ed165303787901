"""CLIENT_NO_SCHEMA, with which a server takes `db.t` for `t`, is not offered."""

from contextlib import closing

import pymysql
import pytest
from pymysql.constants import CLIENT

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER


@pytest.mark.parametrize("database", [None, "app"])
def test_a_client_that_asks_for_it(
    cluster: Cluster, proxy: StartProxy, database: str | None
) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.named (n INT)")
    cluster.primary.query("DELETE FROM app.named")
    cluster.primary.query("INSERT INTO app.named VALUES (1)")
    cluster.wait_caught_up()
    host, _, port = proxy().address.rpartition(":")
    client = pymysql.connect(
        host=host,
        port=int(port),
        user=APP_USER,
        password=APP_PASSWORD,
        database=database,
        client_flag=CLIENT.NO_SCHEMA,
        autocommit=True,
    )
    with closing(client), client.cursor() as cursor:
        cursor.execute("INSERT INTO app.named VALUES (2)")
        cursor.execute("SELECT COUNT(*) FROM app.named")
        assert cursor.fetchone() == (2,)
