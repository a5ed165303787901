"""System variables: their defaults, scopes and types."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mysql_mocker.error import MySQLError, unknown_variable
from mysql_mocker.value import Value, float_text

VERSION: Final = "9.7.4"


class Reach(Enum):
    """Where a variable can be set."""

    READ_ONLY = "read only"
    GLOBAL = "global"
    SESSION = "session"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Definition:
    """One system variable.

    Attributes:
        default: its value on a fresh server; a `bool` makes it ON or OFF.
        reach: where it can be set.
        words: what it can be set to, if that is a closed list.
    """

    default: bool | int | float | str
    reach: Reach = Reach.BOTH
    words: tuple[str, ...] = ()


def _definitions() -> dict[str, Definition]:
    tracking = "time_zone,autocommit,character_set_client,character_set_results,"
    sql_mode = (
        "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
        "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
    )
    isolation = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")
    both: dict[str, bool | int | float | str] = {
        "autocommit": True, "auto_increment_increment": 1, "auto_increment_offset": 1,
        "big_tables": False, "binlog_format": "ROW", "binlog_row_image": "FULL",
        "character_set_client": "utf8mb4", "character_set_connection": "utf8mb4",
        "character_set_results": "utf8mb4", "character_set_server": "utf8mb4",
        "character_set_database": "utf8mb4", "collation_connection": "utf8mb4_0900_ai_ci",
        "collation_database": "utf8mb4_0900_ai_ci", "collation_server": "utf8mb4_0900_ai_ci",
        "default_storage_engine": "InnoDB", "foreign_key_checks": True,
        "group_concat_max_len": 1024, "innodb_lock_wait_timeout": 50,
        "interactive_timeout": 28800, "lock_wait_timeout": 31536000, "long_query_time": 10.0,
        "max_allowed_packet": 67108864, "max_execution_time": 0, "max_join_size": 2**64 - 1,
        "max_sort_length": 1024, "net_buffer_length": 16384, "net_read_timeout": 30,
        "net_write_timeout": 60, "profiling": False, "session_track_schema": True,
        "session_track_state_change": False,
        "session_track_system_variables": tracking + "character_set_connection",
        "sort_buffer_size": 262144, "sql_auto_is_null": False, "sql_big_selects": True,
        "sql_mode": sql_mode, "sql_notes": True, "sql_quote_show_create": True,
        "sql_safe_updates": False, "sql_select_limit": 2**64 - 1, "sql_warnings": False,
        "time_zone": "SYSTEM", "tmp_table_size": 16777216, "transaction_read_only": False,
        "unique_checks": True, "wait_timeout": 28800,
    }  # fmt: skip
    session: dict[str, bool | int | float | str] = {
        "gtid_next": "AUTOMATIC", "insert_id": 0, "last_insert_id": 0, "identity": 0,
        "pseudo_thread_id": 0, "sql_log_bin": True, "timestamp": 0.0,
        "resultset_metadata": "FULL",
    }  # fmt: skip
    shared: dict[str, bool | int | float | str] = {
        "event_scheduler": True, "general_log": False, "local_infile": False,
        "log_bin_trust_function_creators": True, "max_connections": 151, "read_only": False,
        "super_read_only": False, "offline_mode": False,
    }  # fmt: skip
    fixed: dict[str, bool | int | float | str] = {
        "character_set_system": "utf8mb3", "enforce_gtid_consistency": "ON", "error_count": 0,
        "gtid_executed": "", "gtid_mode": "ON", "gtid_owned": "", "gtid_purged": "",
        "hostname": "localhost", "init_connect": "", "license": "GPL", "log_bin": True,
        "log_replica_updates": True, "lower_case_table_names": 0,
        "performance_schema": True, "port": 0, "protocol_version": 10,
        "replica_parallel_workers": 4, "replica_preserve_commit_order": True, "server_id": 0,
        "server_uuid": "", "socket": "", "system_time_zone": "UTC", "version": VERSION,
        "version_comment": "mysql_mocker", "version_compile_machine": "x86_64",
        "version_compile_os": "Linux", "warning_count": 0,
    }  # fmt: skip
    found = {name: Definition(value) for name, value in both.items()}
    found |= {name: Definition(value, Reach.SESSION) for name, value in session.items()}
    found |= {name: Definition(value, Reach.GLOBAL) for name, value in shared.items()}
    found |= {name: Definition(value, Reach.READ_ONLY) for name, value in fixed.items()}
    found["session_track_gtids"] = Definition("OFF", words=("OFF", "OWN_GTID", "ALL_GTIDS"))
    found["session_track_transaction_info"] = Definition(
        "OFF", words=("OFF", "STATE", "CHARACTERISTICS")
    )
    found["transaction_isolation"] = Definition("REPEATABLE-READ", words=isolation)
    return found


DEFINITIONS: Final[Mapping[str, Definition]] = _definitions()
_ALIASES: Final = {
    "tx_isolation": "transaction_isolation",
    "tx_read_only": "transaction_read_only",
    "log_slave_updates": "log_replica_updates",
    "slave_parallel_workers": "replica_parallel_workers",
    "slave_preserve_commit_order": "replica_preserve_commit_order",
}


def canonical(name: str) -> str:
    """A variable's name as the server lists it.

    Raises:
        MySQLError: 1193.
    """
    lower = name.lower()
    lower = _ALIASES.get(lower, lower)
    if lower not in DEFINITIONS:
        raise unknown_variable(name)
    return lower


def _wrong(name: str, value: Value) -> MySQLError:
    shown = "NULL" if value is None else str(value)
    return MySQLError(1231, "42000", f"Variable '{name}' can't be set to the value of '{shown}'")


def checked(name: str, value: Value) -> bool | int | float | str:
    """`value` as the variable `name` stores it.

    Raises:
        MySQLError: 1231 or 1232.
    """
    definition = DEFINITIONS[name]
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if definition.words:
        return _word(name, value, definition.words)
    if isinstance(definition.default, bool):
        return _word(name, value, ("OFF", "ON")) == "ON"
    if isinstance(definition.default, str):
        if value is None and not name.startswith("character_set_"):
            raise _wrong(name, value)
        return "" if value is None else str(value)
    if isinstance(value, str | None) or (
        isinstance(value, float) and isinstance(definition.default, int)
    ):
        raise MySQLError(1232, "42000", f"Incorrect argument type to variable '{name}'")
    return max(0, value)


def _word(name: str, value: Value, words: tuple[str, ...]) -> str:
    if isinstance(value, int) and 0 <= value < len(words):
        return words[value]
    word = str(value).upper()
    if words == ("OFF", "ON"):
        word = {"TRUE": "ON", "FALSE": "OFF", "0": "OFF", "1": "ON"}.get(word, word)
    if word not in words:
        raise _wrong(name, value)
    return word


def shown(value: bool | float | str) -> str:
    """A value as SHOW VARIABLES has it."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return float_text(value) if isinstance(value, float) else str(value)


def selected(value: bool | float | str) -> Value:
    """A value as ``SELECT @@name`` has it."""
    return int(value) if isinstance(value, bool) else value
