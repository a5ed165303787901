"""What a server says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from routing.session.session import NO_ROLE

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from routing.session.defaults import Defaults

CASCADES: Final = b"/*!90700 @@SESSION.enable_cascade_triggers OR */ FALSE"
"""Whether triggers run where foreign keys cascade."""


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
        roles: those that are active in it, in the form for SET ROLE.
        read_only: `@@GLOBAL.read_only`.
        counted: the account may have so many connections at a time; 0 is any number.
        wait_timeout: it ends the session after so long without a command, s.
        init_connect: statements that run at the begin of each connection.
        cascade_triggers: foreign keys that cascade run triggers (enable_cascade_triggers).
        defaults: what the session begins with.
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
    roles: str
    read_only: bool
    counted: int
    wait_timeout: int
    init_connect: str
    cascade_triggers: bool
    defaults: Defaults
    asked_us: int
    answered_us: int
    grew: bool

    @property
    def renewable(self) -> bool:
        """Whether COM_RESET_CONNECTION and COM_CHANGE_USER give what a new connection gives.

        They run no init_connect, and enable_cascade_triggers has no effect after them (MySQL 9.7.4,
        docs/mysql-behaviour.md, *COM_CHANGE_USER*).
        """
        return not (self.init_connect or self.cascade_triggers)

    @property
    def has_roles(self) -> bool:
        """Whether roles are active in it."""
        return self.roles != NO_ROLE

    @property
    def keepable(self) -> bool:
        """Whether it may be kept: while no session has it, it counts for the account."""
        return not self.counted and self.renewable
