"""What replicas have of one transaction of the client's: the base, and reads per statement.

At READ COMMITTED and READ UNCOMMITTED each statement has a snapshot of its own, so each read stands
alone: it goes where it would go outside a transaction. So that the client is told that a
transaction is open, one is open on each of these replicas, too. It is READ ONLY, so that nothing
can be written there; the client does not see that.
"""


class ReplicaReads:
    """The reads of one transaction on replicas, each of which has it as a READ ONLY one.

    A connection remembers by this object whose transaction is open there.

    Attributes:
        autocommit: the session's as it began: the replicas are to have the same.
        implied: the primary has not heard of it yet: with autocommit off a read has begun it.
        begun: or the client has, by a statement, while there was no primary.
        may_write: the transaction may write, on the primary.
    """

    def __init__(self, autocommit: bool, implied: bool, may_write: bool) -> None:
        self.autocommit = autocommit
        self.implied = implied
        self.begun = False
        self.may_write = may_write


class PerStatementReads(ReplicaReads):
    """Of a READ WRITE transaction in which each statement has a snapshot of its own."""

    def __init__(self, *, autocommit: bool = True, implied: bool = False) -> None:
        super().__init__(autocommit, implied, True)
