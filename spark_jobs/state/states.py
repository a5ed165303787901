"""The states of days, on disk.

A state is a folder, ``states/date=YYYY-MM-DD``: ``about.json`` and two tables as Parquet, ``facts``
and ``tail``, the records that are not condensed. It is made under another name and renamed when it
is complete. It is valid as long as no further segment with records from before the day's end is
taken.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from spark_jobs.day import DAY_US, Day, hour_us
from spark_jobs.disk import sync, sync_all
from spark_jobs.store.store import Span, Store

VERSION: Final = 2
"""Version of facts and of records. States of another version are ignored, and made anew."""

BEHIND: Final = 3
"""An audit begins with a state only if it ends at most so many days before the audited day."""

KEPT: Final = 8
"""How many states are kept: late segments cause recent days to be judged anew."""


class DeletedError(OSError):
    """The store no longer has the records that an audit of a day needs; the message names them."""


_ABOUT: Final = "about.json"
_STAGED: Final = "_staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The description of a state.

    Attributes:
        version: VERSION.
        date: the day, ``YYYY-MM-DD``.
        take: the newest take of segments that it knows (`store`).
        until_us: everything that is condensed had ended by then.
    """

    version: int = VERSION
    date: str
    take: int
    until_us: int


@dataclass(frozen=True, slots=True)
class State:
    """One state.

    Attributes:
        folder: its folder.
        about: its description.
    """

    folder: Path
    about: About

    @property
    def day(self) -> Day:
        """The day at whose end it was made."""
        return Day.parse(self.about.date)

    @property
    def facts(self) -> Path:
        """Folder of `facts.FACT`."""
        return self.folder / "facts"

    @property
    def tail(self) -> Path:
        """Folder of `schema.PARSED`: records that are not condensed."""
        return self.folder / "tail"

    def late(self, store: Store) -> list[str]:
        """Segments with records from before its end that it does not know, sorted by name."""
        return sorted(
            segment.name
            for segment in store.manifest.taken
            if segment.take > self.about.take
            and any(hour_us(hour) < self.day.end_us for hour in segment.hours)
        )

    def span(self, day: Day) -> Span:
        """The hours that an audit of a day reads, if it begins with this state."""
        return Span(day, day.begin_us - self.day.end_us)


@dataclass(frozen=True, slots=True)
class Staged:
    """A state that is being made.

    Attributes:
        folder: takes the state; it does not exist yet.
        take: the newest take of segments.
    """

    folder: Path
    take: int

    def finish(self, day: Day, until_us: int) -> None:
        """Mark the state as complete.

        Args:
            day: the day at whose end it was made.
            until_us: everything that is condensed had ended by then.
        """
        about = About(date=str(day), take=self.take, until_us=until_us)
        (self.folder / _ABOUT).write_text(json.dumps(asdict(about)) + "\n", encoding="utf-8")


class States:
    """The states in one directory."""

    def __init__(self, folder: Path) -> None:
        """Open the directory, which need not exist yet."""
        self._folder = folder

    def before(self, day: Day) -> Iterator[State]:
        """The states of the days before a day, the newest first.

        Raises:
            OSError: one cannot be read; the message names it.
        """
        for folder in sorted(self._folder.glob("date=*"), reverse=True):
            about = _read(folder / _ABOUT)
            if about is not None and Day.parse(about.date) < day:
                yield State(folder, about)

    def stage(self, take: int) -> Staged:
        """Prepare a place for a new state; remains of an audit that died are removed.

        Args:
            take: the newest take of segments.
        """
        staged = self._folder / _STAGED
        if staged.exists():
            shutil.rmtree(staged)
        self._folder.mkdir(parents=True, exist_ok=True)
        return Staged(staged, take)

    def keep(self, made: Staged) -> None:
        """Move a staged state to its place, if it is complete; only the last KEPT states remain.

        Raises:
            OSError: it cannot be written.
        """
        staged = made.folder
        about = _read(staged / _ABOUT) if (staged / _ABOUT).exists() else None
        if about is None:
            return
        sync_all(staged)
        place = self._folder / f"date={about.date}"
        # Without a state, an audit reads the day before, so a crash here loses nothing.
        if place.exists():
            shutil.rmtree(place)
        staged.rename(place)
        sync(self._folder)
        for folder in sorted(self._folder.glob("date=*"))[:-KEPT]:
            shutil.rmtree(folder)


def choose(states: States, store: Store, day: Day) -> State | None:
    """Choose the state that an audit of a day begins with: the newest that is valid.

    The days after it are read as a warm-up. If no state is valid and the store no longer has the
    records of the day before, a state is chosen that does not know of late segments.

    Returns:
        The state; None to begin with the records of the day before.

    Raises:
        DeletedError: the store no longer has the records that the audit needs.
        OSError: a state cannot be read; the message names it.
    """
    near = (
        state for state in states.before(day) if day.begin_us - state.day.end_us <= BEHIND * DAY_US
    )
    there = [state for state in near if not store.deleted(state.span(day))]
    gone = store.deleted(Span(day))
    for state in there:
        if not state.late(store):
            return state
    if not gone:
        return None
    if there:
        return there[0]
    raise DeletedError(f"the store no longer has its records of {', '.join(gone)}")


def _read(path: Path) -> About | None:
    """Read the description of a state; None if it has another version."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["version"] != VERSION:
            return None
        return About(**{field.name: values[field.name] for field in fields(About)})
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{path} is none of a state: {error!r}") from error
