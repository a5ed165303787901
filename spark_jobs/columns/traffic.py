"""Makes the tallies for the report's tables, chunk by chunk and piece by piece."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from spark_jobs.columns import consistency_tally, gtid_growth, lag_analysis, routing_mix, tally
from spark_jobs.columns.chunk import EVERYTHING, Chunk, Rules
from spark_jobs.columns.piece import Piece, batches, read
from spark_jobs.columns.tally import Tally
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import JUDGED, RECORD
from spark_jobs.tables.timestamps import computed_batch, published_name

COLUMNS: Final = (*lag_analysis.COLUMNS, *routing_mix.COLUMNS, *gtid_growth.COLUMNS)
"""The columns of records that are looked at."""


@dataclass(slots=True)
class Tables:
    """Tallies by name.

    Attributes:
        tallies: the tallies.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)

    def add(self, other: "Tables") -> None:
        """Add the tallies of another piece."""
        self.tallies = together(self.tallies, other.tallies)


def together(*parts: Mapping[str, Tally]) -> dict[str, Tally]:
    """Add up tallies, name by name."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: tally.together([part[name] for part in parts if name in part]) for name in names}


def of_records(chunk: Chunk) -> dict[str, Tally]:
    """The tallies of some records."""
    return {
        **lag_analysis.tallies(chunk),
        **routing_mix.tallies(chunk),
        **gtid_growth.tallies(chunk),
    }


def of_no_records() -> dict[str, Tally]:
    """The empty tallies of records."""
    return of_records(_nothing(small_table.to_arrow(RECORD)))


def of_no_reads() -> dict[str, Tally]:
    """The empty tallies of judged reads."""
    reads = _nothing(small_table.to_arrow(JUDGED))
    return {**consistency_tally.tallies(reads), **lag_analysis.tallies_of_reads(reads)}


def _nothing(schema: pa.Schema) -> Chunk:
    columns = [pa.array([], it.type) for it in schema]
    return Chunk(pa.RecordBatch.from_arrays(columns, schema=schema), EVERYTHING)


def of_reads(piece: Piece) -> Tables:
    """The tallies of judged reads.

    Args:
        piece: JUDGED, as people query it (`timestamps`).
    """
    columns = dict.fromkeys((*consistency_tally.COLUMNS, *lag_analysis.READ_COLUMNS))
    names = list(map(published_name, columns))
    chunks = (Chunk(computed_batch(batch), EVERYTHING) for batch in batches(piece, names))
    parts = (
        {**consistency_tally.tallies(chunk), **lag_analysis.tallies_of_reads(chunk)}
        for chunk in chunks
    )
    return Tables(together(*parts))


def of_minutes(piece: Piece, rules: Rules, worst: Collection[int]) -> Tables:
    """The tally of what was written in some minutes.

    Args:
        piece: records.
        rules: which of them are read.
        worst: the begins of the minutes, µs.
    """
    chunks = read(piece, lag_analysis.WRITTEN_COLUMNS, rules)
    return Tables(together(*(lag_analysis.written_in(chunk, worst) for chunk in chunks)))
