"""Rows of performance_schema's replication tables, as values.

Times are UTC microseconds since the epoch. A session with ``time_zone = '+00:00'`` must have asked:
these columns are shown in the session's time zone, whatever the server's is.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from protocol.errors import MalformedGtidSetError
from protocol.gtid import Gtid, GtidSet

Row = Mapping[str, bytes | None]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_DIGITS: Final = re.compile("[0-9]{1,10}", re.ASCII)
_NO_NAME: Final = frozenset({"", "ANONYMOUS", "AUTOMATIC", "NOT_YET_DETERMINED"})


class MalformedStatusError(ValueError):
    """A row does not say what it should; the message names the column."""


class Stamped(NamedTuple):
    """A transaction and its times; None where a server does not know one.

    Attributes:
        gtid: its GTID, in canonical form.
        original_us: when its first server committed it, by that server's clock.
        immediate_us: when the immediate source committed it, by that one's clock.
        began_us: when this server began to receive or to apply it, by its own clock.
        ended_us: when it had.
    """

    gtid: str
    original_us: int | None
    immediate_us: int | None
    began_us: int | None = None
    ended_us: int | None = None

    @property
    def source(self) -> str:
        """The UUID of the server that committed it first."""
        return self.gtid.partition(":")[0]


class ThreadError(NamedTuple):
    """Why a thread of a channel has ended, in the server's words; number 0 if by no error."""

    number: int
    message: str


NO_ERROR: Final = ThreadError(0, "")


class Receiver(NamedTuple):
    """A row of `replication_connection_status`.

    Attributes:
        channel: its name; "" is the default channel's.
        source: UUID of the immediate source.
        running: it is connected to the source.
        received: what has come through it.
        queued: the last transaction that has come as a whole.
        retrying: it is not, and tries again by itself.
        error: why it has ended, or could not connect.
    """

    channel: str
    source: str
    running: bool
    received: GtidSet
    queued: Stamped | None
    retrying: bool = False
    error: ThreadError = NO_ERROR


class Worker(NamedTuple):
    """A row of `replication_applier_status_by_worker`.

    Attributes:
        channel: as a `Receiver`'s.
        applied: the last transaction that it applied.
        applying: the one that it is applying.
        running: its thread runs.
        error: why it has ended.
    """

    channel: str
    applied: Stamped | None
    applying: Stamped | None
    running: bool = True
    error: ThreadError = NO_ERROR


class Coordinator(NamedTuple):
    """A row of `replication_applier_status_by_coordinator`.

    Attributes:
        channel: as a `Receiver`'s.
        error: why it has ended.
    """

    channel: str
    error: ThreadError


def microseconds(text: bytes | None, column: str) -> int | None:
    """A TIMESTAMP(6) of a session in UTC; None for a zero or NULL, which both mean "none".

    Raises:
        MalformedStatusError: it is no time.
    """
    if text is None or text.startswith(b"0000-00-00"):
        return None
    time = text.decode("ascii", "replace")
    try:
        moment = datetime.fromisoformat(time) if _TIME.fullmatch(time) else None
    except ValueError:
        moment = None
    if moment is None:
        raise MalformedStatusError(f"{column} is no time: {time[:40]!r}")
    return (moment.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def receiver(row: Row) -> Receiver:
    """One row of `replication_connection_status`.

    Raises:
        MalformedStatusError: it cannot be read.
    """
    try:
        gtids = GtidSet.parse(_text(row, "RECEIVED_TRANSACTION_SET"))
    except MalformedGtidSetError as error:
        raise MalformedStatusError(f"RECEIVED_TRANSACTION_SET: {error}") from None
    state = _text(row, "SERVICE_STATE")
    return Receiver(
        _text(row, "CHANNEL_NAME"),
        _text(row, "SOURCE_UUID").lower(),
        state == "ON",
        gtids,
        _stamped(row, "LAST_QUEUED_TRANSACTION", "QUEUE"),
        state == "CONNECTING",
        _error(row),
    )


def worker(row: Row) -> Worker:
    """One row of `replication_applier_status_by_worker`.

    Raises:
        MalformedStatusError: it cannot be read.
    """
    return Worker(
        _text(row, "CHANNEL_NAME"),
        _stamped(row, "LAST_APPLIED_TRANSACTION", "APPLY"),
        _stamped(row, "APPLYING_TRANSACTION", "APPLY"),
        _text(row, "SERVICE_STATE") == "ON",
        _error(row),
    )


def coordinator(row: Row) -> Coordinator:
    """One row of `replication_applier_status_by_coordinator`.

    Raises:
        MalformedStatusError: it cannot be read.
    """
    return Coordinator(_text(row, "CHANNEL_NAME"), _error(row))


def delay(row: Row) -> tuple[str, int]:
    """One row of `replication_applier_configuration`: a channel, and its SOURCE_DELAY, s.

    Raises:
        MalformedStatusError: it cannot be read.
    """
    return _text(row, "CHANNEL_NAME"), _number(row, "DESIRED_DELAY")


def _error(row: Row) -> ThreadError:
    number = _number(row, "LAST_ERROR_NUMBER")
    if not number:
        return NO_ERROR
    return ThreadError(number, " ".join(_text(row, "LAST_ERROR_MESSAGE").split()))


def _number(row: Row, column: str) -> int:
    text = _text(row, column)
    if not _DIGITS.fullmatch(text):
        raise MalformedStatusError(f"{column} is no number: {text[:40]!r}")
    return int(text)


def _stamped(row: Row, name: str, verb: str) -> Stamped | None:
    text = _text(row, name)
    if text in _NO_NAME:
        return None
    try:
        gtid = str(Gtid.parse(text))
    except MalformedGtidSetError as error:
        raise MalformedStatusError(f"{name}: {error}") from None

    def time(which: str) -> int | None:
        column = f"{name}_{which}_TIMESTAMP"
        return microseconds(row.get(column), column)

    return Stamped(
        gtid,
        time("ORIGINAL_COMMIT"),
        time("IMMEDIATE_COMMIT"),
        time(f"START_{verb}"),
        time(f"END_{verb}"),
    )


def _text(row: Row, column: str) -> str:
    if column not in row:
        raise MalformedStatusError(f"there is no column {column}")
    return (row[column] or b"").decode("utf-8", "replace")
