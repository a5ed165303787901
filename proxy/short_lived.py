"""Connections that come and go, for which scope `connection` promises less than their users think.

A page or a pool that opens a connection for each task writes over one and reads over the next. With
scope `connection` the second one is promised nothing about the first. Nobody sees that until a
replica is late; so it is counted, and the log says so for each user who goes on like that.
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
"""A connection that begins so soon after another one ended is taken to go on with its task."""
OFTEN: Final = 20
"""Connections within `_WITHIN_S` that make a habit."""
_WITHIN_S: Final = 60.0
_AGAIN_S: Final = 3600.0
"""How often the log tells of one user."""
_USERS: Final = 1024


@dataclass(slots=True)
class _User:
    wrote_at: float
    counted: int = 0
    since: float = 0.0
    told_at: float = float("-inf")


class ShortLived:
    """Those of one worker.

    Args:
        metrics: counts them.
        now: monotonic, s.
    """

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now = now
        self._users: OrderedDict[str, _User] = OrderedDict()

    def follows(self, state: Session) -> bool:
        """Whether a session that begins goes on, it seems, where one that wrote has ended."""
        user = self._users.get(state.user)
        return user is not None and self._now() - user.wrote_at < SOON_S

    def ended(self, state: Session, followed: bool) -> None:
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
                " promises none of them what another one wrote: where they are one application,"
                ' give it scope = "user" ([users.NAME] in the configuration)',
                name,
            )


def _may_have_missed(state: Session) -> bool:
    """Whether it was promised nothing about others' writes, and read from a replica."""
    rules, scope = state.rules, state.own_scope
    if rules.scope is not Scope.CONNECTION or rules.level not in OF_SCOPE:
        return False
    seen_on = scope.seen_on
    return scope.unseen or (seen_on is not None and seen_on.role is Role.REPLICA)
