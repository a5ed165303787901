"""A log's segments, found and made readable in one step."""

from pathlib import Path

from spark_jobs.records.segments import Segments, list_segments, make_readable


def find_segments(log: Path, scratch: Path, out: Path | None = None) -> Segments:
    """List a log that may be growing, and make all of it readable."""
    return make_readable(list_segments(log, scratch, out), scratch)
