"""Whether a replica commits in its source's order: the question."""

from typing import Final

KEEPS_ORDER: Final = (
    "(@@GLOBAL.replica_parallel_workers<2 OR @@GLOBAL.replica_preserve_commit_order"
    " AND (@@GLOBAL.binlog_order_commits OR @@GLOBAL.log_bin=0 OR @@GLOBAL.log_replica_updates=0))"
)
"""One worker has no choice (WL#6813). Without binlog_order_commits transactions that are written to
the binary log in order, as a group, are committed in any."""
