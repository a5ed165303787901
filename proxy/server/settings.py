"""The settings that routing needs on a connection to a server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from routing.session.variables import DEFAULT_ISOLATION, SHOWN_BY_DEFAULT, followed

if TYPE_CHECKING:
    from proxy.server.login import Login
    from routing.servers.topology import Role

_TRACKER_SETTINGS: Final = (
    b"SET SESSION session_track_schema=ON,session_track_state_change=ON"
    b",session_track_system_variables=_binary'%b'"
)
"""Lets the proxy see a primary connection's schema and variables, and changes that it must look
into. A server only warns about names that it does not know. It converts the names by
collation_connection and then by character_set_filesystem. If a client has set these to utf32, no
name is left; a binary literal of whole characters stays unchanged."""
_CHARACTER: Final = 4
"""The longest character of a character set in which none is shorter, bytes."""
ROOM: Final = 200
"""Bytes of the statement besides the names."""


def _whole_characters(names: str) -> bytes:
    """Names in a length that any character set can read; empty names are ignored."""
    return (names + "," * (-len(names) % _CHARACTER)).encode("ascii")


_REPLICA_SETTINGS: Final = (
    b"SET SESSION autocommit=1,transaction_read_only=1,transaction_isolation=_latin1'"
    + DEFAULT_ISOLATION.encode("ascii")
    + b"',session_track_schema=1,session_track_state_change=0,session_track_transaction_info=OFF"
    + b",session_track_system_variables=_binary'"
    + _whole_characters(SHOWN_BY_DEFAULT)
    + b"',session_track_gtids="
)
"""No read leaves a snapshot open for the next one, whatever the server's own default is; and a
statement that writes after all is refused (1792), even for accounts that may write there. If
sessions on the primary begin with another isolation level, it is set as if the session had set
it. Trackers are MySQL's defaults: a client is not sent what a replica tracks by its own."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a connection is prepared for its purpose.

    Attributes:
        role: the role that it is for; the server may get another one before the settings are made.
        tracking: its session_track_gtids.
        schema: its default schema.
        login: whose login it is, if what the server makes of it is to be remembered
            (`VerifiedLogin`).
        at: when that was sent, monotonic s.
    """

    role: Role
    tracking: str
    schema: str
    login: Login | None = None
    at: float = 0.0


@lru_cache(maxsize=64)
def primary_settings(
    max_packet: int, tracking: str, shown_variables: str = SHOWN_BY_DEFAULT, *, wide: bool = False
) -> bytes:
    """The settings of a connection to the primary.

    Args:
        max_packet: its max_allowed_packet. Where the names of all variables to be tracked are
        longer, all variables are tracked.
        tracking: a value of session_track_gtids; empty to leave it as it is.
        shown_variables: the client's own session_track_system_variables.
        wide: character_set_filesystem has no short characters. Then a star, which must stand alone,
        would be lost: only what the proxy needs is tracked, and the client is told of no more.
    """
    text = followed(shown_variables)
    if wide and text == "*":
        text = followed("")
    names = b"*" if text == "*" else _whole_characters(text)
    if len(names) + ROOM > max_packet:
        names = b"*"
    settings = _TRACKER_SETTINGS % names
    return settings + b",session_track_gtids=" + tracking.encode("ascii") if tracking else settings


@lru_cache(maxsize=8)
def replica_settings(tracking: str) -> bytes:
    """The settings of a connection to a replica.

    `tracking` is a value of session_track_gtids; ALL_GTIDS is the only one of use there.
    """
    return _REPLICA_SETTINGS + (b"ALL_GTIDS" if tracking == "ALL_GTIDS" else b"OFF")
