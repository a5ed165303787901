"""What a replica's answers to the proxy's questions prove, and whether its others may count."""

from typing import Final, Literal

from routing.consistency.decision import Decision, Level, Reason
from routing.consistency.requirement import Requirement
from routing.servers.topology import Server

WaitResult = Literal["reached", "timeout", "failed", "interrupted"]
"""How a WAIT ended; `interrupted`: by KILL QUERY; `failed`: by another error, or by anything else
that proves nothing."""

_AS_OF_NOW: Final = (Level.STRONG, Level.BOUNDED_STALENESS)
"""Levels whose reads wait for what the primary had when they came."""


def record_wait(
    decision: Decision,
    result: WaitResult,
    requirement: Requirement,
    epoch: int,
    sent_at: float,
    seconds: float,
    now: float,
) -> bool:
    """Note what the end of a WAIT says about a replica.

    Args:
        decision: by which the WAIT was sent: to whom, and for what.
        result: how the WAIT ended.
        requirement: what the read must see.
        epoch: the connection's.
        sent_at: when the WAIT was sent, monotonic s.
        seconds: how long it took.
        now: monotonic, s.

    Returns:
        Whether this shows that the replica has the set.
    """
    server, gtids = decision.server, decision.proof_set
    scope = requirement.scope
    changed_at = asked_at = now - seconds
    if scope is not None and requirement.rules.level not in _AS_OF_NOW:
        changed_at = scope.changed_at or asked_at  # nothing was acknowledged since it is known
    if result == "reached" and gtids is not None:
        server.applied_after(now - changed_at, seconds, now)
        if requirement.rules.is_auto:
            server.answer_times.caught_up(now - changed_at, seconds, now)
        return server.add_proof(gtids, epoch, sent_at)
    if result == "timeout":
        server.timed_out(now, now - changed_at, seconds)
        if gtids is not None and not decision.is_brief:
            server.missing_gtids.on_timeout(gtids - server.applied, seconds, now)
        if requirement.rules.is_auto:
            server.answer_times.timed_out(now - changed_at, now)
    return False


def doubt(
    server: Server,
    still: bool | None,
    ordered: bool | None,
    needs_order: bool,
    epoch: int,
    sent_at: float,
    now: float,
) -> Reason | None:
    """Why the answer that follows must not count, or None; what the replica said is noted.

    Args:
        server: a replica.
        still: it has all that it had proved; None if it was not asked, or does not say.
        ordered: it commits in its source's order; None if it does not say.
        needs_order: the read relies on that.
        epoch: the connection's.
        sent_at: when it was asked, monotonic s.
        now: monotonic, s.
    """
    if still is False:
        server.distrust(epoch)
        return Reason.AUDIT_FAILED
    if ordered is None:
        return Reason.AUDIT_FAILED
    if still:
        server.add_confirmation(epoch, sent_at)
    server.keeps_order(ordered, sent_at, now)
    return Reason.COMMIT_ORDER if needs_order and not ordered else None
