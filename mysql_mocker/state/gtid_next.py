"""`gtid_next` of one session: the GTID that its next transaction is given."""

import re
from collections.abc import Coroutine
from typing import Final, Protocol, TypeVar

from mysql_mocker.error import MySQLError
from mysql_mocker.state.instance import Instance
from protocol.errors import MalformedGtidSetError
from protocol.gtid import Gtid, GtidSet

_AUTOMATIC: Final = re.compile(r"AUTOMATIC(?::\s*([a-z_][a-z0-9_]{0,31})\s*)?", re.I)
_MAX_NUMBER: Final = 2**63 - 2
_T = TypeVar("_T")


class Owner(Protocol):
    """What `GtidNext` needs of its session."""

    @property
    def id(self) -> int:
        """CONNECTION_ID()."""
        ...

    @property
    def server(self) -> Instance:
        """Where it runs."""
        ...

    @property
    def in_transaction(self) -> bool:
        """SERVER_STATUS_IN_TRANS."""
        ...

    async def interruptible(
        self, work: Coroutine[None, None, _T], seconds: float | None = None
    ) -> _T | None:
        """The result of `work`; None if it takes longer."""
        ...


class GtidNext:
    """AUTOMATIC, AUTOMATIC with a tag, or a GTID that the session owns until its transaction ends.

    After that the GTID is spent, as it is if another session committed it before: the session must
    set another value before it writes again.

    Attributes:
        tag: of automatic numbers; empty for none.
        named: the GTID that was set, None if it is automatic.
    """

    def __init__(self, session: Owner) -> None:
        self._session = session
        self.tag = ""
        self.named: Gtid | None = None
        self._owns = False
        self._spent = False

    @property
    def text(self) -> str:
        """`@@SESSION.gtid_next`."""
        if self.named is not None:
            return str(self.named)
        return f"AUTOMATIC:{self.tag}" if self.tag else "AUTOMATIC"

    @property
    def owned(self) -> Gtid | None:
        """`@@SESSION.gtid_owned`."""
        return self.named if self._owns else None

    async def assign(self, text: str) -> None:
        """SET gtid_next; waits while another session owns that GTID.

        Raises:
            MySQLError: 1766 inside a transaction, 1790 while a GTID is owned, 1782 for ANONYMOUS,
                1774 for a text that is no GTID.
        """
        session = self._session
        if session.in_transaction:
            raise _ongoing("gtid_next")
        if text.upper() == "ANONYMOUS":
            raise MySQLError(
                1782,
                "HY000",
                "@@SESSION.GTID_NEXT cannot be set to ANONYMOUS when @@GLOBAL.GTID_MODE = ON.",
            )
        automatic = _AUTOMATIC.fullmatch(text)
        named = None if automatic else _parse(text)
        if self.owned is not None:
            raise MySQLError(
                1790,
                "HY000",
                "@@SESSION.GTID_NEXT cannot be changed by a client that owns a GTID. The client "
                f"owns {self.owned}. Ownership is released on COMMIT or ROLLBACK.",
            )
        self.tag = (automatic[1] or "").lower() if automatic else ""
        self.named = named
        self._spent = False
        if named is not None:
            owning = session.server.gtids.own(named, session.id)
            self._owns = bool(await session.interruptible(owning))

    def check_purgeable(self) -> None:
        """Whether the session may set gtid_purged now.

        Raises:
            MySQLError: 1766 inside a transaction, 3138 while it owns a GTID.
        """
        if self._session.in_transaction:
            raise _ongoing("gtid_purged")
        if self.owned is not None:
            raise MySQLError(
                3138,
                "HY000",
                "Variable gtid_purged cannot be changed by a client that owns a GTID. The client "
                f"owns {self.owned}. Ownership is released on COMMIT or ROLLBACK.",
            )

    def take(self) -> GtidSet | None:
        """The GTID of the transaction that is committed now; None if it gets none.

        A server without a binary log does not number transactions of its own.
        """
        server = self._session.server
        if self.named is not None:
            return GtidSet({self.named.tsid: [(self.named.number, self.named.number + 1)]})
        return server.gtids.next_gtid(self.tag) if server.variable("log_bin") else None

    def end(self) -> None:
        """A transaction ended: the session no longer owns its GTID."""
        if self.named is not None:
            self._spent = True
        if self.owned is not None:
            self._session.server.gtids.release(self.owned)
            self._owns = False

    def check(self, *, writes: bool, implicit_commit: bool) -> bool:
        """Whether a statement runs at all; it does not for a GTID that was already executed.

        Args:
            writes: the statement needs a GTID.
            implicit_commit: it commits what is open before it begins.

        Raises:
            MySQLError: 1778 or 1837.
        """
        if self.named is None:
            return True
        if implicit_commit and self._session.in_transaction:
            raise MySQLError(
                1778,
                "HY000",
                "Cannot execute statements with implicit commit inside a transaction when "
                "@@SESSION.GTID_NEXT == 'UUID:NUMBER'.",
            )
        if not writes or self._owns:
            return True
        if self._spent:
            raise MySQLError(
                1837,
                "HY000",
                "When @@SESSION.GTID_NEXT is set to a GTID, you must explicitly set it to a "
                "different value after a COMMIT or ROLLBACK. Please check GTID_NEXT variable "
                "manual page for detailed explanation. Current @@SESSION.GTID_NEXT is "
                f"'{self.named}'.",
            )
        self._spent = implicit_commit
        return False


def _parse(text: str) -> Gtid:
    """A GTID as the server reads it, which also takes blanks around its parts.

    Raises:
        MySQLError: 1774.
    """
    malformed = MySQLError(1774, "HY000", f"Malformed GTID specification '{text}'.")
    if "-" not in text or text.endswith("-"):
        raise malformed  # a set's UUID may lack its dashes, a GTID's may not
    try:
        gtid = Gtid.parse(text)
    except MalformedGtidSetError as error:
        raise malformed from error
    if gtid.number > _MAX_NUMBER or "-" in text.rpartition(":")[2]:
        raise malformed
    return gtid


def _ongoing(name: str) -> MySQLError:
    return MySQLError(
        1766,
        "HY000",
        f"The system variable {name} cannot be set when there is an ongoing transaction.",
    )
