"""`tidegate binlog` says of a real server's files what MySQL's own mysqlbinlog says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.template import find_mysqld
from tests.support import binlogs

ROOT = Path(__file__).parents[2]
SOURCE = "11111111-2222-3333-4444-555555555555"
SHARED = ("# original_commit", "# immediate_commit", "/*!80001", "/*!80014", "SET @@SESSION.GTID")


def mysqlbinlog() -> Path:
    mysqld = find_mysqld()
    assert mysqld is not None
    return mysqld.with_name("mysqlbinlog")


def output_of(*command: str | Path, zone: str) -> list[str]:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(SHARED)]
    return [line for line in lines if "added by mysqlbinlog" not in line]


def assert_the_same(*logs: Path, zone: str) -> None:
    own = output_of(sys.executable, "-m", "proxy.cli", "binlog", *logs, zone=zone)
    assert own
    assert own == output_of(mysqlbinlog(), "--base64-output=decode-rows", *logs, zone=zone)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_the_kept_files(zone: str) -> None:
    assert_the_same(*(binlogs.DIRECTORY / f"{name}.binlog" for name in binlogs.NAMES), zone=zone)


def test_files_of_a_running_server_and_its_replica(cluster: Cluster) -> None:
    primary, replica = cluster.primary, cluster.replicas[0]
    primary.query("CREATE TABLE app.binlog_files (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    for number in range(20):
        primary.query("INSERT INTO app.binlog_files (v) VALUES (%s)", number)
    primary.query(f"SET gtid_next = '{SOURCE}:tag:1'")
    primary.query("INSERT INTO app.binlog_files (v) VALUES (100)")
    primary.query("SET gtid_next = AUTOMATIC")
    replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 20)", primary.gtid_executed)
    # The newest files are still open: their format descriptions say so.
    servers = (primary, replica)
    logs = [server.data / server.value("SHOW BINARY LOG STATUS") for server in servers]
    relay = replica.replica_status()["Relay_Log_File"]
    logs.append(replica.data / str(relay))
    assert_the_same(*logs, zone="Europe/Berlin")
