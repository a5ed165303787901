"""What is known of a log before it is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.day import Period
    from spark_jobs.records.take import Kept
    from spark_jobs.state.states import Staged, State
    from spark_jobs.storage import Folder
    from spark_jobs.store.store import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log.

    Attributes:
        name: what the report calls it.
        lines: its lines, as Parquet.
        scratch: a folder for intermediate tables; all workers see it.
        complete: how many segments were finished.
        live: how many segments were still open.
        unread: files that seem to hold records and cannot be read.
        unknown: files that were not taken for segments.
        damaged: why segments could not be read to their ends, by their files' names in the log.
        span: the hours that are read; None for all.
        period: the period that is judged; None for all of the log.
        notes: sentences for the report.
        binlogs: a directory of binary logs to compare the log with.
        before: the state that the audit begins with.
        ends: takes the state at the end of the period; None if no state is wanted.
    """

    name: str
    lines: "Kept"
    scratch: "Folder"
    complete: int
    live: int
    unread: Sequence[str] = ()
    unknown: Sequence[str] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    span: "Span | None" = None
    period: "Period | None" = None
    notes: Sequence[str] = ()
    binlogs: Path | None = None
    before: "State | None" = None
    ends: "Staged | None" = None
