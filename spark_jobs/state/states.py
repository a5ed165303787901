"""The states of days, as they are kept.

A state is a folder, ``states/date=YYYY-MM-DD``: ``about.json`` and two tables as Parquet, ``facts``
and ``tail``, the records that are not condensed. It is made under another name and renamed when it
is complete; at a URI, it is ``states/state=N``, and complete as soon as it has ``about.json``. It
is valid as long as no further segment with records from before the day's end is taken.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import count
from pathlib import Path
from typing import Final

from spark_jobs import storage
from spark_jobs.day import DAY_US, Day, hour_us
from spark_jobs.storage import Folder
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

    folder: Folder
    about: About

    @property
    def day(self) -> Day:
        """The day at whose end it was made."""
        return Day.parse(self.about.date)

    @property
    def facts(self) -> Folder:
        """Folder of `facts.FACT`."""
        return self.folder / "facts"

    @property
    def tail(self) -> Folder:
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


@dataclass(slots=True)
class Staged:
    """A state that is being made.

    Attributes:
        folder: takes the state.
        take: the newest take of segments.
        about: its description, once it is complete.
    """

    folder: Folder
    take: int
    about: About | None = None

    def finish(self, day: Day, until_us: int) -> None:
        """Mark the state as complete.

        Args:
            day: the day at whose end it was made.
            until_us: everything that is condensed had ended by then.
        """
        self.about = About(date=str(day), take=self.take, until_us=until_us)


class States:
    """The states in one folder."""

    def __init__(self, folder: Folder) -> None:
        """Open the folder, which need not exist yet."""
        self._folder = folder

    def before(self, day: Day) -> Iterator[State]:
        """The states of the days before a day, the newest first.

        Raises:
            OSError: one cannot be read; the message names it.
        """
        for about, name in reversed(self._found()):
            if about.version == VERSION and Day.parse(about.date) < day:
                yield State(self._folder / name, about)

    def stage(self, take: int) -> Staged:
        """Prepare a place for a new state; remains of an audit that died are removed.

        Args:
            take: the newest take of segments.
        """
        name = "_staged"
        if not isinstance(self._folder, Path):
            used = {name for _, name in self._found()}
            name = next(free for n in count(1) if (free := f"state={n}") not in used)
        return Staged(storage.emptied(self._folder / name), take)

    def keep(self, made: Staged) -> None:
        """Put a staged state in its place, if it is complete; only the last KEPT states remain.

        Raises:
            OSError: it cannot be written.
        """
        if made.about is None:
            return
        storage.write_text(made.folder, _ABOUT, json.dumps(asdict(made.about)) + "\n")
        # Without a state, an audit reads the day before, so a crash here loses nothing.
        storage.put(made.folder, self._folder / f"date={made.about.date}")
        found = self._found()
        newest = {about.date: name for about, name in found}
        kept = [newest[date] for date in sorted(newest)[-KEPT:]]
        for _, name in found:
            if name not in kept:
                storage.remove(self._folder / name)

    def _found(self) -> list[tuple[About, str]]:
        """The states that are there, of any version, and their names; the newest is last."""
        found = [
            (_read(text, self._folder / name), name.rpartition("/")[0])
            for name, text in storage.texts(self._folder, f"*=*/{_ABOUT}").items()
        ]
        return sorted(found, key=lambda state: (state[0].date, state[0].take))


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


def _read(text: str, place: object) -> About:
    """Read the description of a state; one of another version has only that and its date."""
    try:
        values = json.loads(text)
        if values["version"] != VERSION:
            values |= {"take": 0, "until_us": 0}
        return About(**{field.name: values[field.name] for field in fields(About)})
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{place} is none of a state: {error!r}") from error
