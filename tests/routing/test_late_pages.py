"""Pages behind a write, on replicas that have it after a while: how long their reads wait.

A simulation: what a WAIT meets is computed, and told to the replicas as the proxy tells them.
"""

from random import Random

import pytest

from protocol.gtid import EMPTY
from routing.consistency.decision import Level, Proof, Scope, TimeoutPolicy
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.policy import choose
from routing.request.wait_results import record_wait
from routing.servers.topology import Topology
from routing.session.session import Session
from routing.sql.statement import Statement, StatementClass, StatementReason
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
LOST = "22222222-2222-2222-2222-222222222222"
_READ = Statement(StatementClass.READ, StatementReason.NOTHING, False, "0" * 16)
_BUDGET = 0.25
_ANSWER_S = 0.0005
_READS = 10
_EVERY_S = 0.1
_WRITE_EVERY_S = 2.5
_LOOK_EVERY_S = 1.0


def cluster_of(level: Level, *replicas: str) -> tuple[Topology, Session]:
    """A primary with these replicas, and a session."""
    topology = Topology("primary:1", list(replicas), fallback_rate=1e9)
    topology.primary.observe(U, (0, 0), EMPTY, EMPTY)
    for number, replica in enumerate(topology.replicas):
        replica.observe(f"uuid-{number}", (0, 0), EMPTY, EMPTY)
    rules = Rules(level, Scope.CONNECTION, _BUDGET, TimeoutPolicy.PRIMARY)
    return topology, Session(rules, 0, term=1)


def played(seed: int, least: float, most: float) -> tuple[list[float], float]:
    """How long the reads of each page waited, s, ascending, and the share of reads on replicas.

    Replicas have each write `least` to `most` seconds after its acknowledgement.
    """
    random = Random(seed)
    topology, session = cluster_of(Level.READ_OWN_WRITES, "replica:1", "replica:2")
    now, looked_at, number, on_replicas = 1000.0, 1000.0, 0, 0
    pages: list[float] = []
    has_at: dict[str, float] = {}
    written_at = -_WRITE_EVERY_S
    while len(pages) < 500:
        begun = now
        if now - written_at >= _WRITE_EVERY_S:
            number += 1
            written_at = now
            session.record_write(gtids(f"{U}:1-{number}"), topology.primary, now)
            has_at = {
                replica.name: now + random.uniform(least, most) for replica in topology.replicas
            }
        waited = 0.0
        for _ in range(_READS):
            now += _ANSWER_S
            if now - looked_at >= _LOOK_EVERY_S:
                looked_at = now
                for replica in topology.replicas:
                    shown = gtids(f"{U}:1-{number}")
                    if has_at[replica.name] <= now:
                        replica.observe(replica.uuid, (0, 0), shown, EMPTY)
            decision = choose(session, _READ, topology, now)
            if decision.proof is not Proof.WAITED:
                on_replicas += decision.proof is Proof.KNOWN
                continue
            left = has_at[decision.server.name] - now
            seconds = min(max(left, 0.0), _BUDGET, decision.wait_limit)
            sent_at, now = now, now + seconds
            waited += seconds
            on_replicas += left <= seconds
            requirement = Requirement(session.rules)
            requirement.scope = session.own_scope
            record_wait(
                *(decision, "reached" if left <= seconds else "timeout", requirement),
                *(decision.server.epoch, sent_at, seconds, now),
            )
        pages.append(waited)
        now = max(now, begun + _EVERY_S)
    return sorted(pages), on_replicas / len(pages) / _READS


def test_a_replica_whose_progress_nobody_watches_is_read_again_after_a_stop() -> None:
    topology, session = cluster_of(Level.READ_OWN_WRITES, "replica:1")
    (replica,) = topology.replicas
    now, reached = 1000.0, []
    for number in range(1, 4000):  # each is written and read back, and there after 20 ms
        now += 0.01
        session.record_write(gtids(f"{U}:1-{number}"), topology.primary, now)
        has_at = max(now + 0.02, 1010.0) if 1005.0 < now < 1010.0 else now + 0.02
        decision = choose(session, _READ, topology, now)
        if decision.proof is not Proof.WAITED:
            continue
        seconds = min(has_at - now, _BUDGET, decision.wait_limit)
        sent_at, now = now, now + seconds
        requirement = Requirement(session.rules)
        requirement.scope = session.own_scope
        is_there = now >= has_at
        record_wait(
            *(decision, "reached" if is_there else "timeout", requirement),
            *(replica.epoch, sent_at, seconds, now),
        )
        if is_there:
            reached.append(now)
    assert [at for at in reached if 1010.0 < at < 1025.0]
    assert reached[-1] > now - 1.0


def test_what_never_comes_to_a_replica_is_waited_for_ever_more_rarely() -> None:
    """The primary was given a `gtid_purged`; the replica has all else within milliseconds."""
    topology, session = cluster_of(Level.STRONG, "replica:1")
    (replica,) = topology.replicas
    now, begun = 1000.0, []
    for number in range(1, 2401):
        now += 0.1
        others = gtids(f"{U}:1-{number}")
        replica.applied_after(0.003, 0.003, now)  # as a session that reads what it wrote finds
        replica.add_proof(others, replica.epoch)
        probed = others | gtids(f"{LOST}:1-5")
        requirement = Requirement(session.rules, session.own_scope, probed, probed)
        decision = choose(session, _READ, topology, now, requirement)
        if decision.proof is Proof.WAITED:
            if not decision.is_brief:
                begun.append(now)
            sent_at, now = now, now + min(_BUDGET, decision.wait_limit)
            record_wait(
                decision, "timeout", requirement, replica.epoch, sent_at, now - sent_at, now
            )
    assert len(begun) < 20
    assert len([at for at in begun if at > now - 100.0]) < 5
    # Another such set, of which it has all, or that nobody has waited for, is waited for.
    for other in (f"{U}:1-9999", f"{U}:1-9999,{LOST}:9"):
        probed = gtids(other)
        requirement = Requirement(session.rules, session.own_scope, probed, probed)
        replica.add_proof(gtids(f"{U}:1-2400"), replica.epoch)
        assert choose(session, _READ, topology, now + 0.1, requirement).is_brief is False


@pytest.mark.parametrize("seed", range(5))
def test_replicas_that_are_late_by_ever_different_times_do_not_hold_pages_up(seed: int) -> None:
    pages, share = played(seed, 1.0, 2.0)
    assert pages[-len(pages) // 50] < 0.05
    assert pages[-1] < 2 * _BUDGET + 0.1  # before the first delays are known
    assert share > 0.3  # from 1.5 s after a write until the next one, in the mean, it would be 0.4
