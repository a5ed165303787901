"""A group whose primary changes, and that is mended without being made anew."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql

from tests.chaos.cluster import HEALING_S, ChaosCluster, UnhealthyError, until
from tests.real_mysql.group_cluster import GroupCluster
from tests.real_mysql.server import RealServer


class GroupChaosCluster(ChaosCluster):
    """Three members of a group; the primary is the one that the group has elected.

    Attributes:
        group: the members.
    """

    def __init__(self, mysqld: Path) -> None:
        self.group = GroupCluster(mysqld, "--binlog-rows-query-log-events=ON")
        self.scratch = self.group.scratch
        self.semi_sync = False
        self.outages = []
        self.primary, *self.replicas = self.group.servers

    @property
    def rsa_key(self) -> Path:
        """A file with a private key, for proxies."""
        return self.group.rsa_key

    def create(self) -> None:
        """Make all three anew, and let them be a group."""
        self.group.create()

    def start(self, server: RealServer) -> None:
        """Start a server that is down, and let it join."""
        server.start()
        self._join(server)

    def _join(self, server: RealServer) -> None:
        # Who joins before the others have expelled it waits in vain, for a minute.
        until(lambda: not self._is_held(server), f"{server.name} is expelled")

        def joined() -> bool:
            if server.port in self.group.online(server):
                return True
            with contextlib.suppress(pymysql.err.MySQLError):
                server.query("STOP GROUP_REPLICATION")
            server.query("SET GLOBAL offline_mode = OFF")
            self.group.join(server)
            return False

        until(joined, f"{server.name} is a member")

    def _is_held(self, server: RealServer) -> bool:
        """Whether another member takes it for one that it does not reach, or has not noticed."""
        if server.port in self.group.online(server):
            return False
        others = [other for other in self.group.servers if other is not server and other.running]
        return any(server.port in self.group.members(other) for other in others)

    def follow_election(self, silent: RealServer | None = None) -> None:
        """Take whom the group has elected for the primary; `silent` is not asked."""
        for server in self.group.servers:
            if server is silent:
                continue
            with contextlib.suppress(pymysql.err.MySQLError):
                elected = self.group.elected(server) if server.running else None
                if elected is not None and elected.value("SELECT @@read_only") == "0":
                    self.primary = elected
                    self.replicas = [other for other in self.group.servers if other is not elected]
                    return

    def wait_for_election(self, without: RealServer) -> None:
        """Wait until the others have elected one of them."""
        (observer, _) = [server for server in self.group.servers if server is not without]

        def elected() -> bool:
            primary = self.group.elected(observer)
            return primary not in (None, without)

        until(elected, "another primary is elected")
        self.follow_election(without)

    def heal(self) -> None:
        """Bring all members back.

        Raises:
            UnhealthyError: they do not come back.
        """
        for server in self.group.servers:
            server.resume()
        down = [server for server in self.group.servers if not server.running]
        since = time.monotonic_ns()
        for server in down:
            server.start()
        if down:
            self.outages.append((since, time.monotonic_ns()))
        deadline = time.monotonic() + HEALING_S
        everybody = {server.port for server in self.group.servers}
        while any(self._members(server) != everybody for server in self.group.servers):
            self._mend(everybody)
            if time.monotonic() > deadline:
                raise UnhealthyError("the group does not come together")
            time.sleep(0.2)
        self.follow_election()

    def _members(self, server: RealServer) -> set[int]:
        with contextlib.suppress(pymysql.err.MySQLError):
            return self.group.online(server)
        return set()

    def _mend(self, everybody: set[int]) -> None:
        """Let those join that are in no group; where nobody is, the one with most begins."""
        taking_part = [s for s in self.group.servers if s.port in self._members(s)]
        if not taking_part:
            self.group.heal()
            return
        for server in self.group.servers:
            state = self.group.members(server).get(server.port, ("OFFLINE", ""))[0]
            if state in ("OFFLINE", "ERROR"):
                with contextlib.suppress(UnhealthyError):
                    self._join(server)

    def wait_caught_up(self, timeout: float = 30) -> None:
        """Wait until all members have what the primary has."""
        self.group.wait_caught_up(timeout)

    @contextlib.contextmanager
    def without_quorum(self) -> Iterator[None]:
        """Both secondaries stand still in a `with` block."""
        with self.primary_gone():
            for replica in self.replicas:
                replica.pause()
            try:
                yield
            finally:
                for replica in self.replicas:
                    replica.resume()
