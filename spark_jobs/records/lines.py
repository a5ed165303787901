"""Reads blocks of plain records by whole columns.

Arrow reads a block of lines as one table, while `ingest.parse` reads line by line. `ingest.parse`
alone defines what a record is, and what is wrong with a line that is none. So a block is read here
only if both certainly read it alike: each line must be one JSON object, in UTF-8, whose fields have
the types of RECORD and possible numbers. Any other block is left to `ingest.parse`.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark_jobs.tables import small_table
from spark_jobs.tables.schema import KINDS, LIMITS, PARSED, RECORD, RECORD_VERSION

_Numbers = npt.NDArray[np.int64]

SCHEMA: Final = small_table.to_arrow(PARSED)

_RECORD: Final = small_table.to_arrow(RECORD)
_NEVER_NULL: Final = tuple(field.name for field in RECORD if not field.nullable)
_NEWLINE, _OPENS, _CLOSES = b"\n{}"

_LONGEST: Final = 1 << 20
"""Bytes of a line at most. Java's JSON reader allows texts of twenty times that."""


def plain(block: bytes, file: str) -> pa.Table | None:
    """Read a block of lines.

    Args:
        block: whole lines; the last may lack its newline.
        file: where they were read, in the form of PARSED.

    Returns:
        SCHEMA; None if `ingest.parse` must read these lines.
    """
    begins, ends = _bounds(block)
    if not _are_objects(block, begins, ends):
        return None
    try:
        read = pj.read_json(
            pa.py_buffer(block),
            pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pj.ParseOptions(explicit_schema=_RECORD, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if len(read) != len(begins) or not _are_records(read):
        return None
    columns = read.columns
    columns.append(pa.repeat(pa.scalar(file), len(read)))
    columns.append(pa.nulls(len(read), pa.string()))
    columns.append(_with_more(block, begins, ends, read.column("kind")))
    return pa.table(columns, schema=SCHEMA)


def _bounds(block: bytes) -> tuple[_Numbers, _Numbers]:
    """The offsets at which lines begin, and at which they end."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    return np.append(0, ends[:-1] + 1), ends


def _are_objects(block: bytes, begins: _Numbers, ends: _Numbers) -> bool:
    """Whether each line looks like a whole JSON object, in UTF-8."""
    lengths = ends - begins
    if not len(lengths) or lengths.min() < len("{}") or lengths.max() > _LONGEST:
        return False
    letters = np.frombuffer(block, np.uint8)
    if (letters[begins] != _OPENS).any() or (letters[ends - 1] != _CLOSES).any():
        return False
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _are_records(read: pa.Table) -> bool:
    """Whether all lines are records: nothing is missing, unknown or out of range."""
    if any(read.column(name).null_count for name in _NEVER_NULL):
        return False
    if not pc.all(pc.equal(read.column("v"), RECORD_VERSION)).as_py():
        return False
    if not pc.all(pc.is_in(read.column("kind"), pa.array(KINDS))).as_py():
        return False
    for name, (least, most) in LIMITS.items():
        found = pc.min_max(read.column(name))
        low, high = found["min"], found["max"]
        if low.is_valid and not least <= low.as_py() <= high.as_py() <= most:
            return False
    return True


def _with_more(block: bytes, begins: _Numbers, ends: _Numbers, kind: pa.ChunkedArray) -> pa.Array:
    """The lines that hold more than RECORD does, and null for the others."""
    more: list[str | None] = [None] * len(begins)
    for at in np.flatnonzero(pc.equal(kind, "proof").to_numpy()):
        line = block[begins[at] : ends[at]]
        if b'"lag"' in line:
            more[at] = line.decode()
    return pa.array(more, pa.string())
