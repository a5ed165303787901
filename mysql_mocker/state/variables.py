"""System variables: their defaults, scopes and types."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mysql_mocker.error import MySQLError, unknown_variable, wrong_value
from mysql_mocker.sql.sql_mode import stored
from mysql_mocker.sql.value import Value, float_text
from protocol.binlog.commit_timestamps import UNDEFINED

VERSION: Final = "9.7.4"
VERSION_ID: Final = 90704
Setting = bool | int | float | str
"""A value as it is stored."""

UNDEFINED_VERSION: Final = 999999
"""Default of ``original_server_version``: the server's own."""


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
        bounds: the least and the greatest number; one beyond them is truncated.
    """

    default: bool | int | float | str
    reach: Reach = Reach.BOTH
    words: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None


_BOUNDED: Final = (
    ("gtid_executed_compression_period", 0, (0, 2**32 - 1)),
    ("replica_parallel_workers", 4, (1, 1024)),
    ("replica_transaction_retries", 10, (0, 2**64 - 1)),
)


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
        "max_user_connections": 0, "unique_checks": True, "wait_timeout": 28800,
    }  # fmt: skip
    # These have no effect here.
    both |= {
        "binlog_row_value_options": "", "binlog_rows_query_log_events": False,
        "block_encryption_mode": "aes-128-ecb", "bulk_insert_buffer_size": 8388608,
        "character_set_filesystem": "binary", "connection_memory_limit": 2**64 - 1,
        "cte_max_recursion_depth": 1000, "default_collation_for_utf8mb4": "utf8mb4_0900_ai_ci",
        "default_table_encryption": False, "default_tmp_storage_engine": "InnoDB",
        "default_week_format": 0, "div_precision_increment": 4, "end_markers_in_json": False,
        "enable_cascade_triggers": False,
        "eq_range_index_dive_limit": 200, "explain_format": "TREE",
        "explain_json_format_version": 2, "terminology_use_previous": "NONE",
        "explicit_defaults_for_timestamp": True, "generated_random_password_length": 20,
        "information_schema_stats_expiry": 86400, "innodb_ft_enable_stopword": True,
        "innodb_ft_user_stopword_table": "", "innodb_strict_mode": True,
        "innodb_table_locks": True,
        "internal_tmp_mem_storage_engine": "TempTable", "join_buffer_size": 262144,
        "lc_messages": "en_US", "lc_time_names": "en_US", "low_priority_updates": False,
        "max_error_count": 1024, "max_heap_table_size": 16777216,
        "max_points_in_geometry": 65536, "max_seeks_for_key": 2**64 - 1,
        "max_sp_recursion_depth": 0,
        "old_alter_table": False, "optimizer_prune_level": 1, "optimizer_search_depth": 62,
        "optimizer_switch": "index_merge=on", "optimizer_trace": "enabled=off,one_line=off",
        "optimizer_trace_offset": -1, "parser_max_mem_size": 2**64 - 1,
        "print_identified_with_as_hex": False,
        "range_optimizer_max_mem_size": 8388608, "read_buffer_size": 131072,
        "read_rnd_buffer_size": 262144, "restrict_fk_on_non_standard_key": True,
        "show_create_table_verbosity": False,
        "show_gipk_in_create_table_and_information_schema": True,
        "sql_buffer_result": False, "sql_generate_invisible_primary_key": False,
        "sql_require_primary_key": False, "updatable_views_with_limit": "YES",
        "windowing_use_high_precision": True, "xa_detach_on_prepare": True,
    }  # fmt: skip
    session: dict[str, bool | int | float | str] = {
        "gtid_next": "AUTOMATIC", "insert_id": 0, "last_insert_id": 0, "identity": 0,
        "pseudo_replica_mode": False, "pseudo_slave_mode": False,
        "pseudo_thread_id": 0, "sql_log_bin": True, "timestamp": 0.0,
        "resultset_metadata": "FULL", "original_commit_timestamp": UNDEFINED,
        "original_server_version": UNDEFINED_VERSION,
        "immediate_server_version": UNDEFINED_VERSION, "statement_id": 0,
    }  # fmt: skip
    shared: dict[str, bool | int | float | str] = {
        "event_scheduler": True, "general_log": False, "local_infile": False,
        "log_bin_trust_function_creators": True, "max_connections": 151, "read_only": False,
        "super_read_only": False, "offline_mode": False, "gtid_purged": "",
        "init_connect": "", "replica_preserve_commit_order": True,
        "binlog_order_commits": True,  # has no effect here
    }  # fmt: skip
    fixed: dict[str, bool | int | float | str] = {
        "character_set_system": "utf8mb3", "enforce_gtid_consistency": "ON", "error_count": 0,
        "binlog_checksum": "CRC32",
        "gtid_executed": "", "gtid_mode": "ON", "gtid_owned": "",
        "hostname": "localhost", "license": "GPL", "log_bin": True,
        "log_replica_updates": True, "lower_case_table_names": 0,
        "performance_schema": True, "port": 0, "protocol_version": 10,
        "proxy_user": "", "server_id": 0,
        "server_uuid": "", "socket": "", "system_time_zone": "UTC", "version": VERSION,
        "version_comment": "mysql_mocker", "version_compile_machine": "x86_64",
        "version_compile_os": "Linux", "warning_count": 0,
    }  # fmt: skip
    found = {name: Definition(value) for name, value in both.items()}
    found |= {name: Definition(value, Reach.SESSION) for name, value in session.items()}
    found |= {name: Definition(value, Reach.GLOBAL) for name, value in shared.items()}
    found |= {name: Definition(value, Reach.READ_ONLY) for name, value in fixed.items()}
    for name, number, bounds in _BOUNDED:
        found[name] = Definition(number, Reach.GLOBAL, bounds=bounds)
    found["session_track_gtids"] = Definition("OFF", words=("OFF", "OWN_GTID", "ALL_GTIDS"))
    found["session_track_transaction_info"] = Definition(
        "OFF", words=("OFF", "STATE", "CHARACTERISTICS")
    )
    found["completion_type"] = Definition("NO_CHAIN", words=("NO_CHAIN",))
    found["transaction_isolation"] = Definition("REPEATABLE-READ", words=isolation)
    return found


CEILINGS: Final = {
    "original_commit_timestamp": UNDEFINED,
    "original_server_version": UNDEFINED_VERSION,
    "immediate_server_version": UNDEFINED_VERSION,
}
"""The largest values of variables that only replication, and users with its rights, may set."""

DEFINITIONS: Final[Mapping[str, Definition]] = _definitions()
_ALIASES: Final = {
    "tx_isolation": "transaction_isolation",
    "tx_read_only": "transaction_read_only",
    "log_slave_updates": "log_replica_updates",
    "slave_parallel_workers": "replica_parallel_workers",
    "slave_preserve_commit_order": "replica_preserve_commit_order",
    "slave_transaction_retries": "replica_transaction_retries",
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
    if name == "sql_mode":
        return stored(value)
    if isinstance(definition.default, bool):
        return _word(name, value, ("OFF", "ON")) == "ON"
    if isinstance(definition.default, str):
        if value is None and not name.startswith("character_set_"):
            raise wrong_value(name, value)
        return "" if value is None else str(value)
    if isinstance(value, str | None) or (
        isinstance(value, float) and isinstance(definition.default, int)
    ):
        raise MySQLError(1232, "42000", f"Incorrect argument type to variable '{name}'")
    least, most = definition.bounds or (0, CEILINGS.get(name))
    return max(least, value if most is None else min(value, most))


def _word(name: str, value: Value, words: tuple[str, ...]) -> str:
    if isinstance(value, int) and 0 <= value < len(words):
        return words[value]
    word = str(value).upper()
    if words == ("OFF", "ON"):
        word = {"TRUE": "ON", "FALSE": "OFF", "0": "OFF", "1": "ON"}.get(word, word)
    if word not in words:
        raise wrong_value(name, value)
    return word


def shown(value: bool | float | str) -> str:
    """A value as SHOW VARIABLES has it."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return float_text(value) if isinstance(value, float) else str(value)


def selected(value: bool | float | str) -> Value:
    """A value as ``SELECT @@name`` has it."""
    return int(value) if isinstance(value, bool) else value
