"""Before servers of `tidegate mock`: what is set and broken there, by SQL or HTTP, is met here."""

import asyncio
import http.client
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mysql_mocker import MockCluster
from routing.consistency.decision import Level, Scope
from tests.faults.client import PASSWORD
from tests.faults.proxy_fixture import ProxyFixture, before, eventually
from tests.faults.table_fixture import COUNT, count, execute
from tests.faults.test_failover import WATCHED, looked, promoted

INIT = "CREATE TABLE t (id INT)"


@asynccontextmanager
async def before_mock_cluster(**options: Any) -> AsyncIterator[tuple[MockCluster, ProxyFixture]]:
    async with (
        MockCluster(2, user="app", password=PASSWORD, init=INIT, http=0) as cluster,
        before(
            cluster.primary.address,
            [replica.address for replica in cluster.replicas],
            cluster.cluster,
            **options,
        ) as proxy,
    ):
        yield cluster, proxy


async def post(cluster: MockCluster, path: str, body: object) -> Any:
    def call() -> Any:
        connection = http.client.HTTPConnection(cluster.url.removeprefix("http://"), timeout=20)
        connection.request("POST", path, json.dumps(body))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    return await asyncio.to_thread(call)


@pytest.mark.parametrize(("level", "seen"), [(Level.BEST_EFFORT, 0), (Level.READ_OWN_WRITES, 1)])
async def test_lag_by_sql_is_met_at_best_effort_and_not_with_own_writes(
    level: Level, seen: int
) -> None:
    async with before_mock_cluster(consistency=level, wait_budget=0.01) as (_, proxy):
        client = await proxy.session()
        await execute(client, "CALL mock.set('replicas', 'lag', '1h')")
        await execute(client, "INSERT INTO t VALUES (1)")
        assert await count(client) == seen
        await execute(client, "CALL mock.reset()")
        await proxy.caught_up()
        assert await count(client) == 1


async def test_a_promotion_by_http_that_loses_is_followed_and_told() -> None:
    # A session that outlived the primary would miss the same in its own scope.
    options = {**WATCHED, "scope": Scope.USER, "without_primary": "refuse"}
    async with before_mock_cluster(**options) as (cluster, proxy):
        await looked(proxy)
        client = await proxy.session()
        assert await count(client) == 0
        await cluster.set("replicas", applying=False)
        await execute(client, "INSERT INTO t VALUES (1)")
        await cluster.set("primary", running=False)
        done = await post(cluster, "/promote", {"server": "replica2", "lose": 1})
        assert done == {"primary": "replica2", "stopped": ["primary"]}
        await promoted(proxy, cluster.primary)
        await eventually(lambda: proxy.count("tidegate_lost_transactions_total") == 1)
        client = await proxy.session()
        assert (await client.query(COUNT)).error.code == 1105
        await execute(client, "INSERT INTO t VALUES (2)")
        assert await count(client) == 1


@pytest.mark.parametrize(("drop", "rows"), [("before", 0), ("after", 1)])
async def test_a_connection_that_breaks_at_a_write_is_lost_to_the_client_and_not_run_twice(
    drop: str, rows: int
) -> None:
    async with before_mock_cluster() as (cluster, proxy):
        await cluster.fault("primary", match="INSERT", drop=drop)
        client = await proxy.session()
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 2013
        assert await count(await proxy.session()) == rows
        assert (await cluster.statements("primary")).count("INSERT INTO t VALUES (1)") == 1
