"""How GTID sets grow and break up over time (WL#6559).

Every WAIT and every answer to a question for `gtid_executed` carries a set as text. A set without
gaps stays as short as it is, however much is written; each gap that never closes makes it longer
for good. A server without a binary log also keeps one row of `mysql.gtid_executed` per interval.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.arrays import Flags, Numbers
from spark_jobs.columns.chunk import Chunk
from spark_jobs.columns.lag_analysis import begin_of
from spark_jobs.columns.tally import COUNT, Key, Tally, tally, together
from spark_jobs.columns.text import Text
from spark_jobs.day import HOUR_US

COLUMNS: Final = (
    *("kind", "server", "role", "proof", "proof_set", "outcome", "observed", "required"),
    *("arrived_us", "ended_us"),
)
"""The columns of records that are looked at."""

_SIZES: Final = ("sources", "tags", "intervals", "bytes")


def tallies(chunk: Chunk) -> dict[str, Tally]:
    """Measure the sets of some records."""
    statement, told = chunk.is_statement, chunk.is_told
    executed = np.where(chunk.is_probed, chunk.set("proof_set"), chunk.set("observed"))
    sizes = _sizes(chunk.set_texts)
    nothing = Text(np.zeros(len(chunk), np.int64), pa.array([""]))
    server, role = _or_empty(chunk.text("server")), _or_empty(chunk.text("role"))
    parts = (
        ("executed", server, role, executed, chunk.is_probed | (statement & chunk.is_ok)),
        ("required", nothing, nothing, chunk.set("required"), statement),
    )
    return {
        "growth": together(
            _measured(chunk, what, its_server, its_role, of, told & where, sizes)
            for what, its_server, its_role, of, where in parts
        )
    }


def _measured(
    chunk: Chunk,
    what: str,
    server: Text,
    role: Text,
    of: Numbers,
    where: Flags,
    sizes: dict[str, Numbers],
) -> Tally:
    what_of = Text(np.zeros(len(chunk), np.int64), pa.array([what]))
    hour = begin_of(HOUR_US, chunk.number("ended_us"))
    keys: dict[str, Key] = {"hour_us": hour, "what": what_of, "server": server, "role": role}
    most = {name: its[of] for name, its in sizes.items()}
    return tally(keys, where & (sizes["bytes"][of] > 0), most=most)


def _sizes(texts: pa.Array) -> dict[str, Numbers]:
    """Measure canonical sets: `uuid:1-5:7:tag:1-3,uuid:…`, so every part follows a colon."""

    def count(pattern: str, *, literal: bool = True) -> Numbers:
        how = pc.count_substring if literal else pc.count_substring_regex
        numbers: Numbers = how(texts, pattern).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    # Only a tag has a letter after a colon.
    tags = count(":[a-zA-Z_]", literal=False)
    size = pc.utf8_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
    found = (1 + count(","), tags, count(":") - tags, size)
    return dict(zip(_SIZES, found, strict=True))


def _or_empty(text: Text) -> Text:
    codes = np.where(text.codes < 0, len(text.held), text.codes)
    return Text(codes, pa.concat_arrays([text.held.cast(pa.string()), pa.array([""])]))


def growth(found: Tally) -> list[dict[str, object]]:
    """List the largest sets of each hour.

    Args:
        found: the tally "growth".

    Returns:
        GROWTH.
    """
    order = ("what", "server", "role", "hour_us")
    rows = sorted(found.rows(), key=lambda row: tuple(row[name] for name in order))
    return [
        {
            **{name: row[name] for name in ("hour_us", *order[:3])},
            "sets": row[COUNT],
            **{name: row[name] for name in _SIZES},
        }
        for row in rows
    ]
