"""System variables of a session: which are carried to replicas, and how a value is written."""

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERS: Final = _words(
    """cte_max_recursion_depth default_week_format div_precision_increment
    eq_range_index_dive_limit explain_json_format_version group_concat_max_len
    information_schema_stats_expiry interactive_timeout join_buffer_size lock_wait_timeout
    long_query_time max_error_count max_execution_time max_heap_table_size max_join_size
    max_points_in_geometry max_seeks_for_key max_sort_length net_read_timeout net_write_timeout
    optimizer_prune_level optimizer_search_depth range_optimizer_max_mem_size read_buffer_size
    read_rnd_buffer_size sort_buffer_size sql_select_limit tmp_table_size wait_timeout"""
)
"""Variables that take no strings."""

_WORDS: Final = _words(
    """big_tables block_encryption_mode character_set_client character_set_connection
    character_set_filesystem character_set_results character_set_server collation_connection
    collation_server default_collation_for_utf8mb4 end_markers_in_json explain_format
    innodb_ft_enable_stopword internal_tmp_mem_storage_engine lc_messages lc_time_names
    optimizer_switch print_identified_with_as_hex show_create_table_verbosity
    show_gipk_in_create_table_and_information_schema sql_big_selects sql_buffer_result sql_mode
    sql_notes sql_quote_show_create sql_safe_updates terminology_use_previous time_zone
    transaction_isolation windowing_use_high_precision"""
)

CARRIED: Final = _NUMBERS | _WORDS
"""Variables that change the answers to reads. A tracker reports their new value, whatever sets
them."""

OF_SERVERS: Final = _words(
    """big_tables interactive_timeout internal_tmp_mem_storage_engine join_buffer_size
    long_query_time max_heap_table_size net_read_timeout net_write_timeout read_buffer_size
    read_rnd_buffer_size sort_buffer_size tmp_table_size wait_timeout"""
)
"""Of these, those that a server gives its sessions for its own sake: memory, time limits of
connections, its log of slow statements. Where servers' defaults differ, each keeps its own."""

LATER: Final = {
    "connection_memory_limit": 80028,
    "explain_format": 80032,
    "explain_json_format_version": 80300,
    "restrict_fk_on_non_standard_key": 80400,
    "show_gipk_in_create_table_and_information_schema": 80030,
    "sql_generate_invisible_primary_key": 80030,
    "terminology_use_previous": 80026,
    "xa_detach_on_prepare": 80029,
}
"""Variables that not all supported servers have, by the version that brought them."""

PINNING: Final[dict[str, tuple[str, ...]]] = {
    # While these are set, writes may have no GTIDs.
    "sql_log_bin": ("ON", "1", "TRUE"),
    "pseudo_replica_mode": ("OFF", "0", "FALSE"),
    "pseudo_slave_mode": ("OFF", "0", "FALSE"),
    # These concern records of the statements that the primary ran.
    "sql_auto_is_null": ("OFF", "0", "FALSE"),
    "profiling": ("OFF", "0", "FALSE"),
    "optimizer_trace": ("ENABLED=OFF", "ENABLED=OFF,ONE_LINE=OFF", "ENABLED=OFF,ONE_LINE=ON"),
    # Each RAND() goes on from the one before.
    "rand_seed1": (),
    "rand_seed2": (),
}
"""Variables that keep a session on the primary, except at these values."""

LOGGING: Final = ("sql_log_bin", "gtid_next", "pseudo_replica_mode", "pseudo_slave_mode")
"""While the session is pinned by one of these, its writes may have no GTIDs."""

RECORDING: Final = ("optimizer_trace", "profiling")
"""While the session is pinned by one of these, its client can read which statements were run."""

NOT_CARRIED: Final = _words(
    """auto_increment_increment auto_increment_offset autocommit binlog_format binlog_row_image
    binlog_row_value_options binlog_rows_query_log_events bulk_insert_buffer_size
    completion_type default_storage_engine default_table_encryption default_tmp_storage_engine
    explicit_defaults_for_timestamp foreign_key_checks gtid_next identity
    innodb_lock_wait_timeout innodb_strict_mode insert_id last_insert_id low_priority_updates
    resource_group sql_generate_invisible_primary_key sql_require_primary_key
    sql_warnings transaction_read_only tx_read_only unique_checks updatable_views_with_limit
    xa_detach_on_prepare"""
)
"""Variables that change nothing that a read on a replica returns. Of these, `autocommit` is seen in
the status flags, and what is written under `gtid_next` is reported like any other GTID."""

TRACKING: Final = _words(
    """session_track_gtids session_track_schema session_track_state_change
    session_track_system_variables session_track_transaction_info"""
)

SHOWN_BY_DEFAULT: Final = (
    "time_zone,autocommit,character_set_client,character_set_results,character_set_connection"
)
"""session_track_system_variables of a server with default settings."""

ISOLATION: Final = "transaction_isolation"
DEFAULT_ISOLATION: Final = "REPEATABLE-READ"
"""A session's isolation level if it has not set one, unless its server has another default."""

SWITCH: Final = "optimizer_switch"
FLAGS: Final = "optimizer_switch flags"
"""Stands for the flags that were set one by one, after a value that set all of them."""

_FOLLOWED: Final = sorted(
    CARRIED
    | TRACKING
    | {"autocommit", "profiling", "sql_auto_is_null", "sql_log_bin", "transaction_read_only"}
)
_COLLATION_SQL: Final = (
    "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME"
)
_FLAG: Final = re.compile(r"([A-Za-z0-9_]+ *)(=[A-Za-z]+)?")
_NAME: Final = re.compile("[A-Za-z0-9_]+")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_PLAIN: Final = re.compile(r"[ -&(-\[\]-~]*")
"""Without quotes and backslashes."""


def followed(shown: str) -> str:
    """The session_track_system_variables of a connection to the primary.

    Args:
        shown: what the client wants to see, as it set the variable.
    """
    # A server tells a name as it is written here.
    names = {name.lower(): name for name in _FOLLOWED}
    for part in shown.split(","):
        name = part.strip()
        if name == "*":
            return "*"  # with which every OK has a statement_id
        if _NAME.fullmatch(name):
            names[name.lower()] = name
    return ",".join(names.values())


def literal_of(name: str, value: str) -> str | None:
    """A value that a tracker reported, in the form for SET; None if it cannot be written safely."""
    if name == "character_set_results" and not value:
        return "NULL"
    if name in _NUMBERS:
        return value if _NUMBER.fullmatch(value) else None
    return f"'{value}'" if _PLAIN.fullmatch(value) else None


def exact(literal: str) -> str:
    """A literal of a system variable, such that collation_connection does not change its meaning.

    In ucs2, utf16 and utf32 a server misreads a plain string (1231, 1298, 1649).
    """
    text = literal[1:-1]
    quoted = len(literal) > 1 and literal[0] in "'\"" and literal[-1] == literal[0]
    plain = quoted and literal[0] not in text and _PLAIN.fullmatch(text) is not None
    return f"_latin1'{text}'" if plain else literal


def character_set(literal: str, schema: str) -> str:
    """The assignments that make up a SET CHARACTER SET, with this default schema at that time."""
    return (
        f"character_set_client={exact(literal)},character_set_results={exact(literal)},"
        f"collation_connection={collation_of(schema)}"
    )


def collation_of(schema: str) -> str:
    """An expression for the collation of a default schema; "" is none."""
    if not schema:
        return "@@SESSION.collation_server"
    name = schema.encode("utf-8", "surrogateescape").hex()
    return f"({_COLLATION_SQL}=_utf8mb4 x'{name}')"


def is_wide(literal: str) -> bool:
    """Whether no character of a character set is shorter than two bytes."""
    return literal.strip("'\"").lower() in ("ucs2", "utf16", "utf16le", "utf32")


SWE7: Final = "character_set_client swe7"
"""Stands for that value of the variable, which keeps a session on the primary."""


def has_letters_for_signs(literal: str) -> bool:
    """Whether a client's character set has letters where ASCII has signs.

    Only swe7 has (9.7.4): there a brace is a letter, so that names and calls look like others here.

    Args:
        literal: the character set, perhaps with a COLLATE behind it.
    """
    words = literal.lower().split()
    return bool(words) and words[0].strip("'\"") == "swe7"


def switched(literal: str, flags: str) -> tuple[str, str] | None:
    """What a new value of optimizer_switch makes of the flags that were set before.

    A server refuses a flag that is named twice in one value. The variable's whole value is not
    used: a server sometimes refuses its own (9.7.4).

    Args:
        literal: the value, which sets all flags (DEFAULT, 5, 'default,mrr=on') or some of them.
        flags: a literal of those that were set one by one; "" if none.

    Returns:
        A literal that sets all flags, "" if there is none, and one with the single flags after it.
        Each needs a SET of its own. None if the value cannot be read.
    """
    if literal[:1] not in "'\"":
        return literal, ""
    everything = ""
    known = dict(flag.split("=") for flag in flags[1:-1].split(",")) if flags else {}
    for part in literal[1:-1].split(",") if len(literal) > 2 else ():
        flag = _FLAG.fullmatch(part)
        if flag is None:
            return None
        if flag[2] is None:
            everything = "'default'"
    if everything:
        known.clear()
    for part in literal[1:-1].split(","):
        name, _, value = part.lower().partition("=")
        if value:
            known[name.strip()] = value
    return everything, f"'{','.join(f'{name}={value}' for name, value in known.items())}'"


def pins(name: str, value: str | None) -> bool:
    """Whether a variable of `PINNING` keeps the session on the primary.

    `value` is its text; None if nobody knows it, which keeps the session there.
    """
    return value is None or value.strip("'\"").replace(" ", "").upper() not in PINNING[name]
