"""`tidegate check --connect` before real servers: what is missing or differs is found."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy import cli
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.template import MONITOR_PASSWORD, MONITOR_USER

Check = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def check(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs it; gives its exit status, and its findings without the servers' addresses."""
    password = tmp_path / "password"
    password.write_text(MONITOR_PASSWORD)
    password.chmod(0o600)
    options = {
        "primary": cluster.primary.address,
        "replicas": ",".join(replica.address for replica in cluster.replicas),
        "monitor-user": MONITOR_USER,
        "monitor-password-file": str(password),
        "rsa-key": str(cluster.rsa_key),
        "table-dependencies": "off",
    }

    def check(**changed: str) -> tuple[int, list[str]]:
        given = options | {name.replace("_", "-"): value for name, value in changed.items()}
        arguments = [f"--{name}={value}" for name, value in given.items()]
        status = cli.main(["check", "--connect", *arguments])
        lines = capsys.readouterr().err.splitlines()
        for server in cluster.servers:
            lines = [line.replace(server.address, server.name) for line in lines]
        return status, [
            line.removeprefix("tidegate: ")
            for line in lines
            if re.search(r": (error|warning|note): ", line) and "tidegate: note" not in line
        ]

    return check


def test_servers_that_are_as_they_should_be(check: Check, cluster: Cluster) -> None:
    assert check() == (0, [])


@pytest.mark.parametrize(
    ("where", "change", "back", "finding"),
    [
        (
            "primary",
            "SET GLOBAL read_only = ON",
            "SET GLOBAL read_only = OFF",
            r"primary: error: it is configured as the primary and read only",
        ),
        (
            "replica1",
            "SET GLOBAL read_only = OFF",
            "SET GLOBAL super_read_only = ON",
            r"replica1: warning: it takes writes",
        ),
        (
            "replica1",
            "STOP REPLICA IO_THREAD",
            "START REPLICA",
            r"replica1: error: channel '' receives nothing \(Replica_IO_Running: No\); START",
        ),
        (
            "replica2",
            "STOP REPLICA SQL_THREAD",
            "START REPLICA",
            r"replica2: error: channel '' applies nothing \(Replica_SQL_Running: No\)",
        ),
        (
            "replica1",
            "SET GLOBAL replica_preserve_commit_order = OFF",
            "SET GLOBAL replica_preserve_commit_order = ON",
            r"replica1: warning: it commits in another order than its source",
        ),
        (
            "replica1",
            "SET GLOBAL max_allowed_packet = 1048576",
            "SET GLOBAL max_allowed_packet = DEFAULT",
            r"replica1: warning: max_allowed_packet is 1048576 here and \d+ at the primary",
        ),
        (
            "replica1",
            "SET GLOBAL innodb_ft_server_stopword_table = 'app/stop'",
            "SET GLOBAL innodb_ft_server_stopword_table = DEFAULT",
            r"replica1: warning: innodb_ft_server_stopword_table is 'app/stop' here and ''",
        ),
        (
            "primary",
            "SET GLOBAL init_connect = 'SET @a = 1'",
            "SET GLOBAL init_connect = ''",
            r"primary: warning: init_connect is set",
        ),
    ],
)
def test_what_is_changed_is_found(
    check: Check, cluster: Cluster, where: str, change: str, back: str, finding: str
) -> None:
    server = {server.name: server for server in cluster.servers}[where]
    if "app/stop" in change:
        cluster.primary.query("CREATE TABLE app.stop (value VARCHAR(30)) ENGINE = InnoDB")
        cluster.wait_caught_up()
    if "preserve_commit_order" in change:
        change, back = (f"STOP REPLICA SQL_THREAD; {sql}; START REPLICA" for sql in (change, back))
    try:
        for sql in change.split(";"):
            server.query(sql)
        status, findings = check()
    finally:
        for sql in back.split(";"):
            server.query(sql)
    found = [line for line in findings if re.match(finding, line)]
    assert found, findings
    assert len(findings) == 1, findings
    assert status == int(": error: " in found[0])


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("time_zone", "'+03:00'"),
        ("group_concat_max_len", "7"),
        ("sql_select_limit", "1000"),
        ("div_precision_increment", "9"),
        ("lc_time_names", "'de_DE'"),
        ("default_collation_for_utf8mb4", "utf8mb4_general_ci"),
        ("block_encryption_mode", "'aes-256-cbc'"),
        ("sql_mode", "'ANSI'"),
    ],
)
def test_session_defaults_that_differ_are_told(
    check: Check, cluster: Cluster, variable: str, value: str
) -> None:
    replica = cluster.replicas[0]
    try:
        replica.query(f"SET GLOBAL {variable} = {value}")
        status, findings = check()
    finally:
        replica.query(f"SET GLOBAL {variable} = DEFAULT")
    assert status == 0
    (finding,) = findings
    assert re.match(
        rf"replica1: note: its sessions begin with other values .*: {variable}$", finding
    )


def test_the_same_server_under_two_names(check: Check, cluster: Cluster) -> None:
    replica = cluster.replicas[0].address
    status, findings = check(replicas=f"{replica},{replica.replace('127.0.0.1', 'localhost')}")
    assert status == 1
    assert any("its server_uuid" in line and "two names" in line for line in findings), findings


def test_a_server_that_is_down_and_one_that_says_no(check: Check, cluster: Cluster) -> None:
    status, findings = check(replicas=f"{cluster.replicas[0].address},127.0.0.1:1")
    assert status == 1
    (finding,) = findings
    assert finding.startswith("127.0.0.1:1: error: ")
    status, findings = check(monitor_user="nobody")
    assert status == 1
    assert len(findings) == 3
    assert all("error: 1045" in line or "Access denied" in line for line in findings), findings


def test_rights_that_are_missing_are_named(check: Check, cluster: Cluster) -> None:
    cluster.primary.query(f"CREATE USER poor IDENTIFIED BY '{MONITOR_PASSWORD}'")
    cluster.wait_caught_up()
    status, findings = check(monitor_user="poor")
    assert status == 0
    text = "\n".join(findings)
    for grant in (
        "GRANT SELECT ON performance_schema.replication_applier_filters TO poor",
        "GRANT SELECT ON performance_schema.replication_connection_status TO poor",
        "GRANT SELECT ON performance_schema.replication_applier_status_by_worker TO poor",
        "GRANT SELECT ON performance_schema.replication_applier_status_by_coordinator TO poor",
        "GRANT SELECT ON performance_schema.replication_applier_configuration TO poor",
        r"GRANT REPLICATION CLIENT ON *.* TO poor",
    ):
        assert grant in text
    assert check(monitor_user="poor", failover="read_only")[0] == 1


def test_what_finding_replicas_needs_is_told(check: Check, cluster: Cluster) -> None:
    status, findings = check(topology="auto")
    assert status == 1
    needs = "GRANT REPLICATION SLAVE ON *.* TO monitor"
    for server in cluster.servers:
        (finding,) = [line for line in findings if line.startswith(f"{server.name}: error: ")]
        assert needs in finding
    cluster.primary.query(needs)
    cluster.wait_caught_up()
    assert check(topology="auto")[0] == 0
    replica = cluster.replicas[0]
    replica.kill()
    replica.start("--report-host=")
    _, findings = check(topology="auto")
    assert any(line.startswith("replica1: note: report_host is empty") for line in findings)


def test_what_table_dependencies_need_is_told(check: Check, cluster: Cluster) -> None:
    def told() -> list[str]:
        """What is found about the option."""
        status, findings = check(table_dependencies="auto")
        assert status == 0
        return [finding for finding in findings if "table-dependencies" in finding]

    cluster.primary.query("REVOKE IF EXISTS REPLICATION SLAVE ON *.* FROM monitor")
    cluster.wait_caught_up()  # a replica that a test has started again may not replicate yet
    (finding,) = told()
    assert finding.startswith("primary: note: table-dependencies has no effect: ")
    needs = "GRANT REPLICATION SLAVE ON *.* TO monitor"
    assert finding.endswith(needs)
    cluster.primary.query(needs)
    cluster.wait_caught_up()
    assert told() == []


def test_without_an_account_nothing_can_be_asked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--primary", cluster.primary.address, "--rsa-key", str(cluster.rsa_key)]
    assert cli.main(["check", "--connect", *arguments]) == 2
    assert "--connect logs in as monitor-user" in capsys.readouterr().err
