"""Which primaries have a log that names every changed table."""

import pytest

from routing.servers.logged_changes import VARIABLES, why_not_logged

GOOD = {
    "version": "9.7.4",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "innodb_native_foreign_keys": "OFF",
    "lower_case_table_names": "0",
    "group_replication_group_name": "",
}


def test_a_server_whose_log_names_all_tables() -> None:
    assert set(GOOD) == set(VARIABLES)
    assert why_not_logged(GOOD, "") == ""
    for version in ("9.6.0", "9.10.1-log", "10.0.2"):
        assert why_not_logged(GOOD | {"version": version}, "") == ""
    for name in ("binlog_format", "innodb_native_foreign_keys", "group_replication_group_name"):
        assert why_not_logged({k: v for k, v in GOOD.items() if k != name}, "") == ""


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("version", "9.5.0", "before 9.6"),
        ("version", "8.4.6", "before 9.6"),
        ("version", "11.4.2-MariaDB-log", "before 9.6"),
        ("version", "", "before 9.6"),
        ("log_bin", "OFF", "log_bin"),
        ("log_bin", "0", "log_bin"),
        ("binlog_format", "MIXED", "binlog_format is MIXED"),
        ("innodb_native_foreign_keys", "ON", "innodb_native_foreign_keys"),
        ("group_replication_group_name", "11111111-2222-3333-4444-555555555555", "a group"),
        ("innodb_native_foreign_keys", "1", "innodb_native_foreign_keys"),
    ],
)
def test_a_server_whose_log_lacks_some(variable: str, value: str, text: str) -> None:
    assert text in why_not_logged(GOOD | {variable: value}, "")


def test_what_the_log_leaves_out_must_be_known_and_nothing() -> None:
    assert "REPLICATION CLIENT" in why_not_logged(GOOD, None)
    assert "binlog_ignore_db = other" in why_not_logged(GOOD, "binlog_ignore_db = other")
