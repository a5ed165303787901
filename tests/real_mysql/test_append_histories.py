"""Transactions on lists, directly and over late replicas: nobody can tell.

Those that write are READ COMMITTED; the READ ONLY ones behind them read snapshots.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import random
from collections.abc import Sequence
from threading import Lock, Thread

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.disturbances import FREE, LATE
from tests.support.append_checker import Operation, Transaction, check

KEYS = 6
CLIENTS = 4
APPEND = (
    "INSERT INTO lists VALUES ({key}, '{value}')"
    " ON DUPLICATE KEY UPDATE v = CONCAT(v, ',', '{value}')"
)


class Lists:
    """Clients that read lists and append to them, in transactions."""

    def __init__(self, seed: int, transactions: int) -> None:
        self._seed = seed
        self._each = transactions // CLIENTS
        self._numbers = 0
        self._lock = Lock()
        self.history: list[Transaction] = []

    def run(self, connections: list[Connection[Cursor]]) -> None:
        """Let each have its transactions, at the same time."""
        threads = [
            Thread(target=self._client, args=(connection, f"client {index}", index))
            for index, connection in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _next(self) -> int:
        with self._lock:
            self._numbers += 1
            return self._numbers

    def _client(self, connection: Connection[Cursor], name: str, index: int) -> None:
        draw = random.Random(f"{self._seed} {index}")
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            implied = index % 2 == 1
            appends = 0.5 if index < CLIENTS // 2 else 0.02  # late replicas have what these need
            cursor.execute(f"SET autocommit = {0 if implied else 1}")
            for _ in range(self._each):
                transaction = Transaction(self._next(), name)
                with self._lock:
                    self.history.append(transaction)
                try:
                    if not implied:
                        cursor.execute("BEGIN")
                    for _ in range(draw.randint(1, 5)):
                        key = draw.randrange(KEYS)
                        if draw.random() > appends:
                            cursor.execute("SELECT v FROM lists WHERE k = %s", (key,))
                            row = cursor.fetchone()
                            values = () if row is None else tuple(map(int, row[0].split(",")))
                            transaction.operations.append(Operation(key, values=values))
                        else:
                            value = self._next()
                            cursor.execute(APPEND.format(key=key, value=value))
                            transaction.operations.append(Operation(key, appended=value))
                    if draw.random() < 0.1:
                        cursor.execute("ROLLBACK")
                        transaction.outcome = "aborted"
                    else:
                        cursor.execute("COMMIT")
                        transaction.outcome = "committed"
                except MySQLError as error:
                    if error.args[0] not in (1213, 1205):
                        raise
                    cursor.execute("ROLLBACK")
                    transaction.outcome = "aborted"


def lists(cluster: Cluster) -> None:
    cluster.primary.query("DROP TABLE IF EXISTS app.lists")
    cluster.primary.query("CREATE TABLE app.lists (k INT PRIMARY KEY, v TEXT NOT NULL)")
    cluster.wait_caught_up()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", ["directly", "free", "late", "interrupted"])
def test_no_anomaly_of_read_committed(
    way: str, seed: int, cluster: Cluster, proxy: StartProxy
) -> None:
    lists(cluster)
    work = Lists(seed, 1200)
    before = {"free": FREE, "late": LATE, "interrupted": FREE, "directly": FREE}[way].before
    with before(cluster):
        if way == "directly":
            connections = [cluster.primary.connect() for _ in range(CLIENTS)]
            for connection in connections:
                connection.select_db("app")
        else:
            running = proxy(consistency="READ_OWN_WRITES", wait_budget="20ms")
            connections = [running.connect() for _ in range(CLIENTS)]
        if way == "interrupted":
            worker = Thread(target=work.run, args=(connections,))
            worker.start()
            while worker.is_alive():
                for replica in cluster.replicas:
                    with replica.applier_stopped():
                        worker.join(0.2)
                    worker.join(0.05)
        else:
            work.run(connections)
        for connection in connections:
            connection.close()
        if way != "directly":
            replicas = running.metric("tidegate_statements_total", role="replica", reason="read")
            print(f"{replicas:.0f} reads on replicas")
            assert replicas > 20
    assert len(work.history) == 1200
    assert all(transaction.outcome != "unknown" for transaction in work.history)
    assert not check(work.history)


class Snapshots(Lists):
    """One client appends; the others read in READ ONLY transactions, by rules of their own."""

    def __init__(self, seed: int, transactions: int, rules: Sequence[tuple[str, str]]) -> None:
        super().__init__(seed, transactions)
        self._rules = rules

    def _client(self, connection: Connection[Cursor], name: str, index: int) -> None:
        if index == 0:
            super()._client(connection, name, index)
            return
        draw = random.Random(f"{self._seed} {index}")
        implied = index % 2 == 1
        with connection.cursor() as cursor:
            cursor.execute("SET tidegate_application = 'lists'")
            cursor.execute("SET SESSION TRANSACTION READ ONLY")
            cursor.execute(f"SET autocommit = {0 if implied else 1}")
            for number in range(self._each):
                level, scope = self._rules[number % len(self._rules)]
                cursor.execute(f"SET tidegate_consistency = '{level}', tidegate_scope = '{scope}'")
                transaction = Transaction(self._next(), name, outcome="committed", snapshot=True)
                with self._lock:
                    self.history.append(transaction)
                if not implied:
                    cursor.execute("BEGIN")
                for _ in range(draw.randint(2, 6)):
                    key = draw.randrange(KEYS)
                    cursor.execute("SELECT v FROM lists WHERE k = %s", (key,))
                    row = cursor.fetchone()
                    values = () if row is None else tuple(map(int, row[0].split(",")))
                    transaction.operations.append(Operation(key, values=values))
                cursor.execute("COMMIT")


RULES = [
    (level, scope)
    for level in (
        *("BEST_EFFORT", "READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
        "BOUNDED_STALENESS(300ms)",
    )
    for scope in ("connection", "user", "application", "proxy")
]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("way", ["free", "late", "interrupted"])
def test_snapshots_are_of_one_state(
    way: str, seed: int, cluster: Cluster, proxy: StartProxy
) -> None:
    lists(cluster)
    work = Snapshots(seed, 1200, RULES)
    with {"free": FREE, "late": LATE, "interrupted": FREE}[way].before(cluster):
        running = proxy(wait_budget="20ms")
        connections = [running.connect() for _ in range(CLIENTS)]
        worker = Thread(target=work.run, args=(connections,))
        worker.start()
        while worker.is_alive():
            if way == "interrupted":
                for replica in cluster.replicas:
                    with replica.applier_stopped():
                        worker.join(0.2)
            worker.join(0.05)
        for connection in connections:
            connection.close()
        inside = running.metric("tidegate_statements_total", role="replica", reason="transaction")
        print(f"{inside:.0f} later reads on replicas")
        assert inside > 20
        assert running.metric("tidegate_snapshots_split_total") == 0
    assert len(work.history) == 1200
    assert not check(work.history)


class Repeatable(Lists):
    """REPEATABLE READ: what a transaction reads before it appends to a list is of one state."""

    def __init__(self, seed: int, transactions: int, settings: str) -> None:
        super().__init__(seed, transactions)
        self._settings = settings
        self.conflicts = 0

    def _client(self, connection: Connection[Cursor], name: str, index: int) -> None:
        draw = random.Random(f"{self._seed} {index}")
        implied = index % 2 == 1
        appends = 0.3 if index < CLIENTS // 2 else 0.02  # late replicas have what these need
        with connection.cursor() as cursor:
            if self._settings:
                cursor.execute(self._settings)
            cursor.execute(f"SET autocommit = {0 if implied else 1}")
            for _ in range(self._each):
                transaction = Transaction(self._next(), name)
                # What it read of one state, beside all that it did.
                state = Transaction(self._next(), f"{name}'s state", outcome="committed")
                state.snapshot = True
                with self._lock:
                    self.history += [transaction, state]
                touched: set[int] = set()
                try:
                    if not implied:
                        cursor.execute("BEGIN")
                    for _ in range(draw.randint(2, 6)):
                        key = draw.randrange(KEYS)
                        if draw.random() < appends:
                            value = self._next()
                            cursor.execute(APPEND.format(key=key, value=value))
                            transaction.operations.append(Operation(key, appended=value))
                            touched.add(key)
                            continue
                        cursor.execute("SELECT v FROM lists WHERE k = %s", (key,))
                        row = cursor.fetchone()
                        values = () if row is None else tuple(map(int, row[0].split(",")))
                        transaction.operations.append(Operation(key, values=values))
                        if key not in touched:
                            state.operations.append(Operation(key, values=values))
                    cursor.execute("COMMIT")
                    transaction.outcome = "committed"
                except MySQLError as error:
                    if error.args[0] not in (1213, 1205):
                        raise
                    self.conflicts += "on a replica" in str(error.args[1])
                    cursor.execute("ROLLBACK")
                    transaction.outcome = "aborted"


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", ["directly", "free", "late", "allowed"])
def test_no_anomaly_of_repeatable_read(
    way: str, seed: int, cluster: Cluster, proxy: StartProxy
) -> None:
    lists(cluster)
    settings = "" if way == "directly" else "SET tidegate_transaction_reads = 'snapshot'"
    if way == "allowed":
        settings += ", tidegate_on_split_conflict = 'allow'"
    work = Repeatable(seed, 1200, settings)
    with (LATE if way == "late" else FREE).before(cluster):
        if way == "directly":
            connections = [cluster.primary.connect() for _ in range(CLIENTS)]
            for connection in connections:
                connection.select_db("app")
        else:
            running = proxy(consistency="READ_OWN_WRITES", wait_budget="20ms")
            connections = [running.connect() for _ in range(CLIENTS)]
        work.run(connections)
        for connection in connections:
            connection.close()
        if way != "directly":
            replicas = running.metric("tidegate_statements_total", role="replica")
            print(f"{replicas:.0f} reads on replicas, {work.conflicts} conflicts")
            assert replicas > 10
    found = check(work.history)
    print(len(found), "anomalies")
    if way != "allowed":
        assert not found
        return
    # The one anomaly: reads behind the first write are of another state than those before.
    assert work.conflicts == 0
    assert {anomaly.split(":")[0] for anomaly in found} <= {"changed", "fractured"}
