"""The stages of a connection to a server (`proxy.server.connection`), and which may come next.

Up to the server's greeting there is only a `ConnectionAttempt` (`proxy.server.connect.greeting`): a
login makes a connection of it.
"""

from typing import Final, Literal

from routing.unexpected_event import UnexpectedEventError

Stage = Literal["logged_in", "sandbox", "ready", "in_use", "idle", "lent", "closed"]

LOGGED_IN: Final = "logged_in"
"""The server has let the account in; the proxy's settings are not made yet."""
SANDBOX: Final = "sandbox"
"""The account's password has expired: the server refuses all but a new one (1820)."""
READY: Final = "ready"
"""The settings are made, and the server has said who it is; no session has it yet."""
IN_USE: Final = "in_use"
"""A session has it."""
IDLE: Final = "idle"
"""Its session has ended: it is cleaned, and waits for the next login (`proxy.server.pool`).

Whether it is clean yet, and whether a client was greeted with its id, its `IdleConnection` knows.
"""
LENT: Final = "lent"
"""An idle one was chosen for a login about which the server need not be asked."""
CLOSED: Final = "closed"
"""It cannot be used any more: it was closed, it broke, or it goes on as another object."""

TABLE: Final[dict[Stage, tuple[Stage, ...]]] = {
    LOGGED_IN: (READY, SANDBOX),
    SANDBOX: (READY, SANDBOX),
    READY: (IN_USE, LOGGED_IN),
    IN_USE: (IDLE, LOGGED_IN),
    IDLE: (LENT, LOGGED_IN),
    LENT: (IN_USE, READY),
    CLOSED: (),
}
"""Which stages may come next; each can end in CLOSED, too. Any other step is a defect.

LOGGED_IN again: by COM_CHANGE_USER. READY from LENT: it is asked something before a session has it.
"""


def next_stage(stage: Stage, following: Stage) -> Stage:
    """The stage that comes next.

    Raises:
        UnexpectedEventError: it cannot come after this one.
    """
    if following not in TABLE[stage]:
        raise UnexpectedEventError(following, stage)
    return following
