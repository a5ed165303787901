"""Counts where statements went, and why."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow.compute as pc

from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.tally import COUNT, Tally, rounded, spread, tally

COLUMNS: Final = (
    *("kind", "level", "class", "role", "server", "reason", "proof", "outcome", "error_code"),
    *("arrived_us", "ended_us", "digest", "user", "fallbacks"),
)
"""The columns of records that are looked at."""

DIMENSIONS: Final = ("level", "class", "role", "server", "reason", "proof")

KEPT: Final = ("session", "transaction", "prepared", "cursor", "pinned", "unknown_required")
"""Reasons for which a read goes to the primary, whatever the replicas have."""

_WORST: Final = 20


def tallies(chunk: Chunk) -> dict[str, Tally]:
    """Tally the statements of a chunk."""
    statement, told = chunk.is_statement, chunk.is_told
    latency = chunk.number("ended_us") - chunk.number("arrived_us")
    outcome, role = chunk.text("outcome"), chunk.text("role")
    its = statement & told
    return {
        "mix": tally(
            {
                **{name: chunk.text(name) for name in (*DIMENSIONS, "outcome")},
                "latency_us": rounded(latency),
            },
            its,
            most={"longest_us": latency},
        ),
        "errors": tally(
            {"outcome": outcome, "error_code": chunk.number("error_code"), "role": role},
            its & ~chunk.is_ok,
        ),
        "fallbacks": tally(
            {"fallbacks": chunk.text("fallbacks"), "class": chunk.text("class")},
            its & chunk.text("fallbacks").filled,
        ),
        "pinned": tally(
            {
                **{name: chunk.text(name) for name in ("digest", "user", "role", "reason")},
                "fell_back": chunk.text("fallbacks").filled.astype(np.int64),
            },
            its & chunk.text("class").isin("read"),
            sums={"total_us": latency},
        ),
    }


def mix(found: Tally) -> list[dict[str, object]]:
    """Count statements by the values of each dimension.

    Args:
        found: the tally "mix".

    Returns:
        MIX.
    """
    total = int(found.numbers(COUNT).sum())
    rows = []
    for dimension in DIMENSIONS:
        along = [
            {
                "dimension": dimension,
                "value": value or "none",
                "statements": its[COUNT],
                "share": its[COUNT] / total,
                "errors": its["error"],
                "lost": its["lost"],
                **spread(of, "latency_us", "{}_us", its["longest_us"]),
            }
            for value, of, its in _along(found, dimension)
        ]
        rows += sorted(along, key=lambda row: (-_whole(row["statements"]), str(row["value"])))
    return rows


def _along(found: Tally, dimension: str) -> Iterator[tuple[object, Tally, Counter[str]]]:
    by_value = found.by(dimension, "latency_us")
    sums: dict[object, Counter[str]] = {}
    for row in found.by(dimension, "outcome").rows():
        its = sums.setdefault(row[dimension], Counter())
        count, longest = _whole(row[COUNT]), _whole(row["longest_us"])
        its[COUNT] += count
        its[str(row["outcome"])] += count
        its["longest_us"] = max(longest, its.get("longest_us", longest))
    for value, its in sums.items():
        column = by_value.table.column(dimension)
        same = pc.is_null(column) if value is None else pc.equal(column, value)
        yield value, by_value.where(same), its


def fallbacks(found: Tally) -> list[dict[str, object]]:
    """Count the servers that were tried before another one answered.

    Args:
        found: the tally "fallbacks".

    Returns:
        FALLBACKS.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for attempt, count in attempts(found):
        # The server's name contains a colon, too.
        server, _, reason = attempt.rpartition(":")
        counts[server, reason] += count
    ranked = sorted(counts.items(), key=lambda it: (-it[1], it[0]))
    return [
        {"server": server, "reason": reason, "statements": count}
        for (server, reason), count in ranked
    ]


def attempts(found: Tally, classes: Collection[object] | None = None) -> Iterator[tuple[str, int]]:
    """Each failed attempt as ``server:reason``, and how many statements made it.

    Args:
        found: the tally "fallbacks".
        classes: of statements; None for all.
    """
    for row in found.rows():
        if classes is None or row["class"] in classes:
            for attempt in str(row["fallbacks"]).split(","):
                yield attempt, _whole(row[COUNT])


def errors(found: Tally) -> list[dict[str, object]]:
    """Count statements that did not end well.

    Args:
        found: the tally "errors".

    Returns:
        ERRORS.
    """
    counts = [
        (-_whole(row[COUNT]), str(row["outcome"]), _whole(row["error_code"]), row["role"] or "none")
        for row in found.rows()
    ]
    return [
        {"outcome": outcome, "error_code": code, "role": role, "statements": -count}
        for count, outcome, code, role in sorted(counts, key=lambda it: (*it[:3], str(it[3])))
    ]


def pinned(found: Tally) -> list[dict[str, object]]:
    """Find the reads, by digest and user, that are most often kept on the primary or fall back.

    Args:
        found: the tally "pinned".

    Returns:
        PINNED: twenty rows at most.
    """
    return _pinned(found, "digest", "user")


def pinned_users(found: Tally) -> list[dict[str, object]]:
    """As `pinned`, by user alone."""
    return [{"digest": None, **row} for row in _pinned(found, "user")]


def _pinned(found: Tally, *by: str) -> list[dict[str, object]]:
    sums: dict[tuple[object, ...], Counter[str]] = {}
    reasons: dict[tuple[object, ...], Counter[str]] = {}
    for row in found.by(*by, "role", "reason", "fell_back").rows():
        key = tuple(row[name] for name in by)
        its, count = sums.setdefault(key, Counter()), _whole(row[COUNT])
        its["reads"] += count
        its["total_us"] += _whole(row["total_us"])
        its["fell_back"] += count * _whole(row["fell_back"])
        if row["role"] == "primary":
            its["on_primary"] += count
            its["kept"] += count * (row["reason"] in KEPT)
            reasons.setdefault(key, Counter())[str(row["reason"])] += count
    rows = [
        {
            **dict(zip(by, key, strict=True)),
            **{name: its[name] for name in ("reads", "on_primary", "kept", "fell_back")},
            "reason": _most_frequent(reasons.get(key, {})),
            "total_us": its["total_us"],
        }
        for key, its in sums.items()
        if its["kept"] + its["fell_back"]
    ]

    def rank(row: Mapping[str, object]) -> tuple[object, ...]:
        return (
            -_whole(row["kept"]) - _whole(row["fell_back"]),
            *((row[name] is not None, row[name]) for name in by),
        )

    return sorted(rows, key=rank)[:_WORST]


def _most_frequent(counts: Mapping[str, int]) -> str | None:
    """The most frequent reason; of equally frequent ones, the first by name."""
    return min(counts, key=lambda it: (-counts[it], it), default=None)


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
