"""A primary and two GTID replicas of a real MySQL."""

from pathlib import Path
from typing import Self

import pymysql

from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import (
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    data_template,
    find_mysqld,
)

__all__ = ["Cluster", "RealServer", "find_mysqld"]

_REPLICATE = f"""
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s,
  SOURCE_USER = '{REPLICATION_USER}', SOURCE_PASSWORD = '{REPLICATION_PASSWORD}',
  SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_DELAY = 0,
  SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 1000000, SOURCE_HEARTBEAT_PERIOD = 1
"""


class Cluster:
    """Three servers, the second and third replicating from the first.

    Attributes:
        primary: the source of both replicas.
        replicas: read_only and super_read_only, with their own binary logs.
        scratch: folder of their data and logs.
    """

    def __init__(self, mysqld: Path) -> None:
        self._template = data_template(mysqld)
        self.scratch = ScratchFolder()
        self.primary = RealServer("primary", mysqld, self.scratch)
        self.replicas = [
            RealServer(f"replica{n}", mysqld, self.scratch, "--read-only", "--super-read-only")
            for n in (1, 2)
        ]

    @property
    def servers(self) -> list[RealServer]:
        """All three, the primary first."""
        return [self.primary, *self.replicas]

    def create(self) -> None:
        """Make all three servers anew and start them; every GTID set is empty."""
        for server in self.servers:
            server.create(self._template)
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()
        for replica in self.replicas:
            self.attach(replica)

    def attach(self, replica: RealServer) -> None:
        """Let a server replicate from the primary."""
        replica.query(_REPLICATE, self.primary.port)
        replica.query("START REPLICA")

    def close(self) -> None:
        """End the servers and remove all that they wrote."""
        for server in self.servers:
            server.kill()
        self.scratch.close()

    def __enter__(self) -> Self:
        try:
            self.create()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_caught_up(self, timeout: float = 30) -> None:
        """Wait until both replicas have applied all that the primary has committed.

        Raises:
            TimeoutError: one has not; the message says how its replication stands.
        """
        executed = self.primary.gtid_executed
        for replica in self.replicas:
            waited = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
            if replica.value(waited, executed, timeout) != "0":
                raise TimeoutError(f"{replica.name} is behind: {replica.replica_status()}")

    def heal(self) -> None:
        """Bring back what a test may have broken: processes, variables, replication, roles.

        Data stays. Where a server was promoted, or has transactions that the primary has not, all
        three are made anew.
        """
        try:
            for server in self.servers:
                server.heal()
            sound = self._sound()
        except pymysql.err.MySQLError:
            sound = False
        if not sound:
            self.create()

    def clear(self) -> None:
        """Empty schema `app` on all three, after `heal`; connections of clients are ended."""
        for server in self.servers:
            server.end_other_connections()
        self.primary.query("DROP DATABASE IF EXISTS app")
        self.primary.query("CREATE DATABASE app")
        self.wait_caught_up()

    def _sound(self) -> bool:
        if self.primary.replica_status():
            return False
        executed = self.primary.gtid_executed
        for replica in self.replicas:
            if replica.value("SELECT GTID_SUBSET(@@GLOBAL.gtid_executed, %s)", executed) != "1":
                return False
            status = replica.replica_status()
            if status.get("Source_Port") != self.primary.port or status["Last_SQL_Errno"]:
                return False
            if status["SQL_Delay"]:
                replica.set_source_delay(0)
            if "No" in (status["Replica_IO_Running"], status["Replica_SQL_Running"]):
                replica.query("START REPLICA")
        return True
