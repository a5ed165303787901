"""Three members of a group: real MySQL servers with Group Replication."""

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymysql

from scripts.ports import reserve_port
from tests.real_mysql.cluster import ANEW, Cluster
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import (
    APP_USER,
    MONITOR_USER,
    REPLICATION_PASSWORD,
    REPLICATION_USER,
    data_template,
)

GROUP = "aaaaaaaa-0000-4000-8000-000000000001"
"""The group's name: the UUID of all its GTIDs."""

_MEMBERS = (
    "SELECT MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE"
    " FROM performance_schema.replication_group_members"
)
_RECOVER_AS = (
    f"CHANGE REPLICATION SOURCE TO SOURCE_USER = '{REPLICATION_USER}',"
    f" SOURCE_PASSWORD = '{REPLICATION_PASSWORD}' FOR CHANNEL 'group_replication_recovery'"
)
_RIGHTS = (
    "GRANT TRANSACTION_GTID_TAG, SESSION_VARIABLES_ADMIN ON *.* TO"
    f" {APP_USER}"  # so that clients may name GTIDs
)
_CLIENTS = (
    "SELECT ID FROM performance_schema.processlist WHERE ID <> CONNECTION_ID()"  # noqa: S608 - our constants
    f" AND USER IN ('{APP_USER}', '{MONITOR_USER}')"
)
"""Not the sessions of the group's own."""

_HEALED = {
    "group_replication_consistency": "BEFORE_ON_PRIMARY_FAILOVER",
    "group_replication_member_weight": "50",
    "offline_mode": "OFF",
}
"""Variables that tests change, with their values."""


class GroupCluster(Cluster):
    """Three members in single-primary mode.

    A member that is frozen or dead is expelled after 5 s, the least that a server allows.

    Attributes:
        primary: the first member, which a proxy is told of as the primary.
        replicas: the other members.
    """

    def __init__(self, mysqld: Path, *options: str) -> None:
        self._template = data_template(mysqld)
        self.scratch = ScratchFolder()
        ports = [reserve_port() for _ in range(3)]
        seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
        group = {
            "group_name": GROUP,
            "group_seeds": seeds,
            "communication_stack": "XCOM",
            "start_on_boot": "OFF",
            "recovery_get_public_key": "ON",
            "recovery_reconnect_interval": "1",
            "member_expel_timeout": "0",
            "autorejoin_tries": "0",
        }
        self.primary, *self.replicas = [
            RealServer(
                f"member{number}",
                mysqld,
                self.scratch,
                "--plugin-load-add=group_replication.so",
                f"--loose-group-replication-local-address=127.0.0.1:{port}",
                *(f"--loose-group-replication-{k}={v}" for k, v in group.items()),
                *options,
            )
            for number, port in enumerate(ports)
        ]

    def create(self) -> None:
        """Make all three anew, and let them be a group, whose primary is the first."""
        for server in self.servers:
            server.create(self._template)
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready()
            server.query("SET sql_log_bin = 0")
            server.query(_RIGHTS)
            server.query("SET sql_log_bin = 1")
        self._form(self.primary)

    def _form(self, first: RealServer) -> None:
        """Let the group begin with this member, and the others join."""
        first.query(_RECOVER_AS)
        first.query("SET GLOBAL group_replication_bootstrap_group = ON")
        first.query("START GROUP_REPLICATION")
        first.query("SET GLOBAL group_replication_bootstrap_group = OFF")
        others = [server for server in self.servers if server is not first]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.join, others))
        self.wait(lambda: self.online(first) == {server.port for server in self.servers})

    def join(self, server: RealServer) -> None:
        """Let a server that is no member, or has left, join."""
        server.query(_RECOVER_AS)
        server.query("START GROUP_REPLICATION")

    def members(self, seen_by: RealServer) -> dict[int, tuple[str, str]]:
        """State and role of each member, by its port."""
        rows = seen_by.query(_MEMBERS)
        return {int(str(port)): (str(state), str(role)) for port, state, role in rows if port}

    def online(self, seen_by: RealServer) -> set[int]:
        """The ports of the members that are ONLINE."""
        return {port for port, (state, _) in self.members(seen_by).items() if state == "ONLINE"}

    def elected(self, seen_by: RealServer) -> RealServer | None:
        """The primary, if it is ONLINE."""
        for port, member in self.members(seen_by).items():
            if member == ("ONLINE", "PRIMARY"):
                return next(server for server in self.servers if server.port == port)
        return None

    def switch_to(self, server: RealServer) -> None:
        """Let a member be the primary, as an operator does."""
        server.query("SELECT group_replication_set_as_primary(%s)", server.server_uuid)
        self.wait(lambda: all(self.elected(each) is server for each in self.servers))

    @staticmethod
    def wait(condition: Callable[[], bool], timeout: float = 90) -> None:
        """Wait until something has become true.

        Raises:
            TimeoutError: it has not.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.02)

    def wait_caught_up(self, timeout: float = 60) -> None:
        """Wait until all members have what any of them has.

        Raises:
            TimeoutError: one has not.
        """
        for source in self.servers:
            executed = source.gtid_executed
            for server in self.servers:
                server.wait_for(executed, timeout)

    def heal(self) -> None:
        """Let all three be members again, and the first the primary; data stays."""
        try:
            for server in self.servers:
                server.revive()
            for server in self.servers:
                server.wait_ready()
                for name, value in _HEALED.items():
                    number = value if value.isdigit() else f"'{value}'"
                    server.query(f"SET GLOBAL {name} = {number}")
            if not self._sound():
                self._form_again()
            if self.primary.value("SELECT @@group_replication_single_primary_mode") == "0":
                self.primary.query(
                    "SELECT group_replication_switch_to_single_primary_mode(%s)",
                    self.primary.server_uuid,
                )
            if self.elected(self.primary) is not self.primary:
                self.switch_to(self.primary)
        except (pymysql.err.MySQLError, TimeoutError, StopIteration):
            for server in self.servers:
                server.kill()
            self.create()

    def _sound(self) -> bool:
        """Whether all are members, and agree."""
        everybody = {server.port for server in self.servers}
        views = [self.members(server) for server in self.servers]
        return all(set(view) == everybody for view in views) and all(
            self.online(server) == everybody and self.members(server) == views[0]
            for server in self.servers
        )

    def _form_again(self) -> None:
        for server in self.servers:
            with contextlib.suppress(pymysql.err.MySQLError):
                server.query("STOP GROUP_REPLICATION")
            server.query("SET GLOBAL offline_mode = OFF")
        # The one that has most: what only others have would keep them out.
        self._form(next(server for server in self.servers if self._has_all(server)))

    def clear(self) -> None:
        """Leave an empty schema `app`, after `heal`; connections of clients are ended.

        If a member does not catch up, the group is made anew.
        """
        try:
            self._clear(ANEW)
        except TimeoutError:
            for server in self.servers:
                server.kill()
            self.create()
            self._clear()

    def _clear(self, timeout: float = 60) -> None:
        for server in self.servers:
            for (connection,) in server.query(_CLIENTS):
                with contextlib.suppress(pymysql.err.OperationalError):  # gone by itself
                    server.query(f"KILL {connection}")
        self.primary.query("DROP DATABASE IF EXISTS app")
        self.primary.query("CREATE DATABASE app")
        self.wait_caught_up(timeout)
