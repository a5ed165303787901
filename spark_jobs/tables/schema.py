"""The tables of the audit: the routing log's records, and the tables made from them.

`RECORD` is the routing log, version 1, field by field; a test compares it with the module that
writes it. It is spelled out here because an audit that borrowed the writer's schema could not
notice that the writer changed it.
"""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

RECORD_VERSION: Final = 1

_LONG: Final = LongType()
_TEXT: Final = StringType()
_FLAG: Final = BooleanType()


def _table(*fields: tuple[str, DataType] | tuple[str, DataType, bool]) -> StructType:
    """Make a table's schema of names, types, and whether a column may be null (the default)."""
    return StructType([StructField(*field) for field in fields])


RECORD: Final = _table(
    ("v", _LONG, False),
    ("kind", _TEXT, False),
    ("proxy", _TEXT, False),
    ("worker", _LONG, False),
    ("run", _TEXT, False),
    ("seq", _LONG, False),
    ("dropped", _LONG, False),
    ("ordinal", _LONG, False),
    ("session", _LONG, False),
    ("user", _TEXT, False),
    ("schema", _TEXT, True),
    ("scope", _TEXT, False),
    ("scope_key", _TEXT, False),
    ("application", _TEXT, True),
    ("level", _TEXT, False),
    ("bound_us", _LONG, True),
    ("command", _TEXT, False),
    ("class", _TEXT, False),
    ("digest", _TEXT, True),
    ("may_write", _FLAG, False),
    ("arrived_us", _LONG, False),
    ("dispatched_us", _LONG, False),
    ("ended_us", _LONG, False),
    ("required", _TEXT, True),
    ("server", _TEXT, True),
    ("server_uuid", _TEXT, True),
    ("incarnation", _LONG, True),
    ("role", _TEXT, True),
    ("reason", _TEXT, False),
    ("proof", _TEXT, False),
    ("proof_set", _TEXT, True),
    ("wait_us", _LONG, False),
    ("fallbacks", _TEXT, False),
    ("outcome", _TEXT, False),
    ("error_code", _LONG, False),
    ("own_gtids", _TEXT, False),
    ("own_known", _FLAG, False),
    ("observed", _TEXT, False),
    ("bytes", _LONG, False),
    ("rows", _LONG, True),
    ("snapshot_us", _LONG, True),
    ("tables", _TEXT, True),
)

KINDS: Final = ("statement", "proof", "gap")

_TIMES: Final = ("arrived_us", "dispatched_us", "ended_us", "snapshot_us")
_TIME_ENDS_US: Final = 253_402_300_800_000_000
"""The begin of the year 10000, which Python's dates cannot express."""

_MOST: Final = 2**48
"""The limit of any other number, so that sums of a few of them fit into 64 bits. Numbers may be
negative: a clock that is set back makes a wait negative."""

LIMITS: Final = {
    field.name: (0, _TIME_ENDS_US - 1) if field.name in _TIMES else (-_MOST, _MOST)
    for field in RECORD
    if field.dataType == _LONG
}
"""The least and the greatest possible value of each number of a record."""

PARSED: Final = _table(
    *((field.name, field.dataType) for field in RECORD),
    ("file", _TEXT),  # the last two components of the path of its file
    ("fault", _TEXT),  # null for a record; see below
    ("line", _TEXT),  # the whole line if RECORD does not hold all of it, else null
)
"""Lines of the log. A line that is no record is "torn" (cut short), "damaged" (also: with an
impossible number) or "foreign" (of an unknown version or kind)."""

RUN: Final = ("proxy", "worker", "run")
"""One start of one worker: its records share a clock and a numbering."""

SESSION: Final = (*RUN, "session")
"""One client connection. The same connection id in another run is another session."""

NUMBERED: Final = _table(
    *((field.name, field.dataType) for field in RECORD),
    ("file", _TEXT),  # the last two components of the path of its file
    ("repeat", _TEXT),  # "same" or "other" if an equal or another record has this number, else null
    ("missing", _LONG),  # how many numbers right before this one no record has
    ("declared", _LONG),  # how many of them this record reports as dropped
    ("hole", _FLAG),  # statements of its session right before this one are missing
    ("since_us", _LONG),  # end of the record before it if some are missing or it ended later, or 0
    ("is_read", _FLAG),  # this and the following are explained in `statement.facts`
    ("is_judged", _FLAG),
    ("is_unnamed", _FLAG),
    ("named", _TEXT),
    ("whole", _TEXT),
    ("owed_in", _TEXT),
    ("moment_us", _LONG),
)
"""Records of the log, and what follows from their fields and numbers."""

MISSED: Final = _table(
    ("how", _TEXT),  # "wrote" or "saw" the GTIDs; "had": the primary had them when it was asked
    ("run", _TEXT),
    ("session", _LONG),
    ("seq", _LONG),
    ("ended_us", _LONG),
    ("digest", _TEXT),
    ("gtids", _TEXT),
)
"""A record that names GTIDs which a read may not have seen."""

PAST: Final = _table(
    ("what", _TEXT),  # "mark", "bound", "gap", "term", "succeeded", "confirmed" or "lost"
    ("cluster", _TEXT),
    *((name, RECORD[name].dataType) for name in (*RUN, "seq")),
    ("at_us", _LONG),  # mark: when it was asked for; gap, term, succeeded, lost: since when
    ("until_us", _LONG),  # term, confirmed, lost: when the primary was asked
    ("answered_us", _LONG),  # confirmed: when it had answered
    ("mark", _LONG),  # number of a tide mark; bound, gap: the one that bounds it, null if none
    ("server_uuid", _TEXT),
    ("gtids", _TEXT),  # mark, term: the primary's whole set; lost: what was acknowledged and lost
    ("writes", ArrayType(MISSED)),  # lost: the first few records that name the lost GTIDs
)
"""What follows from the primary's whole sets for the time before; see `primary_history`."""

TELLING: Final = _table(
    *((name, RECORD[name].dataType) for name in (*RUN, "session", "seq", "kind", "role")),
    *((name, RECORD[name].dataType) for name in ("server_uuid", "incarnation", "digest")),
    *((name, RECORD[name].dataType) for name in ("arrived_us", "dispatched_us", "ended_us")),
    ("own_gtids", _TEXT),
    *((name, NUMBERED[name].dataType) for name in ("missing", "hole", "since_us", "is_unnamed")),
    *((name, NUMBERED[name].dataType) for name in ("named", "whole")),
)
"""The columns of NUMBERED from which the primaries' history follows; see `primary_history`."""

EVENTS: Final = _table(
    ("cluster", _TEXT),
    *((name, RECORD[name].dataType) for name in (*RUN, "session", "seq")),
    ("at_us", _LONG),
    ("what", IntegerType()),
    *((name, RECORD[name].dataType) for name in ("server_uuid", "incarnation", "ended_us")),
    ("since_us", _LONG),
    ("digest", _TEXT),
    ("is_whole", _FLAG),
    ("gtids", _TEXT),
)
"""Events of a cluster: `primary_snapshots.Event`."""

REIGNS: Final = _table(
    *((name, RECORD[name].dataType) for name in (*RUN, "server_uuid", "incarnation")),
    ("from_us", _LONG),
    ("to_us", _LONG),
)
"""In which time primaries answered runs: `primary_history.Reign`."""

BACKING: Final = _table(
    *((name, RECORD[name].dataType) for name in (*RUN, "seq")),
    ("unbacked", _TEXT),  # the part of a read's proof_set that no evidence in the log shows
    ("reached", _LONG),  # the newest tide mark that the read's server had reached
    ("mark", _LONG),  # the tide mark that bounds the record's unnamed writes
)
"""What the evidence says about a record; see `evidence`."""

READ: Final = (
    *SESSION,
    *("seq", "ordinal", "arrived_us", "dispatched_us", "ended_us", "user", "schema", "digest"),
    *("application", "scope", "level", "bound_us", "server", "server_uuid", "role"),
    *("reason", "proof", "wait_us", "outcome"),
)
"""The columns that are kept of a judged record."""

JUDGED: Final = _table(
    *((name, RECORD[name].dataType) for name in READ),
    ("verdict", _TEXT),  # verdict.Verdict
    ("finding", _TEXT),  # verdict.Finding
    ("claimed", _TEXT),  # the proxy's `required`; null where the verdict is ok
    ("shown", _TEXT),  # the proxy's `proof_set`; null where the verdict is ok
    ("missing", _TEXT),  # the first few GTIDs that the server was not shown to have
    ("missed", ArrayType(MISSED)),  # the first few records that name them
    ("understated", _FLAG),  # the proxy required less than the read had to see
    ("since_write_us", _LONG),  # waited: from the newest write it had to see to the WAIT's answer
)
"""One row per read: what it was, and the audit's verdict."""

LAPSED: Final = _table(
    *((name, RECORD[name].dataType) for name in (*RUN, "seq")),
    ("finding", _TEXT),  # verdict.Lapse
    ("lacking", _TEXT),  # the first few GTIDs that the proof, the server or the answer lacks
)
"""Records that show a lapse of the procedure."""

PROCEDURE: Final = _table(
    *((name, RECORD[name].dataType) for name in READ),
    *((name, _TEXT) for name in ("finding", "lacking")),
)
"""One row per lapse: LAPSED, and the record's columns; see `procedure`."""

FAULTS: Final = _table(("file", _TEXT), ("fault", _TEXT), ("lines", _LONG))
"""Lines that are no record, by file: "torn", "damaged" or "foreign", as in PARSED."""

RUNS: Final = _table(
    *((name, RECORD[name].dataType) for name in RUN),
    ("statements", _LONG),
    ("proofs", _LONG),
    ("gaps", _LONG),
    ("first_seq", _LONG),
    ("last_seq", _LONG),
    ("missing", _LONG),  # how many numbers no record has
    ("declared", _LONG),  # how many of them the run reports as dropped
    ("repeated", _LONG),  # records that are in the log more than once
    ("conflicting", _LONG),  # different records with the same number
    ("from_us", _LONG),
    ("to_us", _LONG),
)
"""One row per run."""

CLOCKS: Final = _table(
    *((name, RECORD[name].dataType) for name in RUN),
    ("from_seq", _LONG),  # from which `seq` on this clock counts: 1, or the first after a step
    ("back_us", _LONG),  # how far it was set back at the step, at least; null without a step
    ("ahead_us", _LONG),  # how far it is ahead of the other clocks; negative if it is behind
    ("error_us", _LONG),  # how far the difference of two clocks may be off
)
"""Clocks that were set back, or that do not agree with the others; see `clocks`."""

VERDICTS: Final = _table(
    *((name, _TEXT) for name in ("level", "scope", "verdict", "finding")), ("reads", _LONG)
)
"""How often each verdict was given, by level and scope."""

LOST: Final = _table(
    *((name, RECORD[name].dataType) for name in (*RUN, "seq")),
    ("asked_us", _LONG),
    ("server_uuid", _TEXT),
    ("gtids", _TEXT),
    ("writes", ArrayType(MISSED)),
)
"""One row per answer of a primary that lacks acknowledged writes."""

_QUANTILES: Final = ("p50", "p95", "p99", "max")

LAG: Final = _table(
    ("server", _TEXT),
    ("proof", _TEXT),
    ("reads", _LONG),
    *((f"wait_{name}_us", _LONG) for name in _QUANTILES),
    ("after_write", _LONG),  # reads that waited after a write that they had to see
    *((f"since_write_{name}_us", _LONG) for name in _QUANTILES),
)
"""How long reads waited, and how soon after a write a server was shown to have it."""

REPLICATED: Final = _table(
    ("channel", _TEXT),
    ("gtid", _TEXT),
    ("original_us", _LONG),
    ("immediate_us", _LONG),
    ("began_us", _LONG),
    ("ended_us", _LONG),
    ("end_to_end_us", _LONG),
    ("last_hop_us", _LONG),
    ("error_us", _LONG),
)
"""A transaction that a replica applied: an item of `lag.applied` of a "proof" record."""

WAITING: Final = _table(
    ("channel", _TEXT), ("source", _TEXT), ("waits_us", _LONG), ("hop_waits_us", _LONG)
)
"""A source of which a replica lacked something: an item of `lag.waits` of a "proof" record."""

REPLICATION: Final = _table(
    ("server", _TEXT),
    ("channel", _TEXT),
    ("source", _TEXT),
    ("transactions", _LONG),  # a sample: those that the monitors have seen
    *((f"end_to_end_{name}_us", _LONG) for name in _QUANTILES),
    *((f"last_hop_{name}_us", _LONG) for name in _QUANTILES),
    *((f"upstream_{name}_us", _LONG) for name in _QUANTILES),
    *((f"apply_{name}_us", _LONG) for name in _QUANTILES),
    ("disordered", _LONG),  # transactions whose original commit is newer than their immediate one
    ("waits_max_us", _LONG),  # the greatest age that a missing transaction ever had
)
"""How long transactions took to reach a replica, by commit timestamps: one row per source."""

MIX: Final = _table(
    ("dimension", _TEXT),
    ("value", _TEXT),
    ("statements", _LONG),
    ("share", DoubleType()),  # of all statements, 0 to 1
    ("errors", _LONG),
    ("lost", _LONG),
    *((f"{name}_us", _LONG) for name in _QUANTILES),  # from arrival to end
)
"""Where statements went and why: one row per value of each dimension (level, class, role, …)."""

FALLBACKS: Final = _table(("server", _TEXT), ("reason", _TEXT), ("statements", _LONG))
"""Servers that were tried before another one answered."""

ERRORS: Final = _table(
    ("outcome", _TEXT), ("error_code", _LONG), ("role", _TEXT), ("statements", _LONG)
)
"""Statements that did not end well."""
