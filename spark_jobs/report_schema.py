"""The tables that only people read: no verdict rests on them."""

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
    # the read that the scene is of
    proxy=_TEXT,
    run=_TEXT,
    worker=_LONG,
    seq=_LONG,
    # "wrote", "saw", "had": a record that names what is missing;
    # "before", "after": what the read's server said of itself last before it, and next
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
    gtids=_TEXT,  # that the record named, or the set that the server said
)
"""One row per record that belongs to a counter-example's story."""

WAITS: Final = _table(
    level=_TEXT,
    reads=_LONG,
    waited=_LONG,
    wait_total_us=_LONG,
    **_quantiles("wait"),
    fell_back=_LONG,  # reads that another server answered than the one they were sent to first
    fallback_total_us=_LONG,  # what they lost by that: from arrival to the last dispatch
    **_quantiles("fallback"),
)
"""What reads waited for their promise: one row per level."""

HOURS: Final = _table(
    hour_us=_LONG, server=_TEXT, reads=_LONG, waited=_LONG, **_quantiles("wait", "since_write")
)
"""Reads and their waits: one row per hour (its begin, UTC) and server."""

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
    **_quantiles("age"),  # how old the newest write was that an exposed read had to see, when sent
    late=_LONG,  # reads that left this replica as their wait ran out: they would have missed it
    probe_p50_us=_LONG,  # what it took to ask the primary
    probe_p99_us=_LONG,
    lag_p50_us=_LONG,  # end to end, by commit timestamps; null if none is known
    lag_p99_us=_LONG,
    strong_p50_us=_LONG,  # the two added up: what STRONG costs while something is being written
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
    kept=_LONG,  # on the primary for what its session holds there
    fell_back=_LONG,
    reason=_TEXT,  # the most frequent of those on the primary
    total_us=_LONG,  # from arrival to end, of all
)
"""Reads that most often miss the replicas."""
