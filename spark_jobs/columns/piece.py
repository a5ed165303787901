"""Pieces of Parquet files: a task reads one chunk by chunk, and writes the result of each piece."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.columns import hashes
from spark_jobs.columns.chunk import SETS, Chunk, Rules

ROWS: Final = 1 << 16
"""Records of a chunk: enough that the cost per chunk does not matter, and few enough that their
arrays stay in the processor's cache."""


_TEXTS: Final = (
    *("kind", "proxy", "run", "user", "schema", "scope", "scope_key", "application", "level"),
    *("command", "class", "digest", "server", "server_uuid", "role", "reason", "proof"),
    *("fallbacks", "outcome", "file", "fault", *SETS),
)


class Piece(NamedTuple):
    """Part of a Parquet file: some of its row groups, by number."""

    path: str
    groups: tuple[int, ...]
    rows: int


def pieces(paths: Sequence[str], rows: int) -> Iterator[Piece]:
    """Divide Parquet files into pieces of about `rows` rows, at row groups.

    Raises:
        OSError: a file cannot be read.
    """
    for path in paths:
        metadata = pq.read_metadata(path)
        groups: list[int] = []
        size = 0
        for number in range(metadata.num_row_groups):
            groups.append(number)
            size += metadata.row_group(number).num_rows
            if size >= rows or number == metadata.num_row_groups - 1:
                yield Piece(path, tuple(groups), size)
                groups, size = [], 0


def read(piece: Piece, names: Sequence[str], rules: Rules) -> Iterator[Chunk]:
    """Go through the records of a piece.

    Args:
        piece: the piece.
        names: columns.
        rules: which of its records are read.
    """
    for batch in batches(piece, [*names, "fault"]):
        good = batch.column("fault").is_null()
        arrived = batch.column("arrived_us")
        good = pc.and_(good, pc.greater_equal(arrived, rules.begin_us))
        good = pc.and_(good, pc.less(arrived, rules.end_us))
        count = pc.sum(good).as_py() or 0
        if count:
            yield Chunk(batch if count == batch.num_rows else batch.filter(good), rules)


def batches(piece: Piece, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Go through the lines of a piece, including those that are no record."""
    with pq.ParquetFile(piece.path, read_dictionary=[it for it in _TEXTS if it in names]) as file:
        yield from file.iter_batches(
            ROWS, row_groups=list(piece.groups), columns=list(names), use_threads=False
        )


def write(tables: Sequence[pa.Table], folder: Path, piece: Piece) -> None:
    """Write the result for a piece, whole or not at all.

    The file's name depends only on the piece, so a repeated task replaces the file.
    """
    if tables:
        schema = tables[0].schema
        texts = [
            it.name
            for it in schema
            if not (pa.types.is_integer(it.type) or pa.types.is_timestamp(it.type))
        ]
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{hashes.of(f'{piece.path} {piece.groups}') & (2**64 - 1):016x}.parquet"
        aside = folder / f".{name}.{os.getpid()}"
        pq.write_table(pa.concat_tables(tables), aside, compression="lz4", use_dictionary=texts)
        aside.rename(folder / name)
