"""The access mode of a session's next transaction, from trackers and SET TRANSACTION.

`SET SESSION TRANSACTION READ ONLY` counts for all transactions that begin from then on, SET
TRANSACTION READ ONLY for the next one alone. An unknown mode counts as READ WRITE, since such a
transaction reads on the primary.
"""


class TransactionModes:
    """The transaction modes of one session.

    Attributes:
        read_only: transaction_read_only of the session; only as a tracker reports it.
        waiting: a SET TRANSACTION waits for the next transaction.
        isolates: it sets the isolation level.
    """

    def __init__(self) -> None:
        self.read_only = False
        self.waiting = False
        self.isolates = False
        self._next_read_only: bool | None = None

    def set_next(self, name: str, value: str | None) -> None:
        """SET TRANSACTION, or an assignment to @@name; `value` as of an `Assignment`."""
        self.waiting = True
        if name == "transaction_isolation":
            self.isolates = True
        else:
            self._next_read_only = is_on(value)

    def left_read_only(self) -> None:
        """SET autocommit = 1 ended a READ ONLY transaction: the next statement is READ ONLY, too.

        MySQL forgets the access mode only with that statement (docs/mysql-behaviour.md,
        *Status flags*).
        """
        self.waiting = True
        self._next_read_only = True

    def spent(self) -> None:
        """The next transaction has begun, or there was none to be ended."""
        self.waiting = False
        self.isolates = False
        self._next_read_only = None

    def doubt(self) -> None:
        """It is not known whether the next transaction has begun and used up what was set."""
        if self.waiting:
            self._next_read_only = False

    @property
    def next_is_read_only(self) -> bool:
        """Whether the next transaction is READ ONLY if nothing else is said as it begins."""
        return self.read_only if self._next_read_only is None else self._next_read_only


def is_on(value: str | None) -> bool:
    """Whether a literal, or a tracker's value, means that a switch is on."""
    return (value or "").strip("'\"").upper() in ("1", "ON", "TRUE")
