"""What clients saw, level by level and scope by scope, whatever befalls the replicas.

Nothing of the proxy's own is believed: a checker looks at what clients sent, got, and when.
"""

from collections import Counter

import pytest

from routing.consistency.decision import Scope
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.disturbances import (
    FREE,
    INTERRUPTED,
    KILLED,
    LATE,
    ONE_LATE,
    UNORDERED,
    Disturbance,
)
from tests.real_mysql.routes import ThroughTidegate, WithoutTidegate, clients
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.workload import Seen, Workload
from tests.support.history_checker import Rule, check

READS = 1_000
READS_UNTIL_BROKEN = 2_000
DEEP_READS = 5_000
OUT_OF_BUDGET = "(3024, 'Tidegate: "
"""How a read is refused where a busy machine does not answer within the wait budget."""
SCOPES = list(Scope)
SESSION_PROMISES = ["READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES"]
PROMISES = [*SESSION_PROMISES, "STRONG", "BOUNDED_STALENESS(500ms)"]
DISTURBANCES = (FREE, LATE, ONE_LATE, INTERRUPTED, UNORDERED, KILLED)


def named(disturbance: Disturbance) -> str:
    return disturbance.name.replace(" ", "_")


def run(
    cluster: Cluster,
    proxy: StartProxy,
    disturbance: Disturbance,
    workload: Workload,
    reads: int,
    workers: int = 1,
) -> None:
    """Let clients work through a proxy; no promise was broken, nothing failed but for time."""
    with disturbance.before(cluster):
        running = proxy(workers=str(workers), wait_budget="250ms")
        seen = workload.run(
            lambda client, name: ThroughTidegate(running, client, name), reads, disturbance.during
        )
        share = replicas_share(running, seen)
    violations = check(seen.history)
    print(f"{len(seen.reads)} reads, {share:.0%} on replicas, {len(violations)} violations")
    assert not violations, "\n".join(map(str, violations[:5]))
    assert len(seen.reads) >= reads
    if disturbance is FREE:
        assert share > 0  # how many depends on the machine
    if disturbance is not KILLED:
        assert not [error for error in seen.errors if not error.startswith(OUT_OF_BUDGET)]


def replicas_share(running: RunningProxy, seen: Seen) -> float:
    """How many of the reads were answered by replicas."""
    on_replicas = running.metric("tidegate_statements_total", role="replica", outcome="ok")
    return on_replicas / len(seen.reads)


@pytest.mark.parametrize("disturbance", [FREE, LATE, KILLED], ids=named)
def test_promises_of_all_kinds_beside_each_other(
    cluster: Cluster, proxy: StartProxy, disturbance: Disturbance
) -> None:
    workload = Workload(cluster, clients(PROMISES, SCOPES), direct_writers=4)
    run(cluster, proxy, disturbance, workload, READS)


@pytest.mark.parametrize(
    "disturbance", [pytest.param(ONE_LATE, marks=pytest.mark.deep), KILLED], ids=named
)
def test_promises_hold_across_workers(
    cluster: Cluster, proxy: StartProxy, disturbance: Disturbance
) -> None:
    workload = Workload(cluster, clients(PROMISES, SCOPES), direct_writers=4)
    run(cluster, proxy, disturbance, workload, READS, workers=3)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("disturbance", "promise"),
    [
        # what one session asks for does not help another to what it was not promised
        (ONE_LATE, "MONOTONIC_READS"),
        (INTERRUPTED, "READ_OWN_WRITES"),
        (INTERRUPTED, "STRONG"),
        (UNORDERED, "READ_OWN_WRITES"),
        (UNORDERED, "READ_ALL_WRITES"),
    ],
    ids=lambda value: value if isinstance(value, str) else named(value),
)
def test_one_promise_in_all_scopes(
    cluster: Cluster, proxy: StartProxy, disturbance: Disturbance, promise: str
) -> None:
    workload = Workload(cluster, clients([promise], SCOPES, each=4), direct_writers=4)
    run(cluster, proxy, disturbance, workload, READS)


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scope", [*Scope, None], ids=str)
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("disturbance", DISTURBANCES, ids=named)
def test_one_promise(
    cluster: Cluster,
    proxy: StartProxy,
    disturbance: Disturbance,
    promise: str,
    scope: Scope | None,
) -> None:
    """In one scope, or (None) in all of them."""
    crowd = clients([promise], SCOPES, each=4) if scope is None else clients([promise], [scope], 16)
    run(cluster, proxy, disturbance, Workload(cluster, crowd, direct_writers=4), DEEP_READS)


def test_without_tidegate_every_promise_is_broken(cluster: Cluster) -> None:
    """The same clients at the servers themselves, one of which is late: so the checker sees."""
    workload = Workload(cluster, clients(PROMISES, SCOPES), direct_writers=4)
    with ONE_LATE.before(cluster):
        seen = workload.run(
            lambda client, name: WithoutTidegate(cluster, client, name),
            READS_UNTIL_BROKEN,
            ONE_LATE.during,
        )
    violations = check(seen.history)
    rules = Counter(violation.rule for violation in violations)
    print(f"{len(seen.reads)} reads, violations: {rules}")
    session_rules = {Rule.OWN_WRITES, Rule.MONOTONIC, Rule.ALL_WRITES}
    assert set(rules) == {*session_rules, Rule.STRONG, Rule.STALENESS}
    broken = {(violation.read.level, violation.read.scope[0]) for violation in violations}
    assert len(broken) == len(PROMISES) * len(SCOPES)
