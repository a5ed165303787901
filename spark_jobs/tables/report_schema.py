"""The tables that are only for people to read: no verdict depends on them."""

from typing import Final

from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

_LONG: Final = LongType()
_TEXT: Final = StringType()
_QUANTILES: Final = ("p50", "p95", "p99", "max")


def _table(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _quantiles(*names: str) -> dict[str, DataType]:
    return {f"{name}_{which}_us": _LONG for name in names for which in _QUANTILES}


SCENE: Final = _table(
    # the read that the scene belongs to
    proxy=_TEXT,
    run=_TEXT,
    worker=_LONG,
    seq=_LONG,
    # "wrote", "saw", "had": a record that names what is missing;
    # "before", "after": the last record before the read in which its server said what it has, and
    # the next one
    what=_TEXT,
    by_proxy=_TEXT,
    by_run=_TEXT,
    by_session=_LONG,
    by_seq=_LONG,
    by_user=_TEXT,
    digest=_TEXT,
    server=_TEXT,
    role=_TEXT,
    proof=_TEXT,
    arrived_us=_LONG,
    dispatched_us=_LONG,
    ended_us=_LONG,
    gtids=_TEXT,  # those that the record named, or the set that the server said it has
)
"""One row per record that explains a counter-example."""

WAITS: Final = _table(
    level=_TEXT,
    reads=_LONG,
    waited=_LONG,
    wait_total_us=_LONG,
    **_quantiles("wait"),
    fell_back=_LONG,  # reads that were answered by another server than they were first sent to
    fallback_total_us=_LONG,  # the time this cost them: from arrival to the last dispatch
    **_quantiles("fallback"),
)
"""How long reads waited for what they were promised: one row per level."""

HOURS: Final = _table(
    hour_us=_LONG, server=_TEXT, reads=_LONG, waited=_LONG, **_quantiles("wait", "since_write")
)
"""Reads and their waits: one row per hour (its begin, UTC µs) and server."""

REPLICATION_HOURS: Final = _table(
    hour_us=_LONG,
    server=_TEXT,
    channel=_TEXT,
    source=_TEXT,
    transactions=_LONG,
    **_quantiles("end_to_end", "last_hop", "upstream", "apply"),
)
"""As `schema.REPLICATION`, by the hour in which transactions were applied."""

WRITTEN: Final = _table(writes=_LONG, digest=_TEXT, schema=_TEXT, user=_TEXT)

MINUTES: Final = _table(
    minute_us=_LONG,
    reads=_LONG,
    waited=_LONG,
    wait_total_us=_LONG,
    wait_max_us=_LONG,
    fell_back=_LONG,
    fallback_total_us=_LONG,
    writes=_LONG,
    written=ArrayType(WRITTEN),  # the most frequent statements that wrote
)
"""The minutes in which reads lost most time, the worst first."""

FOREGONE: Final = _table(
    server=_TEXT,
    reads=_LONG,  # that this replica answered with a promise less than STRONG
    exposed=_LONG,  # of them, those that waited for a write: at BEST_EFFORT they may have missed it
    **_quantiles("age"),  # of the newest write that an exposed read had to see, when it was sent
    late=_LONG,  # reads that left this replica when their wait ran out: they would have missed it
    probe_p50_us=_LONG,  # how long a question to the primary took
    probe_p99_us=_LONG,
    lag_p50_us=_LONG,  # end to end, by commit timestamps; null if none is known
    lag_p99_us=_LONG,
    strong_p50_us=_LONG,  # the sum of both: what STRONG costs while something is being written
    strong_p99_us=_LONG,
)
"""What other levels would have shown or cost: one row per replica."""

GROWTH: Final = _table(
    hour_us=_LONG,
    what=_TEXT,  # "executed": a server's whole set; "required": what a read had to see
    server=_TEXT,  # "" for required
    role=_TEXT,  # "" for required
    sets=_LONG,
    sources=_LONG,  # UUIDs; this and the following are the largest of the hour
    tags=_LONG,
    intervals=_LONG,
    bytes=_LONG,  # as text
)
"""How GTID sets grow and break up: one row per hour and server."""

PINNED: Final = _table(
    digest=_TEXT,  # null in the table by user
    user=_TEXT,
    reads=_LONG,
    on_primary=_LONG,
    kept=_LONG,  # on the primary because of what their sessions hold there
    fell_back=_LONG,
    reason=_TEXT,  # the most frequent of those on the primary
    total_us=_LONG,  # from arrival to end, over all reads
)
"""Reads that most often miss the replicas."""
