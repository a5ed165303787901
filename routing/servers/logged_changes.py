"""Whether a primary's binary log names every table that its transactions change."""

import re
from collections.abc import Mapping
from typing import Final

OLDEST: Final = (9, 6)
"""Before this version, InnoDB carries out cascades of foreign keys, and the log lacks them."""
VARIABLES: Final = (
    *("version", "log_bin", "binlog_format", "innodb_native_foreign_keys"),
    *("lower_case_table_names", "group_replication_group_name"),
)
"""The global variables that this depends on; a server need not have all of them."""
_VERSION: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.", re.ASCII)


def why_not_logged(variables: Mapping[str, str], left_out: str | None) -> str:
    """Why the log does not name every changed table; empty if it does.

    Args:
        variables: the server's global variables by name, at least those of `VARIABLES`.
        left_out: what its binary log leaves out (binlog_do_db, binlog_ignore_db); None if unknown.
    """
    version = variables.get("version", "")
    match = _VERSION.match(version)
    if match is None or "mariadb" in version.lower() or tuple(map(int, match.groups())) < OLDEST:
        return (
            f"it is MySQL {version}; before {'.'.join(map(str, OLDEST))} the binary log lacks what"
            " foreign keys change"
        )
    if not _is_on(variables.get("log_bin", "")):
        return "log_bin is OFF"
    form = variables.get("binlog_format", "ROW").upper()
    if form != "ROW":
        return f"binlog_format is {form}, not ROW"
    if _is_on(variables.get("innodb_native_foreign_keys", "")):
        return "innodb_native_foreign_keys is ON: the binary log lacks what foreign keys change"
    if variables.get("group_replication_group_name", ""):
        return "members of a group need not commit in the order of the primary's binary log"
    if left_out is None:
        return "what its binary log leaves out may not be seen; GRANT REPLICATION CLIENT ON *.*"
    if left_out:
        return f"its binary log leaves out writes ({left_out})"
    return ""


def _is_on(value: str) -> bool:
    return value.upper() in ("ON", "1")
