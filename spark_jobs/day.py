"""The period that an audit judges: a day, or some hours; by UTC."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple, Protocol, Self

DAY_US: Final = 86_400_000_000
HOUR_US: Final = 3_600_000_000

_EPOCH: Final = date(1970, 1, 1)


class Period(Protocol):
    """From one hour to another."""

    @property
    def begin_us(self) -> int:
        """Its first microsecond."""

    @property
    def end_us(self) -> int:
        """The first microsecond after it."""


class Hours(NamedTuple):
    """Consecutive hours."""

    begin_us: int
    end_us: int


@dataclass(frozen=True, order=True, slots=True)
class Day:
    """A day.

    Attributes:
        date: by UTC.
    """

    date: date

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``YYYY-MM-DD``, "yesterday" or "today".

        Raises:
            ValueError: it is none of these; the message says so.
        """
        today = datetime.now(UTC).date()
        if text in ("yesterday", "today"):
            return cls(today if text == "today" else today - timedelta(1))
        try:
            found = date.fromisoformat(text)
        except ValueError:
            found = None
        if found is None or found.isoformat() != text:
            raise ValueError(f"{text!r} is no day: want YYYY-MM-DD, yesterday or today")
        return cls(found)

    @classmethod
    def of(cls, microseconds: int) -> Self:
        """The day of a moment, which is given in UTC microseconds."""
        return cls(_EPOCH + timedelta(microseconds // DAY_US))

    def __str__(self) -> str:
        """``YYYY-MM-DD``."""
        return self.date.isoformat()

    @property
    def begin_us(self) -> int:
        """Its first microsecond."""
        return (self.date - _EPOCH).days * DAY_US

    @property
    def end_us(self) -> int:
        """The first microsecond of the day after it."""
        return self.begin_us + DAY_US

    @property
    def before(self) -> Self:
        """The day before it."""
        return type(self)(self.date - timedelta(1))

    @property
    def after(self) -> Self:
        """The day after it."""
        return type(self)(self.date + timedelta(1))


def hour_us(hour: str) -> int:
    """The first microsecond of an hour, ``YYYY-MM-DDTHH``."""
    date, _, number = hour.partition("T")
    return Day.parse(date).begin_us + int(number) * HOUR_US
