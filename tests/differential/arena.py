"""Where sessions are run twice: on the primary itself, and through the proxy."""

from collections.abc import Callable

from protocol.constants import Capability
from tests.differential.comparison import Difference, first_difference
from tests.differential.idle_release import IdleRelease
from tests.differential.player import Answer
from tests.differential.schema import end_sessions, prepare_schema
from tests.differential.server_defaults import differing
from tests.differential.session import Session
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import BASE
from tests.real_mysql.running_proxy import RunningProxy


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
            direct = self._run(session, self._cluster.primary.address)
            through = self._run(session, self._proxy.address, self._rest())
        capabilities = BASE & ~session.without | session.capabilities
        return first_difference(direct, through, Capability(capabilities))

    def _rest(self) -> Callable[[], None]:
        if self._idle_release is None:
            return lambda: None
        self._idle_release.begin()
        return self._idle_release.wait

    def _run(
        self, session: Session, address: str, rest: Callable[[], None] | None = None
    ) -> list[Answer]:
        end_sessions(self._cluster)
        prepare_schema(self._cluster)
        return session.run(address, self._cluster.primary.address, rest)
