"""What `tidegate check` says about table-dependencies."""

from dataclasses import replace

from proxy.address import Address
from proxy.check.findings import judge
from proxy.check.server_facts import ServerFacts
from proxy.config import Config
from routing.servers.topology import Role

CONFIG = Config(Address("db1", 3306), monitor_user="watch", table_dependencies="auto")
VARIABLES = {
    "version": "9.7.4",
    "gtid_mode": "ON",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "lower_case_table_names": "0",
}


def said(config: Config, facts: ServerFacts) -> list[str]:
    """What is said of it."""
    found = judge(config, [facts])
    return [finding.text for finding in found if "table-dependencies" in finding.text]


def facts(**variables: str) -> ServerFacts:
    primary = ServerFacts("db1:3306", Role.PRIMARY, "9.7.4", variables=VARIABLES | variables)
    primary.log_filters = ""
    return primary


def test_where_the_log_can_be_read_nothing_is_said() -> None:
    assert said(CONFIG, facts()) == []
    off = replace(CONFIG, table_dependencies="off")
    assert said(off, facts(binlog_format="MIXED")) == []


def test_why_it_has_no_effect_is_said() -> None:
    (text,) = said(CONFIG, facts(binlog_format="MIXED"))
    assert "binlog_format is MIXED" in text
    denied = facts()
    denied.refusals["replicas"] = "ERROR 1227 (42000): Access denied"
    (text,) = said(CONFIG, denied)
    assert "GRANT REPLICATION SLAVE ON *.* TO watch" in text
    assert not any("topology" in finding.text for finding in judge(CONFIG, [denied]))
    hidden = facts()
    hidden.log_filters = None
    (text,) = said(CONFIG, hidden)
    assert "GRANT REPLICATION CLIENT" in text
