"""Where sessions are run twice: on the primary itself, and through the proxy."""

from protocol.constants import Capability
from tests.differential.comparison import Difference, first_difference
from tests.differential.player import Answer
from tests.differential.schema import end_sessions, prepare_schema
from tests.differential.session import Session
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.raw_client import BASE
from tests.real_mysql.running_proxy import RunningProxy


class Arena:
    """A cluster and a proxy before it, through which clients may pause between commands."""

    def __init__(self, cluster: Cluster, proxy: RunningProxy, pause: float = 0.0) -> None:
        self._cluster = cluster
        self._proxy = proxy
        self._pause = pause

    def judge(self, session: Session) -> Difference | None:
        """Run a session on both; what differs first."""
        direct = self._run(session, self._cluster.primary.address)
        through = self._run(session, self._proxy.address, self._pause)
        capabilities = BASE & ~session.without | session.capabilities
        return first_difference(direct, through, Capability(capabilities))

    def _run(self, session: Session, address: str, pause: float = 0.0) -> list[Answer]:
        end_sessions(self._cluster)
        prepare_schema(self._cluster)
        return session.run(address, self._cluster.primary.address, pause)
