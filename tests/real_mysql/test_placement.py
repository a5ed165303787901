"""Zones, weights and `read-from` before real servers, by what each server says it has executed."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_mysql.cluster import Cluster, RealServer
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.test_reload import Configured
from tests.support.waiting import eventually

READ = "SELECT id FROM app.placed WHERE id = 1"
_EXECUTED = (
    "SELECT COUNT_FETCH FROM performance_schema.table_io_waits_summary_by_table"
    " WHERE OBJECT_SCHEMA = 'app' AND OBJECT_NAME = 'placed'"
)
"""One row is fetched for each read, and for nothing else."""
SESSIONS = 9

Placed = Callable[..., Configured]


@pytest.fixture(autouse=True)
def _table(cluster: Cluster) -> Iterator[None]:
    cluster.primary.query("CREATE TABLE app.placed (id INT PRIMARY KEY)")
    cluster.primary.query("INSERT INTO app.placed VALUES (1)")
    cluster.wait_caught_up()
    yield
    cluster.primary.query("DROP TABLE app.placed")


@pytest.fixture
def placed(proxy: StartProxy, cluster: Cluster, tmp_path: Path) -> Placed:
    """Starts a proxy, or has it reload, with these options and tables of servers."""
    started: list[Configured] = []

    def place(
        weights: dict[RealServer, int],
        zones: dict[RealServer, str] | None = None,
        **options: object,
    ) -> Configured:
        if not started:
            started.append(Configured(proxy, cluster, tmp_path, 1))
        tables = [f'[servers."{server.address}"]\nweight = {weights[server]}' for server in weights]
        for index, server in enumerate(weights):
            tables[index] += f'\nzone = "{(zones or {}).get(server, "")}"' * (zones is not None)
        started[0].write("\n".join(tables), **options)
        started[0].hang_up()
        return started[0]

    return place


def executed(server: RealServer) -> int:
    return int(server.value(_EXECUTED))


class Counted:
    """How many of the reads of a `with` block each server has executed, the primary first."""

    def __init__(self, cluster: Cluster) -> None:
        self._servers = cluster.servers
        self._before = [executed(server) for server in self._servers]

    @property
    def reads(self) -> list[int]:
        return [
            executed(server) - before
            for server, before in zip(self._servers, self._before, strict=True)
        ]


def read(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(READ)
        assert cursor.fetchone() == (1,)


def read_in_new_sessions(configured: Configured) -> None:
    for _ in range(SESSIONS):
        with contextlib.closing(configured.running.connect()) as connection:
            read(connection)


def test_weight_0_gets_nothing_and_a_reload_counts_for_the_next_statement(
    cluster: Cluster, placed: Placed
) -> None:
    _, first, second = cluster.servers
    configured = placed({first: 0, second: 1})
    counted = Counted(cluster)
    with contextlib.closing(configured.running.connect()) as open_before:
        read(open_before)
        read_in_new_sessions(configured)
        assert counted.reads == [0, 0, SESSIONS + 1]
        placed({first: 1, second: 0})
        counted = Counted(cluster)
        read(open_before)
        read_in_new_sessions(configured)
        assert counted.reads == [0, SESSIONS + 1, 0]
        placed({first: 0, second: 0})  # then there is no other
        counted = Counted(cluster)
        read(open_before)
        read_in_new_sessions(configured)
        assert counted.reads[0] == 0
        assert sum(counted.reads) == SESSIONS + 1


def test_a_near_replica_is_read_while_it_is_fresh(cluster: Cluster, placed: Placed) -> None:
    _, far, near = cluster.servers
    configured = placed({far: 1000, near: 1}, {far: "b", near: "a"}, zone="a", max_lag="500ms")
    with contextlib.closing(configured.running.connect()) as client:

        def lags() -> bool:
            with client.cursor() as cursor:
                cursor.execute("SHOW TIDEGATE SERVERS")
                names = [column[0] for column in cursor.description or ()]
                rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            (row,) = [row for row in rows if row["server"] == near.address]
            return bool(row["lagging"] == "yes")

        eventually(lambda: not lags())
        counted = Counted(cluster)
        read_in_new_sessions(configured)
        assert counted.reads == [0, 0, SESSIONS]
        with near.applier_stopped():
            cluster.primary.query("INSERT INTO app.placed VALUES (2)")
            far.wait_for(cluster.primary.gtid_executed)
            eventually(lags)
            counted = Counted(cluster)
            read(client)
            read_in_new_sessions(configured)
            assert counted.reads == [0, SESSIONS + 1, 0]
        eventually(lambda: not lags())
        counted = Counted(cluster)
        read(client)
        read_in_new_sessions(configured)
        assert counted.reads == [0, 0, SESSIONS + 1]


def test_the_primary_takes_its_share_with_read_from_any(cluster: Cluster, placed: Placed) -> None:
    primary, first, second = cluster.servers
    configured = placed({primary: 1, first: 1, second: 1}, read_from="any")
    counted = Counted(cluster)
    with contextlib.closing(configured.running.connect()) as open_before:
        read_in_new_sessions(configured)
        assert min(counted.reads) > 0  # sessions are numbered, and take turns
        assert sum(counted.reads) == SESSIONS
        placed({primary: 1, first: 0, second: 0}, read_from="any")
        counted = Counted(cluster)
        read(open_before)
        read_in_new_sessions(configured)
        assert counted.reads == [SESSIONS + 1, 0, 0]
        placed({primary: 1, first: 0, second: 0}, read_from="replicas")
        counted = Counted(cluster)
        read(open_before)
        read_in_new_sessions(configured)
        assert counted.reads[0] == 0
        assert sum(counted.reads) == SESSIONS + 1


def test_own_writes_are_seen_wherever_a_read_goes(cluster: Cluster, placed: Placed) -> None:
    """The replicas are late by turns, and the nearest changes; each read has all of them."""
    primary, first, second = cluster.servers
    places = [
        {"weights": {primary: 0, first: 1, second: 3}},
        {"weights": {primary: 1, first: 1, second: 1}, "read_from": "any"},
        {"weights": {first: 1, second: 1}, "zones": {first: "a", second: "b"}, "zone": "a"},
        {"weights": {first: 1, second: 1}, "zones": {first: "a", second: "b"}, "zone": "b"},
    ]
    configured = placed(**places[0], wait_budget="50ms")
    with contextlib.closing(configured.running.connect()) as client, client.cursor() as cursor:
        for turn in range(4):
            placed(**places[turn % 4], wait_budget="50ms")
            with (first, second)[turn % 2].applier_stopped():
                cursor.execute("INSERT INTO app.placed VALUES (%s)", (turn + 2,))
                for _ in range(3):
                    cursor.execute("SELECT COUNT(*) FROM app.placed")
                    assert cursor.fetchone() == (turn + 2,)
