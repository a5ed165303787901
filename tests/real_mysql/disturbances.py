"""What happens to a cluster while clients work on it.

Each has two parts: a state in which the cluster is before a proxy starts, and what is done while
clients read. The second waits for the clients' progress, not for time.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import REPLICATION_PASSWORD, REPLICATION_USER
from tests.real_mysql.workload import TABLES, During, Workload

_HOLD = "SELECT * FROM registers{} FOR SHARE"
_FOLLOW = f"""
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s,
  SOURCE_USER = '{REPLICATION_USER}', SOURCE_PASSWORD = '{REPLICATION_PASSWORD}',
  SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1
"""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One way to make a cluster's life hard.

    Attributes:
        name: names a test.
        before: the cluster's state, for the length of a `with` block.
        during: what is done meanwhile; it waits for the clients to read on.
    """

    name: str
    before: Callable[[Cluster], AbstractContextManager[None]]
    during: During


@contextmanager
def _as_it_is(cluster: Cluster) -> Iterator[None]:
    yield


def _nothing(cluster: Cluster, clients: Workload) -> None:
    pass


@contextmanager
def _one_second_late(cluster: Cluster) -> Iterator[None]:
    for replica in cluster.replicas:
        replica.set_source_delay(1)
    yield
    for replica in cluster.replicas:
        replica.set_source_delay(0)


@contextmanager
def _one_late(cluster: Cluster) -> Iterator[None]:
    cluster.replicas[0].set_source_delay(1)
    yield
    cluster.replicas[0].set_source_delay(0)


def _be_quiet(cluster: Cluster, clients: Workload) -> None:
    """Clients write no more: soon the late replica has all of theirs, but never what is new."""
    clients.read_on(0.3)
    clients.quiet = True
    cluster.wait_caught_up()
    clients.read_on(0.5)


def _stop_and_start_appliers(cluster: Cluster, clients: Workload) -> None:
    """Now one replica stands still, now the other: while clients write, and while they do not."""
    for replica in cluster.replicas * 2:
        with replica.applier_stopped():
            clients.read_on(0.1)
        clients.quiet = True
        cluster.wait_caught_up()
        with replica.applier_stopped():
            clients.read_on(0.1)
        clients.quiet = False
        clients.read_on(0.05)


@contextmanager
def _any_commit_order(cluster: Cluster) -> Iterator[None]:
    _preserve_commit_order(cluster, "OFF")
    try:
        yield
    finally:
        _preserve_commit_order(cluster, "ON")


def _preserve_commit_order(cluster: Cluster, setting: str) -> None:
    for replica in cluster.replicas:
        with replica.applier_stopped():
            replica.query(f"SET GLOBAL replica_preserve_commit_order = {setting}")


def _hold_rows(cluster: Cluster, clients: Workload) -> None:
    """Now and then a table's writes wait for a lock on both replicas, and others overtake them."""
    for table in range(TABLES):
        clients.quiet = not clients.quiet
        with contextlib.ExitStack() as stack:
            for replica in cluster.replicas:
                connection = stack.enter_context(contextlib.closing(replica.admin("app")))
                connection.begin()
                with connection.cursor() as cursor:
                    cursor.execute(_HOLD.format(table))
            clients.read_on(0.2)
        clients.read_on(0.05)


def _kill_and_restart(cluster: Cluster, clients: Workload) -> None:
    """One replica crashes and comes back."""
    clients.read_on(0.2)
    cluster.replicas[0].kill()
    clients.read_on(0.3)
    cluster.replicas[0].start()
    clients.read_on(0.3)


def _promote(cluster: Cluster, clients: Workload) -> None:
    """The first replica becomes the primary in good order, and the others replicate from it.

    Nothing is lost: the old primary takes no more writes before its last one is everywhere. The
    cluster's attributes still name the servers as they were before.
    """
    clients.read_on(0.4)
    hand_over(cluster)
    clients.read_on(0.5)


def hand_over(cluster: Cluster) -> None:
    """Make the first replica the primary in good order, and let the others follow it."""
    cluster.primary.query("SET GLOBAL super_read_only = ON")
    cluster.wait_caught_up()
    promote(cluster.replicas[0], [cluster.replicas[1], cluster.primary])


def promote(new: RealServer, followers: Sequence[RealServer]) -> None:
    """Let a server replicate from nobody and take writes, and others replicate from it.

    What XA left prepared there is rolled back before anybody else can write.
    """
    new.query("STOP REPLICA")
    new.query("RESET REPLICA ALL")
    for follower in followers:
        follower.query("STOP REPLICA")
        follower.query(_FOLLOW, new.port)
        follower.query("START REPLICA")
    new.query("SET GLOBAL super_read_only = OFF")
    new.roll_back_prepared()
    new.query("SET GLOBAL read_only = OFF")


FREE = Disturbance("free", _as_it_is, _nothing)
LATE = Disturbance("one second late", _one_second_late, _nothing)
ONE_LATE = Disturbance("one replica late", _one_late, _be_quiet)
INTERRUPTED = Disturbance("appliers stopped", _as_it_is, _stop_and_start_appliers)
UNORDERED = Disturbance("any commit order", _any_commit_order, _hold_rows)
KILLED = Disturbance("replica killed", _as_it_is, _kill_and_restart)
PROMOTED = Disturbance("promotion", _as_it_is, _promote)
