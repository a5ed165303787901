"""A real cluster with Tidegate before it, where suites run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TextIO

from tests.clients.environment import INSIDE, outside, quietly
from tests.clients.results import Results
from tests.clients.suite import PASSWORD, USER, Suite, Target
from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import NO_MYSQLD

_OWN_DATABASES = ("mysql", "sys", "information_schema", "performance_schema", "app")


class SuiteServers:
    """A primary, two replicas and a proxy.

    Attributes:
        server: what MySQL says of its version.
    """

    def __init__(self, cluster: Cluster, mysqld: Path) -> None:
        self._cluster = cluster
        self._proxies = 0
        self._time_zones = _time_zones(mysqld)
        self.server = cluster.primary.value("SELECT VERSION()")
        self._set_up()
        self._users = self._accounts()

    def run(self, suite: Suite, through: str, output: TextIO) -> Results:
        """Run a suite on fresh databases, directly or through a new proxy.

        Args:
            suite: what is run; it has been prepared.
            through: ``direct`` or ``tidegate``.
            output: gets what the suite prints, and what the proxy says.

        Raises:
            RuntimeError: the proxy told of an exception that nobody handled, or of a stale read.
        """
        self._clear()
        for statement in suite.statements:
            self._cluster.primary.query(statement)
        for server, setting in product(self._cluster.servers, suite.everywhere):
            server.query(setting)
        self._cluster.wait_caught_up()
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder, "record")
            if through == "direct":
                _run(
                    suite, Target(through, "127.0.0.1", self._cluster.primary.port), record, output
                )
                return Results.read(record)
            self._proxies += 1
            proxy = RunningProxy(self._cluster, f"clients{self._proxies}", {**suite.options})
            try:
                _run(suite, Target(through, "127.0.0.1", proxy.port), record, output)
                reads = proxy.metric("tidegate_statements_total", role="replica")
                proven_stale = proxy.metric("tidegate_stale_reads_proven_total")
            finally:
                proxy.stop()
                output.write(f"\n--- the proxy said\n{proxy.stderr}")
            if "Traceback" in proxy.stderr or proven_stale:
                raise RuntimeError(f"{proven_stale:.0f} stale reads, and:\n{proxy.stderr[-4000:]}")
            return Results(Results.read(record).tests, int(reads))

    def _set_up(self) -> None:
        primary = self._cluster.primary
        with contextlib.closing(primary.admin("mysql")) as connection:
            for statement in self._time_zones:
                connection.query(statement)
        primary.query(f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'")
        primary.query(f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION")

    def _accounts(self) -> set[str]:
        rows = self._cluster.primary.query(
            "SELECT CONCAT(QUOTE(User), '@', QUOTE(Host)) FROM mysql.user"
        )
        return {str(account) for (account,) in rows}

    def _clear(self) -> None:
        self._cluster.heal()
        if not self._users <= self._accounts():
            self._set_up()  # the servers were made anew, since a suite had made replicas differ
        for server in self._cluster.servers:
            server.end_other_connections()
            server.query("SET GLOBAL local_infile = ON")
        primary = self._cluster.primary
        primary.roll_back_prepared()
        for (name,) in primary.query(
            "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN %s",
            _OWN_DATABASES,
        ):
            primary.query(f"DROP DATABASE `{name}`")
        for account in self._accounts() - self._users:
            primary.query(f"DROP USER {account}")


@contextlib.contextmanager
def suite_servers() -> Iterator[SuiteServers]:
    """Start the servers for the length of a `with` block.

    Raises:
        RuntimeError: there is no mysqld.
    """
    mysqld = find_mysqld()
    if mysqld is None:
        raise RuntimeError(NO_MYSQLD)
    with Cluster(mysqld) as cluster:
        yield SuiteServers(cluster, mysqld)


def _time_zones(mysqld: Path) -> list[str]:
    """The statements that fill MySQL's tables of time zones, which CONVERT_TZ reads.

    They come from MySQL's own program for it. Where mysqld is a wrapper by scripts/install-mysql,
    that program is below the same folder and has none of its own.
    """
    program = ["mysql_tzinfo_to_sql"]
    if mysqld.read_bytes().startswith(b"#!"):
        script = mysqld.read_text().replace("usr/sbin/mysqld", "usr/bin/mysql_tzinfo_to_sql")
        program = ["sh", "-c", script, str(mysqld)]
    statements = quietly(*program, "/usr/share/zoneinfo")
    return [statement for statement in statements.split(";\n") if statement.strip()]


def _run(suite: Suite, target: Target, record: Path, output: TextIO) -> None:
    invocation = suite.invocation(target)
    record.touch()
    output.write(f"$ {' '.join(invocation.command)}\n")
    output.flush()
    process = subprocess.Popen(
        invocation.command,
        cwd=invocation.folder,
        env={
            **outside(),
            **invocation.environment,
            "PYTHONPATH": str(INSIDE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",  # sets of texts have the same order in both runs
            "TIDEGATE_RECORD": str(record),
        },
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        process.wait(invocation.seconds)
    except subprocess.TimeoutExpired:
        output.write(f"\n--- ended after {invocation.seconds} s\n")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
