"""Sums up how long reads waited, when, and what other levels would have shown or cost."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow.compute as pc

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.routing_mix import attempts
from spark_jobs.columns.tally import COUNT, NONE, Key, Tally, rounded, spread, tally
from spark_jobs.day import HOUR_US
from spark_jobs.promise import PROMISES

MINUTE_US: Final = 60_000_000

COLUMNS: Final = (
    *("kind", "class", "level", "role", "proof", "wait_us", "fallbacks", "outcome"),
    *("arrived_us", "dispatched_us", "ended_us"),
)
"""The columns of records that are looked at."""

READ_COLUMNS: Final = (
    *("level", "server", "role", "proof", "wait_us", "arrived_us", "since_write_us"),
)
"""The columns of judged reads that are looked at."""

WRITTEN_COLUMNS: Final = ("kind", "class", "outcome", "arrived_us", "digest", "schema", "user")
"""The columns of records that `written_in` looks at."""

_WORST: Final = 10
_WRITTEN: Final = 3

Rows = list[dict[str, object]]


def tallies(chunk: Chunk) -> dict[str, Tally]:
    """Tally the waits of some records."""
    reads = chunk.is_statement & chunk.text("class").isin("read") & chunk.is_told
    waits, waited = chunk.number("wait_us"), _waited(chunk)
    fell_back = chunk.text("fallbacks").filled
    sent, arrived = chunk.number("dispatched_us"), chunk.number("arrived_us")
    lost = np.maximum(0, sent - arrived)
    lasted = chunk.number("ended_us") - sent
    sums = {
        "waited": waited.astype(np.int64),
        "wait_total_us": np.where(waited, waits, 0),
        "fell_back": fell_back.astype(np.int64),
        "fallback_total_us": np.where(fell_back, lost, 0),
    }
    most = {
        "wait_max_us": np.where(waited, waits, NONE),
        "fallback_max_us": np.where(fell_back, lost, NONE),
    }
    asked = chunk.is_probed & chunk.of_primary & chunk.is_told
    return {
        "waits": tally(
            {
                "level": chunk.text("level"),
                "waited_us": np.where(waited, rounded(waits), NONE),
                "fallback_us": np.where(fell_back, rounded(lost), NONE),
            },
            reads,
            sums=sums,
            most=most,
        ),
        "minutes": tally({"minute_us": begin_of(MINUTE_US, arrived)}, reads, sums=sums, most=most),
        "probes": tally({"probe_us": rounded(lasted)}, asked, most={"longest_us": lasted}),
    }


def tallies_of_reads(reads: Chunk) -> dict[str, Tally]:
    """Tally the waits of some judged reads.

    Args:
        reads: JUDGED.
    """
    waits, waited = reads.number("wait_us"), _waited(reads)
    since, after_write = reads.number("since_write_us"), reads.known("since_write_us")
    server, proof, role = reads.text("server"), reads.text("proof"), reads.text("role")
    most = {
        "wait_max_us": np.where(waited, waits, NONE),
        "since_write_max_us": np.where(after_write, since, NONE),
    }
    its: dict[str, Key] = {
        "wait_us": np.where(waited, rounded(waits), NONE),
        "since_write_us": np.where(after_write, rounded(since), NONE),
    }
    promised = role.isin("replica") & reads.text("level").isin(*set(PROMISES) - {"STRONG"})
    exposed = proof.isin("waited") & after_write
    age = np.maximum(0, since - waits)
    hour = begin_of(HOUR_US, reads.number("arrived_us"))
    return {
        "lag": tally({"server": server, "proof": proof, **its}, waited, most=most),
        "hours": tally({"hour_us": hour, "server": server, **its}, server.known, most=most),
        "foregone": tally(
            {"server": server, "age_us": np.where(exposed, rounded(age), NONE)},
            promised,
            most={"age_max_us": np.where(exposed, age, NONE)},
        ),
    }


def lag(found: Tally) -> Rows:
    """Sum up the waits by server and proof.

    ``since_write`` runs from the newest acknowledged write of the read's group to the WAIT's
    answer, so it is an upper bound of the replication lag that the read saw. A wait that ran out is
    counted for the server that answered in the end.

    Args:
        found: the tally "lag".

    Returns:
        LAG, of the servers whose reads waited.
    """
    rows: Rows = []
    for key, its in _by(found, "server", "proof"):
        rows.append(
            {
                "server": key["server"] or "none",
                "proof": key["proof"],
                "reads": _count(its),
                **_spread(its, "wait_us", "wait_{}_us"),
                "after_write": _count(its, "since_write_us"),
                **_spread(its, "since_write_us", "since_write_{}_us"),
            }
        )
    return sorted(rows, key=lambda row: (str(row["server"]), str(row["proof"])))


def hours(found: Tally) -> Rows:
    """Sum up the waits by hour and server.

    Args:
        found: the tally "hours".

    Returns:
        HOURS.
    """
    rows: Rows = []
    for key, its in _by(found, "hour_us", "server"):
        rows.append(
            {
                **key,
                "reads": _count(its),
                "waited": _count(its, "wait_us"),
                **_spread(its, "wait_us", "wait_{}_us"),
                **_spread(its, "since_write_us", "since_write_{}_us"),
            }
        )
    return sorted(rows, key=lambda row: (_whole(row["hour_us"]), str(row["server"])))


def waits(found: Tally) -> Rows:
    """Sum up by level how long reads waited, and how much time fallbacks to other servers cost.

    Args:
        found: the tally "waits".

    Returns:
        WAITS.
    """
    rows: Rows = []
    for key, its in _by(found, "level"):
        rows.append(
            {
                **key,
                "reads": _count(its),
                **_sums(its),
                **_spread(its, "waited_us", "wait_{}_us"),
                **_spread(its, "fallback_us", "fallback_{}_us"),
            }
        )
    return sorted(rows, key=lambda row: (-_whole(row["wait_total_us"]), str(row["level"])))


def minutes(found: Tally) -> Rows:
    """Find the minutes in which reads lost most time.

    Args:
        found: the tally "minutes".

    Returns:
        MINUTES without `writes` and `written`: ten rows at most.
    """
    rows: Rows = []
    for row in found.rows():
        lost = _whole(row["wait_total_us"]) + _whole(row["fallback_total_us"])
        if lost > 0:
            longest = _whole(row["wait_max_us"])
            its = {"reads": row[COUNT], "wait_max_us": None if longest == NONE else longest}
            rows.append({"lost": lost, **row, **its})
    rows.sort(key=lambda row: (-_whole(row["lost"]), _whole(row["minute_us"])))
    names = ("minute_us", "reads", "waited", "wait_total_us", "wait_max_us", "fell_back")
    return [{name: row[name] for name in (*names, "fallback_total_us")} for row in rows[:_WORST]]


def written_in(chunk: Chunk, worst: Collection[int]) -> dict[str, Tally]:
    """Tally what was written in some minutes.

    Args:
        chunk: records.
        worst: the begins of the minutes, µs.
    """
    minute = begin_of(MINUTE_US, chunk.number("arrived_us"))
    its = chunk.is_statement & chunk.text("class").isin("write") & chunk.is_ok & chunk.is_told
    its &= np.isin(minute, list(worst))
    texts = {name: chunk.text(name) for name in ("digest", "schema", "user")}
    return {"written": tally({"minute_us": minute, **texts}, its)}


def with_written(worst: Rows, found: Tally | None) -> Rows:
    """Add to minutes what was written in them, the most frequent statements first.

    Args:
        worst: the result of `minutes`.
        found: the tally "written"; None if there is none.

    Returns:
        MINUTES.
    """
    its: dict[object, list[tuple[int, tuple[str, str, str], dict[str, object]]]] = {}
    for row in [] if found is None else found.rows():
        one = {
            "writes": row[COUNT],
            "digest": row["digest"] or "",
            "schema": row["schema"],
            "user": row["user"],
        }
        order = (str(one["digest"]), str(row["schema"] or ""), str(row["user"]))
        its.setdefault(row["minute_us"], []).append((-_whole(row[COUNT]), order, one))
    rows: Rows = []
    for row in worst:
        mine = sorted(its.get(row["minute_us"], []), key=lambda it: it[:2])
        rows.append(
            {
                **row,
                "writes": sum(-count for count, *_ in mine),
                "written": [one for *_, one in mine[:_WRITTEN]],
            }
        )
    return rows


def foregone(
    shown: Tally, fallbacks: Tally, probes: Tally, replication: Collection[Mapping[str, object]]
) -> Rows:
    """Estimate what BEST_EFFORT would have shown, and what STRONG would have cost.

    At BEST_EFFORT a read would not have waited. When a read that waited was sent, its server may
    have lacked what it waited for, so `exposed` is an upper bound of the stale reads. When the wait
    ran out, the server certainly lacked it, so `late` is a lower bound. At STRONG a read waits
    until the primary has been asked after the read's arrival, and then, while something is being
    written, until its server has that.

    Args:
        shown: the tally "foregone".
        fallbacks: the tally "fallbacks" of `routing_mix`.
        probes: the tally "probes".
        replication: rows of `schema.REPLICATION`.

    Returns:
        FOREGONE.
    """
    late: Counter[str] = Counter()
    for attempt, count in attempts(fallbacks, {"read"}):
        server, _, reason = attempt.rpartition(":")
        if reason == "wait_timeout":
            late[server] += count
    by_server = {str(key["server"]): its for key, its in _by(shown, "server")}
    longest = probes.numbers("longest_us")
    probe = spread(probes, "probe_us", "{}", int(longest.max()) if len(longest) else None)
    rows: Rows = []
    for server in sorted({*by_server, *late}):
        its = by_server.get(server)
        lags = {which: _greatest(replication, server, which) for which in ("p50", "p99")}
        nothing = dict.fromkeys(f"age_{which}_us" for which in ("p50", "p95", "p99", "max"))
        rows.append(
            {
                "server": server,
                "reads": 0 if its is None else _count(its),
                "exposed": 0 if its is None else _count(its, "age_us"),
                **(nothing if its is None else _spread(its, "age_us", "age_{}_us")),
                "late": late[server],
                **{f"probe_{which}_us": probe[which] for which in lags},
                **{f"lag_{which}_us": value for which, value in lags.items()},
                **{
                    f"strong_{which}_us": None if probe[which] is None
                    else _whole(probe[which]) + (value or 0)
                    for which, value in lags.items()
                },
            }
        )  # fmt: skip
    return rows


def _greatest(replication: Collection[Mapping[str, object]], server: str, which: str) -> int | None:
    its = (row[f"end_to_end_{which}_us"] for row in replication if row["server"] == server)
    return max((_whole(it) for it in its if it is not None), default=None)


def begin_of(span_us: int, times: Numbers) -> Numbers:
    """The begin of the hour, minute, … in which each time is."""
    return times - times % span_us


def _waited(chunk: Chunk) -> Flags:
    return chunk.text("proof").isin("waited") | (chunk.number("wait_us") > 0)


def _by(found: Tally, *keys: str) -> list[tuple[dict[str, object], Tally]]:
    """Split a tally into parts that agree in some keys."""
    table = found.table
    parts = []
    for row in table.group_by(list(keys), use_threads=False).aggregate([]).to_pylist():
        flags = None
        for name, value in row.items():
            column = table.column(name)
            same = pc.is_null(column) if value is None else pc.equal(column, value)
            same = pc.fill_null(same, False)
            flags = same if flags is None else pc.and_(flags, same)
        parts.append((row, found.where(flags)))
    return parts


def _count(its: Tally, filled: str | None = None) -> int:
    counts = its.numbers(COUNT)
    return int(counts.sum() if filled is None else counts[its.numbers(filled) != NONE].sum())


def _sums(its: Tally) -> dict[str, object]:
    return {name: int(its.numbers(name).sum()) for name in its.sums}


def _spread(its: Tally, value: str, name: str) -> dict[str, int | None]:
    return spread(its, value, name, int(its.numbers(name.format("max")).max()))


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
