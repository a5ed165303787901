"""No read misses a write for not waiting for writes to other tables, whatever tables become.

Clients write counters in every way that MySQL has, and read them by every kind of query, while
replicas lag and somebody else redefines views, exchanges tables, and adds and drops triggers and
foreign keys at the primary itself.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.counter_clients import CounterClient, Judge
from tests.real_mysql.counter_tables import any_query, schema
from tests.real_mysql.definers import Definer, Delayer
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.template import APP_USER, MONITOR_USER
from tests.support.seeds import seeds

READS = 2_000
DEEP_READS = 20_000
READS_UNTIL_BROKEN = 30_000
STALLED_S = 60
SCOPES = ("user", "user", "user", "connection", "connection")
COMPARED = 300
PROOFS = ("independent", "known", "waited", "primary")


@pytest.fixture(autouse=True)
def _schema(cluster: Cluster) -> None:
    cluster.clear()
    primary = cluster.primary
    with closing(primary.admin("app")) as connection, connection.cursor() as cursor:
        for statement in schema():
            cursor.execute(statement)
    primary.query(f"GRANT ALL ON other.* TO {APP_USER}")
    primary.query(f"GRANT FILE, SYSTEM_VARIABLES_ADMIN ON *.* TO {APP_USER}")
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    cluster.wait_caught_up()


def start(proxy: StartProxy, module: str, wait_budget: str) -> RunningProxy:
    """A proxy that asks for names as soon as definitions change."""
    return proxy(
        module=f"tests.real_mysql.{module}",
        table_dependencies="on",
        wait_budget=wait_budget,
        monitor_interval="100ms",
    )


def histories(cluster: Cluster, running: RunningProxy, seed: int, reads: int) -> Judge:
    """Let clients work until so many reads are judged, or one was stale."""
    chance = random.Random(seed)
    judge = Judge()
    definer = Definer(judge, cluster.primary, seed, pause=chance.choice([2, 6, 12]))
    delayer = Delayer(judge, cluster, seed)
    files = cluster.scratch.path
    clients = [
        CounterClient(judge, running, scope, seed * 100 + n, files)
        for n, scope in enumerate(SCOPES)
    ]
    with ThreadPoolExecutor(len(clients) + 2) as threads:
        runs = [client.run for client in clients] + [definer.run, delayer.run]
        working = [threads.submit(run) for run in runs]
        seen, moved_at = 0, time.monotonic()
        while judge.reads < reads and not judge.stale and not any(w.done() for w in working):
            time.sleep(0.2)
            if judge.reads > seen:
                seen, moved_at = judge.reads, time.monotonic()
            if time.monotonic() > moved_at + STALLED_S:
                break
        judge.over.set()
        for thread in working:
            thread.result()
    delayer.end()
    proofs = {proof: proved(running, proof) for proof in PROOFS}
    print(f"\nseed {seed}: {judge.reads} reads by {proofs}, {len(judge.stale)} stale")
    print(f"  {judge.moved} of moved tables, {judge.unanswered} in vain")
    print(f"  writes {dict(judge.writes)}")
    print(f"  definitions {dict(definer.done)}, refused {dict(definer.refused)}")
    return judge


def proved(running: RunningProxy, proof: str) -> int:
    """How many reads had this proof."""
    return int(running.metric("tidegate_read_duration_seconds_count", proof=proof))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_no_read_is_stale(
    cluster: Cluster, proxy: StartProxy, seed: int, request: pytest.FixtureRequest
) -> None:
    reads = DEEP_READS if request.config.getoption("--deep") else READS
    running = start(proxy, "eager_names", ["50ms", "200ms"][seed % 2])
    judge = histories(cluster, running, seed, reads)
    assert not judge.stale, "\n".join(judge.stale[:5])
    assert judge.reads >= reads
    assert not judge.errors
    assert proved(running, "independent") > 0
    compare(cluster, running, random.Random(seed))


def compare(cluster: Cluster, running: RunningProxy, chance: random.Random) -> None:
    """While nobody writes, each query finds through the proxy what it finds at the primary."""
    cluster.wait_caught_up()
    with closing(running.connect()) as through, closing(cluster.primary.connect()) as directly:
        for _ in range(COMPARED):
            query = any_query(chance, str(chance.randrange(10)))
            assert sorted(run(through, query.text)) == sorted(run(directly, query.text)), query


@pytest.mark.timeout(900)
@pytest.mark.deep  # it is a matter of luck after how many reads one is stale
@pytest.mark.parametrize("mutant", ["any tables", "rows alone", "not read", "without definitions"])
def test_without_a_premise_reads_are_stale(
    cluster: Cluster, proxy: StartProxy, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUTANT", mutant)
    """Those mutants of the model that a few minutes of chance show."""
    judge = histories(cluster, start(proxy, "lax_tables", "50ms"), 1, READS_UNTIL_BROKEN)
    print("\n".join(judge.stale[:3]))
    assert judge.stale
