"""No read misses a write for not waiting for writes to other tables, whatever tables become.

Clients write counters in every way that MySQL has, and read them by every kind of query, while
replicas lag and somebody else redefines views, exchanges tables, and adds and drops triggers and
foreign keys at the primary itself.
"""

from collections.abc import Callable
from contextlib import closing

import pytest

from routing.consistency.decision import Scope
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.counter_tables import schema
from tests.real_mysql.routes import USERS, Client, clients
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.statements import run
from tests.real_mysql.table_histories import TableHistory, proved, start
from tests.real_mysql.template import APP_USER, MONITOR_USER
from tests.support.seeds import seeds
from tests.support.waiting import eventually

READS = 2_000
DEEP_READS = 20_000
READS_UNTIL_BROKEN = 30_000
WORKERS = 2
WORKERS_READS = 600
DURING_PROMOTION = {-1, 0, 1053, 1290, 1397, 1399, 2003, 2006, 2013, 2055}
"""Errors of what the old primary does not run any more, and of connections that end with it."""
LOST = 1105
"""How a scope is told once of acknowledged writes that are gone."""
LEVEL = "READ_OWN_WRITES"
CLIENTS = [
    Client(0, LEVEL, scope, APP_USER, "")
    for scope in (Scope.USER, Scope.USER, Scope.USER, Scope.CONNECTION, Scope.CONNECTION)
]
EVERYBODY = clients([LEVEL], list(Scope), each=2)
"""Two of each scope, of two users and two applications."""


@pytest.fixture(autouse=True)
def _schema(cluster: Cluster) -> None:
    cluster.clear()
    primary = cluster.primary
    with closing(primary.admin("app")) as connection, connection.cursor() as cursor:
        for statement in schema():
            cursor.execute(statement)
    for user, password in USERS.items():
        primary.query(f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{password}'")
        primary.query(f"GRANT ALL ON app.* TO {user}")
        primary.query(f"GRANT ALL ON other.* TO {user}")
        primary.query(f"GRANT FILE, SYSTEM_VARIABLES_ADMIN ON *.* TO {user}")
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    cluster.wait_caught_up()


def histories(cluster: Cluster, running: RunningProxy, seed: int, reads: int) -> TableHistory:
    """Let clients work until so many reads are judged, or one was stale."""
    history = TableHistory(cluster, running, CLIENTS, seed)
    history.run(lambda: history.until(lambda: history.judge.reads >= reads))
    return history


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(2, 30))
def test_no_read_is_stale(
    cluster: Cluster, proxy: StartProxy, seed: int, request: pytest.FixtureRequest
) -> None:
    reads = DEEP_READS if request.config.getoption("--deep") else READS
    running = start(proxy, "eager_names", ["50ms", "200ms"][seed % 2])
    history = histories(cluster, running, seed, reads)
    judge = history.judge
    assert not judge.stale, "\n".join(judge.stale[:5])
    assert judge.reads >= reads
    assert not judge.errors
    assert proved(running, "independent") > 0
    history.compare()


@pytest.mark.timeout(900)
@pytest.mark.deep  # it is a matter of luck after how many reads one is stale
@pytest.mark.parametrize("mutant", ["any tables", "rows alone", "not read", "without definitions"])
def test_without_a_premise_reads_are_stale(
    cluster: Cluster, proxy: StartProxy, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those mutants of the model that a few minutes of chance show."""
    monkeypatch.setenv("MUTANT", mutant)
    judge = histories(cluster, start(proxy, "lax_tables", "50ms"), 1, READS_UNTIL_BROKEN).judge
    print("\n".join(judge.stale[:3]))
    assert judge.stale


# --- several workers, all scopes, replicas that are killed, and other primaries -------------------


def enough(history: TableHistory, running: RunningProxy, reads: int) -> bool:
    """So many reads, some of each wide scope of what others wrote, independent in each worker."""
    judge = history.judge
    return (
        judge.reads >= reads
        and all(judge.of_others[scope] for scope in Scope if scope is not Scope.CONNECTION)
        and all(proved(running, "independent", worker=str(n)) for n in range(WORKERS))
    )


def sound(history: TableHistory, running: RunningProxy, reads: int) -> None:
    """No read was stale, and what the test is about did happen."""
    judge = history.judge
    assert not judge.stale, "\n".join(judge.stale[:5])
    assert enough(history, running, reads)
    history.compare()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", seeds(1, 30))
def test_no_read_is_stale_across_workers_while_replicas_die(
    cluster: Cluster, proxy: StartProxy, seed: int, request: pytest.FixtureRequest
) -> None:
    """Each of several workers, whoever follows the log, and whoever wrote in which scope."""
    deep = request.config.getoption("--deep")
    reads, kills = (DEEP_READS, 2) if deep else (WORKERS_READS, 1)
    running = start(proxy, "eager_names", ["50ms", "200ms"][seed % 2], workers=WORKERS)
    history = TableHistory(cluster, running, EVERYBODY, seed, kills=True, apart=True)

    def done() -> bool:
        killed = min(delayer.killed for delayer in history.delayers)
        return killed >= kills and enough(history, running, reads)

    history.run(lambda: history.until(done))
    sound(history, running, reads)
    assert done()
    assert not history.judge.errors


def before_failover(
    cluster: Cluster, proxy: StartProxy, seed: int
) -> tuple[RunningProxy, TableHistory]:
    """A proxy that has seen both replicas read only, and clients for it."""
    running = start(
        proxy,
        "eager_names",
        ["50ms", "200ms"][seed % 2],
        workers=WORKERS,
        failover="read_only",
    )
    with closing(running.connect()) as connection:
        eventually(
            lambda: (
                [row[6] for row in run(connection, "SHOW TIDEGATE SERVERS")] == ["no", "yes", "yes"]
            )
        )
    return running, TableHistory(cluster, running, EVERYBODY, seed, kills=True, apart=True)


def independent_again(history: TableHistory, running: RunningProxy) -> None:
    """Go on until reads are independent by the log of the new primary, in each worker."""
    before = [proved(running, "independent", worker=str(n)) for n in range(WORKERS)]
    history.until(
        lambda: all(
            proved(running, "independent", worker=str(n)) > before[n] + 20 for n in range(WORKERS)
        )
    )


def go_through(history: TableHistory, running: RunningProxy, change: Callable[[], object]) -> None:
    """Let clients work before and after a change of the primary; no read may be stale."""
    reads = DEEP_READS // 4
    history.run(
        lambda: history.read_on(reads // 2),
        change,
        lambda: independent_again(history, running),
        lambda: history.until(lambda: enough(history, running, reads)),
    )
    sound(history, running, reads)


@pytest.mark.timeout(900)
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_no_read_is_stale_across_a_promotion(
    cluster: Cluster, proxy: StartProxy, seed: int
) -> None:
    """In good order: nothing that was acknowledged is lost."""
    running, history = before_failover(cluster, proxy, seed)
    go_through(history, running, history.hand_over)
    assert running.metric("tidegate_promotions_total") == WORKERS
    assert running.metric("tidegate_lost_transactions_total") == 0
    assert history.judge.codes.keys() <= DURING_PROMOTION, history.judge.errors


@pytest.mark.timeout(900)
@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
def test_no_read_is_stale_but_for_lost_writes(
    cluster: Cluster, proxy: StartProxy, seed: int
) -> None:
    """The primary is killed amid writes and definitions, of which the new one lacks the last."""
    running, history = before_failover(cluster, proxy, seed)
    go_through(history, running, lambda: history.fail_over(400))
    assert history.judge.acknowledged.lost > 0
    assert running.metric("tidegate_lost_transactions_total") > 0
    assert history.judge.codes[LOST] > 0
    assert history.judge.codes.keys() <= {*DURING_PROMOTION, LOST}, history.judge.errors


@pytest.mark.timeout(900)
@pytest.mark.deep
def test_judge_sees_what_a_failover_loses(cluster: Cluster, proxy: StartProxy) -> None:
    """A judge that is not told of the loss finds reads stale: so it judges behind a failover."""
    _, history = before_failover(cluster, proxy, 0)
    judge = history.run(
        lambda: history.read_on(1_000),
        lambda: history.fail_over(400, told=False),
        lambda: history.read_on(READS_UNTIL_BROKEN),
    )
    assert judge.stale


@pytest.mark.timeout(900)
@pytest.mark.deep  # it is a matter of luck after how many reads one is stale
@pytest.mark.parametrize("mutant", ["any tables", "rows alone", "tables untold"])
def test_without_a_premise_reads_across_workers_are_stale(
    cluster: Cluster, proxy: StartProxy, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is of the ring alone: the worker that reads the log keeps to the rule."""
    monkeypatch.setenv("MUTANT", mutant)
    running = start(proxy, "lax_tables", "50ms", workers=WORKERS)
    history = TableHistory(cluster, running, EVERYBODY, 1, kills=True, apart=True)
    judge = history.run(lambda: history.read_on(READS_UNTIL_BROKEN))
    print("\n".join(judge.stale[:3]))
    assert judge.stale


@pytest.mark.timeout(900)
@pytest.mark.deep  # likewise
@pytest.mark.parametrize(
    ("scope", "asked"),
    [
        (Scope.USER, Scope.CONNECTION),
        (Scope.APPLICATION, Scope.CONNECTION),
        (Scope.APPLICATION, Scope.USER),
        (Scope.PROXY, Scope.USER),
        (Scope.PROXY, Scope.APPLICATION),
    ],
)
def test_judge_tells_scopes_apart(
    cluster: Cluster, proxy: StartProxy, scope: Scope, asked: Scope
) -> None:
    """Reads in another scope than the judge's miss what others wrote in that."""
    running = start(proxy, "eager_names", "200ms", workers=WORKERS)
    crowd = clients([LEVEL], [scope], each=6)
    history = TableHistory(cluster, running, crowd, 1, asked=asked, apart=True)
    judge = history.run(lambda: history.read_on(READS_UNTIL_BROKEN))
    assert judge.stale
