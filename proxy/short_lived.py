"""Short-lived connections, to which scope `connection` promises less than their users may expect.

A web application or a pool that opens a connection for each task writes over one and reads over the
next. With scope `connection` the second one need not see what the first one wrote. Nobody notices
that until a replica is late; so such reads are counted, and users with many of them are logged.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Scope
from routing.consistency.rules import OF_SCOPE
from routing.servers.topology import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.observe.metrics import Metrics
    from routing.session.session import Session

_log = logging.getLogger(__name__)

SOON_S: Final = 10.0
"""A connection that begins within this time after another one ended seems to continue its task."""
OFTEN: Final = 20
"""A user is logged for this many such connections within `_WITHIN_S`."""
_WITHIN_S: Final = 60.0
_AGAIN_S: Final = 3600.0
"""One user is logged again only after this time."""
_USERS: Final = 1024


@dataclass(slots=True)
class _User:
    wrote_at: float
    counted: int = 0
    since: float = 0.0
    told_at: float = float("-inf")


class ShortLived:
    """Watches for short-lived connections to one worker.

    Args:
        metrics: counts them.
        now: monotonic, s.
    """

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now = now
        self._users: OrderedDict[str, _User] = OrderedDict()

    def follows(self, state: Session) -> bool:
        """Whether a session that begins seems to continue the task of one that wrote and ended."""
        user = self._users.get(state.user)
        return user is not None and self._now() - user.wrote_at < SOON_S

    def on_end(self, state: Session, followed: bool) -> None:
        """A session has ended; `followed` is what `follows` said when it began."""
        now = self._now()
        if followed and _may_have_missed(state):
            self._count(state.user, now)
        scope = state.own_scope
        if scope.own or scope.unknown:
            user = self._users.setdefault(state.user, _User(now))
            user.wrote_at = now
            self._users.move_to_end(state.user)
            if len(self._users) > _USERS:
                self._users.popitem(last=False)

    def _count(self, name: str, now: float) -> None:
        self._metrics.read_behind_another_connection()
        user = self._users.get(name)
        if user is None:
            return
        if now - user.since > _WITHIN_S:
            user.since, user.counted = now, 0
        user.counted += 1
        if user.counted >= OFTEN and now - user.told_at > _AGAIN_S:
            user.told_at = now
            _log.warning(
                'connections of user %r come and go, and read from replicas; scope = "connection"'
                " does not promise that one of them sees what another one wrote: if they belong to"
                ' one application, set scope = "user" for it ([users.NAME] in the configuration)',
                name,
            )


def _may_have_missed(state: Session) -> bool:
    """Whether it was promised nothing about others' writes, and read from a replica."""
    rules, scope = state.rules, state.own_scope
    if rules.scope is not Scope.CONNECTION or rules.level not in OF_SCOPE:
        return False
    seen_on = scope.seen_on
    return scope.unseen or (seen_on is not None and seen_on.role is Role.REPLICA)
