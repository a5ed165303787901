"""Gaps that parallel workers leave are shown for as long as they are there."""

from proxy.shared.administration.server_rows import COLUMNS
from tests.faults.client import PASSWORD
from tests.faults.proxy_fixture import eventually, proxy_fixture
from tests.faults.table_fixture import execute

GAP = "tidegate_replica_gap_transactions"


async def test_a_gap_is_shown_until_it_is_filled() -> None:
    watching = {"monitor_user": "app", "monitor_password": PASSWORD.encode()}
    async with proxy_fixture(1, monitor_interval=0.02, **watching) as proxy:
        (mock,) = proxy.cluster.replicas
        (replica,) = proxy.shared.topology.replicas
        mock.applying = False
        mock.set_variable("replica_preserve_commit_order", False)
        mock.applying = True
        client = await proxy.direct()
        await execute(client, "CREATE TABLE t (id INT PRIMARY KEY)")
        await proxy.caught_up()
        await eventually(lambda: proxy.count(GAP) == 0 and replica.gap == 0)
        held = mock.faults.hold_apply("VALUES (1)")
        for number in (1, 2, 3):
            await execute(client, f"INSERT INTO t VALUES ({number})")  # noqa: S608 - a number
        await eventually(lambda: replica.gap == 1)
        assert proxy.count(GAP) == 1
        await eventually(lambda: not replica.ordered)
        client = await proxy.session()
        shown = await client.query("SHOW TIDEGATE SERVERS")
        assert [row[COLUMNS.index("gap")] for row in shown.rows] == [None, b"1"]
        held.open()
        await eventually(lambda: replica.gap == 0)
        await mock.stop()
        await eventually(lambda: replica.gap is None)
