"""One real MySQL server that a test starts, breaks and mends."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from scripts.ports import reserve_port
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.template import APP_PASSWORD, APP_USER, BASE_OPTIONS

Row = tuple[object, ...]

SERVER_OPTIONS = [
    *BASE_OPTIONS,
    "--bind-address=127.0.0.1",
    "--mysqlx=OFF",
    "--secure-file-priv=",
    "--skip-name-resolve",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-bin=binlog",
    "--log-replica-updates=ON",
    "--binlog-format=ROW",
    "--relay-log=relay",
    "--replica-parallel-workers=4",
    "--replica-preserve-commit-order=ON",
    "--replica-net-timeout=10",
    # What a crash of the process alone cannot lose need not wait for the disk.
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    # Memory: many servers run beside each other.
    "--max-connections=300",
    "--table-open-cache=200",
    "--table-definition-cache=400",
    "--max-digest-length=0",
    "--performance-schema-max-digest-length=0",
    # A session with a temporary table takes 1M of these: a recursive query fails without.
    "--temptable-max-ram=300M",
    "--log-error-verbosity=2",
]

# Global variables that a server sets itself, or that are only set together with others.
_OWN_VARIABLES = {
    *("gtid_executed", "gtid_owned", "gtid_purged", "gtid_mode", "timestamp", "pseudo_thread_id"),
}


class RealServer:
    """A mysqld process with its own data directory and port.

    Attributes:
        name: what a test calls it.
        port: TCP port on 127.0.0.1; stays the same over restarts.
        socket: path of its Unix socket.
        ca_file: the authority that signed its certificate (valid for 127.0.0.1).
        data: its data directory.
    """

    def __init__(self, name: str, mysqld: Path, scratch: ScratchFolder, *options: str) -> None:
        self.name = name
        self.port = reserve_port()
        folder = scratch.path
        self.socket = str(folder / f"{name}.sock")
        if len(self.socket) > 100:
            raise ValueError(f"too long for a Unix socket: {self.socket}")
        self.ca_file = folder / name / "ca.pem"
        self._scratch = scratch
        self._mysqld = mysqld
        self.data = folder / name
        self._log = folder / f"{name}.log"
        self._options = options
        self._extra: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: Connection[Cursor] | None = None
        self._baseline: dict[str, str] = {}

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    # --- the process ---------------------------------------------------------------------------

    def create(self, template: Path) -> None:
        """Begin anew with a copy of a data directory; the server is not started."""
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(template, self.data)
        self._baseline = {}

    def launch(self, *extra: str) -> None:
        """Start the process with further options; `wait_ready` must follow."""
        self._extra = extra
        command = [str(self._mysqld), *SERVER_OPTIONS, f"--datadir={self.data}"]
        command += [f"--port={self.port}", f"--server-id={self.port}", f"--socket={self.socket}"]
        command += ["--report-host=127.0.0.1", f"--report-port={self.port}"]
        command += [f"--pid-file={self.data}.id", f"--log-error={self._log}"]
        self._process = subprocess.Popen(
            [*command, *self._options, *extra],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests
        )
        self._scratch.watch(self.name, self._process.pid)

    def wait_ready(self, timeout: float = 60) -> None:
        """Wait until the server answers.

        Raises:
            RuntimeError: it ended, or did not answer in time; the message has its log.
        """
        deadline = time.monotonic() + timeout
        while True:
            with contextlib.suppress(pymysql.err.OperationalError):
                self.query("SELECT 1")
                break
            if not self.running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start:\n{self.log[-4000:]}")
            time.sleep(0.02)
        if not self._baseline and not self._extra:
            self._baseline = self._variables()

    def start(self, *extra: str) -> None:
        """Start the server and wait until it answers; `extra` holds for this run only."""
        self.launch(*extra)
        self.wait_ready()

    def stop(self) -> None:
        """Shut down in good order."""
        self.resume()
        with contextlib.suppress(pymysql.err.MySQLError):
            # Else the event scheduler may spin for 10 s, until it is ended by force (MySQL 9.7.4).
            self.query("SET GLOBAL event_scheduler = OFF")
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End at once, as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self, *extra: str) -> None:
        """Stop and start, with further options for this run only."""
        self.stop()
        self.start(*extra)

    def pause(self) -> None:
        """Freeze the process: its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        if self._process is not None:  # it stops when it is its turn to run, not with the signal
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Freeze the process for the length of a `with` block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The error log."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._admin is not None:
            self._admin = None  # closing it politely could wait for a frozen server
        self._signal(signal.SIGCONT)
        self._signal(number)
        if self._process is not None:
            self._process.wait(60)
        self._process = None
        self._scratch.unwatch(self.name)

    # --- statements ----------------------------------------------------------------------------

    def admin(self, database: str | None = None) -> Connection[Cursor]:
        """Open a connection as root over the Unix socket, in autocommit; the caller closes it."""
        return pymysql.connect(
            unix_socket=self.socket, user="root", database=database, autocommit=True
        )

    def connect(self, user: str = APP_USER, password: str = APP_PASSWORD) -> Connection[Cursor]:
        """Open a connection over TCP as the application, to schema `app`, in autocommit."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=password,
            database="app",
            autocommit=True,
        )

    def query(self, sql: str, *arguments: object) -> list[Row]:
        """Run one statement as root and give its rows."""
        with self._administrator().cursor() as cursor:
            cursor.execute(sql, arguments or None)
            return list(cursor.fetchall())

    def value(self, sql: str, *arguments: object) -> str:
        """Run one statement as root and give its first column of its first row, as text."""
        return str(self.query(sql, *arguments)[0][0])

    def _administrator(self) -> Connection[Cursor]:
        if self._admin is None or not self._admin.open:
            self._admin = self.admin()
        return self._admin

    @property
    def server_uuid(self) -> str:
        """The server's @@server_uuid."""
        return self.value("SELECT @@server_uuid")

    @property
    def gtid_executed(self) -> str:
        """The server's @@gtid_executed, as it writes it."""
        return self.value("SELECT @@GLOBAL.gtid_executed")

    # --- replication ---------------------------------------------------------------------------

    def stop_applier(self) -> None:
        """Stop applying; what the source sends is still received."""
        self.query("STOP REPLICA SQL_THREAD")

    def start_applier(self) -> None:
        """Apply again."""
        self.query("START REPLICA SQL_THREAD")

    def set_source_delay(self, seconds: int) -> None:
        """Apply each transaction so many seconds after its commit on the source."""
        self.stop_applier()
        self.query(f"CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds:d}")
        self.start_applier()

    def replica_status(self) -> dict[str, object]:
        """Columns of SHOW REPLICA STATUS; empty on a server that is no replica."""
        with self._administrator().cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            return dict(cursor.fetchone() or {})

    def wait_receiving(self, timeout: float = 5) -> None:
        """Wait until a server that was launched begins to replicate, as it does by itself."""
        deadline = time.monotonic() + timeout
        while self.replica_status().get("Replica_IO_Running") == "No":
            if time.monotonic() > deadline:
                return  # it was stopped before, and stays so
            time.sleep(0.02)

    @contextlib.contextmanager
    def applier_stopped(self) -> Iterator[None]:
        """Stop applying for the length of a `with` block."""
        self.stop_applier()
        try:
            yield
        finally:
            self.start_applier()

    def wait_for(self, gtids: str, timeout: float = 60) -> None:
        """Wait until it has applied this set.

        Raises:
            TimeoutError: it has not; the message says how its replication stands.
        """
        waited = self.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", gtids, timeout)
        if waited != "0":
            raise TimeoutError(f"{self.name} is behind: {self.replica_status()}")

    # --- back to a clean state -----------------------------------------------------------------

    def _variables(self) -> dict[str, str]:
        # In one row: PyMySQL takes longer to read hundreds than the server to find them.
        found = json.loads(
            self.value(
                "SELECT JSON_OBJECTAGG(VARIABLE_NAME, VARIABLE_VALUE)"
                " FROM performance_schema.global_variables"
            )
        )
        return {name: str(value) for name, value in found.items() if name not in _OWN_VARIABLES}

    def revive(self) -> bool:
        """Let it run, with the options that it was created with; `wait_ready` must follow.

        Returns:
            Whether it had to be launched.
        """
        self.resume()
        if self.running and not self._extra:
            return False
        self.kill()  # faster than an end in good order, and nothing is lost
        self.launch()
        return True

    def heal(self) -> None:
        """Give it, behind `revive`, the global variables that it was created with."""
        now = self._variables()
        changed = {name for name, value in self._baseline.items() if now.get(name) != value}
        for name in sorted(changed):  # read_only comes before super_read_only, which implies it
            value = self._baseline[name]
            literal = value if re.fullmatch(r"-?\d+(\.\d+)?|ON|OFF", value) else f"'{value}'"
            self.query(f"SET GLOBAL {name} = {literal}")

    def end_other_connections(self) -> None:
        """Kill every connection of a client."""
        for (connection,) in self.query(
            "SELECT ID FROM performance_schema.processlist WHERE ID <> CONNECTION_ID()"
            " AND USER NOT IN ('system user', 'event_scheduler', 'replicator')"
        ):
            with contextlib.suppress(pymysql.err.OperationalError):  # gone by itself
                self.query(f"KILL {connection}")

    def roll_back_prepared(self) -> None:
        """Roll back what XA left prepared; not on replicas, whose GTIDs that would be."""
        while prepared := self.query("XA RECOVER CONVERT XID"):
            for form, length, _, data in prepared:
                xid = str(data).removeprefix("0x")
                name, branch = xid[: 2 * int(str(length))], xid[2 * int(str(length)) :]
                # Its connection, which was killed, may not have let go of it yet.
                with contextlib.suppress(pymysql.err.OperationalError):
                    self.query(f"XA ROLLBACK X'{name}', X'{branch}', {form}")
