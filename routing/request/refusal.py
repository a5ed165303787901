"""Why a read is refused: the errors that its client gets."""

from protocol.errors import ServerErrorCode
from protocol.gtid import GtidSet
from routing.consistency.decision import Reason
from routing.request.step import Refuse


def no_application() -> Refuse:
    """It reads in an application's scope, and names none."""
    return Refuse(
        ServerErrorCode.ER_WRONG_VALUE_FOR_VAR,
        "Tidegate: scope is application, but no application is named; SET"
        " tidegate_application, or send the attribute tidegate.application",
        Reason.PROXY,
    )


def lost_writes(lost: GtidSet) -> Refuse:
    """The scope's writes are gone; its next reader is told once."""
    return Refuse(
        ServerErrorCode.ER_UNKNOWN_ERROR,
        "Tidegate: acknowledged writes are gone from the primary, which is another one now or"
        f" was restarted without them: {lost.text[:400]}; this is said once, reads go on"
        " without them",
        Reason.LOST_WRITES,
    )


def probe_failed() -> Refuse:
    """Only the primary knows what it must see, and did not say."""
    return Refuse(
        ServerErrorCode.ER_UNKNOWN_ERROR,
        "Tidegate: the primary does not say what it has; try again",
        Reason.PROBE_FAILED,
    )


def probe_timeout(primary: str, budget: float) -> Refuse:
    """Only the primary knows what it must see, and did not say within the wait budget (s)."""
    return Refuse(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        f"Tidegate: the primary {primary} did not say within the wait budget of"
        f" {budget * 1000:g} ms what this read must see; try again, raise wait-budget, or set"
        " on-timeout to stale",
        Reason.PROBE_FAILED,
    )


def primary_silent(primary: str) -> Refuse:
    """Only the primary could help, and is known not to answer anybody."""
    return Refuse(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        f"Tidegate: the primary {primary} does not answer, and this read needs it; try again when"
        " it does, or set on-timeout to stale",
        Reason.PROBE_FAILED,
    )


def no_quorum(why: str) -> Refuse:
    """It asks for the present state, which the primary may not have: `why` says so."""
    return Refuse(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        f"Tidegate: {why}; no server has the present state for certain, which this read asks for",
        Reason.PROBE_FAILED,
    )


def no_primary(primary: str, cause: str, *, may_write: bool) -> Refuse:
    """Only the primary could answer, and it is gone.

    What may write gets the error of a server that is read only, which applications know; anything
    else that of a client that cannot connect. Neither makes a driver give its connection up.

    Args:
        primary: its name.
        cause: why it cannot be used.
        may_write: the statement may.
    """
    why = f"the primary {primary} is gone ({cause})"
    if may_write:
        return Refuse(
            ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT,
            "The MySQL server is running with the --read-only option so it cannot execute this"
            f" statement (Tidegate: {why}; the session stays, and writes when there is one again)",
            Reason.NO_PRIMARY,
        )
    return Refuse(
        ServerErrorCode.CR_CONN_HOST_ERROR,
        f"Can't connect to MySQL server on '{primary}' (Tidegate: {why}, and this statement needs"
        " it; the session stays)",
        Reason.NO_PRIMARY,
    )


def wait_timeout(budget: float) -> Refuse:
    """The wait budget (s) ran out, and on-timeout is error."""
    return Refuse(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        "Tidegate: the replica had not applied what this read must see within the wait"
        f" budget of {budget * 1000:g} ms; raise wait-budget, or set on-timeout"
        " to primary",
        Reason.WAIT_TIMEOUT,
    )


def interrupted() -> Refuse:
    """Its client, or an administrator, has ended it with KILL QUERY while it waited."""
    return Refuse(
        ServerErrorCode.ER_QUERY_INTERRUPTED,
        "Query execution was interrupted",
        Reason.REPLICA_REFUSED,
    )


def flood() -> Refuse:
    """The primary has enough to do."""
    return Refuse(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        "Tidegate: replicas are behind, and more reads than the primary is to be given"
        " (primary-fallback-rate) want to go there; try again, or raise it",
        Reason.FLOOD,
    )


def split_conflict() -> Refuse:
    """Its transaction has read from another snapshot; it was rolled back, to be retried."""
    return Refuse(
        ServerErrorCode.ER_LOCK_DEADLOCK,
        "Tidegate: the transaction has read on a replica, and the primary would show this read"
        " another state; it was rolled back. Try restarting it: all of it will run on the primary"
        " (transaction-reads, on-split-conflict)",
        Reason.TRANSACTION,
    )


def still_committing(budget: float) -> Refuse:
    """The primary would show an older state than was seen, and the wait budget (s) ran out."""
    return Refuse(
        ServerErrorCode.ER_QUERY_TIMEOUT,
        "Tidegate: the primary is still committing what this session or scope may have seen on"
        " a replica, and does not show it within the wait budget of"
        f" {budget * 1000:g} ms; try again, or raise wait-budget",
        Reason.WAIT_TIMEOUT,
    )
