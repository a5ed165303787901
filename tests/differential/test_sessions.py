"""Generated sessions get the same packets through the proxy as from the primary itself.

A failure names the seed. `TIDEGATE_SEEDS=1234` (or `1000-4000`) runs just these sessions:
``TIDEGATE_SEEDS=1234 ./dev test --deep tests/differential -k seeds``.
"""

import pytest

from tests.differential import collations
from tests.differential.accepted import accepted
from tests.differential.arena import Arena
from tests.differential.comparison import Difference
from tests.differential.generator import Generator
from tests.differential.session import Session
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.support.judging import deep_seeds, judge_seeds


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(range(40), marks=pytest.mark.timeout(600), id="usual"),
        pytest.param(
            deep_seeds(3000),
            marks=[pytest.mark.deep, pytest.mark.timeout(0)],
            id="seeds",
        ),
    ],
)
@pytest.mark.real_mysql
def test_sessions(arena: Arena, proxy: RunningProxy, chosen: range) -> None:
    known = judge_seeds(chosen, lambda seed: Generator(seed).session(), arena.judge, accepted)
    if len(chosen) >= 60:
        assert known < len(chosen) / 5, f"{known} sessions end in accepted differences"
        # Else the sessions would prove little: what the primary answers is mostly its own.
        statements = proxy.metric("tidegate_statements_total")
        assert proxy.metric("tidegate_statements_total", role="replica") > statements / 10


@pytest.mark.real_mysql
def test_every_collation_of_the_server_is_drawn(cluster: Cluster) -> None:
    rows = cluster.primary.query("SELECT ID FROM information_schema.COLLATIONS ORDER BY ID")
    assert tuple(collation for (collation,) in rows) == collations.COLLATIONS
    assert not set(collations.UNKNOWN) & set(collations.COLLATIONS)


@pytest.mark.deep
@pytest.mark.real_mysql
@pytest.mark.timeout(0)
def test_sessions_that_begin_at_read_committed(
    arena: Arena, proxy: RunningProxy, cluster: Cluster
) -> None:
    """By the primary's default, so that transactions read from replicas until they write."""
    cluster.primary.query("SET GLOBAL transaction_isolation = 'READ-COMMITTED'")
    try:
        judge_seeds(deep_seeds(1000), lambda seed: Generator(seed).session(), arena.judge, accepted)
    finally:
        cluster.primary.query("SET GLOBAL transaction_isolation = DEFAULT")
    assert proxy.metric("tidegate_statements_total", role="replica") > 0


def or_refused(session: Session, found: Difference) -> bool:
    """Whether a difference is accepted, or a refusal to tell the id of another connection."""
    return accepted(session, found) or "(connection-sharing)" in str(found)


@pytest.mark.deep
@pytest.mark.real_mysql
@pytest.mark.timeout(0)
def test_sessions_that_rest_between_commands(cluster: Cluster) -> None:
    """They give their connection back as soon as they can, and borrow another."""
    sharing = {"connection_sharing": "on", "connection_sharing_delay": "2ms"}
    running = RunningProxy(cluster, "resting", {**sharing, "kept_connection_age": "10s"})
    chosen = deep_seeds(300)
    try:
        arena = Arena(cluster, running, shares=True)
        judge_seeds(chosen, lambda seed: Generator(seed).session(), arena.judge, or_refused)
        # Else they would prove little: most sessions soon do what nobody else may see.
        given_back = running.metric("tidegate_connections_given_back_total")
        assert given_back > len(chosen) / 4
        assert running.metric("tidegate_connections_borrowed_total") > given_back / 2
    finally:
        running.stop()
    assert "Traceback" not in running.stderr, running.stderr
