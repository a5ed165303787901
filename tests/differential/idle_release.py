"""Waits until an idle session has given its connections back (`connection-sharing`)."""

import time

from tests.real_mysql.running_proxy import RunningProxy

RESTING = "tidegate_clients_resting"
KEPT = "tidegate_connections_not_given_back_total"
PAUSE = 0.01
"""Seconds in which a session usually gives its connections back, at a delay of 2 ms."""
PATIENCE = 0.3
"""Seconds after which a session that did not is taken to keep them."""


class IdleRelease:
    """One proxy's, whose only client takes one step after another."""

    def __init__(self, proxy: RunningProxy) -> None:
        self._proxy = proxy
        self._kept = 0.0  # so often a session had kept its connection when this last waited
        self._keeps = False  # the session had a reason to, and a reason is counted only once

    def begin(self) -> None:
        """Another session begins."""
        self._keeps = False

    def wait(self) -> None:
        """Return when the session has no connection, or had to keep it.

        Nothing tells of a session that keeps its connection for the same reason as before, so this
        does not wait for ever: whether a session rested makes no difference to its answers.
        """
        if self._keeps:
            time.sleep(PAUSE)
            self._keeps = not self._proxy.metric(RESTING)
            return
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(PAUSE)
            if self._proxy.metric(RESTING):
                return
            kept = self._proxy.metric(KEPT)
            if kept > self._kept:
                self._kept, self._keeps = kept, True
                return
        self._keeps = True
