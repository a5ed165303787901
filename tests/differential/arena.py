"""Where sessions are run twice: on the primary itself, and through the proxy."""

import time
from collections.abc import Callable

from protocol.constants import Capability
from tests.differential.comparison import Difference, first_difference
from tests.differential.idle_release import IdleRelease
from tests.differential.schema import end_sessions, prepare_schema
from tests.differential.server_defaults import differing
from tests.differential.session import Session
from tests.differential.step import Query
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import BASE
from tests.real_mysql.running_proxy import RunningProxy

KEPT = "tidegate_kept_connections"
PRECEDING = (Query("SELECT 1/0, id FROM items"), Query("SELECT LAST_INSERT_ID(7)"))
"""What another client does whose connections are kept: it reads on a replica and on the primary."""


class Arena:
    """A cluster and a proxy before it."""

    def __init__(self, cluster: Cluster, proxy: RunningProxy, *, shares: bool = False) -> None:
        """`shares`: the proxy has connection sharing on, so clients that pause lose theirs."""
        self._cluster = cluster
        self._proxy = proxy
        self._idle_release = IdleRelease(proxy) if shares else None

    def judge(self, session: Session) -> Difference | None:
        """Run a session on both; what differs first."""
        with differing(self._cluster, session.defaults):
            self._prepare()
            direct = session.run(self._cluster.primary.address, self._cluster.primary.address)
            self._prepare()
            if session.follows:
                self._precede(session)
            through = session.run(self._proxy.address, self._cluster.primary.address, self._rest())
        capabilities = BASE & ~session.without | session.capabilities
        return first_difference(direct, through, Capability(capabilities))

    def _rest(self) -> Callable[[], None]:
        if self._idle_release is None:
            return lambda: None
        self._idle_release.begin()
        return self._idle_release.wait

    def _prepare(self) -> None:
        end_sessions(self._cluster)
        prepare_schema(self._cluster)

    def _precede(self, session: Session) -> None:
        """Let another client come and go, and its connections be kept."""
        before = session.with_steps(PRECEDING)
        before.run(self._proxy.address, self._cluster.primary.address, lambda: None)
        deadline = time.monotonic() + 1  # where they are not kept, there is nothing to wait for
        while not self._proxy.metric(KEPT) and time.monotonic() < deadline:
            time.sleep(0.002)
