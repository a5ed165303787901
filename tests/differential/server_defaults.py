"""Global variables, from which sessions begin, that only some servers of the cluster have.

`init_connect` is not among them: what it sets shows in the trackers of a direct connection's first
statement, and of no other (docs/compatibility.md). It has tests of its own.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.real_mysql.cluster import Cluster, RealServer

SERVERS = ("primary", "replicas", "first replica")
"""Where a default can be another one."""


@dataclass(frozen=True)
class ServerDefault:
    """A global variable that some servers have another value of.

    Attributes:
        servers: one of `SERVERS`.
        value: as `SET GLOBAL` takes it.
    """

    servers: str
    variable: str
    value: str | int

    def chosen(self, cluster: Cluster) -> list[RealServer]:
        """The servers that have it."""
        replicas = cluster.replicas
        return {
            "primary": [cluster.primary],
            "replicas": replicas,
            "first replica": replicas[:1],
        }[self.servers]


VALUES: dict[str, tuple[str | int, ...]] = {
    "activate_all_roles_on_login": ("ON",),
    "auto_increment_increment": (5,),
    "autocommit": ("OFF",),
    "block_encryption_mode": ("aes-256-cbc",),
    "character_set_client": ("latin1",),
    "character_set_connection": ("latin1",),
    "character_set_results": ("latin1",),
    "character_set_server": ("latin1",),
    "collation_connection": ("utf8mb4_bin", "latin1_german2_ci"),
    "collation_server": ("utf8mb4_bin",),
    "completion_type": (1,),
    "cte_max_recursion_depth": (2,),
    "default_collation_for_utf8mb4": ("utf8mb4_general_ci",),
    "default_storage_engine": ("MyISAM",),
    "default_week_format": (3, 6),
    "div_precision_increment": (0, 9),
    "end_markers_in_json": ("ON",),
    "explain_format": ("TREE", "JSON"),
    "explicit_defaults_for_timestamp": ("OFF",),
    "foreign_key_checks": ("OFF",),
    "group_concat_max_len": (4, 10),
    "lc_messages": ("de_DE",),
    "lc_time_names": ("de_DE", "fr_FR"),
    "mandatory_roles": ("reader",),
    "max_allowed_packet": (16_384,),
    "max_error_count": (0, 1),
    "max_execution_time": (86_400_000,),
    "max_join_size": (3,),
    "max_points_in_geometry": (3,),
    "max_sort_length": (8,),
    "optimizer_switch": ("derived_merge=off", "index_condition_pushdown=off,mrr=off"),
    "sql_auto_is_null": ("ON",),
    "sql_big_selects": ("OFF",),
    "sql_mode": (
        *("", "ANSI", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "TRADITIONAL"),
        *("HIGH_NOT_PRECEDENCE", "NO_ENGINE_SUBSTITUTION", "TIME_TRUNCATE_FRACTIONAL"),
    ),
    "sql_notes": ("OFF",),
    "sql_quote_show_create": ("OFF",),
    "sql_safe_updates": ("ON",),
    "sql_select_limit": (0, 1, 2),
    "terminology_use_previous": ("BEFORE_8_0_26",),
    "time_zone": ("+05:30", "-11:00"),
    "transaction_isolation": ("READ-COMMITTED", "SERIALIZABLE"),
    "transaction_read_only": ("ON",),
    "unique_checks": ("OFF",),
    "windowing_use_high_precision": ("OFF",),
}
"""Variables that decide what answers say, with values that are not the default."""

TRACKERS: dict[str, tuple[str, ...]] = {
    "session_track_gtids": ("OWN_GTID", "ALL_GTIDS"),
    "session_track_schema": ("OFF",),
    "session_track_state_change": ("ON",),
    "session_track_system_variables": ("*", "", "sql_mode"),
    "session_track_transaction_info": ("STATE", "CHARACTERISTICS"),
}
"""Variables that differ only on replicas: a client of Tidegate has the trackers of its own choice,
not those that the primary gives to new sessions."""


@contextlib.contextmanager
def differing(cluster: Cluster, defaults: tuple[ServerDefault, ...]) -> Iterator[None]:
    """Let servers have these defaults within a `with` block, and their own again behind it."""
    with contextlib.ExitStack() as restored:
        for default in defaults:
            for server in default.chosen(cluster):
                ((before,),) = server.query(f"SELECT @@GLOBAL.{default.variable}")
                change = f"SET GLOBAL {default.variable} = %s"
                restored.callback(server.query, change, before)
                server.query(change, default.value)
        yield
