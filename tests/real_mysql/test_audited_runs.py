"""What clients saw of real servers, against what the audit says of the proxy's log of it.

Clients check their registers themselves and know nothing of the log; the audit knows nothing of
what was read. Where the proxy does what it should, both find nothing, whatever befalls the servers.
"""

from collections import Counter

import pytest

pytest.importorskip("pyspark")

from routing.consistency.decision import Scope
from spark_jobs.verdict import Verdict
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.disturbances import INTERRUPTED, KILLED, ONE_LATE, PROMOTED, Disturbance
from tests.real_mysql.doors import ThroughTidegate, clients
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.workload import Workload
from tests.spark_jobs.without_spark import Audited, audit
from tests.support.history_checker import check

READS = 1_000
PROMISES = [
    *("READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG"),
    "BOUNDED_STALENESS(500ms)",
]
FAULTLESS = {Verdict.OK, Verdict.NO_PROMISE, Verdict.NO_ANSWER, Verdict.NOT_JUDGED}


def audited(running: RunningProxy) -> Audited:
    """End a proxy and judge its log."""
    running.stop()
    found = audit(running.log())
    print(Counter((it.verdict, it.finding) for it in found.reads.values()))
    return found


def run(
    cluster: Cluster, running: RunningProxy, disturbance: Disturbance, other_doors: int = 2
) -> None:
    """Let clients of all promises in all scopes work; they and the audit find nothing."""
    with disturbance.before(cluster):
        workload = Workload(cluster, clients(PROMISES, list(Scope)), other_doors=other_doors)
        seen = workload.run(
            lambda client, name: ThroughTidegate(running, client, name), READS, disturbance.during
        )
        found = audited(running)
    assert not check(seen.history)
    said = Counter(it.verdict for it in found.reads.values())
    assert set(said) <= FAULTLESS
    assert said[Verdict.NOT_JUDGED] < READS / 50
    assert not found.lapses
    assert not found.lost
    assert sum(it.finding in ("known", "waited") for it in found.reads.values()) > READS / 10


@pytest.mark.parametrize("workers", [None, "2"])
@pytest.mark.parametrize(
    "disturbance", [ONE_LATE, INTERRUPTED, KILLED], ids=["late", "interrupted", "killed"]
)
def test_what_clients_find_clean_is_clean(
    cluster: Cluster, proxy: StartProxy, disturbance: Disturbance, workers: str | None
) -> None:
    run(cluster, proxy(workers=workers), disturbance)


@pytest.mark.parametrize("workers", [None, "2"])
def test_a_failover_is_clean(cluster: Cluster, proxy: StartProxy, workers: str | None) -> None:
    watched = {"failover": "read_only", "monitor_interval": "100ms", "workers": workers}
    run(cluster, proxy(**watched), PROMOTED, other_doors=0)
