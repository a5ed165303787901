"""What a server says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.gtid import GtidSet


@dataclass(frozen=True, slots=True)
class Identity:
    """What a server said of itself, and when.

    Attributes:
        executed: `@@GLOBAL.gtid_executed`.
        owned: what it is committing; replicas may have some of it already.
        sql_mode: of the session that asked.
        isolation: likewise, its transaction_isolation.
        autocommit: likewise; the status flags do not tell of a server's default (they say on).
        character_set: its character_set_client.
        max_allowed_packet: likewise; the server refuses packets of this many bytes or more.
        has_roles: roles are active in it.
        read_only: `@@GLOBAL.read_only`.
        counted: the account may have so many connections at a time; 0 is any number.
        init_connect: statements run at the begin of each connection.
        asked_us: UTC µs when the question was sent.
        answered_us: UTC µs when the answer was there.
        grew: its answer made the server's applied set larger, or began it anew.
    """

    executed: GtidSet
    owned: GtidSet
    sql_mode: str
    isolation: str
    autocommit: bool
    character_set: str
    max_allowed_packet: int
    has_roles: bool
    read_only: bool
    counted: int
    init_connect: bool
    asked_us: int
    answered_us: int
    grew: bool

    @property
    def keepable(self) -> bool:
        """Whether the connection is like a new one after COM_CHANGE_USER.

        That runs no init_connect; and while no session has the connection it counts for the
        account.
        """
        return not self.counted and not self.init_connect
