"""Writes that do not look like it change their rows, and are classified as writes."""

import pytest

from routing.sql.statement import StatementClass, classify
from tests.real_mysql.cluster import Cluster


@pytest.mark.parametrize(
    "text",
    [
        "WITH c AS (SELECT 1) UPDATE (hidden) SET a = a + 1",
        "WITH c AS (SELECT 1)UPDATE(hidden JOIN c) SET a = a + 1",
        "WITH c (n) AS (SELECT 1) DELETE h FROM (hidden h, c)",
        "/*!99999 SELECT */ WITH c AS (SELECT 1) UPDATE (hidden) SET a = a + 1",
    ],
)
def test_hidden_writes(cluster: Cluster, text: str) -> None:
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.hidden (a INT)")
    cluster.primary.query("INSERT INTO app.hidden VALUES (1)")
    before = cluster.primary.query("SELECT a FROM app.hidden")
    with cluster.primary.connect() as client, client.cursor() as cursor:
        cursor.execute(text)
    assert cluster.primary.query("SELECT a FROM app.hidden") != before
    statement = classify(text.encode())
    assert statement.kind is StatementClass.WRITE
    assert statement.may_write
