"""MySQL's own mysqlbinlog reads the mocker's log over the network as it reads a real server's.

With the same options it prints of a server's files what it prints of copies of them: this is so at
a real server, and must be so at the mocker.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor

from mysql_mocker.server.cluster import Cluster as MockerCluster
from protocol.gtid import GtidSet
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import REPLICATION_PASSWORD, REPLICATION_USER, find_mysqld
from tests.support.background_cluster import BackgroundCluster
from tests.support.waiting import until

STATEMENTS = [
    "CREATE DATABASE read_remotely",
    "CREATE TABLE read_remotely.t (i INT PRIMARY KEY, v VARCHAR(20))",
    "INSERT INTO read_remotely.t VALUES (1, 'a')",
    "FLUSH BINARY LOGS",
    "BEGIN",
    "INSERT INTO read_remotely.t VALUES (2, 'b'), (3, 'c')",
    "DELETE FROM read_remotely.t WHERE i = 1",
    "COMMIT",
    "UPDATE read_remotely.t SET v = 'd'",
    "FLUSH BINARY LOGS",
    "INSERT INTO read_remotely.t VALUES (4, 'e')",
]
HOW = ["--read-from-remote-server", "--read-from-remote-source=BINLOG-DUMP-GTIDS"]
OPTIONS = {
    "one file": ["-v", "{0}"],
    "several files": ["{0}", "{1}", "{2}"],
    "from a position": ["--start-position={position}", "{0}"],
    "to a position": ["--stop-position={position}", "{0}"],
    "one of its transactions": ["--include-gtids={second}", "{0}", "{1}"],
    "all but two": ["--exclude-gtids={second},{last}", "{0}", "{1}", "{2}"],
    "nothing that is there": ["--include-gtids={never}", "{0}"],
}


@dataclass
class Source:
    """A server whose log is read.

    Attributes:
        address: options of mysqlbinlog that lead to it.
        connection: to it, as root.
        files: copies of its log's files, the oldest first.
        names: what options can mention: a position, and GTIDs.
    """

    address: list[str]
    connection: pymysql.Connection[Cursor]
    files: list[Path]
    names: dict[str, str]

    def remote(self, how: str, options: list[str]) -> list[str]:
        """What is printed of the server's files."""
        files = [path.name for path in self.files]
        return event_lines(mysqlbinlog(how, *self.address, *self.filled(options, files)))

    def copied(self, options: list[str]) -> list[str]:
        """What is printed of the copies."""
        return event_lines(mysqlbinlog(*self.filled(options, list(map(str, self.files)))))

    def filled(self, options: list[str], files: list[str]) -> list[str]:
        return [option.format(*files, **self.names) for option in options]


def mysqlbinlog(*arguments: str) -> str:
    mysqld = find_mysqld()
    assert mysqld is not None
    program = mysqld.with_name("mysqlbinlog")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def event_lines(printed: str) -> list[str]:
    """Lines about events that are in a file, but for a file's first, which says if it is open."""
    about = re.compile(r"#.*end_log_pos [1-9]|.*(GTID_NEXT=|_commit_timestamp=)|### ")
    lines = [line for line in printed.splitlines() if about.match(line)]
    return [line for line in lines if "Start: binlog" not in line and "added by" not in line]


@pytest.fixture(scope="module", params=["server", "mocker"])
def source(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Source]:
    if request.param == "server":
        primary = cluster.primary
        with primary.admin() as connection:
            account = [f"--user={REPLICATION_USER}", f"--password={REPLICATION_PASSWORD}"]
            yield made(connection, primary.port, account, tmp_path_factory.mktemp("copies"))
    else:
        accounts = {"root": "", "repl": "secret"}
        with BackgroundCluster(lambda: MockerCluster(0, accounts=accounts)) as running:
            port = running.cluster.primary.port
            with pymysql.connect(
                host="127.0.0.1", port=port, user="root", autocommit=True
            ) as connection:
                account = ["--user=repl", "--password=secret"]
                yield made(connection, port, account, tmp_path_factory.mktemp("copies"))


def made(
    connection: pymysql.Connection[Cursor], port: int, account: list[str], folder: Path
) -> Source:
    """Run the statements, and copy the files that they wrote."""
    cursor = connection.cursor()
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("SELECT @@GLOBAL.gtid_executed, @@server_uuid")
    executed, uuid = cursor.fetchall()[0]
    before = GtidSet.parse(str(executed)).intervals(str(uuid))
    last = before[-1][1] - 1 if before else 0
    cursor.execute("SHOW BINARY LOGS")
    begun = len(cursor.fetchall()) - 1
    for statement in STATEMENTS:
        cursor.execute(statement)
    cursor.execute("SHOW BINARY LOGS")
    address = ["--host=127.0.0.1", f"--port={port}", *account, "--get-server-public-key"]
    logs = [str(row[0]) for row in cursor.fetchall()][begun:]
    mysqlbinlog("-R", "--raw", f"--result-file={folder}/", *address, *logs)
    files = [folder / name for name in logs]
    second = re.findall(r"^# at (\d+)\n#.*\tGTID\t", mysqlbinlog(str(files[0])), re.MULTILINE)[1]
    gtids = {name: f"{uuid}:{last + n}" for name, n in (("second", 2), ("last", 6), ("never", 99))}
    return Source(address, connection, files, {"position": second, **gtids})


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("case", OPTIONS)
def test_it_prints_of_a_server_what_it_prints_of_its_files(
    source: Source, how: str, case: str
) -> None:
    printed = source.remote(how, OPTIONS[case])
    assert printed == source.copied(OPTIONS[case])
    assert ("commit_timestamp" in "".join(printed)) == ("nothing" not in case)


@pytest.mark.parametrize("how", HOW)
def test_it_follows_to_the_last_file(source: Source, how: str) -> None:
    printed = source.remote(how, ["--to-last-log", "{0}"])
    assert printed == source.copied(["{0}", "{1}", "{2}"])
    assert len([line for line in printed if "GTID_NEXT=" in line]) == 6


@pytest.mark.parametrize("how", HOW)
def test_its_raw_files_are_the_servers(source: Source, how: str, tmp_path: Path) -> None:
    files = [path.name for path in source.files]
    mysqlbinlog(how, "--raw", f"--result-file={tmp_path}/", *source.address, *files)
    assert [(tmp_path / name).read_bytes() for name in files] == [
        path.read_bytes() for path in source.files
    ]


@pytest.mark.parametrize("how", HOW)
def test_it_stays_and_prints_what_comes(source: Source, how: str, tmp_path: Path) -> None:
    mysqld = find_mysqld()
    assert mysqld is not None
    output = tmp_path / "printed"
    options = [how, "--stop-never", *source.address, source.files[-1].name]
    with output.open("wb") as printed:
        reader = subprocess.Popen(
            [mysqld.with_name("mysqlbinlog"), *options], stdout=printed, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: "COMMIT" in output.read_text(), "the last transaction is printed")
        for statement in ("DROP TABLE IF EXISTS read_remotely.later", "FLUSH BINARY LOGS"):
            source.connection.cursor().execute(statement)
        source.connection.cursor().execute("CREATE TABLE read_remotely.later (i INT)")
        until(lambda: "CREATE TABLE read_remotely.later" in output.read_text(), "what came is")
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()
    assert "ERROR" not in output.read_text()


def test_through_the_proxy_it_is_told_which_server_to_read(
    cluster: Cluster, proxy: StartProxy
) -> None:
    port = proxy().address.rpartition(":")[2]
    result = subprocess.run(
        [
            find_mysqld().with_name("mysqlbinlog"),
            *HOW[:1],
            *("--host=127.0.0.1", f"--port={port}"),
            *(f"--user={REPLICATION_USER}", f"--password={REPLICATION_PASSWORD}"),
            "binlog.000001",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert (
        "Got error reading packet from server: Tidegate does not pass COM_BINLOG_DUMP on, which"
        " concerns one server: connect to the server itself (the primary is"
        f" {cluster.primary.address})"
    ) in result.stderr
