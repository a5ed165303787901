"""A primary and two GTID replicas of real MySQL, in a folder that is deleted afterwards."""

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from scripts.ports import reserve_ports

USER: Final = "bench"
MONITOR: Final = "monitor"
PASSWORD: Final = "bench"
SCHEMA: Final = "bench"

# The disk must not limit the speed: what is measured is the processor time of proxies.
_OPTIONS: Final = (
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-bin",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=128M",
    "--mysqlx=OFF",
    "--bind-address=127.0.0.1",
    "--secure-file-priv=",
    "--max-connections=2000",
    f"--user={getpass.getuser()}",  # mysqld does not run as root unasked
)


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once something accepts connections on `port`.

    Raises:
        RuntimeError: the process ended, or 30 s passed; the message ends with its log's end.
    """
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"nothing listens on port {port}:\n{log.read_text()[-2000:]}")


def run_client(programs: Path, sql: str, *arguments: str) -> list[list[str]]:
    """The rows that the mysql client prints for `sql`.

    Raises:
        RuntimeError: an error of the client or the server.
    """
    done = subprocess.run(
        [programs / "mysql", "--no-defaults", "-N", "-B", *arguments],
        input=sql,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{sql[:200]}: {done.stderr.strip()}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def log_in(programs: Path, port: int, user: str = USER) -> None:
    """Log in over TCP with the password, and out again.

    Raises:
        RuntimeError: the login fails.
    """
    run_client(
        programs,
        "DO 1",
        *("--host=127.0.0.1", f"--port={port}", f"--user={user}", f"--password={PASSWORD}"),
    )


class Server:
    """One mysqld."""

    def __init__(self, programs: Path, directory: Path, server_id: int, port: int) -> None:
        self.port = port
        self.log = directory / "mysqld.log"
        self._programs = programs
        self._directory = directory
        self._server_id = server_id
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._directory / "data"

    def initialise(self) -> None:
        """Make the data directory."""
        self._directory.mkdir(parents=True)
        subprocess.run(
            [
                *(self._programs / "mysqld", "--no-defaults", "--initialize-insecure"),
                *(f"--user={getpass.getuser()}", f"--datadir={self.data}"),
            ],
            check=True,
            capture_output=True,
        )

    def copy_of(self, other: "Server") -> None:
        """Make the data directory as a copy of a server that does not run."""
        shutil.copytree(other.data, self.data)
        (self.data / "auto.cnf").unlink(missing_ok=True)  # the copy gets a server_uuid of its own

    def start(self) -> None:
        """Start, and return once it accepts connections."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "mysqld", "--no-defaults", *_OPTIONS),
                    *(f"--datadir={self.data}", f"--port={self.port}"),
                    *(f"--socket={self._socket}", f"--pid-file={self._directory / 'pid'}"),
                    *(f"--server-id={self._server_id}", "--report-host=127.0.0.1"),
                ],
                stdout=log,
                stderr=log,
            )
        wait_for_port(self.port, self._process, self.log)
        deadline = time.monotonic() + 10
        while True:  # the Unix socket comes a moment later
            try:
                self.query("DO 1")
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Kill the server, which writes nothing more: its data is thrown away."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def query(self, sql: str) -> list[list[str]]:
        """The rows of the last statement of `sql`, which root runs over the socket."""
        return run_client(self._programs, sql, f"--socket={self._socket}", "--user=root")

    @property
    def _socket(self) -> Path:
        return self._directory / "socket"


class Cluster:
    """A primary and two replicas; a context manager."""

    def __init__(self, programs: Path) -> None:
        # Short: the path of a Unix socket holds 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        self.programs = programs
        servers = [
            Server(programs, self._directory / str(number), number, port)
            for number, port in enumerate(reserve_ports(3), start=1)
        ]
        self.primary, *self.replicas = servers

    @property
    def servers(self) -> list[Server]:
        """All of them, the primary first."""
        return [self.primary, *self.replicas]

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the servers and remove their data."""
        for server in self.servers:
            server.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def settle(self) -> None:
        """Return once the replicas have applied what the primary has committed."""
        ((executed,),) = self.primary.query("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')")
        for replica in self.replicas:
            rows = replica.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)")
            if rows != [["0"]]:
                raise RuntimeError(f"the replica on port {replica.port} does not catch up")

    def delay(self, seconds: int) -> None:
        """Make the replicas apply every transaction so many seconds after its commit."""
        for replica in self.replicas:
            replica.query(
                "STOP REPLICA SQL_THREAD;"
                f"CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds};"
                "START REPLICA SQL_THREAD"
            )

    def status(self, servers: Iterable[Server], name: str) -> list[int]:
        """A global status counter of each server."""
        return [int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1]) for server in servers]

    def _start(self) -> None:
        self.primary.initialise()
        for replica in self.replicas:
            replica.copy_of(self.primary)
        for server in self.servers:
            server.start()
            server.query("RESET BINARY LOGS AND GTIDS")
        self.primary.query(
            f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';"
            f"GRANT ALL ON *.* TO {USER}@'%';"
            f"CREATE USER {MONITOR}@'%' IDENTIFIED BY '{PASSWORD}';"
            f"GRANT REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO {MONITOR}@'%';"
            f"GRANT SELECT ON performance_schema.* TO {MONITOR}@'%';"
            "CREATE USER replica@'%' IDENTIFIED BY 'replica';"
            "GRANT REPLICATION SLAVE ON *.* TO replica@'%';"
            f"CREATE DATABASE {SCHEMA}"
        )
        for replica in self.replicas:
            replica.query(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1',"
                f" SOURCE_PORT = {self.primary.port}, SOURCE_USER = 'replica',"
                " SOURCE_PASSWORD = 'replica', SOURCE_AUTO_POSITION = 1,"
                " GET_SOURCE_PUBLIC_KEY = 1;"
                "START REPLICA;"
                "SET GLOBAL super_read_only = ON"
            )
        self.settle()
        for server in self.servers:
            # After that the server has the passwords in its cache and accepts clients without a
            # full exchange (caching_sha2_password), in which some proxies fail if many clients log
            # in at once.
            log_in(programs=self.programs, port=server.port, user=USER)
            log_in(programs=self.programs, port=server.port, user=MONITOR)
