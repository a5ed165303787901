"""SHOW TIDEGATE DIGESTS and /v1/digests: one row for each digest, of all workers together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.observe.digests import OTHERS

if TYPE_CHECKING:
    from proxy.shared.administration.question import Row

COLUMNS: Final = (
    *("digest", "text", "count", "latency_sum_ms", "latency_max_ms", "rows", "on_replicas"),
    *("waits", "wait_sum_ms", "errors"),
)
"""Those of `DigestEntry.row`, which every worker sends."""
SHOWN: Final = (*COLUMNS, "replica_share")
_COUNT: Final = COLUMNS.index("count")
_SUM: Final = COLUMNS.index("latency_sum_ms")
_MAX: Final = COLUMNS.index("latency_max_ms")
_ON_REPLICAS: Final = COLUMNS.index("on_replicas")


def merged(tables: list[list[Row]]) -> list[Row]:
    """The rows of all workers added up; what took the longest first, and the others last."""
    found: dict[object, list[float]] = {}
    texts: dict[object, Row] = {}
    for row in (row for table in tables for row in table):
        numbers = [float(value) if isinstance(value, int | float) else 0.0 for value in row[2:]]
        digest = row[0]
        texts.setdefault(digest, row[:2])
        sums = found.get(digest)
        if sums is None:
            found[digest] = numbers
            continue
        longest = max(sums[_MAX - 2], numbers[_MAX - 2])
        found[digest] = [mine + other for mine, other in zip(sums, numbers, strict=True)]
        found[digest][_MAX - 2] = longest
    order = sorted(found, key=lambda digest: (digest == OTHERS, -found[digest][_SUM - 2]))
    return [[*texts[digest], *_shown(found[digest])] for digest in order]


def _shown(numbers: list[float]) -> Row:
    """Counts as whole numbers, times with their fractions, and the share on replicas."""
    cells: Row = [
        round(number, 3) if COLUMNS[index + 2].endswith("_ms") else round(number)
        for index, number in enumerate(numbers)
    ]
    count = numbers[_COUNT - 2]
    return [*cells, round(numbers[_ON_REPLICAS - 2] / count, 3) if count else 0.0]
