"""How long servers may take for the proxy's own statements, whatever the client has set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from routing.session.session import Session

_HINT_S: Final = 1.0
"""How much later than a WAIT's own end the server may end it, s."""


def hint(state: Session, seconds: float) -> str:
    """What keeps the client's own max_execution_time from ending a statement of the proxy's."""
    if not state.limits_time:
        return ""  # it costs the server a timer
    return f"/*+ MAX_EXECUTION_TIME({hint_ms(seconds)}) */ "


def hint_ms(seconds: float) -> int:
    """The same for a statement that may take so many seconds, ms."""
    return round((seconds + _HINT_S) * 1000)
