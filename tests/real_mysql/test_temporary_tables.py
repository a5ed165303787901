"""What a server does when no memory is left for sessions' temporary tables."""

from contextlib import ExitStack, closing

import pymysql
import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.statements import run

DERIVED = "SELECT COUNT(*) FROM (SELECT 1 AS n UNION SELECT 2) AS made"
RECURSIVE = (
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3)"
    " SELECT COUNT(*) FROM r"
)
LEAST = 2 << 20
"""The smallest temptable_max_ram. A session takes half of it."""


def test_a_recursive_query_fails_where_its_table_would_be_a_file(cluster: Cluster) -> None:
    server = cluster.primary
    server.query(f"SET GLOBAL temptable_max_ram = {LEAST}")
    with ExitStack() as sessions:
        for _ in range(3):
            run(sessions.enter_context(closing(server.admin("app"))), DERIVED)
        late = sessions.enter_context(closing(server.admin("app")))
        assert run(late, DERIVED) == [(2,)]
        with pytest.raises(pymysql.ProgrammingError, match=r"/#sql.*' doesn't exist") as failed:
            run(late, RECURSIVE)
        assert failed.value.args[0] == 1146
        server.query(f"SET GLOBAL temptable_max_ram = {64 * LEAST}")
        assert run(late, RECURSIVE) == [(3,)]
