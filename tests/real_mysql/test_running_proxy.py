"""The proxy fixture: a process that serves, counts, logs and ends in good order."""

import contextlib

import pytest

from protocol.gtid import GtidSet
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy


def test_serves_counts_logs_and_ends(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with contextlib.closing(running.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE served (n INT)")
        cursor.execute("INSERT INTO served VALUES (1)")
        cursor.execute("SELECT n FROM served")
        assert cursor.fetchall() == ((1,),)
    assert running.metric("tidegate_statements_total", reason="write", outcome="ok") == 2
    assert running.stop() == 0
    records = running.records(at_least=3)
    create, insert = [record for record in records if record["reason"] == "write"]
    (read,) = [record for record in records if record["class"] == "read"]
    assert create["server"] == insert["server"] == cluster.primary.address
    assert read["required"] == union(create["own_gtids"], insert["own_gtids"])


def union(*sets: object) -> str:
    together = GtidSet()
    for gtids in sets:
        together |= GtidSet.parse(str(gtids))
    return together.text


def test_options_that_do_not_hold_are_told(proxy: StartProxy) -> None:
    with pytest.raises(RuntimeError, match="wait-budget"):
        proxy(wait_budget="never")
