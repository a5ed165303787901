"""A primary and two GTID replicas of a real MySQL."""

from pathlib import Path
from typing import Self

import pymysql

from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import (
    APP_USER,
    MONITOR_USER,
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    RIGHTS,
    data_template,
    find_mysqld,
    statements,
)

__all__ = ["Cluster", "RealServer", "find_mysqld"]

_REPLICATE = f"""
CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s,
  SOURCE_USER = '{REPLICATION_USER}', SOURCE_PASSWORD = '{REPLICATION_PASSWORD}',
  SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_DELAY = 0,
  SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 1000000, SOURCE_HEARTBEAT_PERIOD = 1
"""

_FOREIGN_SCHEMAS = (
    "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN"
    " ('mysql', 'sys', 'information_schema', 'performance_schema')"
)
_FOREIGN_ACCOUNTS = (
    "SELECT user, host FROM mysql.user WHERE user NOT LIKE 'mysql.%' AND user NOT IN"  # noqa: S608 - our constants
    f" ('root', '{APP_USER}', '{MONITOR_USER}', '{REPLICATION_USER}')"
)


_SOON = 10.0
"""Within so many seconds, replicas have caught up but where something is wrong, s."""

ANEW = 20.0
"""Servers that have not caught up by then are made anew, which takes less than a minute, s."""

_RELAY_LOG_WRITE_FAILURE = 13122
"""ER_REPLICA_RELAY_LOG_WRITE_FAILURE."""


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

    @property
    def rsa_key(self) -> Path:
        """A file with a private key, for proxies."""
        return self._template / "private_key.pem"

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
        _attach(replica, self.primary)

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

    def wait_caught_up(self, timeout: float = 60) -> None:
        """Wait until both replicas have applied all that the primary has committed.

        Raises:
            TimeoutError: one has not; the message says how its replication stands.
        """
        executed = self.primary.gtid_executed
        for replica in self.replicas:
            try:
                replica.wait_for(executed, min(timeout, _SOON))
            except TimeoutError:
                # A server that had just begun to replicate by itself, when it was told to, had two
                # receivers for a moment, and each ended the other.
                if replica.replica_status().get("Last_IO_Errno") == _RELAY_LOG_WRITE_FAILURE:
                    replica.query("START REPLICA")
                replica.wait_for(executed, timeout)

    def heal(self) -> None:
        """Bring back what a test may have broken: processes, variables, replication, roles.

        Data stays. Where servers have transactions of their own that no other has, all three are
        made anew.
        """
        try:
            launched = [server for server in self.servers if server.revive()]
            for server in self.servers:
                server.wait_ready()
                server.heal()
            for server in launched:
                server.wait_receiving()
            sound = self._sound() or self._put_back()
        except (pymysql.err.MySQLError, TimeoutError):
            sound = False
        if not sound:
            self.create()

    def clear(self) -> None:
        """Leave an empty schema `app` and the template's accounts on all three, after `heal`.

        Connections of clients are ended. If a replica does not catch up, all three are made anew.
        """
        try:
            self._clear(ANEW)
        except TimeoutError:
            self.create()
            self._clear()

    def _clear(self, timeout: float = 60) -> None:
        for server in self.servers:
            server.end_other_connections()
        self.primary.roll_back_prepared()
        for (schema,) in self.primary.query(_FOREIGN_SCHEMAS):
            name = str(schema).replace("`", "``")
            self.primary.query(f"DROP DATABASE `{name}`")
        self.primary.query("CREATE DATABASE app")
        for user, host in self.primary.query(_FOREIGN_ACCOUNTS):
            self.primary.query("DROP USER %s@%s", user, host)
        for user in (APP_USER, MONITOR_USER):
            self.primary.query("REVOKE ALL PRIVILEGES, GRANT OPTION FROM %s", user)
        for right in statements(RIGHTS):
            self.primary.query(right)
        self.wait_caught_up(timeout)

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

    def _put_back(self) -> bool:
        """Let the primary have what a promoted replica has more, and all replicate from it."""
        for server in self.servers:
            if status := server.replica_status():
                if status["Last_SQL_Errno"]:
                    return False  # it would stop there again
                server.query("STOP REPLICA")
                server.query("RESET REPLICA ALL")
        ahead = next((server for server in self.servers if self._has_all(server)), None)
        if ahead is None:
            return False
        if ahead is not self.primary:
            _attach(self.primary, ahead)
            self.primary.wait_for(ahead.gtid_executed)
            self.primary.query("STOP REPLICA")
            self.primary.query("RESET REPLICA ALL")
        for replica in self.replicas:
            self.attach(replica)
        self.wait_caught_up()
        return self._sound()

    def _has_all(self, server: RealServer) -> bool:
        return all(
            server.value("SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", other.gtid_executed)
            == "1"
            for other in self.servers
        )


def _attach(replica: RealServer, source: RealServer) -> None:
    replica.query(_REPLICATE, source.port)
    replica.query("START REPLICA")
