"""A cluster whose roles change, and that is mended without being made anew."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import data_template

READ_ONLY = ("--read-only", "--super-read-only")
_PLUGINS = {"rpl_semi_sync_source": "semisync_source", "rpl_semi_sync_replica": "semisync_replica"}
HEALING_S = 90
POLL_S = 0.05


class UnhealthyError(Exception):
    """The cluster, or the proxy before it, did not become healthy in time."""


class ChaosCluster(Cluster):
    """A primary and two replicas; which is which is told by how they are started.

    Attributes:
        primary: the server that takes writes now.
        replicas: those that follow it now.
        semi_sync: whether its servers can replicate semi-synchronously.
        outages: when the primary could not answer, each since and until when (ns of
            `time.monotonic_ns`).
    """

    def __init__(self, mysqld: Path) -> None:
        self._template = data_template(mysqld)
        self.scratch = ScratchFolder()
        self.semi_sync = True
        self.outages: list[tuple[int, int]] = []
        names, option = ("server1", "server2", "server3"), "--binlog-rows-query-log-events=ON"
        first, *others = (RealServer(name, mysqld, self.scratch, option) for name in names)
        self.primary, self.replicas = first, others

    def create(self) -> None:
        """Make all three servers anew and start them; every GTID set is empty."""
        for server in self.servers:
            server.create(self._template)
        for server in self.servers:
            server.launch(*self._options(server))
        for server in self.servers:
            server.wait_ready()
        for replica in self.replicas:
            self.attach(replica)
            replica.query("SET GLOBAL super_read_only = OFF")  # or no plugin can be installed
        for server in self.servers:
            self._install_plugins(server)
        for replica in self.replicas:
            replica.query("SET GLOBAL super_read_only = ON")

    def _install_plugins(self, server: RealServer) -> None:
        try:
            for plugin, library in _PLUGINS.items():
                server.query(f"INSTALL PLUGIN {plugin} SONAME '{library}.so'")
        except pymysql.err.MySQLError:
            self.semi_sync = False

    def _options(self, server: RealServer) -> tuple[str, ...]:
        return () if server is self.primary else READ_ONLY

    def start(self, server: RealServer) -> None:
        """Start a server that is down, in its role."""
        server.start(*self._options(server))

    @contextlib.contextmanager
    def primary_gone(self) -> Iterator[None]:
        """The primary cannot answer in a `with` block; who needs it has to wait."""
        since = time.monotonic_ns()
        try:
            yield
        finally:
            self.outages.append((since, time.monotonic_ns()))

    # --- roles ---------------------------------------------------------------------------------

    def switch_over(self, new: RealServer) -> None:
        """Make a replica the primary in good order: nothing that was acknowledged is lost."""
        old = self.primary
        old.query("SET GLOBAL super_read_only = ON")
        self._wait_for(new, old.gtid_executed)
        self.promote(new)
        self.attach(old)

    def promote(self, new: RealServer) -> None:
        """Make a replica the primary, with what it has; the old primary is not asked."""
        old = self.primary
        new.query("STOP REPLICA")
        new.query("RESET REPLICA ALL")
        others = [replica for replica in self.replicas if replica is not new]
        self.primary, self.replicas = new, [old, *others]
        for other in others:
            self.attach(other)
        new.query("SET GLOBAL super_read_only = OFF")
        new.query("SET GLOBAL read_only = OFF")

    def attach(self, replica: RealServer) -> None:
        """Let a server follow the primary, whatever it followed before."""
        replica.query("STOP REPLICA")
        super().attach(replica)

    # --- data ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def backup(self, server: RealServer) -> Iterator[Path]:
        """A copy of a server's data as it is now, for the length of a `with` block.

        The server stands still meanwhile, so that the copy is what a crash would leave.
        """
        folder = self.scratch.path / "backup"
        shutil.rmtree(folder, ignore_errors=True)
        server.pause()
        try:
            shutil.copytree(server.data, folder)
        finally:
            server.resume()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rebuild(self, replica: RealServer) -> None:
        """Give a replica the primary's data, and let it follow; it has a new server_uuid then."""
        with contextlib.ExitStack() as stack:
            with self.primary_gone():
                folder = stack.enter_context(self.backup(self.primary))
            (folder / "auto.cnf").unlink()
            replica.create(folder)
        replica.start(*READ_ONLY, "--skip-replica-start")
        replica.query("STOP REPLICA")
        replica.query("RESET REPLICA ALL")
        self.attach(replica)

    # --- health --------------------------------------------------------------------------------

    def heal(self) -> None:
        """Bring back processes, roles and replication, whatever was done to them.

        A replica with transactions that the primary has not, or that cannot go on, is rebuilt.

        Raises:
            UnhealthyError: replication does not come back.
        """
        for server in self.servers:
            server.resume()
        if not self.primary.running:
            with self.primary_gone():
                self.start(self.primary)
        for replica in self.replicas:
            if not replica.running:
                self.start(replica)
        if self.primary.value("SELECT @@read_only") != "0":
            self.primary.query("SET GLOBAL super_read_only = OFF")
            self.primary.query("SET GLOBAL read_only = OFF")
        for replica in self.replicas:
            replica.query("SET GLOBAL super_read_only = ON")
            self._follow(replica)
        for replica in self.replicas:
            self._wait_for(replica, self.primary.gtid_executed)

    def _follow(self, replica: RealServer) -> None:
        status = replica.replica_status()
        if self._is_errant(replica) or status.get("Last_SQL_Errno"):
            self.rebuild(replica)
            return
        if status.get("Source_Port") != self.primary.port:
            self.attach(replica)
        elif status["SQL_Delay"]:
            replica.set_source_delay(0)
        replica.query("START REPLICA")

    def _is_errant(self, replica: RealServer) -> bool:
        """Whether it has transactions that the primary has not, now and a moment later."""
        had = replica.gtid_executed
        subset = "SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)"
        try:
            until(lambda: self.primary.value(subset, had) == "1", "no errant transactions", 1)
        except UnhealthyError:
            return True
        return False

    def _wait_for(self, replica: RealServer, executed: str) -> None:
        waited = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
        if replica.value(waited, executed, HEALING_S) != "0":
            raise UnhealthyError(f"{replica.name} is behind: {replica.replica_status()}")


def until(true: Callable[[], bool], description: str, timeout: float = HEALING_S) -> None:
    """Wait until something is so; statements that fail meanwhile mean that it is not.

    Raises:
        UnhealthyError: it is not so in time; `description` says what was waited for.
    """
    deadline = time.monotonic() + timeout
    problem = ""
    while True:
        try:
            if true():
                return
        except (pymysql.err.MySQLError, OSError) as error:
            problem = f": {error}"
        if time.monotonic() > deadline:
            raise UnhealthyError(f"waited {timeout:g} s in vain: {description}{problem}")
        time.sleep(POLL_S)
