"""The transaction that a read begins implicitly: with autocommit off, where none is open."""

from routing.consistency.rules import Rules
from routing.session.session import Session
from routing.session.snapshot import Snapshot
from routing.session.split import Split
from routing.session.split_snapshot import SplitSnapshot


def begin_implied(state: Session, rules: Rules) -> None:
    """Note the transaction that a session's read begins on a replica, if it begins one.

    Args:
        state: of the session.
        rules: what the read asks for.
    """
    if state.snapshot is not None:
        return
    if state.opens_read_only:
        state.snapshot = Snapshot(autocommit=False, implied=True, apart=state.reads_apart)
    elif state.opens_snapshot(rules):
        state.snapshot = SplitSnapshot(autocommit=False, implied=True)
    elif state.split is None and state.opens_split:
        state.split = Split(autocommit=False, implied=True)
