"""Whether the server reported GTIDs for all that a session committed.

A server reports them only while session_track_gtids is on, and a stored program or a trigger can
turn it off. Trackers report that, unless the program turns these off as well, even so that no trace
of it is left (docs/mysql-behaviour.md, *Trackers*). A program cannot turn off the counts of
affected rows. So an answer with affected rows, or to a definition, that has no GTID may be to
something that was committed and not reported; and so may the answer to a program, unless tracking
is certain.
"""

from typing import Final

from protocol.constants import IN_TRANS
from routing.sql.statement import Statement, StatementClass, StatementReason
from routing.transaction.transaction import Transaction

_DEFINITIONS: Final = (StatementReason.DEFINITION, StatementReason.ACCOUNT)
_UPDATED: Final = b"Rows matched: "
_NO_ROW: Final = b"  Changed: 0  "
"""In the text of an UPDATE's OK: where a client asks for found rows, these count as affected."""


class Commits:
    """What one session may have committed without a report.

    Attributes:
        transaction: the session's.
        sure: no program has run since GTID tracking was turned on.
        unwatched: rows without GTIDs could be written; what was doubtful meanwhile still is.
    """

    def __init__(self, transaction: Transaction) -> None:
        """Nothing yet; `transaction` is the session's."""
        self.sure = True
        self.transaction = transaction
        self._cautious = False  # programs of this session have raised doubts
        self.unwatched = False

    def tracked(self) -> None:
        """GTID tracking was turned on, in case it was off."""
        self.sure = True

    def wants_tracking(self, statement: Statement | None) -> bool:
        """Whether to turn tracking on before a statement, so that its answer raises no doubt.

        Programs that write report GTIDs anyway; so this begins only after one that reported none.
        """
        return self._cautious and not self.sure and (statement is None or statement.calls_programs)

    def ended(
        self,
        statement: Statement | None,
        named: bool,
        changes: list[tuple[int, bytes]],
        temporary: bool,
    ) -> bool:
        """A command ended well that may write, or that ended a transaction.

        Args:
            statement: what it was; None if nobody looked at it.
            named: its answer told of a GTID.
            changes: status and text of each of its OK packets that told of affected rows and of no
                GTID.
            temporary: the session has temporary tables, whose rows get no GTIDs.

        Returns:
            Whether something may have been committed that was not named.
        """
        several = statement is None or statement.multi
        program = statement is None or statement.calls_programs
        transaction = self.transaction
        unnamed = bool(changes) and self._committed_rows(changes) and (several or not named)
        if program and not self.sure:
            if transaction.is_open:
                transaction.may_commit = True
            elif not named:
                unnamed = self._cautious = True
        if not transaction.is_open or _ends_transaction(statement):
            if transaction.may_commit and not named and not _rolls_back(statement):
                unnamed = True
            transaction.may_commit = False
        if statement is not None and statement.reason in _DEFINITIONS and not named:
            unnamed = True
        if statement is None or statement.may_run_programs:
            self.sure = False
        return self._watched(unnamed, statement, temporary)

    def _committed_rows(self, changes: list[tuple[int, bytes]]) -> bool:
        """Whether rows were changed outside of a transaction; one that goes on may commit some."""
        committed = False
        for status, text in changes:
            if text.startswith(_UPDATED) and _NO_ROW in text:
                continue
            if status & IN_TRANS:
                self.transaction.may_commit = True
            else:
                committed = True
        return committed

    def _watched(self, unnamed: bool, statement: Statement | None, temporary: bool) -> bool:
        """Ignore it while there are temporary tables, and once after them."""
        if temporary:
            self.unwatched = True
            return False
        if self.unwatched:
            self.unwatched = False
            return True
        # SELECT … INTO OUTFILE counts rows, too.
        return unnamed and not (statement is not None and statement.reason is StatementReason.FILE)


def _ends_transaction(statement: Statement | None) -> bool:
    """Whether it has ended a transaction, perhaps to begin another."""
    if statement is None or statement.kind is not StatementClass.TRANSACTION:
        return False
    return statement.reason is not StatementReason.SAVEPOINT and not statement.assignments


def _rolls_back(statement: Statement | None) -> bool:
    return _ends_transaction(statement) and statement is not None and not statement.may_write
