"""What clients saw of real servers, against what the audit says of the proxy's log of it.

Clients check their registers themselves and know nothing of the log; the audit knows nothing of
what was read. Where the proxy does what it should, both find nothing, whatever befalls the servers.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count, product
from typing import Any

import pytest
from pymysql.err import MySQLError

pytest.importorskip("pyspark")

from routing.consistency.decision import Scope
from spark_jobs.gtid import parse
from spark_jobs.verdict import Lapse, Verdict
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.disturbances import INTERRUPTED, KILLED, ONE_LATE, PROMOTED, Disturbance
from tests.real_mysql.routes import InSnapshots, ThroughTidegate, clients, execute, select
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.test_without_primary import wait_for_look
from tests.real_mysql.workload import Workload
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.without_spark import Audited, Key, audit
from tests.support.history_checker import check
from tests.support.waiting import eventually

READS = 1_000
PROMISES = [
    *("READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
    "BOUNDED_STALENESS(500ms)",
]
FAULTLESS = {Verdict.OK, Verdict.NO_PROMISE, Verdict.NO_ANSWER, Verdict.NOT_JUDGED}

_TOLD = 3
"""Records that did not keep the procedure, of which a failure tells."""
_BEFORE = 200
_AFTER = 20
"""Records of its proxy, in the order of their ends, before each and behind it."""


def around(log: list[Record], key: Key) -> list[str]:
    """A record, then the last ones of any worker before it, newest first, then what came next."""
    in_order = sorted(log, key=lambda record: int(str(record["ended_us"])))
    names = ("proxy", "worker", "run", "seq")
    index = [tuple(record[name] for name in names) for record in in_order].index(key)
    before = in_order[max(0, index - _BEFORE) : index]
    records = [in_order[index], *reversed(before), *in_order[index + 1 :][:_AFTER]]
    return [
        str({name: value for name, value in record.items() if value or name == "worker"})
        for record in records
    ]


def audited(running: RunningProxy) -> Audited:
    """End a proxy and judge its log."""
    running.stop()
    log = running.log()
    found = audit(log)
    for key, lapse in list(found.lapses.items())[:_TOLD]:
        print(f"{lapse}:", *around(log, key), sep="\n")
    print(Counter((read.verdict, read.finding) for read in found.reads.values()))
    return found


def run(
    cluster: Cluster,
    running: RunningProxy,
    disturbance: Disturbance,
    direct_writers: int = 2,
    route: type[ThroughTidegate] = ThroughTidegate,
) -> Audited:
    """Let clients of all promises in all scopes work; they and the audit find nothing."""
    with disturbance.before(cluster):
        workload = Workload(cluster, clients(PROMISES, list(Scope)), direct_writers=direct_writers)
        seen = workload.run(
            lambda client, name: route(running, client, name), READS, disturbance.during
        )
        found = audited(running)
    assert not check(seen.history)
    verdicts = Counter(read.verdict for read in found.reads.values())
    assert set(verdicts) <= FAULTLESS
    assert verdicts[Verdict.NOT_JUDGED] < READS / 50
    # The record itself belongs to the message: what is printed may be cut off.
    assert not found.lapses, [
        (*item, around(running.log(), item[0])[0]) for item in found.lapses.items()
    ]
    assert not found.lost
    assert sum(read.finding in ("known", "waited") for read in found.reads.values()) > READS / 100
    return found


def runs(*usual: tuple[Disturbance, str | None], deep: Sequence[Disturbance]) -> Any:
    """Disturbances with one worker and with two: some for every run, all `deep` ones by hand."""
    every = product(deep, (None, "2"))
    rest = [pytest.param(*run, marks=pytest.mark.deep) for run in every if run not in usual]
    return pytest.mark.parametrize(
        ("disturbance", "workers"),
        [*usual, *rest],
        ids=lambda value: value.name.replace(" ", "_") if isinstance(value, Disturbance) else None,
    )


@runs((ONE_LATE, None), (INTERRUPTED, "2"), (KILLED, "2"), deep=[ONE_LATE, INTERRUPTED, KILLED])
def test_what_clients_find_clean_is_clean(
    cluster: Cluster, proxy: StartProxy, disturbance: Disturbance, workers: str | None
) -> None:
    run(cluster, proxy(workers=workers, wait_budget="250ms"), disturbance)


@runs((ONE_LATE, "2"), deep=[ONE_LATE, INTERRUPTED])
def test_snapshots_are_clean(
    cluster: Cluster, proxy: StartProxy, disturbance: Disturbance, workers: str | None
) -> None:
    running = proxy(workers=workers, wait_budget="250ms")
    run(cluster, running, disturbance, route=InSnapshots)
    inside = [record for record in running.log() if "snapshot_us" in record]
    assert sum(record["snapshot_us"] != record["arrived_us"] for record in inside) > READS / 2
    assert all(record["role"] == "replica" for record in inside)


@pytest.mark.parametrize("workers", [pytest.param(None, marks=pytest.mark.deep), "2"])
def test_a_failover_is_clean(cluster: Cluster, proxy: StartProxy, workers: str | None) -> None:
    watched = {"failover": "read_only", "monitor_interval": "100ms", "workers": workers}
    run(cluster, proxy(**watched), PROMOTED, direct_writers=0)


_WRITE = "UPDATE registers SET value = {value} WHERE id = {register}"
_READ = "SELECT value FROM registers WHERE id = {register}"


CONFLICT = 1213
BEGINNINGS = ("BEGIN", "START TRANSACTION READ ONLY", "SET autocommit = 0")


def test_transactions_without_a_primary_are_clean(cluster: Cluster, proxy: StartProxy) -> None:
    """They begin on replicas, and go on from there once the primary is back."""
    running = proxy(monitor_interval="100ms")
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.lonely (id INT PRIMARY KEY, n INT)")
    cluster.primary.query("REPLACE INTO app.lonely VALUES (1, 1)")
    sessions = []
    for begins, isolation, level in product(
        BEGINNINGS,
        ("REPEATABLE READ", "READ COMMITTED"),
        ("READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES"),
    ):
        session = running.connect()
        execute(session, f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
        execute(session, f"SET tidegate_consistency = '{level}'")
        execute(session, "UPDATE app.lonely SET n = n + 1")
        sessions.append((begins, session))
    cluster.wait_caught_up()
    wait_for_look(cluster.primary)
    cluster.primary.kill()
    read = "SELECT n FROM app.lonely WHERE id = 1"
    for begins, session in sessions:
        for _ in range(2):
            execute(session, begins)
            assert select(session, read) == select(session, read)
            execute(session, "COMMIT")
        execute(session, begins)
        execute(session, read)
    cluster.primary.start()
    for begins, session in sessions:
        if "READ ONLY" not in begins:
            eventually(lambda session=session: _taken(session, "UPDATE app.lonely SET n = n + 1"))
        execute(session, "COMMIT")
        execute(session, read)
    found = audited(running)
    assert {read.verdict for read in found.reads.values()} <= FAULTLESS
    assert not found.lapses
    assert Verdict.OK in {read.verdict for read in found.reads.values()}


def _taken(session: Any, sql: str) -> bool:
    """Whether a statement is not refused for want of a primary."""
    try:
        execute(session, sql)
    except MySQLError as error:
        return error.args[0] == CONFLICT  # its snapshot was older than the primary's
    return True


def stale_reads(running: RunningProxy, seconds: float) -> list[bool]:
    """Clients read what they have just written; which of their reads, in order, were stale."""
    stale = []
    values = count(time.monotonic_ns())
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(running.connect())) for _ in range(4)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for register, connection in enumerate(connections):
                value = next(values)
                execute(connection, _WRITE.format(value=value, register=register))
                for _ in range(3):
                    got = select(connection, _READ.format(register=register))
                    stale.append(got != value)
    return stale


def applied_meanwhile(log: list[Record], read: Record) -> bool:
    """Whether a read's server had all that it lacked when it was asked for its set again."""
    proofs = [
        (int(str(record["dispatched_us"])), str(record["proof_set"]))
        for record in log
        if record["kind"] == "proof"
        and record["proof"] == "probed"
        and record["server"] == read["server"]
    ]
    later = [proof for proof in proofs if proof[0] >= int(str(read["ended_us"]))]
    return not later or parse(min(later)[1]).covers(parse(str(read["required"])))


def test_without_waits_the_stale_reads_are_found(cluster: Cluster, proxy: StartProxy) -> None:
    # The proxy itself sees its replicas lack what they claimed, and takes them for new ones.
    cluster.primary.query("CREATE TABLE app.registers (id INT PRIMARY KEY, value BIGINT)")
    cluster.primary.query("INSERT INTO app.registers VALUES (0, 0), (1, 0), (2, 0), (3, 0)")
    cluster.wait_caught_up()
    # Its reads may not leave late replicas: else it would see that waiting there is in vain.
    options = {"monitor_interval": "50ms", "on_timeout": "error"}
    running = proxy(module="tests.real_mysql.waitless", **options)
    seen = stale_reads(running, 0.5)
    swift = len(seen)
    for replica in cluster.replicas:
        replica.set_source_delay(1)
    seen += stale_reads(running, 3)
    cluster.wait_caught_up()
    found = audited(running)

    contradicted = {key[3] for key, lapse in found.lapses.items() if lapse == Lapse.CONTRADICTED}
    log = running.log()
    records = [record for record in log if record["class"] == "read"]
    reads = [record["seq"] in contradicted for record in records]
    assert len(reads) == len(seen)
    assert sum(reads[swift:]) > 100
    for index, (record, contradicts, is_stale) in enumerate(zip(records, reads, seen, strict=True)):
        if contradicts != is_stale:
            assert is_stale, record
            # What a replica had applied before anybody asked it again leaves no trace in the log.
            assert applied_meanwhile(log, record), (index, swift, record)
    # A WAIT may have lied for a read that then ran elsewhere.
    others = [
        record for record in log if record["seq"] in contradicted and record["class"] != "read"
    ]
    assert {(record["kind"], record["proof"]) for record in others} <= {("proof", "waited")}
    assert set(found.lapses.values()) == {Lapse.CONTRADICTED}
    print(f"stale: {sum(seen)}; found: {sum(reads)}, all {sum(seen[swift:])} on late replicas")
