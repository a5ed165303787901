"""Whether a session is plain: only what it must see bears on where its next read may go.

A plain session reads at a level at which nobody is asked, as a rule, before a read:
READ_OWN_WRITES, MONOTONIC_READS, BOUNDED_STALENESS or BEST_EFFORT. It has no transaction, open or
about to be; nothing pins it to the primary; no replica is left out for its sake; all that changed
its session on the primary is known. Then a plain read (`Statement.plain`) goes where the last one
went as long as that server has what must be seen, and otherwise where the policy finds a replica
(`routing.request.cached_decision`). A plain write goes to the primary; in one step only where the
primary names its own GTID and nothing else, as at READ_OWN_WRITES. Neither server needs to be told
anything first. Only the session's own state is looked at here. What other sessions or the servers
change is checked anew with each statement.

Three things can change any of this, and each sets `Session.plain` to False, so that it is
determined anew when the next statement comes: a command that is not a plain statement
(`ClientSession.serve`); an answer that is not an ordinary one, which comes in chunks to the session
(`ClientSession.answer`); and a replica that does not let the session's user in while another one
can answer (`Servers.open`). Anything else that may go wrong with a plain statement ends in such an
answer of the primary. In addition, the primary must have the settings that the proxy needs
(`PrimarySettings`).
"""

from typing import Final

from routing.consistency.decision import Level, Scope
from routing.session.session import Session

# Looked up once.
_LEVELS: Final = (
    *(Level.READ_OWN_WRITES, Level.MONOTONIC_READS),
    *(Level.BOUNDED_STALENESS, Level.BEST_EFFORT),
)
_APPLICATION: Final = Scope.APPLICATION


def is_plain(session: Session) -> bool:
    """Whether a session is plain, as far as routing knows it."""
    if session.outdated:
        return False  # its rules are about to change
    rules = session.rules
    if rules.level not in _LEVELS:
        return False  # its reads ask the primary, or how replicas commit
    if rules.scope is _APPLICATION and not rules.application:
        return False  # reads are refused
    if not session.transaction.is_idle:
        return False
    if session.trackers_pending or session.result_trackers_pending:
        return False  # the next OK packet tells of the statement before
    if session.trackers.gtids != rules.tracking:
        return False  # trackers tell more than the level needs, or less
    if session.pins.reasons or session.commits.unwatched:
        return False  # there are, or were, rows that have no GTIDs
    if session.avoided or session.rejections.last:
        return False
    return not session.in_server_schema
