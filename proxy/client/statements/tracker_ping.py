"""A COM_PING, whose OK brings what trackers could not tell before.

`proxy.client.effects.missing_trackers` says when that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.client.statements.diagnostics import PING
from proxy.server.exchange import TRACKER_PING

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch

ASK_TRACKERS: Final[Batch] = ((TRACKER_PING, PING),)
"""The question."""


class TrackersTold(NamedTuple):
    """What the OK says.

    Attributes:
        status: the status flags.
        changed: there are trackers of something that changed.
    """

    status: int
    changed: bool


def trackers_told(stream: ResponseStream) -> TrackersTold | None:
    """The answer; None if it is an error."""
    if stream.error is not None:
        return None
    return TrackersTold(stream.status, bool(stream.session_states))
