"""The tables of a scope file."""

from typing import Final

SCHEMA: Final = (
    """
    CREATE TABLE scopes (
      number INTEGER PRIMARY KEY,
      kind TEXT NOT NULL,
      name BLOB NOT NULL,
      is_unknown INTEGER NOT NULL,
      lost_untold INTEGER NOT NULL,
      used_us INTEGER NOT NULL,
      UNIQUE (kind, name)
    )
    """,
    """
    CREATE TABLE scope_gtids (
      number INTEGER NOT NULL,
      purpose TEXT NOT NULL,
      source_uuid TEXT NOT NULL,
      gtid_tag TEXT NOT NULL,
      interval_start INTEGER NOT NULL,
      interval_end INTEGER NOT NULL,
      PRIMARY KEY (number, purpose, source_uuid, gtid_tag, interval_start)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE unlogged_scopes (
      kind TEXT NOT NULL,
      name BLOB NOT NULL,
      PRIMARY KEY (kind, name)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE strayed_gtids (
      server_uuid TEXT NOT NULL,
      source_uuid TEXT NOT NULL,
      gtid_tag TEXT NOT NULL,
      interval_start INTEGER NOT NULL,
      interval_end INTEGER NOT NULL,
      PRIMARY KEY (server_uuid, source_uuid, gtid_tag, interval_start)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE last_run (boot_id TEXT NOT NULL, ended_well INTEGER NOT NULL)",
    "INSERT INTO last_run VALUES ('', 0)",
)
