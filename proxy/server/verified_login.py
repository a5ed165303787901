"""What a server judged of a login: while that is fresh, its connection can be lent without asking.

Theory of operation
===================

A kept connection is lent to a client that logs in as the previous one did: with the same name,
password and schema, the same capabilities, character set and attributes. COM_RESET_CONNECTION ends
what the previous session left, but does not restore all that a login gives: character set and the
proxy's settings are set again, and the schema is selected again, which also shows that it exists.
What nothing restores is compared with what the login gave (`question`): so a connection whose
roles, default values or limits have changed is not lent.

What the server would judge anew (the account with its password, locks, expiry and clauses) is as
old as the login. `login-age` bounds that age, for each connection by itself
(`proxy.server.login_cache`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from protocol.command import com_query
from protocol.constants import Command
from protocol.packet import frame
from protocol.resultset import parse_text_row
from protocol.wire import lenenc_bytes
from proxy.server import attributes
from proxy.server.account import is_limited
from proxy.server.identity import CASCADES
from routing.servers.topology import Role
from routing.session.defaults import COLUMN, in_one_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.server.account import Requirement
    from proxy.server.identity import Identity
    from proxy.server.login import Login
    from proxy.server.settings import Settings

_SHOWN: Final = (
    b"@@character_set_client,@@character_set_results,@@collation_connection,IFNULL(@@proxy_user,''),"
    b"CURRENT_ROLE(),@@SESSION.sql_mode,@@SESSION.autocommit,@@SESSION.max_allowed_packet,"
    b"@@SESSION.max_user_connections,@@SESSION.transaction_isolation,@@GLOBAL.init_connect,"
    + CASCADES
)
"""What a session gets from its login, and neither COM_RESET_CONNECTION nor a setting restores; and
what the proxy relies on, in case the server's default has changed."""
_LIMIT: Final = b" LIMIT 1"
"""For servers whose sessions begin with a sql_select_limit."""
_COLUMNS: Final = 12
_LONGEST_SHARED: Final = 1 << 14
_NAME: Final = re.compile("[a-z0-9_]{1,64}")

RESET: Final = frame(bytes((Command.COM_RESET_CONNECTION,)), 0)
ROLLBACK: Final = b"ROLLBACK AND NO CHAIN NO RELEASE"
"""Has no effect but the rollback, whatever the server's default completion_type is."""

FORGET_TRACES: Final = b"optimizer_trace_offset=DEFAULT"
"""An assignment that empties information_schema.OPTIMIZER_TRACE."""

_OF_NO_CONSEQUENCE: Final = frozenset({"_pid"})
"""Attributes that differ between processes which are otherwise alike."""


@dataclass(frozen=True, slots=True)
class VerifiedLogin:
    """A login that a server let in.

    Attributes:
        login: of whom; the password stays in memory.
        tracking: the value of session_track_gtids that it asked for.
        at: when it was sent, monotonic s.
        identity: what the server said of itself to it.
        requirement: what its client's connection must be.
        row: the answer to `question` and to what it asks beside it when a session has ended.
        clean_up: packets that give the next session what the login gave, and ask that last.
    """

    login: Login
    tracking: str
    at: float
    identity: Identity
    requirement: Requirement
    row: bytes
    clean_up: bytes

    @property
    def answers(self) -> int:
        """How many answers come before that to `question`; a selected schema has one more."""
        return 3 if self.login.database is None else 4

    def is_of(self, login: Login, tracking: str) -> bool:
        """Whether a login is the same as this one; the capabilities are the connection's."""
        own = self.login
        return (
            own.username == login.username
            and self.tracking == tracking
            and own.character_set == login.character_set
            and own.database == login.database
            and compare_digest(own.password, login.password)
            and _of_consequence(own.attributes) == _of_consequence(login.attributes)
        )


def question(role: Role, beside: bytes = b"") -> bytes:
    """What to ask a session that has just begun, and later the one that is to be lent.

    On a replica the schema is what the proxy has chosen for each read. A new session has said what
    it begins with; so only the later one is asked for that `beside`.
    """
    schema = b",DATABASE()" if role is Role.PRIMARY else b""
    return b"SELECT " + _SHOWN + schema + beside + _LIMIT


def preface(
    role: Role, verified: VerifiedLogin, own: Mapping[str, str], has_attributes: bool
) -> list[bytes]:
    """Packets for the first write of the session that a connection is lent to.

    They show a server's operator whose connection it is, and make the server look up the account's
    rights again, which a session caches while it has no role.

    Args:
        role: of the server that it leads to.
        verified: the login that it was opened by.
        own: Tidegate's attributes of the session.
        has_attributes: queries on it have attributes.
    """
    statements = [attributes.assignment(own)]
    if role is Role.PRIMARY and not verified.identity.has_roles:
        statements.append(b"SET ROLE NONE")
    return [frame(com_query(sql, has_attributes), 0) for sql in statements]


def verified_login(
    settings: Settings,
    made: bytes,
    has_attributes: bool,
    identity: Identity,
    requirement: Requirement,
    row: bytes | None,
    account: bytes,
) -> VerifiedLogin | None:
    """The verdict on a login; None if its connection is never to be lent.

    Args:
        settings: what its connection is for.
        made: the statement that made them.
        has_attributes: queries on it have attributes.
        identity: what the server said of itself.
        requirement: what its client's connection must be.
        row: the answer to `question`, as it came.
        account: the answer to `SHOW`.
    """
    login = settings.login
    if login is None or row is None or not account or is_limited(account) or not identity.keepable:
        return None
    values = parse_text_row(row)
    if len(values) < _COLUMNS or values[3] != b"":
        return None  # a proxy user's own account is not shown
    names = [(value or b"").decode("ascii", "replace") for value in values[:3]]
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    restoring = made + b"," + FORGET_TRACES + b"," + in_one_set(*names)
    packets = [RESET, frame(com_query(ROLLBACK, has_attributes), 0)]
    if login.database is not None:
        schema = login.database.encode("utf-8", "surrogateescape")
        packets.append(frame(bytes((Command.COM_INIT_DB,)) + schema, 0))
    packets.append(frame(com_query(restoring, has_attributes), 0))
    is_told = bool(identity.defaults.values)
    later = question(settings.role, b"," + COLUMN if is_told else b"")
    packets.append(frame(com_query(later, has_attributes), 0))
    return VerifiedLogin(
        login,
        settings.tracking,
        settings.at,
        identity,
        requirement,
        _shared(row + lenenc_bytes(identity.defaults.row) if is_told else row),
        _shared(b"".join(packets)),
    )


def _shared(content: bytes) -> bytes:
    """The same object for the same content: of each, most connections to a server have a few KB."""
    return _same(content) if len(content) <= _LONGEST_SHARED else content


@lru_cache(maxsize=64)
def _same(content: bytes) -> bytes:
    return content


def _of_consequence(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in attributes.items() if name not in _OF_NO_CONSEQUENCE}
